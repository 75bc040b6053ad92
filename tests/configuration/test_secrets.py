import base64
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from tests.configuration.test_settings import read_settings
from verification.settings.secrets import (
    field_keys,
    lookup_key,
    missing_secrets,
    optional_secret,
    secret_key,
)

NAMES = ["SECRET_KEY", "FIELD_KEYS", "LOOKUP_KEY"]
READERS = dict(zip(NAMES, [secret_key, field_keys, lookup_key], strict=True))
ONE, OTHER = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
GIVEN = {"SECRET_KEY": "s" * 50, "FIELD_KEYS": f"k1:{ONE}", "LOOKUP_KEY": ONE}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Remove the secrets from the environment."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
        monkeypatch.delenv(f"{name}_COMMAND", raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", NAMES)
def test_production_does_not_start_without_a_secret(name, tmp_path, environment):
    given = {n: value for n, value in GIVEN.items() if n != name}

    with pytest.raises(ImproperlyConfigured) as refused:
        read_settings(environment, DATA_DIR=str(tmp_path), **given)

    assert str(refused.value).startswith(f"{name} is not set. Set {name}, or NAME_FILE")
    assert not list(tmp_path.glob("keys/*"))


@pytest.mark.parametrize("name", NAMES)
def test_secret_is_read_from_its_file(name, tmp_path, environment):
    environment.setenv(name, GIVEN[name])
    from_environment = READERS[name](tmp_path, development=False)
    environment.delenv(name)
    file = tmp_path / "secret"
    file.write_text(GIVEN[name] + "\n")
    environment.setenv(f"{name}_FILE", str(file))

    assert READERS[name](tmp_path, development=False) == from_environment


@pytest.mark.parametrize("name", NAMES)
def test_secret_that_is_set_twice_is_refused(name, tmp_path, environment):
    environment.setenv(name, GIVEN[name])
    environment.setenv(f"{name}_FILE", "/nowhere")

    with pytest.raises(ImproperlyConfigured) as refused:
        READERS[name](tmp_path, development=False)

    twice = f"{name} and {name}_FILE are set; keep one of them."
    assert str(refused.value) == twice


def test_optional_secret_that_is_set_twice_is_refused(environment):
    environment.setenv("EMAIL_URL", "smtp://mail.test")
    environment.setenv("EMAIL_URL_FILE", "/nowhere")

    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL and EMAIL_URL_FILE"):
        optional_secret("EMAIL_URL")


def test_blank_secret_is_refused(environment):
    environment.setenv("STRIPE_SECRET_KEY", " ")

    with pytest.raises(ImproperlyConfigured, match="STRIPE_SECRET_KEY is blank"):
        optional_secret("STRIPE_SECRET_KEY")


def test_secret_in_a_variable_may_end_its_line(environment):
    environment.setenv("PAYSTACK_SECRET_KEY", "sk_live_1\n")
    environment.setenv("SECRET_KEY", "signs with all of it\n")

    assert optional_secret("PAYSTACK_SECRET_KEY") == "sk_live_1"
    assert optional_secret("SECRET_KEY") == "signs with all of it\n"


@pytest.mark.parametrize("form", ["", "_FILE", "_COMMAND"])
def test_secret_with_an_invisible_character_is_refused(form, tmp_path, environment):
    file = tmp_path / "secret"
    file.write_text("\ufeff" + GIVEN["SECRET_KEY"])
    given = {"": file.read_text(), "_FILE": str(file), "_COMMAND": f"cat {file}"}
    environment.setenv(f"SECRET_KEY{form}", given[form])

    with pytest.raises(ImproperlyConfigured, match=f"^SECRET_KEY{form} has an invis"):
        optional_secret("SECRET_KEY")


def test_empty_variable_leaves_the_secret_to_the_file(tmp_path, environment):
    (tmp_path / "secret").write_text("from the file")
    environment.setenv("EMAIL_URL", "")
    environment.setenv("EMAIL_URL_FILE", str(tmp_path / "secret"))

    assert optional_secret("EMAIL_URL") == "from the file"


def test_secret_is_what_its_command_prints(tmp_path, environment):
    encrypted = tmp_path / "field_keys"
    encrypted.write_text(f"k1:{OTHER}\n")
    environment.setenv("FIELD_KEYS_COMMAND", f"tail -n 1 '{encrypted}'")

    ring = field_keys(tmp_path, development=False)

    assert ring == [("k1", b"\x02" * 32)]
    assert missing_secrets() == ["SECRET_KEY", "LOOKUP_KEY"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("sh -c 'echo half; exit 3'", "FIELD_KEYS_COMMAND ended with 3."),
        ("true", "FIELD_KEYS_COMMAND printed nothing."),
        (r"printf '\377'", "FIELD_KEYS_COMMAND printed no text."),
        ("/nowhere/vault read", "FIELD_KEYS_COMMAND cannot be run: "),
        ("echo 'k1", "FIELD_KEYS_COMMAND cannot be run: "),
    ],
)
def test_command_that_gives_no_secret_is_refused(
    command, reason, tmp_path, environment
):
    environment.setenv("FIELD_KEYS_COMMAND", command)

    with pytest.raises(ImproperlyConfigured) as refused:
        field_keys(tmp_path, development=True)

    assert str(refused.value).startswith(reason)


