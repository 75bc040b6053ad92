"""A decline that rests on a bureau's result is served on the person, with a proof."""

import io
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now
from pypdf import PdfReader

from tests.reports.test_retry import RECOVERS, retry, set_max_attempts
from tests.world.clients import Api, company, erase, error_codes, person
from tests.world.corrections import dispute, reviewer
from tests.world.decisions import (
    DECLINE,
    Officer,
    create_ready_report,
    decide,
    deciding_api,
    demand_second,
)
from tests.world.decisions import report_id as report_id
from tests.world.decisions import workspace as workspace
from tests.world.notices import (
    EMAIL,
    create_report,
    decline,
    decline_by_policy,
    deliver,
    wait,
)
from tests.world.orders import REFUSED, two_checks
from tests.world.subject import Visitor
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from verification.decisions import decide as verbs
from verification.decisions import notices
from verification.decisions.decide import (
    Maker,
    NewDecision,
    Obstacle,
    ReportDecisionRefused,
    finish_waiting_declines,
    review_decisions,
)
from verification.decisions.models import (
    AdverseNotice,
    Case,
    Decision,
    NoticeFact,
)
from verification.decisions.notices import (
    NoticeObstacle,
    NoticeRefused,
    add_working_time,
    record_outcomes,
    working_time,
)
from verification.documents.decline_notice import _data_of, notice_pdf
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Block, Kind, Notification
from verification.notifications.recipients import block
from verification.notifications.templates import write_email
from verification.privacy import corrections
from verification.privacy.access import _notice_json
from verification.privacy.models import Origin, SubjectRequest
from verification.privacy.objections import object_to_use
from verification.privacy.reviews import answer_reviews, request_review
from verification.reports.models import Report
from webhooks.models import Event

OTHER = {"status": "DECLINED", "reasonCodes": ["OWN_CRITERIA"]}


def messages() -> list[Notification]:
    return list(Notification.objects.filter(kind=Kind.ADVERSE_NOTICE).order_by("id"))


def test_decline_after_a_credit_check_is_served(
    api: Api, officer: Officer, report_id: str
):
    decline(officer, report_id)

    (message,) = messages()
    assert message.recipient == EMAIL
    assert message.report_id == AdverseNotice.objects.get().report_id
    # The reasons are on the page alone.
    assert message.context.keys() == {
        "requester", "requesterContact", "link", "expiresAt"
    }  # fmt: skip
    assert "The link works until" in write_email(message).text
    notice = AdverseNotice.objects.get()
    assert (notice.rests_on_bureau, notice.is_automated) == (True, False)
    assert notice.bureaus == ["sandbox"]
    assert notice.state == "SENDING"


def test_only_declines_have_a_notice(officer: Officer, report_id: str):
    review = officer.decide(report_id, "REVIEW")
    officer.decide(report_id, "APPROVED", replaces=review.pk)

    assert not AdverseNotice.objects.exists()


def test_decline_without_a_credit_check_has_no_notice(api: Api, officer: Officer):
    decline(officer, create_report(api, "IDENTITY"))

    assert not AdverseNotice.objects.exists()


def test_reason_from_a_bureau_needs_a_notice_without_a_check(
    api: Api, officer: Officer
):
    decline(officer, create_report(api, "IDENTITY"), "ADVERSE_CREDIT")

    assert AdverseNotice.objects.get().bureaus == []


def test_maker_says_that_the_decline_rests_on_no_bureau(
    officer: Officer, report_id: str
):
    made = decline(officer, report_id, not_on_bureau="The ID card is forged")

    assert not AdverseNotice.objects.exists()
    assert Decision.objects.get().not_on_bureau == "The ID card is forged"
    said = AuditEvent.objects.get(action="decision.not-on-bureau")
    assert said.object_id == str(made.pk)


def test_key_says_that_the_decline_rests_on_no_bureau(
    deciding_api: Api, report_id: str
):
    path = f"/reports/{report_id}/decision"
    for body in (DECLINE, {"status": "APPROVED"}):
        problem = deciding_api.refused(path, {**body, "notOnBureau": "Forged"})
        assert error_codes(problem) == {"#/notOnBureau": "not-allowed-here"}

    made = decide(deciding_api, report_id, OTHER, notOnBureau="Forged")

    assert made["notOnBureau"] == "Forged"
    assert made["notice"] is None


def test_delivered_message_is_the_proof_and_stays(officer: Officer, report_id: str):
    made = decline(officer, report_id)
    send_due_notifications()
    assert not NoticeFact.objects.exists()

    # The job may be killed and run again.
    record_outcomes()
    record_outcomes()

    notice = AdverseNotice.objects.get()
    assert notice.state == "SERVED"
    fact = notice.facts.get()
    assert (fact.kind, fact.channel) == ("SENT", "EMAIL")
    assert fact.at == notice.served_at
    assert fact.details == {"address": "w••••@kamau.test"}
    for change in ({"kind": "FAILED"}, {"error": "REFUSED"}):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            NoticeFact.objects.update(**change)
    with (
        connection.cursor() as cursor,
        pytest.raises(IntegrityError, match="append-only"),
        transaction.atomic(),
    ):
        cursor.execute("DELETE FROM decisions_noticefact")

    officer.decide(report_id, "APPROVED", replaces=made.pk)

    notice.refresh_from_db()
    assert notice.state == "SERVED"


