"""Access: links to the data, who has received a report, the register of accesses."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.admin import site
from django.test import Client
from django.utils.timezone import now

from monitoring.models import Rule
from tests.checks.conftest import paying_api as paying_api
from tests.world.clients import HOSTED, Api, company, person
from tests.world.console import ConsoleVisitor
from tests.world.corrections import (
    REASON,
    RIGHT,
    create_wrong_report,
    dispute,
    reviewer,
)
from tests.world.decisions import decide, deciding_api
from tests.world.members import create_member
from tests.world.orders import create_report_with_status
from tests.world.rules import raise_alert, raise_alert_of_a_run, store_rule
from tests.world.staff import press_button, reveal
from tests.world.subject import Visitor
from verification.backoffice import audit
from verification.backoffice.models import ActorKind, AuditEvent
from verification.consents.links import expire_consents, remind_subjects
from verification.consents.models import Consent, ConsentRecord
from verification.db.ids import uuid7
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Block, DailyCount, Kind, Notification
from verification.notifications.recipients import block
from verification.privacy import disclosures, people
from verification.privacy.access import (
    as_json,
    is_one_of,
    load_reports,
    record_access,
)
from verification.privacy.corrections import (
    Statement,
    correct,
    open_correction,
    rerun,
    take,
)
from verification.privacy.disclosures import RecipientKind, recipients_of
from verification.privacy.models import (
    Disclosure,
    RequestKind,
    SubjectRequest,
)
from verification.privacy.people import Proof
from verification.privacy.personal_data import erase_reports
from verification.references.models import Reference
from verification.reports.models import Report
from webhooks.models import Attempt, Delivery, Event

pytestmark = pytest.mark.django_db

EMAIL = "wanjiku@kamau.test"


@pytest.fixture
def report(api: Api) -> Report:
    made = api.create(person())
    api.work()
    return Report.objects.get(pk=made["id"])


def test_report_is_theirs_by_the_proved_address(api: Api):
    others = [
        ({"email": EMAIL}, True),
        ({"email": EMAIL, "dateOfBirth": "1990-03-27"}, True),
        ({"email": EMAIL, "dateOfBirth": "1971-01-05"}, False),
        ({"email": EMAIL, "fullName": "Peter Otieno"}, False),
        ({"email": "other@kamau.test", "dateOfBirth": "1990-03-27"}, False),
        ({"dateOfBirth": "1990-03-27"}, False),
    ]
    mine = {"email": EMAIL, "dateOfBirth": "1990-03-27"}
    own, *further = api.create(person(**mine), *[person(**one) for one, _ in others])
    theirs = [is_theirs for _, is_theirs in others]

    proof = Proof.of(Report.objects.get(pk=own["id"]))
    rows = [Report.objects.get(pk=one["id"]) for one in further]
    assert [is_one_of(proof, row) for row in rows] == theirs
    found = people.Person.of(proof.report, proof).find().reports
    assert [row in found for row in rows] == theirs


def test_uncompared_result_of_a_strangers_number_is_not_shown(api: Api):
    made = api.create(person(idNumber="90000002"))
    api.work()
    report = Report.objects.get(pk=made["id"])
    for name, likeness in {"KRA_PIN": None, "CRB_SCORE": "MATCH"}.items():
        result = report.results.get(name=name)
        details = {"said": f"of {name}", "nameMatch": likeness}
        result.finding = {**result.finding, "flags": [], "details": details}
        result.save()

    found = as_json(load_reports([report], now()), now())

    shown = {check["check"]: check for check in found["reports"][0]["checks"]}
    assert shown["IDENTITY"]["details"] == {"nameMatch": "NO_MATCH"}
    assert shown["KRA_PIN"]["isAboutAnother"]
    assert "of KRA_PIN" not in str(shown)
    assert shown["CRB_SCORE"]["details"]["said"] == "of CRB_SCORE"


def test_superseded_result_shows_nothing_of_a_stranger(api: Api):
    correction = dispute(create_wrong_report(api))
    take(correction.pk, reviewer())
    rerun(correction.pk, reviewer(), {"idNumber": RIGHT})
    api.work()
    strangers_name = correction.result.finding["details"]["fullName"]
    correct(correction.pk, reviewer(), REASON)

    report = Report.objects.get(pk=correction.report_id)
    found = as_json(load_reports([report], now()), now())

    (shown,) = found["reports"][0]["corrections"]
    assert shown["supersededResult"]["isAboutAnother"]
    assert not found["reports"][0]["checks"][0]["isAboutAnother"]
    assert strangers_name not in str(found)


def kinds(report: Report) -> list[str]:
    return [one.kind for one in recipients_of([report])[report.pk]]


def test_read_by_a_key_is_a_disclosure(api: Api, report: Report):
    assert kinds(report) == []

    api.report(str(report.pk))

    (row,) = Disclosure.objects.all()
    assert (row.report_id, row.channel) == (report.pk, "API")
    assert row.recipient.startswith("key ")
    assert kinds(report) == [RecipientKind.API]


def test_further_read_within_the_hour_costs_no_statement(
    api: Api, report: Report, django_assert_num_queries: object
):
    api.report(str(report.pk))
    first = Disclosure.objects.get()

    api.report(str(report.pk))
    assert Disclosure.objects.get().last_at == first.last_at

    disclosures._recorded.clear()
    api.report(str(report.pk))
    assert Disclosure.objects.get().last_at == first.last_at
    disclosures._recorded.clear()
    with time_machine.travel(now() + timedelta(hours=2)):
        api.report(str(report.pk))
    row = Disclosure.objects.get()
    assert row.first_at == first.first_at
    assert row.last_at > first.last_at + timedelta(hours=1)


def test_remembered_disclosures_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disclosures, "MOST_REMEMBERED", 10)

    disclosures._recorded.clear()
    disclosures._remember((nth, "API", "key") for nth in range(30))  # type: ignore[misc]

    assert len(disclosures._recorded) == 10
    assert not disclosures._is_due((29, "API", "key"))  # type: ignore[arg-type]
    disclosures._recorded.clear()


def forget_disclosures() -> None:
    Disclosure.objects.all().delete()
    disclosures._recorded.clear()


def test_every_answer_and_page_with_a_finding_is_a_disclosure(api: Api, report: Report):
    result = report.results.get(name="IDENTITY")
    correction = open_correction(
        report.pk, result.pk, Statement("The name", "It is wrong.", "en")
    )
    raise_alert(api, report_id=report.pk)

    for path, kind in {
        "/reports?search=Wanjiku": RecipientKind.API,
        f"/reports/{report.pk}/pdf": RecipientKind.PDF,
        "/corrections": RecipientKind.API,
        f"/corrections/{correction.pk}": RecipientKind.API,
        "/monitoring/alerts": RecipientKind.API,
    }.items():
        forget_disclosures()
        assert api.get(path).status_code == 200
        assert kinds(report) == [kind], path
    forget_disclosures()
    assert api.post(f"/reports/{report.pk}/objection").status_code == 200
    assert kinds(report) == [RecipientKind.API]
    member = ConsoleVisitor(create_member(api.workspace, "VIEWER"))
    pages: dict[str, Any] = {"reports": {}, "monitoring-alerts": {}}
    pages["reports-detail"] = {"report": report.pk}
    for page, named in pages.items():
        forget_disclosures()
        member.page(page, **named)
        assert kinds(report) == [RecipientKind.CONSOLE], page


def test_report_without_findings_is_not_disclosed(api: Api):
    waiting = api.create(person())["id"]

    api.report(waiting)
    api.get("/reports")

    assert not Disclosure.objects.exists()


def test_refused_read_is_no_disclosure(another_api: Api, report: Report):
    assert another_api.get(f"/reports/{report.pk}").status_code == 404
    assert another_api.get(f"/reports/{report.pk}/pdf").status_code == 404

    assert not Disclosure.objects.exists()


def test_receivers_that_got_the_body_and_staff_are_recipients(api: Api, report: Report):
    event = Event.objects.filter(report_id=report.pk).earliest("id")
    delivery = Delivery.objects.create(
        event=event,
        workspace=report.workspace,
        environment=report.environment,
        name=event.name,
        status="FAILED",
        created_at=now(),
    )
    attempts = [
        ("answering", 204, ""),
        ("refusing", 503, ""),
        ("slow", None, "TIMED_OUT"),
        ("breaking", None, "BROKEN"),
        ("away", None, "NOT_CONNECTED"),
        ("unknown", None, "NAME_UNKNOWN"),
        ("untrusted", None, "NOT_TRUSTED"),
    ]
    for number, (host, status, error) in enumerate(attempts, 1):
        Attempt.objects.create(
            delivery=delivery,
            number=number,
            url=f"https://{host}.acacia.test/verification?token=secret",
            started_at=now(),
            duration_ms=5,
            status_code=status,
            error=error,
        )
    audit.record("report.opened", audit.Actor(ActorKind.STAFF, "grace"), report)

    found = recipients_of([report])[report.pk]

    assert [one.kind for one in found] == [RecipientKind.WEBHOOK] * 4 + [
        RecipientKind.STAFF
    ]
    hosts = {one.host.partition(".")[0] for one in found if one.host}
    assert hosts == {"answering", "refusing", "slow", "breaking"}


# Pages that reveal nothing that a report says of its subject
NOT_OF_A_REPORT = {
    "backoffice.AuditEvent",
    "golive.Application",
    "payments.Checkout",
    "payments.Payment",
    "payments.PaymentEvent",
    "privacy.StaffErasure",
    "privacy.SubjectRequest",
    "workspaces.Member",
    "workspaces.Workspace",
}


def test_staff_who_reveal_a_row_of_a_report_are_recipients(
    api: Api, report: Report, staff: Client
):
    event = Event.objects.filter(report_id=report.pk).latest("id")
    delivery = Delivery.objects.create(
        event=event,
        workspace=report.workspace,
        environment=report.environment,
        name=event.name,
        status="FAILED",
        created_at=now(),
    )
    alert = raise_alert_of_a_run(api)
    rule = Rule.objects.get(pk=alert.rule_id)
    Report.objects.filter(pk=report.pk).update(monitoring_id=rule.pk)
    decide(deciding_api(api), str(report.pk))
    result = report.results.get(name="IDENTITY")
    reference = Reference.objects.create(
        report=report,
        result_id=result.pk,
        attempt=1,
        token_digest=b"",
        expires_at=now(),
    )
    record = ConsentRecord.objects.create(
        report=report,
        consent_id=uuid7(),
        decision="GRANTED",
        generation=1,
        digest=b"digest",
    )
    rows = [
        report,
        result,
        delivery,
        rule,
        alert,
        reference,
        record,
        report.decisions.get(),
        dispute(str(report.pk)),
    ]
    pages = {admin.model for admin in site._registry.values() if reveals(admin)}
    counted = {page for page in pages if page._meta.label not in NOT_OF_A_REPORT}
    assert counted == {type(row) for row in rows}

    for row in rows:
        reveal(staff, row)
        act = AuditEvent.objects.latest("id")
        (recipient,) = recipients_of([report])[report.pk]
        assert recipient.kind == RecipientKind.STAFF
        assert recipient.last_at == act.created_at, act.action


def reveals(admin: Any) -> bool:
    return bool(getattr(admin, "personal_fields", ()))


def test_reveal_of_a_rule_is_no_disclosure_of_its_later_runs(api: Api, staff: Client):
    reveal(staff, rule := store_rule(api))
    run = Report.objects.get(pk=create_report_with_status(api, "READY"))
    Report.objects.filter(pk=run.pk).update(monitoring_id=rule.pk)

    assert kinds(run) == []


def test_accesses_of_a_day_are_one_request(report: Report):
    for _ in range(3):
        record_access(report, RequestKind.ACCESS)
    record_access(report, RequestKind.PORTABILITY)

    rows = SubjectRequest.objects.order_by("id")
    assert [(one.kind, one.outcome, one.origin) for one in rows] == [
        ("ACCESS", "DONE", "SUBJECT"),
        ("PORTABILITY", "DONE", "SUBJECT"),
    ]
    assert {one.subject_id for one in rows} == {report.subject_id}
    DailyCount.objects.update(day=now() - timedelta(days=1))
    record_access(report, RequestKind.ACCESS)
    assert rows.filter(kind="ACCESS").count() == 2


FOUND = "What was found about you"


@pytest.fixture
def attested(paying_api: Api) -> Report:
    subject = {"email": EMAIL, "dateOfBirth": "1990-03-27"}
    made = paying_api.create(person(**subject))
    paying_api.work()
    return Report.objects.get(pk=made["id"])


def send_link(api: Api, report: Report) -> dict[str, Any]:
    answer = api.post(f"/reports/{report.pk}/subject/link")
    assert answer.status_code == 200, answer.content
    return answer.json()


def sent_links() -> list[Notification]:
    return list(Notification.objects.filter(kind=Kind.ACCESS_LINK).order_by("id"))


def visit_link(message: Notification) -> Visitor:
    return Visitor(str((message.context or {})["link"]))


def allow_another_link(report: Report) -> None:
    Consent.objects.filter(report=report).update(
        link_made_at=now() - timedelta(minutes=2)
    )


def test_client_sends_the_subject_of_an_attested_consent_a_link(
    paying_api: Api, attested: Report
):
    answer = send_link(paying_api, attested)

    assert answer["sentTo"] == ["EMAIL"]
    (message,) = sent_links()
    assert (message.recipient, message.report_id) == (EMAIL, attested.pk)
    assert set(answer) == {"sentTo", "expiresAt"}
    timeline = paying_api.get(f"/reports/{attested.pk}/events").json()
    assert [one["kind"] for one in timeline["messages"]] == ["ACCESS_LINK"]
    assert timeline["events"][-1]["trigger"] == "link to own data sent"
    visitor = visit_link(message)
    page = visitor.see_data()
    assert FOUND in page.content.decode()
    assert "Acacia Lenders states that it has it." in page.content.decode()
    # The page of a consent has nothing else to show.
    assert visitor.browser.get(f"/c/v/{attested.consent.pk}/").status_code == 303
    state = paying_api.report(str(attested.pk))["consentState"]
    assert (state["status"], state["consentUrl"], state["expiresAt"]) == (
        "ATTESTED",
        None,
        None,
    )


def test_access_link_expires(paying_api: Api, attested: Report, settings: Any):
    send_link(paying_api, attested)
    visitor = visit_link(sent_links()[0])

    with time_machine.travel(now() + timedelta(days=settings.ACCESS_LINK_DAYS + 1)):
        expire_consents()
        remind_subjects()
        visitor.open()
        page = visitor.get("data/")

    assert page.status_code == 410
    assert "This link has expired" in page.content.decode()
    attested.consent.refresh_from_db()
    assert attested.consent.status == "ATTESTED"
    assert not Notification.objects.filter(kind=Kind.CONSENT_REMINDER).exists()


def test_newer_access_link_replaces_the_one_before(paying_api: Api, attested: Report):
    send_link(paying_api, attested)
    Consent.objects.filter(report=attested).update(locks=4)
    too_soon = paying_api.post(f"/reports/{attested.pk}/subject/link")
    assert too_soon.status_code == 429
    assert "Retry-After" in too_soon
    allow_another_link(attested)

    send_link(paying_api, attested)

    first, second = map(visit_link, sent_links())
    first.open()
    assert first.get("data/").status_code == 410
    # It also unlocks the data.
    assert FOUND in second.see_data().content.decode()


def test_decided_consent_gets_a_new_link_that_also_withdraws(
    paying_api: Api, settings: Any
):
    item = {**person(email=EMAIL, dateOfBirth="1990-03-27"), "consent": HOSTED}
    made = paying_api.create(item)
    visitor = Visitor("")
    visitor.report_id = made["id"]
    visitor.agree()
    report = Report.objects.get(pk=made["id"])
    allow_another_link(report)

    assert send_link(paying_api, report)["expiresAt"] is None

    again = visit_link(sent_links()[-1])
    again.open()
    again.confirm()
    assert "You agreed to the checks" in again.text()
    assert again.get("receipt.pdf").status_code == 200
    with time_machine.travel(now() + timedelta(days=100)):
        assert FOUND in again.see_data().content.decode()
    again.open()
    again.confirm()
    again.post("withdraw", reason="")
    assert "You withdrew your consent" in again.text()
    state = paying_api.report(made["id"])["consentState"]
    assert state["status"] == "WITHDRAWN"


def test_link_after_an_expired_request_leads_to_the_data(paying_api: Api):
    item = {**person(email=EMAIL, dateOfBirth="1990-03-27"), "consent": HOSTED}
    made = paying_api.create(item)
    Consent.objects.update(expires_at=now(), link_made_at=now() - timedelta(days=14))
    expire_consents()
    state = paying_api.report(made["id"])["consentState"]
    assert (state["status"], state["expiresAt"] is None) == ("EXPIRED", False)

    send_link(paying_api, Report.objects.get(pk=made["id"]))

    visitor = visit_link(sent_links()[-1])
    visitor.open()
    assert visitor.get()["Location"] == f"{visitor.page}data/"
    assert FOUND in visitor.see_data().content.decode()
    state = paying_api.report(made["id"])["consentState"]
    assert (state["status"], state["expiresAt"]) == ("EXPIRED", None)


@pytest.mark.parametrize(
    ("why", "subject", "consent"),
    [
        ("no e-mail address", {"email": None}, None),
        ("has not answered yet", {"email": EMAIL}, HOSTED),
    ],
)
def test_link_that_cannot_be_sent_says_why(
    paying_api: Api, why: str, subject: Any, consent: Any
):
    item = person(dateOfBirth="1990-03-27", **subject)
    made = paying_api.create({**item, **({"consent": consent} if consent else {})})

    problem = paying_api.refused(f"/reports/{made['id']}/subject/link")

    assert (problem["code"], problem["status"]) == ("subject-link-not-sendable", 409)
    assert why in problem["detail"]
    assert not sent_links()


def test_company_and_erased_report_get_no_link(paying_api: Api, attested: Report):
    made = paying_api.create(company(email="office@baobab.test"))
    problem = paying_api.refused(f"/reports/{made['id']}/subject/link")
    assert "not about a person" in problem["detail"]
    erase_reports([attested.pk], now())
    problem = paying_api.refused(f"/reports/{attested.pk}/subject/link")
    assert "were erased" in problem["detail"]


def test_links_count_in_the_limits_of_a_day(
    paying_api: Api, attested: Report, settings: Any
):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    for _ in range(2):
        send_link(paying_api, attested)
        allow_another_link(attested)
    send_due_notifications()

    assert {one.status for one in sent_links()} == {"CANCELLED", "SENT"}
    send_link(paying_api, attested)
    send_due_notifications()
    assert sent_links()[-1].error == "RECIPIENT_LIMIT"


def test_subject_who_blocked_the_client_gets_no_link_of_it(
    paying_api: Api, attested: Report
):
    block(attested.workspace_id, [("EMAIL", EMAIL)], Block.Reason.UNWANTED)

    send_link(paying_api, attested)
    send_due_notifications()

    assert sent_links()[-1].error == "BLOCKED"


def test_member_sends_a_link_from_the_console(api: Api, report: Report):
    report.subject = {**report.subject, "email": EMAIL}
    report.save()
    viewer = ConsoleVisitor(create_member(api.workspace, "VIEWER"))
    assert "Send the subject a link" not in viewer.page(
        "reports-detail", report=report.pk
    )
    owner = ConsoleVisitor(create_member(api.workspace, "OWNER"))
    assert "Send the subject a link" in owner.page("reports-detail", report=report.pk)

    shown = owner.messages_after("reports-data-link", report=report.pk)

    assert shown == ["The subject gets a link to their data."]
    assert AuditEvent.objects.filter(action="report.data-link-sent").exists()
    shown = owner.messages_after("reports-data-link", report=report.pk)
    assert shown == ["A link was made less than a minute ago. Try again in a minute."]


def test_staff_send_a_link(attested: Report, superuser: Any):
    done = press_button(superuser, "send_access_link", attested)

    assert done == ["Done: data link sent."]
    assert [one.recipient for one in sent_links()] == [EMAIL]
    event = AuditEvent.objects.get(action="report.data-link-sent")
    assert event.actor_kind == "STAFF"


def test_search_for_a_person_of_the_sandbox_ends(
    api: Api, paying_api: Api, monkeypatch: pytest.MonkeyPatch
):
    """There reports cost nothing: a million must not fill the memory."""
    monkeypatch.setattr(people, "MOST_IN_SANDBOX", 3)
    for client, most in [(api, 4), (paying_api, 6)]:
        made = client.create(*([person()] * 6))
        oldest = Report.objects.get(pk=min(one["id"] for one in made))

        found = people.Person.of(oldest).find().reports

        assert len(found) == most
        assert oldest in found


def test_search_in_the_sandbox_follows_few_numbers(
    api: Api, paying_api: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(people, "STEPS_IN_SANDBOX", 2)
    pins = ["A123456781Z", "A123456782Z", "A123456783Z"]
    numbers = ["12345671", "12345671", "12345672", "12345672", "12345673"]
    chain = zip(numbers, [pins[0], pins[1], pins[1], pins[2], pins[2]], strict=True)
    items = [person(idNumber=number, kraPin=pin) for number, pin in chain]
    for client, most in [(api, 3), (paying_api, 5)]:
        made = client.create(*items)
        first = Report.objects.get(pk=made[0]["id"])

        assert len(people.Person.of(first).find().reports) == most
