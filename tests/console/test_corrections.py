"""Members decide corrections in the console."""

import pytest

from monitoring.models import Rule
from tests.files.samples import pdf
from tests.world.clients import Api, create_lender, erase, person
from tests.world.console import ConsoleVisitor
from tests.world.corrections import (
    REASON,
    RIGHT,
    STATEMENT,
    ask_for_further_reports,
    create_wrong_report,
    dispute,
    reviewer,
)
from tests.world.rules import create_rule
from tests.world.subject import visible_text
from verification.backoffice.audit import Actor
from verification.backoffice.models import ActorKind, AuditEvent
from verification.checks.models import CheckResult
from verification.console.reports import timeline_of
from verification.files.inspection import InspectedFile
from verification.files.uploads import UploadedFile
from verification.golive.applications import ActingUser
from verification.notifications.models import Notification
from verification.privacy.corrections import (
    notify_reviewers,
    open_correction,
    take,
    withdraw,
)
from verification.privacy.models import Correction, Outcome
from verification.privacy.requests import answer_request
from verification.values.local_time import format_nairobi
from workspaces.create import create_workspace
from workspaces.models import Workspace


@pytest.fixture(scope="module")
def disputed(module_transaction: None) -> Correction:
    """A correction that waits, which the tests of this module share."""
    return dispute(create_wrong_report(Api(create_lender(), "sandbox")))


@pytest.fixture
def workspace(disputed: Correction, db: None) -> Workspace:
    return Workspace.objects.get()


@pytest.fixture
def correction(disputed: Correction, workspace: Workspace) -> Correction:
    return Correction.objects.get(pk=disputed.pk)


def decide(owner: ConsoleVisitor, correction: Correction, decision: str) -> list[str]:
    fields = {"decision": decision, "reason": REASON}
    return owner.messages_after("corrections-detail", fields, correction=correction.pk)


def test_owner_corrects_a_finding(owner: ConsoleVisitor, api: Api, correction):
    where = {"correction": correction.pk}
    html = owner.page("corrections", query={"status": "OPEN"})
    assert correction.request.number in html
    assert "None in the sandbox" in html

    owner.post("corrections-take", **where)
    assert "can run it with the right one" in owner.page("corrections-run", **where)
    owner.post("corrections-run", {"idNumber": RIGHT, "fullName": "Any"}, **where)
    api.work()
    html = owner.page("corrections-detail", **where)
    assert "Run with these details" not in html
    assert STATEMENT.why in html
    decide(owner, correction, "CORRECTED")

    report = api.report(str(correction.report_id))
    assert report["corrections"][0]["status"] == "CORRECTED"
    page = owner.page("reports-detail", report=correction.report_id)
    price = report["paymentState"]["amount"]["amount"]
    assert price > 0
    assert f"KES {price:.2f}" in visible_text(page)
    actions = AuditEvent.objects.filter(action__startswith="correction.")
    done = ["taken", "rerun", "opened", "corrected"]
    assert [a.action.partition(".")[2] for a in actions.order_by("id")] == done


def test_timeline_names_the_member_who_decided(owner, correction):
    user = owner.member.user
    user.username, user.email = "0199c0ffee", "grace@acacia.test"
    user.save()
    take(correction.pk, ActingUser(user, Actor(ActorKind.MEMBER, user.username)))

    decide(owner, correction, "CONFIRMED")

    newest = timeline_of(correction.report)[0]
    assert str(newest.text) == "The finding stays as it is"
    assert newest.by == "grace@acacia.test"


def test_member_is_told_when_the_rerun_has_ended(owner, api: Api, correction):
    owner.post("corrections-take", correction=correction.pk)
    owner.post("corrections-run", correction=correction.pk)
    api.work()

    correction.refresh_from_db()
    notify_reviewers(str(correction.rerun_id))

    told = Notification.objects.get(kind="CORRECTION_RERUN")
    assert told.recipient == owner.member.user.email
    assert told.context["url"].endswith(str(correction.pk))


def test_correction_of_the_sandbox_has_no_deadline(owner, correction):
    for page, more in (
        ("corrections", {}),
        ("corrections-detail", {"correction": correction.pk}),
    ):
        html = owner.page(page, **more)
        assert "None in the sandbox" in html
        assert format_nairobi(correction.due_at, "j M, H:i") not in visible_text(html)


def test_withdrawn_correction_is_not_called_answered(owner, correction):
    withdraw(correction.pk)

    page = visible_text(owner.page("corrections"))
    assert "Taken back by the person" in page
    assert "Answered" not in page