def test_bounced_address_leaves_the_notice_to_be_handed_over(
    officer: Officer, report_id: str
):
    decline(officer, report_id)
    Notification.objects.update(status="FAILED", error="REFUSED", next_attempt_at=None)

    record_outcomes()

    notice = AdverseNotice.objects.get()
    assert notice.state == "UNDELIVERED"
    fact = notice.facts.get()
    assert (fact.kind, fact.error) == ("FAILED", "REFUSED")


def test_person_without_an_address_is_handed_the_notice(api: Api, officer: Officer):
    decline(officer, create_report(api, email=None))
    notice = AdverseNotice.objects.get()
    assert (notice.state, notice.is_settled) == ("UNDELIVERED", True)

    today = notices.now().astimezone(notices.NAIROBI).date()
    notices.hand_over(
        officer.client, notice.pk, officer.member, officer.actor,
        by="Peter Otieno", on=today,
    )  # fmt: skip

    notice.refresh_from_db()
    fact = notice.facts.get()
    assert (notice.state, fact.kind) == ("SERVED", "HANDED_OVER")
    assert fact.details == {"by": "Peter Otieno", "on": today.isoformat()}
    assert fact.recorded_by == officer.client.actor


def test_hand_over_has_a_possible_day(officer: Officer, report_id):
    decline(officer, report_id)
    today = notices.now().astimezone(notices.NAIROBI).date()
    notice = AdverseNotice.objects.get().pk
    for days, obstacle in [
        (-1, NoticeObstacle.TOO_EARLY),
        (1, NoticeObstacle.IN_FUTURE),
    ]:
        with pytest.raises(NoticeRefused) as refusal:
            notices.hand_over(
                officer.client, notice, officer.member, officer.actor,
                by="Peter", on=today + timedelta(days=days),
            )  # fmt: skip
        assert refusal.value.obstacle == obstacle
    assert not NoticeFact.objects.exists()


def test_company_is_handed_the_notice(api: Api, officer: Officer):
    item = company(email=EMAIL)
    item["checksRequested"] = ["CREDITBUREAU_COMP"]
    made = api.create({**item, "consent": person()["consent"]})["id"]
    api.work()

    decline(officer, made)

    assert AdverseNotice.objects.get().state == "UNDELIVERED"
    assert not messages()


def test_block_and_suspension_do_not_stop_the_notice(
    api: Api, officer: Officer, report_id: str
):
    block(api.workspace.pk, [("EMAIL", EMAIL)], Block.Reason.UNWANTED)
    decline(officer, report_id)
    api.workspace.suspend("Unpaid")

    assert deliver().state == "SERVED"


def test_resend_is_another_round_of_ten_at_most(officer: Officer, report_id: str):
    decline(officer, report_id)
    notice = deliver()

    with time_machine.travel(notices.now() + timedelta(minutes=2)):
        notices.resend(officer.client, notice.pk, officer.member)
    # The database's clock counts for the outbox.
    Notification.objects.filter(status="PENDING").update(next_attempt_at=notices.now())
    notice = deliver()

    assert (notice.rounds, notice.state) == (2, "SERVED")
    assert [fact.kind for fact in notice.facts.all()] == ["SENT", "SENT"]

    AdverseNotice.objects.update(rounds=notices.MAX_ROUNDS)
    with (
        time_machine.travel(notices.now() + timedelta(hours=1)),
        pytest.raises(NoticeRefused) as refusal,
    ):
        notices.resend(officer.client, notice.pk, officer.member)
    assert refusal.value.obstacle == NoticeObstacle.TOO_OFTEN
    assert len(messages()) == 2


def test_policy_declines_with_a_notice_whatever_it_rests_on(api: Api):
    decline_by_policy(api, create_report(api, "IDENTITY"))

    notice = AdverseNotice.objects.get()
    assert (notice.rests_on_bureau, notice.is_automated) == (False, True)


def test_waiting_decline_counts_after_its_days(
    api: Api, officer: Officer, report_id: str
):
    wait(5, api)
    made = decline(officer, report_id)
    assert (made.state, made.final_at) == ("WAITING", None)
    assert api.report(report_id)["decision"] is None
    assert api.report(report_id)["proposedDecision"]["id"] == str(made.pk)
    assert not Event.objects.filter(name="report.decided").exists()
    notice = deliver()
    assert notice.waits_until == add_working_time(notice.served_at, timedelta(days=5))

    with time_machine.travel(notice.waits_until - timedelta(minutes=1)):
        finish_waiting_declines()
    assert Decision.objects.get().state == "WAITING"
    with time_machine.travel(notice.waits_until):
        finish_waiting_declines()
        finish_waiting_declines()

    report = api.report(report_id)
    assert report["decision"]["state"] == "FINAL"
    assert report["decision"]["decidedAt"] > report["decision"]["madeAt"]
    assert Event.objects.filter(name="report.decided").count() == 1


