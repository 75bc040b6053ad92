"""`security_review` says what code and configuration of this installation do."""

import base64
import io

import pytest
from django.core.management import call_command

from tests.fakes.identity_provider import make_provider
from verification.backups.models import Backup
from verification.settings.secrets import read_from
from verification.staff import security_review

pytestmark = pytest.mark.django_db


def review() -> str:
    out = io.StringIO()
    call_command("security_review", stdout=out)
    return out.getvalue().replace("\\", "")


def test_review_says_what_people_and_keys_may_do_and_holds_no_secret(
    settings, monkeypatch
):
    monkeypatch.setitem(read_from, "FIELD_KEYS", "FIELD_KEYS_FILE")
    # They take longer than everything else of the review.
    monkeypatch.setattr(security_review, "run_checks", lambda **_: [])

    text = review()

    assert "| Permission | Owner | Administrator | Officer | Viewer |" in text
    assert "| manage owners | yes | - | - | - |" in text
    assert "| decide reports | yes | yes | yes | - |" in text
    assert "| What | Reviewer | Operations | Finance | Privacy officer |" in text
    assert "| ledger entries | - | - | view | - |" in text
    assert "| subjects:erase | DELETE /api/v1/reports/{reportId}/subject |" in text
    assert "| FIELD_KEYS | FIELD_KEYS_FILE | AES-256-GCM" in text
    assert "Ids of FIELD_KEYS: k1." in text
    assert "certificates of erasures, anchors of the audit trail" in text
    assert "| API keys | made here | SHA-256 |" in text
    keys = [key for _, key in settings.FIELD_KEYS] + list(settings.LOOKUP_KEY)
    for secret in [settings.SECRET_KEY, *map(base64.b64encode, keys)]:
        assert (secret if isinstance(secret, str) else secret.decode()) not in text


def test_review_follows_the_configuration(settings, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setenv("PGSSLMODE", "require")
    settings.DATABASE_URL = "postgresql://u:hunter2@pooler.test/v"
    settings.DATABASE_DIRECT_URL = "postgresql://u:hunter2@a.test,b.test/v"
    drill = "postgresql://u:hunter2@drill.test/v?sslmode=verify-full"
    settings.DRILL_DATABASE_URL = drill
    settings.TRUSTED_PROXIES = ["10.0.0.1"]
    settings.IDENTITY_PROVIDERS = {"bank": make_provider()}
    settings.REDIS_URL = "rediss://user:hunter2@cache.operator.test"
    settings.AUDIT_EXPORT_URL = "syslog+tls://logs.operator.test:6514"
    Backup.objects.create(rows=1, seconds=302.4)

    text = review()

    assert "Redis cache.operator.test" in text
    assert "hunter2" not in text
    flow = text.partition("## Data flow")[2].partition("\n## ")[0]
    assert flow.count("logs.operator.test") == 1
    assert "| Jobs | Log store logs.operator.test, by syslog+tls |" in flow
    # Every server of the database
    assert "| Web servers | PostgreSQL on pooler.test, sslmode require |" in flow
    assert "| PostgreSQL on a.test,b.test, sslmode require |" in flow
    assert "| PostgreSQL on drill.test, sslmode verify-full | all rows of a" in flow
    assert "| the same; TRUSTED_PROXIES: 10.0.0.1 |" in flow
    recipients = text.partition("## Other recipients")[2].partition("\n## ")[0]
    assert "| Log store logs.operator.test | the audit trail, with names" in recipients
    assert "| Identity provider id.bank.test | when its members" in recipients
    assert "| OpenTelemetry collector | traces" in recipients
    assert "took 302 seconds" in text
    assert "| deploy.W007 | No source is configured" in text