def test_pages_say_that_the_erasure_ended_a_correction(owner, api: Api, correction):
    erase(api, correction.report_id)

    for page, more in (
        ("corrections", {}),
        ("corrections-detail", {"correction": correction.pk}),
        ("reports-detail", {"report": correction.report_id}),
    ):
        assert "Ended by the erasure" in visible_text(owner.page(page, **more))


def test_page_says_how_many_more_requests_for_reports_wait(owner, api, monkeypatch):
    monkeypatch.setattr("verification.console.correction_pages.PAGE_SIZE", 1)
    ask_for_further_reports(api)
    assert "more wait" not in owner.page("corrections")

    ask_for_further_reports(api)

    assert "1 more waits." in owner.page("corrections")


def test_page_lists_a_request_for_reports_until_it_is_answered(owner, api):
    asked = ask_for_further_reports(api)
    assert asked.number in owner.page("corrections")

    answer_request(asked, Outcome.WITHDRAWN)

    assert asked.number not in owner.page("corrections")


def test_all_that_a_confirmation_opens_can_be_looked_at(owner, api, monkeypatch):
    monkeypatch.setattr("verification.console.correction_pages.PAGE_SIZE", 2)
    # Its first run makes a report.
    create_rule(api, subject=person(dateOfBirth="1990-03-27")["subject"])
    asked = ask_for_further_reports(api)

    first, second = (
        owner.page("corrections-join", query={"page": number}, asked=asked.pk)
        for number in (0, 1)
    )

    assert "1\N{EN DASH}2 of 3" in first
    assert "3\N{EN DASH}3 of 3" in second
    assert first.count(owner.url("reports-detail", report=asked.report_id)) == 1
    assert str(Rule.objects.get().pk) in second


def test_other_reports_with_the_finding_are_counted_and_paged(
    owner, api: Api, correction, monkeypatch
):
    monkeypatch.setattr("verification.console.base.PAGE_SIZE", 1)
    others = [create_wrong_report(api) for _ in range(2)]
    origin = correction.result
    CheckResult.objects.filter(report__in=others).update(
        reused_from_id=origin.reused_from_id or origin.pk
    )

    html = owner.page("corrections-detail", correction=correction.pk)

    assert "in 2 other reports" in html
    assert "1\N{EN DASH}1 of 2" in html


def test_decision_needs_a_reason(owner, correction):
    take(correction.pk, reviewer())
    fields = {"decision": "CONFIRMED", "reason": " "}

    html = owner.post("corrections-detail", fields, correction=correction.pk)

    assert "<title>Error:" in html.content.decode()
    correction.refresh_from_db()
    assert correction.status == "IN_REVIEW"


def test_second_press_of_take_names_nobody_else(owner, admin, correction):
    owner.messages_after("corrections-take", correction=correction.pk)

    again = owner.messages_after("corrections-take", correction=correction.pk)
    other = admin.messages_after("corrections-take", correction=correction.pk)

    assert again == ["The correction is in review."]
    assert other == ["Somebody took or decided it meanwhile."]


def test_second_decider_is_told(owner, admin, correction):
    take(correction.pk, reviewer())
    decide(owner, correction, "CONFIRMED")

    assert decide(admin, correction, "CONFIRMED") == [
        "Somebody took or decided it meanwhile."
    ]


def test_documents_are_downloaded_with_a_trace(owner, api: Api):
    result = CheckResult.objects.get(report=create_wrong_report(api))
    file = UploadedFile("id.pdf", InspectedFile("application/pdf", pdf()))
    made = open_correction(result.report_id, result.pk, STATEMENT, [file])
    where = {"correction": made.pk, "file": made.documents.get().pk}

    answer = owner.get("corrections-document", **where)

    assert answer.content == pdf()
    assert "attachment" in answer["Content-Disposition"]
    assert AuditEvent.objects.filter(action="correction.document-read").exists()


def test_corrections_of_others_are_not_found(owner, correction):
    other = create_workspace(name="Baobab Bank", owner_email="owner@baobab.test")
    foreign = dispute(create_wrong_report(Api(other, "sandbox")))

    for name in ("corrections-detail", "corrections-run"):
        assert owner.get(name, correction=foreign.pk).status_code == 404
    posted = owner.post("corrections-take", correction=foreign.pk)
    assert posted.status_code == 404
    fields = {"decision": "CONFIRMED", "reason": REASON}
    posted = owner.post("corrections-detail", fields, correction=foreign.pk)
    assert posted.status_code == 404
    assert (
        owner.page("corrections").count('<td role="cell">National identity</td>') == 1
    )


def test_reports_page_says_that_a_finding_is_under_correction(owner, correction):
    html = owner.page("reports-detail", report=correction.report_id)

    assert "says that this finding is wrong" in html