def test_proposal_waits_on_when_the_decline_before_it_counts(
    api: Api, officer: Officer, report_id: str
):
    wait(5, api)
    made = decline(officer, report_id)
    notice = deliver()
    demand_second(api, score_from=0)
    proposal = officer.decide(report_id, "APPROVED", replaces=made.pk)

    with time_machine.travel(notice.waits_until):
        finish_waiting_declines()

    assert Decision.objects.get(pk=made.pk).state == "FINAL"
    case = Case.objects.get()
    assert (case.cause, case.closed_at) == ("PROPOSED", None)
    Officer(api, name="second").confirm(proposal)
    assert api.report(report_id)["decision"]["status"] == "APPROVED"
    assert Case.objects.filter(closed_at=None).count() == 0


def test_review_by_a_person_outlives_retry_and_cancellation(api: Api, officer: Officer):
    report_id = api.create(two_checks(idNumber=REFUSED, email=EMAIL))["id"]
    api.work()
    made = decline_by_policy(api, report_id)
    notice = deliver()
    retry(api, report_id)
    request_review(notice.pk)
    assert api.post(f"/reports/{report_id}/cancel").status_code == 200
    review_decisions(report_id)

    case = Case.objects.get()
    assert (case.cause, case.closed_at) == ("REQUESTED", None)
    officer.decide(report_id, "APPROVED", replaces=made.pk)

    assert AdverseNotice.objects.get().reviewed_at
    assert Case.objects.filter(closed_at=None).count() == 0


@pytest.mark.parametrize("by", ["member", "staff"])
def test_end_of_the_review_closes_the_case_of_a_cancelled_report(
    api: Api, officer: Officer, by: str
):
    wait(5, api)
    report_id = api.create(two_checks(idNumber=REFUSED, email=EMAIL))["id"]
    api.work()
    made = decline_by_policy(api, report_id)
    request_review(deliver().pk)
    retry(api, report_id)
    assert api.post(f"/reports/{report_id}/cancel").status_code == 200

    if by == "member":
        verbs.withdraw(officer.client, made.pk, officer.member, officer.actor)
    else:
        report = Report.objects.get(pk=report_id)
        notices.drop_reviews(report)
        verbs.close_after_review(report)

    assert Case.objects.get().closed_at
    with pytest.raises(ReportDecisionRefused) as refusal:
        officer.decide(report_id, "APPROVED")
    assert refusal.value.obstacle == Obstacle.CANCELLED


def test_clock_waits_for_the_service(api: Api, officer: Officer):
    wait(1, api)
    decline(officer, create_report(api, email=None))

    with time_machine.travel(notices.now() + timedelta(days=90)):
        finish_waiting_declines()
        assert Decision.objects.get().state == "WAITING"
        notice = AdverseNotice.objects.get()
        notices.hand_over(
            officer.client, notice.pk, officer.member, officer.actor,
            by="Peter", on=notices.now().astimezone(notices.NAIROBI).date(),
        )  # fmt: skip
    with time_machine.travel(notices.now() + timedelta(days=94)):
        finish_waiting_declines()
    assert Decision.objects.get().state == "FINAL"


def test_decline_of_a_suspended_workspace_counts_once_it_is_resumed(
    api: Api, officer: Officer, report_id: str
):
    wait(1, api)
    decline(officer, report_id)
    deliver()
    AdverseNotice.objects.update(waits_until=notices.now())
    api.workspace.suspend("Unpaid")

    with CaptureQueriesContext(connection) as captured:
        finish_waiting_declines()
    assert not any("FOR NO KEY UPDATE" in one["sql"] for one in captured)
    assert Decision.objects.get().state == "WAITING"

    api.workspace.resume()
    finish_waiting_declines()
    assert Decision.objects.get().state == "FINAL"


def test_correction_stops_the_clock(api: Api, officer: Officer, report_id: str):
    wait(5, api)
    decline(officer, report_id)
    until = deliver().waits_until
    correction = dispute(report_id, "CRB_SCORE")

    start = notices.now()
    finish_waiting_declines()
    with time_machine.travel(until + timedelta(days=1)):
        finish_waiting_declines()
        assert Decision.objects.get().state == "WAITING"
        corrections.withdraw(correction.pk)
        resumed = notices.now()
        finish_waiting_declines()
        notice = AdverseNotice.objects.get()

    assert notice.stopped_at is None
    left = working_time(start, until)
    assert working_time(resumed, notice.waits_until) >= left - timedelta(minutes=1)
    assert Decision.objects.get().state == "WAITING"
    with time_machine.travel(notice.waits_until):
        finish_waiting_declines()
    assert Decision.objects.get().state == "FINAL"


