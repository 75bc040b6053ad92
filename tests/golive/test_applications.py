"""Members fill in and submit an application in the console.

The audit trail records the verbs of members.
"""

import os
import stat
import subprocess
from dataclasses import replace

import pytest
from django.conf import settings as django_settings
from django.db import IntegrityError, connection, transaction
from django.test import Client, override_settings
from django.urls import reverse

from tests.files.samples import pdf, photo_with_place, picture, sent
from tests.files.samples import sent as file
from tests.golive.applications import (
    COMPANY,
    DETAILS,
    NAME,
    PDF,
    by,
    draft,
    in_review,
    reviewer,
    submitted,
)
from tests.world.clients import approve_workspace
from verification.backoffice.models import ActorKind, AuditEvent
from verification.checks.engine import run_due_checks
from verification.console import golive
from verification.console.golive import DOCUMENT_LABELS, CompanyForm
from verification.files import inspection
from verification.files.inspection import NEWCOMERS, Fault
from verification.files.storage import delete_file, read_content
from verification.files.uploads import FAULT_MESSAGES
from verification.golive import applications, review
from verification.golive.models import Application, Document, DocumentKind
from verification.reports.models import Report
from verification.settings import STORAGES
from workspaces import rate_limits
from workspaces.create import OPERATOR_ID, operator_account
from workspaces.members import WorkspaceSuspended
from workspaces.models import Account, LedgerEntry, Workspace


def stored() -> list[str]:
    folder = django_settings.STORAGES["documents"]["OPTIONS"]["location"]
    return sorted(os.listdir(folder)) if os.path.exists(folder) else []


def test_company_is_described_and_shown_again(owner):
    typed = {**COMPANY, "contact_phone": "0712 345 678"}

    assert owner.messages_after("golive-company", typed) == ["Saved."]

    application = Application.objects.get()
    assert (application.company_name, application.status) == (NAME, "DRAFT")
    assert application.details == DETAILS
    html = owner.page("golive-company")
    for said in ("PVT-AB12CD3", "P051234567X", "+254712345678", "101-1000"):
        assert said in html
    assert Workspace.objects.get().go_live == "NONE"


IMPOSSIBLE_DETAILS = [
    {"company_name": ""},
    {"company_name": "x" * 201},
    {"registration_number": ""},
    {"registration_number": "\0"},
    {"kra_pin": "12345"},
    {"kra_pin": "P05123456XX"},
    {"country": "XX"},
    {"contact_email": "nobody"},
    {"contact_phone": "0712"},
    {"contact_phone": "+254712345678;ext=1"},
    {"volume": "9"},
    {"purpose": "x" * 501},
]


def test_impossible_company_details_are_refused(owner):
    assert CompanyForm(COMPANY).is_valid()
    for wrong in IMPOSSIBLE_DETAILS:
        assert not CompanyForm({**COMPANY, **wrong}).is_valid(), wrong
    html = owner.post("golive-company", {**COMPANY, "company_name": ""}).text

    assert "<title>Error:" in html
    assert not Application.objects.exists()


def test_reserved_numbers_are_refused_in_production(owner, settings):
    settings.GO_LIVE_ENVIRONMENT = "production"
    fields = {**COMPANY, "registration_number": "SBX-0000000"}

    html = owner.post("golive-company", fields).content.decode()

    assert "Enter the number as on the certificate" in html
    assert not Application.objects.exists()


def test_document_is_sealed_under_a_random_name(owner, settings):
    owner.post("golive-company", COMPANY)
    name = "../../../etc/cron.d/CR12 of Grace.pdf"

    told = owner.messages_after("golive-hand-in", file(pdf(), name), kind="cr12")

    assert told[-1] == "The document is kept."
    document = Document.objects.get()
    assert (document.kind, document.content_type) == ("CR12", "application/pdf")
    assert document.name == "CR12 of Grace.pdf"
    assert read_content(document) == pdf()
    path = settings.STORAGES["documents"]["OPTIONS"]["location"] / document.file
    assert path.name.isalnum()
    assert b"%PDF" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for elsewhere in (f"/documents/{document.file}", f"/static/{document.file}"):
        assert owner.http.get(elsewhere).status_code == 404


