"""The audit trail records the verbs of members."""

from tests.golive.applications import COMPANY, DETAILS, by, reviewer
from tests.golive.files import pdf, sent
from verification.backoffice.models import AuditEvent
from verification.checks.engine import run_due_checks
from verification.golive import decisions
from verification.golive.models import Application, Document


def test_verbs_of_members_are_recorded(owner):
    owner.post("golive-company", COMPANY)
    owner.post("golive-company", {**COMPANY, "volume": "1-100"})
    for kind in ("cr12", "cr12", "incorporation", "kra", "director-id"):
        owner.post("golive-hand-in", sent(pdf()), kind=kind)
    document = Document.objects.get(kind="KRA").pk
    owner.get("golive-document", document=document)
    # Refusals are not recorded.
    owner.post("golive-company")
    owner.post("golive-hand-in", sent(b"<svg/>"), kind="cr12")
    owner.post("golive-submit", {"confirmed": "on"})
    run_due_checks()
    first = Application.objects.get()
    decisions.take(first.pk, by(reviewer()))
    decisions.reject(first.pk, by(reviewer()), "The CR12 is of last year")
    for _ in range(2):
        owner.post("golive-again")

    member = AuditEvent.objects.filter(actor=owner.member.user.username)
    done = member.filter(object_type="golive.application").order_by("id")
    word = "go-live-application."
    assert [(e.action.removeprefix(word), e.fields) for e in done] == [
        ("described", ["companyName", *DETAILS]),
        ("described", ["volume"]),
        *[("document-handed-in", ["CR12"])] * 2,
        ("document-handed-in", ["INCORPORATION"]),
        ("document-handed-in", ["KRA"]),
        ("document-handed-in", ["DIRECTOR_ID"]),
        ("document-read", ["KRA"]),
        ("submitted", []),
        ("begun-again", []),
    ]
    assert {e.workspace_id for e in done} == {owner.workspace.pk}
    assert done[0].object_id == str(first.pk) != done.reverse()[0].object_id