def test_clocks_that_neither_stop_nor_go_on_are_not_locked(
    api: Api, officer: Officer, report_id: str
):
    wait(5, api)
    decline(officer, report_id)
    deliver()
    dispute(report_id, "CRB_SCORE")
    decline(officer, create_report(api, email="other@kamau.test"))
    send_due_notifications()
    record_outcomes()

    for locked in (1, 0):
        with CaptureQueriesContext(connection) as captured:
            notices.move_clocks()
        assert sum("FOR NO KEY" in one["sql"] for one in captured) == locked


def correct(api: Api, report_id: str, check: str = "CRB_SCORE") -> None:
    correction = corrections.take(dispute(report_id, check).pk, reviewer())
    corrections.rerun(correction.pk, reviewer())
    api.work()
    corrections.correct(correction.pk, reviewer(), "The source was wrong.")


def test_corrected_result_ends_a_waiting_decline(
    api: Api, officer: Officer, report_id: str
):
    """The decline rests on all results, not on those of credit bureaus alone."""
    wait(1, api)
    decline(officer, report_id)
    deliver()

    correct(api, report_id, "IDENTITY")

    decision, case = Decision.objects.get(), Case.objects.get()
    assert (decision.state, decision.withdrawn_by) == ("WITHDRAWN", "service")
    assert AdverseNotice.objects.get().state == "ENDED"
    assert (case.cause, case.closed_at) == ("CHANGED", None)


def create_copy(api: Api, report_id: str) -> str:
    """Create a report that reuses the CRB_SCORE of another one."""
    copy = create_report(api)
    origin = CheckResult.objects.get(report=report_id, name="CRB_SCORE")
    found = CheckResult.objects.filter(report=copy, name="CRB_SCORE")
    found.update(reused_from_id=origin.pk)
    return copy


def test_correction_of_a_reused_finding_ends_the_waiting_decline_of_its_copy(
    api: Api, officer: Officer, report_id: str
):
    wait(1, api)
    copy = create_copy(api, report_id)
    decline(officer, copy)
    deliver()
    correction = corrections.take(dispute(report_id, "CRB_SCORE").pk, reviewer())
    AdverseNotice.objects.update(waits_until=notices.now())
    finish_waiting_declines()
    decision = Decision.objects.get()
    assert decision.state == "WAITING"
    assert AdverseNotice.objects.get().stopped_at
    corrections.rerun(correction.pk, reviewer())
    api.work()

    corrections.correct(correction.pk, reviewer(), "The source was wrong.")
    review_decisions(*Job.objects.get(function=JobName.REVIEW_DECISIONS).arguments)

    decision.refresh_from_db()
    assert decision.state == "WITHDRAWN"
    assert Case.objects.get().cause == "CHANGED"
    again = decline(officer, copy)
    review_decisions(copy)
    again.refresh_from_db()
    assert again.state == "WAITING"


def test_confirmed_finding_leaves_a_waiting_decline(api: Api, officer, report_id: str):
    wait(1, api)
    decline(officer, report_id)
    correction = corrections.take(dispute(report_id, "CRB_SCORE").pk, reviewer())
    corrections.rerun(correction.pk, reviewer())
    api.work()

    corrections.confirm(correction.pk, reviewer(), "It is right.")

    assert Decision.objects.get().state == "WAITING"
    assert not Case.objects.exists()


def create_failed_report(api: Api) -> str:
    set_max_attempts(1)
    report_id = create_ready_report(api, RECOVERS)
    assert api.report(report_id)["status"] == "FAILED"
    return report_id


def complete_by_retry(api: Api, report_id: str) -> None:
    set_max_attempts(3)
    retry(api, report_id)
    api.work()
    assert api.report(report_id)["status"] == "READY"


@pytest.mark.parametrize("verb", ["job", "clock"])
def test_retry_that_completes_checks_ends_a_waiting_decline(
    api: Api, officer: Officer, verb: str
):
    wait(1, api)
    report_id = create_failed_report(api)
    officer.decide(report_id)
    AdverseNotice.objects.update(waits_until=notices.now())

    complete_by_retry(api, report_id)
    if verb == "job":
        review_decisions(report_id)
    finish_waiting_declines()

    assert Decision.objects.get().state == "WITHDRAWN"
    assert Case.objects.get().cause == "CHANGED"
    assert Job.objects.get(function=JobName.REVIEW_DECISIONS).arguments == [report_id]


@pytest.mark.parametrize("waits", ["decline", "proposal"])
def test_cancellation_ends_what_waits_for_a_retried_report(
    api: Api, officer: Officer, waits: str
):
    wait(1, api)
    if waits == "proposal":
        demand_second(api)
    report_id = create_failed_report(api)
    officer.decide(report_id)
    retry(api, report_id)

    assert api.post(f"/reports/{report_id}/cancel").status_code == 200
    review_decisions(*Job.objects.get(function=JobName.REVIEW_DECISIONS).arguments)

    assert Decision.objects.get().state in {"WITHDRAWN", "REFUSED"}
    assert not Case.objects.filter(closed_at=None).exists()


