"""The settings refuse each wrong value with one sentence, whatever command reads them.

`test_refusals_to_start.py` shows that a command says that sentence and nothing else.
"""

import os
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from environs import EnvError

FILE = Path(settings.BASE_DIR) / "verification" / "settings" / "__init__.py"


def read_settings(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Any:
    """Return the settings of a process with this environment."""
    for name in [*os.environ.keys() - {"PATH", "HOME"}]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    spec = spec_from_file_location("settings_of_another_process", FILE)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("environment", "advice"),
    [
        ({"DATABASE_URL": "mysql://db/x"}, "DATABASE_URL is no address of a"),
        ({"DATABASE_DIRECT_URL": "db/x"}, "DATABASE_DIRECT_URL is no address of a"),
        ({"DRILL_DATABASE_URL": "db/x"}, "DRILL_DATABASE_URL is no address of a"),
        (
            {"DATABASE_URL": "", "DATABASE_DIRECT_URL": "postgresql://away/x"},
            "needs DATABASE_URL; set both",
        ),
        ({"FIELD_KEYS": "k1:short"}, "docs/operator/configuration.md"),
        ({"LOOKUP_KEY": "short"}, "docs/operator/configuration.md"),
        ({"DEBUG": "False", "SECRET_KEY": "short"}, "docs/operator/config"),
        ({"JOB_WORKERS": "0"}, "JOB_WORKERS is 0; it must be at least 1."),
        ({"WEB_WORKERS": "-1"}, "WEB_WORKERS is -1; it must be at least 1."),
        ({"CHECK_LEASE_SECONDS": "-1"}, '"CHECK_LEASE_SECONDS" invalid'),
        ({"CONSENT_LINK_DAYS": "0"}, '"CONSENT_LINK_DAYS" invalid'),
        ({"ERASURE_DAYS": "9999999999"}, '"ERASURE_DAYS" invalid'),
        ({"EXPECTED_STANDBYS": "-1"}, '"EXPECTED_STANDBYS" invalid'),
        ({"LOG_LEVEL": "loud"}, '"LOG_LEVEL" invalid: Not a valid log level'),
        ({"REDIS_URL": "cache:6379"}, "such as redis://host:6379"),
        ({"REDIS_URL": "redis://cache:99999"}, "such as redis://host:6379"),
        ({"OUTBOUND_PROXY": "proxy.bank:3128"}, "must be http://host:port"),
        ({"OUTBOUND_CA_FILE": "/dev/null"}, "must be a file of certificates"),
        (
            {"AUDIT_EXPORT_CERTIFICATE_FILE": "/dev/null"},
            "with its certificate and its key",
        ),
        ({"TRUSTED_PROXIES": "10.0.0.1,proxy"}, "such as 10.0.0.5"),
        ({"ADMIN_NETWORKS": "10.0.0.9/24"}, "inside of 10.0.0.0/24"),
        ({"AUDIT_EXPORT_URL": "syslog+tls://h:0"}, "syslog+tls://host:6514"),
        ({"AUDIT_EXPORT_URL": "https://h /x"}, "or https://host/path."),
        ({"PAYSTACK_SECRET_KEY": "\u201csk_x\u201d"}, "PAYSTACK_SECRET_KEY has a "),
        ({"KRA_CLIENT_SECRET": "first\nsecond"}, "KRA_CLIENT_SECRET has a line break"),
        ({"FIELD_KEYS_COMMAND": " "}, "FIELD_KEYS_COMMAND cannot be run"),
    ],
)
def test_wrong_setting_is_refused_in_one_line(
    environment: dict[str, str],
    advice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    url = "postgresql://away/x"
    given = {"DEBUG": "True", "DATA_DIR": str(tmp_path), "DATABASE_URL": url}

    with pytest.raises((ImproperlyConfigured, EnvError)) as refused:
        read_settings(monkeypatch, **given | environment)

    assert re.search(rf"(^|\W){re.escape(advice)}", str(refused.value))
    assert len(str(refused.value).splitlines()) == 1


def test_redis_keeps_nothing_but_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A one-time code of allauth could not be checked while Redis is away."""
    caches = read_settings(monkeypatch, DEBUG="True", REDIS_URL="redis://away").CACHES

    assert "LocMem" in caches.pop("default")["BACKEND"]
    assert caches.keys() == {"rates"}
