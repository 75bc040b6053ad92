"""The record of processing activities says what this installation does."""

import io
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pypdf import PdfReader

from tests.checks.conftest import paying_api as paying_api
from tests.privacy.other_data import (
    APPLICATIONS,
    DECIDED,
    NOT_OF_SUBJECTS,
    RULES,
    UPLOADS,
)
from tests.providers.test_every_source import CREDENTIALS
from tests.world.clients import Api, approve_workspace
from verification.accounts.models import UNCONFIRMED_LIFETIME
from verification.jobs.schedules import SCHEDULES
from verification.privacy.personal_data import TABLES
from verification.privacy.processing_record import APART, EARLIER, PURGES
from verification.providers import registry
from verification.settings.providers import live_providers, source_routes
from verification.staff import security_review
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db
ERASING = ("purge_", "erase_", "end_expired_")


def record() -> str:
    out = io.StringIO()
    call_command("processing_record", stdout=out)
    return out.getvalue()


@pytest.fixture
def live_sources(settings, monkeypatch):
    for variables in CREDENTIALS.values():
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
    registry.configure(live_providers(), source_routes())
    yield
    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)


def test_record_names_each_table_with_personal_data():
    text = record()

    for table in TABLES:
        assert table.what in text
        assert table.name.replace("_", "\\_") in text
    assert EARLIER.keys() <= {table.model for table in TABLES}


def test_record_names_each_table_whose_rows_go_apart_from_reports():
    apart = {
        name
        for name, why in NOT_OF_SUBJECTS.items()
        if isinstance(why, dict) and {RULES, DECIDED, UPLOADS, APPLICATIONS} & set(why)
    }

    assert apart == {model._meta.db_table for model in APART}
    assert "monitoring\\_rule" in record()


def test_record_names_clients_who_have_used_production(
    paying_api: Api, workspace: Workspace
):
    workspace.refresh_from_db()
    assert workspace.go_live != Workspace.GoLive.APPROVED

    assert f"| {workspace.name} |" in record()


def test_record_names_the_referee_even_without_sources(settings):
    registry.configure({}, {})

    text = record()

    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)
    assert "A referee whom the client names is asked by e-mail" in text


def test_record_names_each_job_that_erases():
    erasing = {job for job in SCHEDULES if job.rpartition(".")[2].startswith(ERASING)}

    assert erasing == PURGES.keys()
    assert UNCONFIRMED_LIFETIME.days == 30


def test_record_names_sources_with_country_and_safeguards(live_sources):
    text = record()

    assert "Smile Identity, Inc. | the United States | " in text
    assert "Metropol Credit Reference Bureau Limited | Kenya | " in text
    assert "its contract with Verification reports" in text


def test_record_without_sources_says_so(settings):
    registry.configure({}, {})

    text = record()

    registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)
    assert "No live source is configured." in text


def test_record_names_live_clients_and_their_retention(workspace: Workspace):
    assert "Acacia Lenders" not in record()
    approve_workspace(workspace, "=Acacia | Lenders Limited")
    workspace.change_retention(90, 30)

    text = record()

    assert "| =Acacia \\| Lenders Limited | owner@acacia.test | 90 days |" in text


def test_record_follows_the_settings(settings):
    settings.PRIVACY_CONTACTS = ["dpo@operator.test"]
    settings.PAYMENT_PROVIDERS = {"paystack": {}}
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_USE_TLS = "mail.operator.test", True
    settings.AFRICASTALKING_USERNAME, settings.AFRICASTALKING_API_KEY = "x", "y"
    settings.SUBJECT_REQUEST_DAYS = {**settings.SUBJECT_REQUEST_DAYS, "ACCESS": 5}
    settings.BASE_URL = "https://verify.test"

    text = record()

    for told in (
        "dpo@operator.test",
        "| Paystack |",
        "| Mail server mail.operator.test | messages by e-mail | TLS |",
        "| Africa's Talking |",
        "| Access | 5 |",
        "the API use https",
    ):
        assert told in text


def test_pdf_says_what_markdown_says(tmp_path: Path, workspace: Workspace):
    approve_workspace(workspace)
    file = tmp_path / "record.pdf"

    call_command("processing_record", "--format=pdf", f"--output={file}")

    reader = PdfReader(file)
    text = " ".join(" ".join(page.extract_text() for page in reader.pages).split())
    assert "Record of processing activities" in text
    assert "Acacia Lenders" in text
    assert "AES-256-GCM" in text
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]


def test_markdown_goes_to_a_file(tmp_path: Path):
    file = tmp_path / "record.md"

    call_command("processing_record", f"--output={file}")

    assert file.read_text().startswith("# Record of processing activities\n")


@pytest.mark.parametrize("command", ["processing_record", "security_review"])
def test_output_that_cannot_be_written_is_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # They take longer than everything else of the review.
    monkeypatch.setattr(security_review, "run_checks", lambda **_: [])

    with pytest.raises(CommandError, match=r"cannot be written: .*away/record\.md"):
        call_command(command, f"--output={tmp_path}/away/record.md")


def test_pdf_needs_a_file():
    with pytest.raises(CommandError, match="--output"):
        call_command("processing_record", "--format=pdf")