def test_retry_that_fails_again_leaves_a_waiting_decline(api: Api, officer: Officer):
    wait(1, api)
    report_id = create_failed_report(api)
    officer.decide(report_id)

    retry(api, report_id)
    api.work()
    review_decisions(report_id)

    assert Decision.objects.get().state == "WAITING"


def test_proposal_about_former_findings_is_taken_back(
    api: Api, officer: Officer, second: Officer
):
    demand_second(api)
    report_id = create_failed_report(api)
    proposal = officer.decide(report_id)
    complete_by_retry(api, report_id)

    with pytest.raises(ReportDecisionRefused) as refusal:
        second.confirm(proposal)
    assert refusal.value.obstacle == Obstacle.CHANGED
    review_decisions(report_id)

    proposal.refresh_from_db()
    assert (proposal.state, proposal.second_by) == ("REFUSED", "service")
    case = Case.objects.get()
    assert (case.cause, case.closed_at) == ("CHANGED", None)


def test_decline_that_counts_gets_a_case_when_its_findings_change(
    api: Api, officer: Officer, second: Officer, report_id: str
):
    declined = decline(officer, report_id)
    deliver()
    correct(api, report_id)

    declined.refresh_from_db()
    assert declined.state == "FINAL"
    assert Case.objects.get(closed_at=None).cause == "CHANGED"
    # A proposal that is refused leaves it to be decided.
    maker = Maker.of_member(officer.member, officer.actor)
    new = NewDecision("APPROVED", replaces=declined.pk)
    second.refuse(verbs.decide(officer.client, report_id, new, maker, as_proposal=True))
    assert Case.objects.filter(closed_at=None).exists()
    assert not Notification.objects.filter(kind=Kind.REVIEW_ANSWER).exists()

    officer.decide(report_id, "APPROVED", replaces=declined.pk)

    assert not Case.objects.filter(closed_at=None).exists()
    told = Notification.objects.get(kind=Kind.REVIEW_ANSWER)
    assert (told.recipient, told.context["isDecidedAnew"]) == (EMAIL, True)


def test_key_only_proposes_after_a_correction(
    api: Api, officer: Officer, second: Officer, report_id: str
):
    key = deciding_api(api)
    declined = decide(key, report_id, OTHER)
    correct(api, report_id)

    proposal = decide(key, report_id, OTHER, replaces=declined["id"])

    assert proposal["state"] == "PENDING"
    second.confirm(Decision.objects.get(pk=proposal["id"]))
    # A person has decided on the present findings.
    again = decide(key, report_id, {"status": "APPROVED"}, replaces=proposal["id"])
    assert again["state"] == "FINAL"


def test_key_only_proposes_about_a_copy_of_a_corrected_finding(
    api: Api, second: Officer, report_id: str
):
    copy, key = create_copy(api, report_id), deciding_api(api)
    correct(api, report_id)

    proposal = decide(key, copy, OTHER)

    assert proposal["state"] == "PENDING"
    second.confirm(Decision.objects.get(pk=proposal["id"]))
    # A person has decided on the present findings.
    again = decide(key, copy, {"status": "APPROVED"}, replaces=proposal["id"])
    assert again["state"] == "FINAL"


def test_key_only_proposes_while_another_report_disputes_a_finding(
    api: Api, officer: Officer, report_id: str
):
    copy, key = create_copy(api, report_id), deciding_api(api)
    approved = str(officer.decide(copy, "APPROVED").pk)
    dispute(report_id, "CRB_SCORE")

    assert decide(key, copy, OTHER, replaces=approved)["state"] == "PENDING"
    # The disputed report shows its correction to the program.
    assert decide(key, report_id, OTHER)["state"] == "FINAL"


def test_key_only_proposes_while_a_review_by_a_person_is_open(
    api: Api, second: Officer, report_id: str
):
    declined = decline_by_policy(api, report_id)
    request_review(deliver().pk)

    key, replaces = deciding_api(api), str(declined.pk)
    proposal = decide(key, report_id, OTHER, replaces=replaces)

    assert proposal["state"] == "PENDING"
    assert Case.objects.get().closed_at is None
    second.refuse(Decision.objects.get(pk=proposal["id"]))
    case = Case.objects.get()
    assert (case.cause, case.closed_at) == ("REQUESTED", None)


def test_review_stops_the_clock(api: Api, officer: Officer, report_id: str):
    wait(1, api)
    decline_by_policy(api, report_id)
    notice = deliver()
    request_review(notice.pk)
    assert Case.objects.get().cause == "REQUESTED"

    with time_machine.travel(notice.waits_until + timedelta(days=1)):
        finish_waiting_declines()
    assert Decision.objects.get().state == "WAITING"