def scan() -> dict[str, object]:
    """Return a picture as a form sends it, which takes half of a PDF's time."""
    return sent(picture("PNG"), "scan.png", "image/png")


def test_uploads_are_limited_by_account_and_workspace(
    owner, admin, stranger, monkeypatch, new_minute
):
    monkeypatch.setattr(golive, "DOCUMENTS_PER_MINUTE", 1)
    # On a busy machine a file takes seconds, which count as well.
    monkeypatch.setattr(rate_limits, "monotonic", lambda: 0.0)
    owner.post("golive-company", COMPANY)
    assert owner.messages_after("golive-hand-in", scan(), kind="cr12")

    for member in (owner, admin):
        refused = member.post("golive-hand-in", scan(), kind="cr12")

        assert refused.status_code == 429
        assert refused["Retry-After"] == "60"
        assert "Please wait a minute" in refused.content.decode()
    stranger.post("golive-company", COMPANY)
    assert stranger.messages_after("golive-hand-in", scan(), kind="cr12")


def test_upload_is_refused_while_the_machine_is_busy(owner, monkeypatch):
    owner.post("golive-company", COMPANY)
    with NEWCOMERS.machine_lock():
        monkeypatch.setattr(inspection, "WAIT_SECONDS", 0)
        refused = owner.post("golive-hand-in", file(pdf()), kind="cr12")

    assert refused.status_code == 503
    assert refused["Retry-After"] == "60"
    assert "Send it again in a minute" in refused.content.decode()
    assert not Document.objects.exists()


