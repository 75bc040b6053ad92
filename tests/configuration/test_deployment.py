"""`manage.py check --deploy` names what a production lacks, and where to read on."""

import base64
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured

from verification.backups.checks import check_backups, check_deployment
from verification.backups.models import Backup

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(range(100, 132))).decode()
COMPLETE = {
    "DEBUG": False,
    "FIELD_KEYS": [("k1", bytes(range(32)))],
    "LOOKUP_KEY": (bytes(range(100, 132)),),
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
    "PROVIDERS": {"metropol": ("path", {"url": "https://api.metropol.test"})},
    "PAYMENT_PROVIDERS": {"paystack": ()},
    "AFRICASTALKING_USERNAME": "acacia",
    "AFRICASTALKING_API_KEY": "of no worth",
    "SMS_FROM": "ACACIA",
}

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
        ("WEBHOOK_DEV_HOSTS", frozenset({"hooks.internal"}), "E009"),
        ("PROVIDERS", {"opensanctions": ("path", YENTE)}, "E010"),
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
        ("DATA_DIR", configured.BASE_DIR / ".data", "W016"),
        ("AFRICASTALKING_API_KEY", "", "W015"),
        ("EMAIL_USE_TLS", False, "W013"),
        ("METRICS_TOKEN", "guess me", "W014"),
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
    assert "docs/configuration.md" in found.hint


def test_hosts_of_the_environments_must_differ(complete: Any):
    complete.ALLOWED_HOSTS = ["verify.acacia.test", "api.acacia.test"]
    complete.SANDBOX_HOST = complete.PRODUCTION_HOST = "api.acacia.test"

    (found,) = check_deployment()

    assert found.id == "deploy.E005"
    assert "SANDBOX_HOST and PRODUCTION_HOST" in found.msg


def test_private_source_may_speak_plain_http(complete: Any):
    opened = YENTE | {"opened": frozenset({"yente:8000"})}
    complete.PROVIDERS = {"opensanctions": ("path", opened)}

    assert check_deployment() == []


def test_missing_backup_is_named_until_there_is_one(db: None):
    (found,) = check_backups(["default"])
    assert found.id == "deploy.W011"

    Backup.objects.create(rows=1, seconds=1)

    assert check_backups(["default"]) == []


def test_command_lists_everything_at_once():
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy"],
        cwd=configured.BASE_DIR,
        env={
            "PATH": os.environ["PATH"],
            "SECRET_KEY": "a1b2c3d4e5" * 6,
            "FIELD_KEYS": f"k1:{KEY}",
            "LOOKUP_KEY": OTHER_KEY,
            "OPERATOR_CONTACT": "help@acacia.test",
            "DATABASE_URL": "postgresql://away/x",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    for id in ("E003", "W002", "W004", "W010"):
        assert f"deploy.{id}" in done.stderr