def test_review_stops_the_clock_of_a_newer_decline(
    api: Api, officer: Officer, report_id: str
):
    first = decline_by_policy(api, report_id)
    deliver()
    wait(1, api)
    newer = decline(officer, report_id, replaces=first.pk)
    send_due_notifications()
    record_outcomes()

    request_review(first.notice.pk)
    newer.notice.refresh_from_db()
    with time_machine.travel(newer.notice.waits_until):
        finish_waiting_declines()

    newer.refresh_from_db()
    assert newer.state == "WAITING"
    assert Case.objects.get().closed_at is None


def test_objection_ends_a_waiting_decline(api: Api, officer: Officer, report_id: str):
    wait(1, api)
    decline(officer, report_id)
    deliver()
    object_to_use(Report.objects.get().pk, Origin.SUBJECT, requested_by="subject")

    ended = Decision.objects.get()
    assert (ended.state, ended.withdrawn_by) == ("WITHDRAWN", "service")
    assert AdverseNotice.objects.get().state == "ENDED"
    assert Notification.objects.get(kind=Kind.REVIEW_ANSWER).context["isTakenBack"]


@pytest.mark.parametrize(("days", "objects_first"), [(0, 1), (5, 0)])
def test_person_who_objects_still_gets_the_review_that_the_notice_promised(
    api: Api, officer: Officer, report_id: str, days: int, objects_first: int
):
    if days:
        wait(days, api)
    first = decline_by_policy(api, report_id)
    notice = deliver()
    rights = [
        lambda: request_review(notice.pk),
        lambda: object_to_use(notice.report_id, Origin.SUBJECT, requested_by="subject"),
    ]
    for ask_for_right in reversed(rights) if objects_first else rights:
        ask_for_right()

    assert Case.objects.get().closed_at is None
    second = officer.decide(report_id, "APPROVED", replaces=first.pk)
    answer_reviews(report_id)
    assert SubjectRequest.objects.get(kind="REVIEW").outcome == "DONE"
    assert Case.objects.get().closed_at
    # The objection holds from then on.
    with pytest.raises(verbs.ReportDecisionRefused):
        decline(officer, report_id, replaces=second.pk)


def test_member_takes_a_waiting_decline_and_its_unsent_notice_back(
    api: Api, officer: Officer, second: Officer, report_id: str
):
    wait(5, api)
    made = decline(officer, report_id)

    verbs.withdraw(second.client, made.pk, second.member, second.actor)

    (message,) = messages()
    assert message.status == "CANCELLED"
    notice = deliver()
    assert (notice.state, notice.is_settled) == ("ENDED", True)
    assert not notice.facts.exists()
    made.refresh_from_db()
    assert made.state == "WITHDRAWN"
    assert made.withdrawn_by_user == second.member.user_id
    report = api.report(report_id)
    assert (report["decision"], report["proposedDecision"]) == (None, None)
    with pytest.raises(ReportDecisionRefused) as refusal:
        verbs.withdraw(officer.client, made.pk, officer.member, officer.actor)
    assert refusal.value.obstacle == Obstacle.ANSWERED


@pytest.mark.parametrize("ends", ["member", "review"])
def test_person_with_a_notice_hears_that_the_decline_is_taken_back(
    api: Api, officer: Officer, report_id: str, ends: str
):
    wait(5, api)
    made = decline(officer, report_id)
    deliver()

    if ends == "member":
        verbs.withdraw(officer.client, made.pk, officer.member, officer.actor)
    else:
        officer.decide(report_id, "REVIEW", replaces=made.pk)

    told = Notification.objects.get(kind=Kind.REVIEW_ANSWER)
    assert (told.recipient, told.context["isTakenBack"]) == (EMAIL, True)


def test_person_hears_of_the_withdrawal_when_a_newer_notice_was_not_sent(
    api: Api, officer: Officer, report_id: str
):
    wait(5, api)
    first = decline(officer, report_id)
    deliver()
    unserved = decline(officer, report_id, replaces=first.pk)

    verbs.withdraw(officer.client, unserved.pk, officer.member, officer.actor)

    told = Notification.objects.get(kind=Kind.REVIEW_ANSWER)
    assert told.context["isTakenBack"]


def test_keeping_a_report_in_review_does_not_answer_the_subject(
    api: Api, officer: Officer, report_id: str
):
    first = decline_by_policy(api, report_id)
    request_review(deliver().pk)
    # The objection holds, but for the review.
    object_to_use(Report.objects.get().pk, Origin.SUBJECT, requested_by="subject")

    kept = officer.decide(report_id, "REVIEW", replaces=first.pk)

    assert not Job.objects.filter(function=JobName.ANSWER_REVIEWS).exists()
    assert Case.objects.get().closed_at is None
    body = {"replaces": str(kept.pk)}
    assert decide(deciding_api(api), report_id, OTHER, **body)["state"] == "PENDING"
    officer.refuse(Decision.objects.get(state="PENDING"))

    officer.decide(report_id, "APPROVED", replaces=kept.pk)
    answer_reviews(report_id)

    assert SubjectRequest.objects.get(kind="REVIEW").outcome == "DONE"
    assert Notification.objects.filter(kind=Kind.REVIEW_ANSWER).count() == 1