@pytest.fixture
def small_disk(tmp_path):
    """Keep documents on a disk of their own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    storage = {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": disk},
    }
    try:
        with override_settings(STORAGES={**STORAGES, "documents": storage}):
            yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_document_is_refused_whole_when_the_disk_is_full(owner, small_disk, caplog):
    owner.post("golive-company", COMPANY)
    owner.http.raise_request_exception = False
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(128 * 1024))

    refused = owner.post("golive-hand-in", file(pdf()), kind="cr12")

    assert (refused.status_code, refused["Retry-After"]) == (503, "60")
    assert "a document was not stored: No space left on device" in caplog.messages
    assert list(small_disk.iterdir()) == [filler]
    assert not Document.objects.exists()
    filler.unlink()
    assert owner.messages_after("golive-hand-in", file(pdf()), kind="cr12")
    assert read_content(Document.objects.get()) == pdf()


def test_photo_loses_its_location(owner):
    owner.post("golive-company", COMPANY)
    sent = file(photo_with_place(), "id.jpg", "image/jpeg")

    owner.post("golive-hand-in", sent, kind="director-id")

    assert b"Acacia Phones" not in read_content(Document.objects.get())


REFUSED_FILES = [
    ({}, "Choose a file"),
    ({"file": "no file at all"}, "Choose a file"),
    (file(b""), "The file is empty"),
    (file(picture(), "cr12.pdf"), "does not match the file"),
    (file(b"<svg/>", "a.svg", "image/svg+xml"), "This file is not a PDF, JPEG or PNG"),
]


def test_refused_file_says_why_and_leaves_nothing(owner):
    owner.post("golive-company", COMPANY)
    before = stored()
    for upload, says in REFUSED_FILES:
        html = owner.post("golive-hand-in", upload, kind="cr12").content.decode()

        assert says in html, says
        assert "<title>Error:" in html, says
        assert not Document.objects.exists(), says
        assert stored() == before, says


def test_every_fault_has_a_message():
    assert set(FAULT_MESSAGES) == set(Fault)
    assert set(DOCUMENT_LABELS) == set(DocumentKind)


@pytest.mark.django_db(transaction=True)
def test_replaced_document_leaves_the_storage(owner):
    draft(owner.member)
    before = stored()
    newer = replace(PDF, content=PDF.content + b"\n")

    applications.upload_document(
        owner.member, DocumentKind.CR12, "cr12.pdf", newer, by(owner.member.user)
    )

    assert Document.objects.get(kind="CR12").size == len(newer.content)
    assert len(stored()) == len(before)


def test_too_large_body_is_refused_unread(owner):
    url = owner.url("golive-hand-in", kind="cr12")
    big = b"x" * (django_settings.MAX_UPLOAD_BYTES + 1)

    for path in (url, "/accounts/login/", "/admin/"):
        answer = owner.http.post(path, big, content_type="application/octet-stream")
        assert answer.status_code == 413
    assert "too large" in answer.content.decode()


def test_documents_are_downloads_for_members_with_permission(
    owner, admin, viewer, stranger
):
    document = draft(owner.member).documents.get(kind="CR12").pk

    for visitor in (owner, admin):
        answer = visitor.get("golive-document", document=document)
        assert answer.content == pdf()
        assert answer["Content-Disposition"] == 'attachment; filename="cr12.pdf"'
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Cache-Control"] == "no-store"
        assert "sandbox" in answer["Content-Security-Policy"]
    assert viewer.get("golive-document", document=document).status_code == 403
    assert stranger.get("golive-document", document=document).status_code == 404
    theirs = owner.url("golive-document", document=document)
    assert stranger.http.get(theirs).status_code == 404


def test_page_says_that_a_document_is_missing(owner, caplog):
    document = draft(owner.member).documents.get(kind="CR12")
    delete_file(document.file)

    answer = owner.get("golive-document", document=document.pk)

    assert answer.status_code == 404
    assert "The service has lost this file" in answer.content.decode()
    assert f"document {document.file} is missing in the storage" in caplog.messages


def test_submission_makes_a_business_and_orders_its_check(owner):
    Workspace.objects.update(kind="INDIVIDUAL")
    draft(owner.member)

    told = owner.messages_after("golive-submit", {"confirmed": "on"})

    assert told == ["It is submitted. We write to you when it is decided."]
    application = Application.objects.select_related("workspace", "report").get()
    workspace, report = application.workspace, application.report
    assert (application.status, workspace.go_live) == ("SUBMITTED", "SUBMITTED")
    assert (workspace.kind, application.submitted_by) == (
        "BUSINESS",
        owner.member.user,
    )
    assert (report.workspace_id, report.environment) == (OPERATOR_ID, "sandbox")
    assert report.checks_requested == ["BUSINESS_VERIFICATION"]
    assert report.subject["registrationNumber"] == "PVT-AB12CD3"
    charged = LedgerEntry.objects.get(report_id=report.pk)
    assert charged.account.workspace_id == OPERATOR_ID
    assert not Report.objects.filter(workspace=workspace).exists()
    event = AuditEvent.objects.get(action="go-live-application.submitted")
    assert (event.actor_kind, event.workspace_id) == ("MEMBER", workspace.pk)


def test_operator_is_billed_in_production_without_a_balance(owner, settings):
    settings.GO_LIVE_ENVIRONMENT = "production"

    submitted(owner.member)

    account = Account.objects.get(workspace=OPERATOR_ID, environment="production")
    assert (account.billing, account.balance) == ("POSTPAID", -300)


def test_submission_waits_while_the_operator_may_owe_no_more(owner):
    operator_account("sandbox")
    Account.objects.filter(workspace=OPERATOR_ID).update(ceiling=299)
    draft(owner.member)

    told = owner.messages_after("golive-submit", {"confirmed": "on"})

    assert told == ["We cannot take it now. Submit it again later."]
    assert Application.objects.get().status == "DRAFT"


def test_submission_needs_confirmation_and_all_documents(owner):
    draft(owner.member)
    assert "<title>Error:" in owner.post("golive-submit").content.decode()

    Document.objects.filter(kind="KRA").delete()
    told = owner.messages_after("golive-submit", {"confirmed": "on"})

    assert told == ["A document is missing."]
    assert Application.objects.get().status == "DRAFT"
    assert Workspace.objects.get().kind == "BUSINESS"
    assert not Report.objects.exists()


def test_suspended_workspace_submits_nothing(owner):
    draft(owner.member)
    owner.workspace.suspend("Looked at")

    assert owner.post("golive-submit", {"confirmed": "on"}).status_code == 403
    with pytest.raises(WorkspaceSuspended):
        applications.submit(owner.member, by(owner.member.user))


def test_suspension_during_the_submission_is_shown(owner):
    draft(owner.member)

    def suspended_before_it_is_held(execute, sql, *more):
        if "FOR NO KEY UPDATE" in sql and not suspended:
            suspended.append(True)
            owner.workspace.suspend("Looked at")
        return execute(sql, *more)

    suspended: list[bool] = []
    with connection.execute_wrapper(suspended_before_it_is_held):
        told = owner.messages_after("golive-submit", {"confirmed": "on"})

    assert suspended
    assert told == ["It cannot be changed now."]
    assert Application.objects.get().status == "DRAFT"


def test_application_is_submitted_once(owner):
    draft(owner.member)
    for _ in range(2):
        owner.post("golive-submit", {"confirmed": "on"})

    assert Report.objects.count() == 1


def test_submitted_application_cannot_be_edited(owner):
    submitted(owner.member)

    told = ["It cannot be changed now."]
    assert owner.messages_after("golive-company", COMPANY) == told
    assert owner.messages_after("golive-hand-in", file(pdf()), kind="cr12") == told
    assert owner.messages_after("golive-again") == told
    assert owner.messages_after("golive-submit", {"confirmed": "on"}) == told
    before = stored()
    with pytest.raises(applications.NotEditable):
        applications.upload_document(
            owner.member, DocumentKind.CR12, "a.pdf", PDF, by(owner.member.user)
        )
    assert stored() == before


def test_database_refuses_edits_of_a_submitted_application(owner):
    application = submitted(owner.member)
    mine = Application.objects.filter(pk=application.pk)

    documents = "documents that were submitted stay"
    for change, refusal in (
        (lambda: Document.objects.filter(kind="CR12").delete(), documents),
        (lambda: Document.objects.update(file="another"), documents),
        (lambda: mine.update(company_name="Another"), "submitted is not changed"),
        (lambda: mine.update(status="DRAFT"), "cannot become DRAFT"),
        (lambda: mine.delete(), documents),
        (
            lambda: Application.objects.create(
                workspace=owner.workspace, company_name="Two", details={}
            ),
            "one_application_at_a_time",
        ),
    ):
        with pytest.raises(IntegrityError, match=refusal), transaction.atomic():
            change()


def test_rejected_application_is_corrected_and_submitted_again(owner):
    first = in_review(owner.member)
    review.reject(first.pk, by(reviewer()), "The CR12 is of last year")
    assert "The CR12 is of last year" in owner.page("golive")
    assert "rejected" in owner.page("dashboard", "production")

    owner.post("golive-again")
    owner.post("golive-again")
    assert "The CR12 is of last year" in owner.page("golive")
    owner.post("golive-company", {**COMPANY, "address": "Kenyatta Avenue 2"})
    owner.post("golive-hand-in", file(pdf() + b"\n"), kind="cr12")
    told = owner.messages_after("golive-submit", {"confirmed": "on"})

    assert told[-1] == "It is submitted. We write to you when it is decided."
    second = Application.objects.get(status="SUBMITTED")
    assert second.details["address"] == "Kenyatta Avenue 2"
    assert read_content(second.documents.get(kind="CR12")) == pdf() + b"\n"
    assert "The CR12 is of last year" not in owner.page("golive")
    # The register may say something else by now.
    assert second.report.results.get().reused_from_id is None
    # The rejected application does not change.
    first.refresh_from_db()
    assert (first.status, first.details) == ("REJECTED", DETAILS)
    assert read_content(first.documents.get(kind="CR12")) == pdf()
    assert read_content(second.documents.get(kind="KRA")) == pdf()


def test_form_changes_only_the_fields_that_it_shows(owner, viewer):
    tampered = {
        **COMPANY,
        "status": "APPROVED",
        "go_live": "APPROVED",
        "workspace": str(OPERATOR_ID),
        "decided_by": "1",
    }
    owner.post("golive-company", tampered)
    viewer.post("golive-company", {**tampered, "company_name": "Mine"})

    application = Application.objects.get()
    assert (application.status, application.company_name) == ("DRAFT", NAME)
    assert application.workspace == owner.workspace
    assert owner.workspace.go_live == "NONE"


FORMS = [
    ("golive-company", {}),
    ("golive-hand-in", {"kind": "cr12"}),
    ("golive-submit", {}),
    ("golive-again", {}),
]


def test_form_from_elsewhere_changes_nothing(owner):
    draft(owner.member)
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner.member.user)
    for name, more in FORMS:
        place = {"workspace": owner.workspace.pk, "environment": "sandbox", **more}
        fields = {**COMPANY, "company_name": "Mallory", "confirmed": "on"}

        answer = client.post(reverse(f"console:{name}", kwargs=place), fields)

        assert answer.status_code == 403, name
        application = Application.objects.get()
        assert (application.status, application.company_name) == ("DRAFT", NAME), name


def test_approved_workspace_begins_no_application(owner):
    approve_workspace(owner.workspace)

    assert "Your company is approved." in owner.page("golive")
    assert owner.messages_after("golive-company", COMPANY) == [
        "It cannot be changed now."
    ]
    with pytest.raises(applications.NotEditable):
        applications.describe_company(
            owner.member, NAME, DETAILS, by(owner.member.user)
        )
    assert not Application.objects.exists()


def test_unknown_kind_of_document_is_not_found(owner):
    draft(owner.member)

    assert owner.get("golive-hand-in", kind="passport").status_code == 404


def test_page_shows_each_status(owner):
    assert "Not begun" in owner.page("golive")
    draft(owner.member)
    assert "Being filled in" in owner.page("golive")
    application = applications.submit(owner.member, by(owner.member.user))
    assert "Waiting" in owner.page("golive")
    review.take(application.pk, by(reviewer()))
    assert "In review" in owner.page("golive")
    run_due_checks()
    review.approve(application.pk, by(reviewer()))
    assert "Approved" in owner.page("golive")


def test_verbs_of_members_are_recorded(owner):
    owner.post("golive-company", COMPANY)
    owner.post("golive-company", {**COMPANY, "volume": "1-100"})
    owner.post("golive-hand-in", scan(), kind="cr12")
    user = by(owner.member.user, ActorKind.MEMBER)
    for kind in DocumentKind:
        applications.upload_document(owner.member, kind, "scan.pdf", PDF, user)
    document = Document.objects.get(kind="KRA").pk
    owner.get("golive-document", document=document)
    # Refusals are not recorded.
    owner.post("golive-company")
    owner.post("golive-hand-in", sent(b"<svg/>"), kind="cr12")
    owner.post("golive-submit", {"confirmed": "on"})
    run_due_checks()
    first = Application.objects.get()
    review.take(first.pk, by(reviewer()))
    review.reject(first.pk, by(reviewer()), "The CR12 is of last year")
    for _ in range(2):
        owner.post("golive-again")

    member = AuditEvent.objects.filter(actor=owner.member.user.username)
    done = member.filter(object_type="golive.application").order_by("id")
    word = "go-live-application."
    assert [(e.action.removeprefix(word), e.fields) for e in done] == [
        ("described", ["companyName", *DETAILS]),
        ("described", ["volume"]),
        ("document-handed-in", ["CR12"]),
        *[("document-handed-in", [kind]) for kind in DocumentKind],
        ("document-read", ["KRA"]),
        ("submitted", []),
        ("begun-again", []),
    ]
    assert {e.workspace_id for e in done} == {owner.workspace.pk}
    assert done[0].object_id == str(first.pk) != done.reverse()[0].object_id
