from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.configuration.test_settings import read_settings
from verification.settings.connections import mail_settings

SMTP = "django.core.mail.backends.smtp.EmailBackend"


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "ssl"),
    [
        ("smtp://localhost", "localhost", 25, False, False),
        ("submission://a:b@mail.test", "mail.test", 587, True, False),
        ("submission://a:b@mail.test:2525", "mail.test", 2525, True, False),
        ("submission://a:b@mail.test:465?ssl=True", "mail.test", 465, False, True),
        ("smtp://a:b@mail.test:465?ssl=True", "mail.test", 465, False, True),
        ("smtp://mail.test:25?tls=yes", "mail.test", 25, True, False),
        ("smtp://mail.test?ssl=False&tls=0", "mail.test", 25, False, False),
        ("smtp://[::1]:2525", "::1", 2525, False, False),
        ("smtp://", "localhost", 25, False, False),
    ],
)
def test_mail_url_sets_the_mail_server(
    url: str, host: str, port: int, tls: bool, ssl: bool
):
    found = mail_settings(url)

    assert found["EMAIL_BACKEND"] == SMTP
    assert (found["EMAIL_HOST"], found["EMAIL_PORT"]) == (host, port)
    assert (found["EMAIL_USE_TLS"], found["EMAIL_USE_SSL"]) == (tls, ssl)
    assert found["EMAIL_TIMEOUT"] == 10


def test_mail_password_may_have_any_character():
    found = mail_settings("submission://post%40acacia.test:p%2F%3A%40@mail.test")

    assert found["EMAIL_HOST_USER"] == "post@acacia.test"
    assert found["EMAIL_HOST_PASSWORD"] == "p/:@"


@pytest.mark.parametrize("scheme", ["console", "dummy", "file"])
def test_mail_url_can_keep_mails_on_the_machine(scheme: str):
    backend = f"django.core.mail.backends.{scheme.replace('file', 'filebased')}"

    found = mail_settings(f"{scheme}:///mails")

    assert found["EMAIL_BACKEND"] == f"{backend}.EmailBackend"
    assert found["EMAIL_FILE_PATH"] == "mails"


def test_timeout_of_the_mail_server_is_an_option():
    assert mail_settings("smtp://mail.test?timeout=30")["EMAIL_TIMEOUT"] == 30


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mail.test", "must begin with one of console, dummy, file, smtp, submission"),
        ("https://a:secret@mail.test", "must begin with one of"),
        ("smtp://a:secret@h:x", "no usable host or port"),
        ("smtp://a:secret@h:99999", "no usable host or port"),
        ("smtp://a:secret@[h", "no usable host or port"),
        ("submission://", "names no host"),
        ("smtp://a:secret@h?timeout=soon", "seconds as a whole number"),
        ("smtp://a:secret@h?timeout=-1", "seconds as a whole number"),
        ("smtp://a:secret@h?ssl=treu", "must say True or False as ssl"),
        ("smtp://a:secret@h?use_tls=True", "takes the options ssl, timeout, tls"),
        ("smtp://a:25?secret=@h", "as %3F and %23"),
        ("smtp://a:25#secret@h", "as %3F and %23"),
    ],
)
def test_unusable_mail_url_is_refused_without_repeating_it(url: str, reason: str):
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL") as refused:
        mail_settings(url)
    assert reason in str(refused.value)
    assert "secret" not in str(refused.value)


def test_development_keeps_mail_in_its_data_dir(tmp_path: Any, monkeypatch: Any):
    found = read_settings(monkeypatch, DEBUG="True", DATA_DIR=str(tmp_path))

    assert found.EMAIL_BACKEND == "verification.notifications.mailbox.EmailBackend"
    assert str(found.EMAIL_FILE_PATH) == str(tmp_path / "mail")


def test_only_the_owner_can_read_development_mails(tmp_path: Any, monkeypatch: Any):
    (tmp_path / "mail").mkdir(mode=0o755)

    read_settings(monkeypatch, DEBUG="True", DATA_DIR=str(tmp_path))

    assert (tmp_path / "mail").stat().st_mode & 0o777 == 0o700


def test_mail_url_and_secret_key_are_read_from_files(tmp_path: Any, monkeypatch: Any):
    (tmp_path / "url").write_text("submission://a:b@mail.test\n")
    (tmp_path / "key").write_text("atsk_1\n")
    found = read_settings(
        monkeypatch,
        DEBUG="True",
        DATA_DIR=str(tmp_path),
        EMAIL_URL_FILE=str(tmp_path / "url"),
        EMAIL_FROM="Acacia <post@acacia.test>",
        AFRICASTALKING_API_KEY_FILE=str(tmp_path / "key"),
    )

    assert (found.EMAIL_BACKEND, str(found.EMAIL_FILE_PATH)) == (SMTP, "")
    assert found.DEFAULT_FROM_EMAIL == "Acacia <post@acacia.test>"
    assert found.AFRICASTALKING_API_KEY == "atsk_1"