@pytest.mark.parametrize("verb", ["withdraw", "REVIEW"])
def test_end_of_a_waiting_decline_leaves_no_case_that_nobody_can_decide(
    api: Api, officer: Officer, report_id: str, verb: str
):
    wait(5, api)
    made = decline_by_policy(api, report_id)
    request_review(deliver().pk)
    object_to_use(Report.objects.get().pk, Origin.SUBJECT, requested_by="subject")

    if verb == "withdraw":
        verbs.withdraw(officer.client, made.pk, officer.member, officer.actor)
    else:
        officer.decide(report_id, verb, replaces=made.pk)
    answer_reviews(report_id)

    assert SubjectRequest.objects.get(kind="REVIEW").outcome == "DONE"
    assert Case.objects.get().closed_at


def test_answer_to_a_review_has_a_link_that_works_when_the_last_has_expired(
    api: Api, officer: Officer, report_id: str
):
    first = decline_by_policy(api, report_id)
    request_review(deliver().pk)

    with time_machine.travel(now() + timedelta(days=settings.ACCESS_LINK_DAYS + 1)):
        officer.decide(report_id, "APPROVED", replaces=first.pk)
        answer_reviews(report_id)
        told = Notification.objects.get(kind=Kind.REVIEW_ANSWER)
        visitor = Visitor(told.context["link"])
        visitor.open()

        page = visitor.browser.get(visitor.page, follow=True)

    assert page.status_code == 200


def test_person_hears_of_the_approval_after_a_decline_that_no_notice_told(
    officer: Officer, report_id: str
):
    first = decline(officer, report_id)
    deliver()
    unserved = decline(officer, report_id, replaces=first.pk)

    officer.decide(report_id, "APPROVED", replaces=unserved.pk)

    told = Notification.objects.get(kind=Kind.REVIEW_ANSWER)
    assert told.context["isDecidedAnew"]


def test_approval_takes_the_place_of_a_waiting_decline(
    api: Api, officer: Officer, report_id: str
):
    wait(5, api)
    made = decline(officer, report_id)

    with pytest.raises(ReportDecisionRefused) as refusal:
        officer.decide(report_id, "APPROVED")
    assert refusal.value.decision_id == made.pk
    officer.decide(report_id, "APPROVED", replaces=made.pk)

    made.refresh_from_db()
    assert made.state == "WITHDRAWN"
    assert api.report(report_id)["decision"]["status"] == "APPROVED"


def test_decision_ends_the_unserved_notice_of_the_decline_it_replaces(
    api: Api, officer: Officer
):
    declined = decline(officer, create_report(api, email=None))
    officer.decide(declined.report_id, "APPROVED", replaces=declined.pk)

    assert AdverseNotice.objects.get().state == "ENDED"


def test_second_member_confirms_before_the_decline_waits(
    api: Api, officer: Officer, second: Officer, report_id: str
):
    wait(5, api)
    maker = Maker.of_member(officer.member, officer.actor)
    new = NewDecision("DECLINED", ["OWN_CRITERIA"])
    made = verbs.decide(officer.client, report_id, new, maker, as_proposal=True)
    assert not AdverseNotice.objects.exists()

    confirmed = second.confirm(made)

    assert confirmed.state == "WAITING"
    notice = AdverseNotice.objects.get()
    with time_machine.travel(notice.created_at + timedelta(days=9)):
        deliver()
    with time_machine.travel(notice.created_at + timedelta(days=30)):
        finish_waiting_declines()
    assert Decision.objects.get().state == "FINAL"


def test_erasure_ends_notice_and_waiting_decline(
    api: Api, officer: Officer, report_id: str
):
    wait(5, api)
    decline(officer, report_id)
    deliver()

    erase(api, report_id)

    assert Decision.objects.get().state == "WITHDRAWN"
    notice = AdverseNotice.objects.get()
    assert (notice.state, notice.facts.get().details) == ("ENDED", None)
    with time_machine.travel(notices.now() + timedelta(days=30)):
        finish_waiting_declines()
    assert not Event.objects.filter(name="report.decided").exists()


def test_notice_that_arrives_at_a_weekend_leaves_all_working_days(
    api: Api, officer: Officer, report_id: str
):
    wait(5, api)
    decline(officer, report_id)
    send_due_notifications()
    Notification.objects.update(sent_at=datetime.fromisoformat("2027-01-10T20:59Z"))

    record_outcomes()

    until = AdverseNotice.objects.get().waits_until
    assert until == datetime.fromisoformat("2027-01-15T21:00Z")