def test_failed_command_runs_once(tmp_path, environment):
    runs = tmp_path / "runs"
    environment.setenv("FIELD_KEYS_COMMAND", f"sh -c 'echo >>{runs}; exit 1'")

    # Django reads the settings a second time after they were refused.
    for _ in range(2):
        with pytest.raises(ImproperlyConfigured):
            field_keys(tmp_path, development=True)

    assert runs.read_text() == "\n"


def test_secret_file_without_a_text_is_refused(tmp_path, environment):
    file = tmp_path / "secret"
    environment.setenv("SECRET_KEY_FILE", str(file))
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY_FILE cannot be read"):
        secret_key(tmp_path, development=True)

    file.write_text("\n")
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY_FILE names an empty"):
        secret_key(tmp_path, development=True)

    file.write_bytes(b"\377")
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY_FILE names no text"):
        secret_key(tmp_path, development=True)


@pytest.mark.parametrize("name", NAMES)
def test_development_makes_a_private_secret_once(name, tmp_path):
    made = READERS[name](tmp_path, development=True)

    assert READERS[name](tmp_path, development=True) == made
    (file,) = tmp_path.glob("keys/*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_two_installations_have_different_secrets(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"

    assert lookup_key(one, development=True) != lookup_key(other, development=True)


def test_processes_that_start_at_once_have_the_same_secret(tmp_path):
    for round_ in range(20):
        ready = threading.Barrier(8)

        def start(_, folder=tmp_path / str(round_), ready=ready):
            ready.wait()
            return lookup_key(folder, development=True)

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(start, range(8)))) == 1
    assert len(list(tmp_path.glob("*/keys/*"))) == 20


def test_field_keys_keep_their_order(tmp_path, environment):
    environment.setenv("FIELD_KEYS", f"k2:{OTHER}, k1:{ONE}")

    ring = field_keys(tmp_path, development=False)

    assert ring == [("k2", b"\x02" * 32), ("k1", b"\x01" * 32)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ONE, "must be written id:base64"),
        (f"K1:{ONE}", "must be written id:base64"),
        (f"toolongid:{ONE}", "must be written id:base64"),
        (f"k1:{ONE},", "must be written id:base64"),
        ("k1:", "32 bytes"),
        ("k1:c2hvcnQ=", "32 bytes"),
        ("k1:not base64!", "32 bytes"),
        (f"k1:{ONE},k1:{OTHER}", "names a key id twice"),
    ],
)
def test_unreadable_field_keys_are_refused(text, message, tmp_path, environment):
    environment.setenv("FIELD_KEYS", text)

    with pytest.raises(ImproperlyConfigured, match=message):
        field_keys(tmp_path, development=True)


def test_lookup_key_of_a_wrong_length_is_refused(tmp_path, environment):
    environment.setenv("LOOKUP_KEY", base64.b64encode(b"short").decode())

    with pytest.raises(ImproperlyConfigured, match="LOOKUP_KEY must hold 32 bytes"):
        lookup_key(tmp_path, development=True)


@pytest.mark.slow
def test_address_of_the_database_is_read_from_its_file(tmp_path):
    (tmp_path / "url").write_text("postgresql://u:p@127.0.0.1:1/from_file\n")
    without = {n: v for n, v in os.environ.items() if n != "DATABASE_URL"}

    done = subprocess.run(
        [sys.executable, "manage.py", "migrate", "--check"],
        env={
            **without,
            **GIVEN,
            "DEBUG": "False",
            "OPERATOR_CONTACT": "help@acacia.test",
            "DATABASE_URL_FILE": str(tmp_path / "url"),
            "DATA_DIR": str(tmp_path),
        },
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "The database that DATABASE_URL names cannot be used" in done.stderr
    assert not (tmp_path / "postgres").exists()