def test_weekend_after_a_correction_does_not_shorten_the_wait(
    api: Api, officer: Officer, report_id: str
):
    wait(4, api)
    decline(officer, report_id)
    deliver()
    monday, thursday = (
        datetime.fromisoformat(f"2026-11-{day}T09:00Z") for day in (23, 26)
    )
    AdverseNotice.objects.update(
        waits_until=add_working_time(monday, timedelta(days=4))
    )

    with time_machine.travel(monday, tick=False):
        correction = dispute(report_id, "CRB_SCORE")
        finish_waiting_declines()
    with time_machine.travel(thursday, tick=False):
        corrections.withdraw(correction.pk)
        finish_waiting_declines()

    until = AdverseNotice.objects.get().waits_until
    assert until == datetime.fromisoformat("2026-12-02T09:00Z")


@pytest.mark.parametrize(
    ("at", "hours", "until"),
    [
        ("2026-11-23T09:00Z", 24, "2026-11-24T09:00Z"),
        # Midnight of Nairobi
        ("2026-11-23T09:00Z", 12, "2026-11-23T21:00Z"),
        ("2026-11-27T09:00Z", 13, "2026-11-29T22:00Z"),
        ("2026-11-28T09:00Z", 1, "2026-11-29T22:00Z"),
        ("2026-11-28T09:00Z", 0, "2026-11-29T21:00Z"),
        ("2027-01-04T09:00Z", 120, "2027-01-11T09:00Z"),
        ("2027-01-08T20:59Z", 120, "2027-01-15T20:59Z"),
        # Saturday and Sunday in Nairobi
        ("2027-01-08T22:00Z", 120, "2027-01-15T21:00Z"),
        ("2027-01-10T20:59Z", 120, "2027-01-15T21:00Z"),
    ],
)
def test_working_time_goes_on_after_a_weekend(at: str, hours: int, until: str):
    moment, end = datetime.fromisoformat(at), datetime.fromisoformat(until)
    assert add_working_time(moment, timedelta(hours=hours)) == end
    assert working_time(moment, end) == timedelta(hours=hours)


def document_data(notice: AdverseNotice) -> dict[str, Any]:
    """Return what the document is made of: to draw it costs more than the test."""
    return _data_of(notice, "en", proof=False)


def test_pdf_and_copy_of_the_data_name_no_day_while_the_clock_stands_or_after(
    api: Api, officer: Officer, report_id: str
):
    wait(5, api)
    made = decline(officer, report_id)
    deliver()

    def tells_day() -> tuple[bool, bool]:
        notice = AdverseNotice.objects.select_related("decision").get()
        pdf, json = document_data(notice), _notice_json(notice)
        return bool(pdf["waitsUntil"]), bool(json["waitsUntil"])

    assert tells_day() == (True, True)
    correction = dispute(report_id, "CRB_SCORE")
    finish_waiting_declines()
    assert tells_day() == (False, False)
    corrections.withdraw(correction.pk)
    finish_waiting_declines()
    assert tells_day() == (True, True)
    verbs.withdraw(officer.client, made.pk, officer.member, officer.actor)
    assert tells_day() == (False, False)


def test_pdf_says_what_has_become_of_the_decline(
    api: Api, officer: Officer, report_id: str
):
    wait(5, api)
    made = decline(officer, report_id)

    def text() -> str:
        return first_page(AdverseNotice.objects.get())

    assert "It does not count yet." in text()
    deliver()
    assert "State" not in text()
    assert "Does not count before" in text()
    verbs.withdraw(officer.client, made.pk, officer.member, officer.actor)
    assert "Taken back: it does not count." in text()
    officer.decide(report_id, "APPROVED")
    assert "There is a new decision: your application is approved." in text()


def first_page(notice: AdverseNotice) -> str:
    page = PdfReader(io.BytesIO(notice_pdf(notice))).pages[0]
    return " ".join(page.extract_text().split())


def test_proof_of_an_erased_notice_names_no_address(
    api: Api, officer: Officer, report_id: str
):
    def text(language: str) -> str:
        notice = AdverseNotice.objects.get()
        page = PdfReader(io.BytesIO(notice_pdf(notice, language, proof=True))).pages[-1]
        return " ".join(page.extract_text().split())

    decline(officer, report_id)
    deliver()
    assert "kwa barua pepe kwenda w••••@kamau.test" in text("sw")
    erase(api, report_id)
    assert "Sent by e-mail Notice" in text("en")
    assert "kwa barua pepe Notisi" in text("sw")


def test_pdf_offers_no_review_that_nobody_can_ask_for(
    api: Api, officer: Officer, report_id: str
):
    decline_by_policy(api, report_id)
    offer = "You can ask for a review by a person"
    assert offer in first_page(AdverseNotice.objects.get())

    request_review(AdverseNotice.objects.get().pk)

    text = first_page(AdverseNotice.objects.get())
    assert "Rules decided this automatically, without a person." in text
    assert offer not in text
