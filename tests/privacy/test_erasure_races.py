"""Erasing a person while others write about them: nothing that they wrote is left."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from tests.checks.engine import definitions, found, only_result
from tests.fakes.server import Answer, Request
from tests.fakes.smile_id import FakeSmileId
from tests.privacy.canaries import Found, find_in, table_values
from tests.privacy.marks import World
from tests.privacy.marks import live_source as live_source
from tests.privacy.marks import sources as sources
from tests.privacy.marks import world as world
from tests.world.addresses import list_pages
from tests.world.clients import HOSTED, Api, erase, person, request_erasure
from tests.world.corrections import reviewer
from tests.world.deliveries import (
    configure_receiver,
    ended_fields,
    update_delivery,
)
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.payer import Payer
from tests.world.payments import poll_checkouts, post_event
from tests.world.receiver import Received, Script
from tests.world.receiver import authority as authority
from tests.world.receiver import receiver as receiver
from tests.world.referee import visit_as_referee
from tests.world.refunds import paystack_api as paystack_api
from tests.world.refunds import send_waiting_refunds
from tests.world.subject import Visitor
from tests.world.threads import (
    count_waiting,
    run_at_once,
    start,
    start_and_block,
    uncommitted,
)
from tests.world.waiting import until
from verification.backoffice import audit
from verification.checks.due_checks import claim
from verification.checks.models import CheckResult
from verification.checks.results import record_outcomes
from verification.hosted.urls import consent_urls, payment_urls, reference_urls
from verification.payments.models import Refund
from verification.privacy.corrections import CorrectionRefused, correct, rerun, take
from verification.privacy.erasure import erase_person
from verification.privacy.models import Erasure
from verification.references.models import Reference
from verification.reports.models import Report
from webhooks.configuration import remove
from webhooks.delivery import send_due_deliveries
from webhooks.models import Delivery, Event
from workspaces.models import Account

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
SECONDS = 90


@contextmanager
def running(action: Callable[[], object]) -> Iterator[None]:
    """Run an action in a thread beside the block; its exceptions are raised here."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            action()
        except Exception as e:
            raised.append(e)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert raised == []


def marks(world: World) -> Found:
    return find_in(world.canaries, table_values())


@pytest.fixture
def subject(world: World) -> dict[str, Any]:
    world.make_subjects()
    return world.person


@pytest.mark.parametrize(("status", "ended"), [(200, "COMPLETED"), (400, "FAILED")])
def test_answer_of_a_source_that_is_being_asked_is_dropped(
    world: World,
    subject: dict[str, Any],
    smile_id: FakeSmileId,
    log_lines: LogLines,
    status: int,
    ended: str,
):
    arrived, erased = threading.Event(), threading.Event()
    answer = smile_id.api
    mark = world.canaries.text("source.refusal")

    def answer_late(request: Request) -> Answer:
        arrived.set()
        assert erased.wait(SECONDS)
        if status == 200:
            return answer(request)
        return Answer(status, {"error": mark, "code": mark, "ResultText": mark})

    smile_id.api = answer_late  # type: ignore[method-assign]
    made = world.create(world.item())
    with running(world.api.work):
        assert arrived.wait(SECONDS)
        erase(world.api, made["id"])
        erased.set()

    (result,) = world.api.report(made["id"])["checkResults"]
    assert (result["status"], result["details"]) == (ended, None)
    assert marks(world) == {}
    assert find_in(world.canaries, iter([("log", json.dumps(log_lines()))])) == {}


def test_finding_that_is_being_recorded_is_erased(api: Api):
    made = api.create({**person(), "checksRequested": ["IDENTITY"]})
    (claimed,) = claim(1)
    erasure = request_erasure(api, made["id"])

    with uncommitted(lambda: record_outcomes([(claimed, found(5))], definitions())):
        erasing = start_and_block(lambda: erase_person(erasure["id"]))
    erasing.result(SECONDS)

    result = only_result()
    assert (result.status, result.finding) == ("COMPLETED", None)
    assert api.report(made["id"])["erasedAt"] is not None
    kept = Event.objects.filter(payload__isnull=False)
    assert [event.name for event in kept] == ["report.erased"]


def test_answer_of_a_receiver_that_is_being_sent_to_is_dropped(
    world: World, subject: dict[str, Any]
):
    arrived, erased = threading.Event(), threading.Event()
    mark = world.canaries.text("receiver.late answer").encode()
    world.fail_deliveries()

    def answer_late(received: Received) -> Script:
        arrived.set()
        assert erased.wait(SECONDS)
        return Script(status=500, body=mark + received.body)

    world.receiver.scripts["/hook"] = answer_late
    made = world.create(world.item())
    with running(send_due_deliveries):
        assert arrived.wait(SECONDS)
        erase(world.api, made["id"])
        erased.set()
    received = len(world.receiver.received)
    send_due_deliveries()

    assert len(world.receiver.received) == received
    assert marks(world) == {}


def test_payment_that_is_open_is_given_back_without_a_payer(
    world: World, subject: dict[str, Any]
):
    c = world.canaries
    payer = {"name": c.name("PayerInput.name"), "email": c.email("PayerInput.email")}
    made = world.create(world.item(paymentMode="THIRD_PARTY", payer=payer))
    page = Payer(made["id"])
    page.open()
    page.pay()
    checkout = page.checkout
    erase(world.api, made["id"])
    assert marks(world) == {}

    world.paystack.pay(checkout.reference)
    event = world.paystack.events[-1]
    event["data"]["customer"]["email"] = c.email("paystack.email")
    event["data"]["customer"]["phone"] = c.phone("paystack.phone")
    body, headers = world.paystack.signed(event)
    assert post_event(body, headers).status_code == 200
    poll_checkouts(checkout)
    send_waiting_refunds()
    world.paystack.settle_refunds()
    send_waiting_refunds()

    assert Refund.objects.get().status == "DONE"
    assert page.browser.get(page.page).status_code == 410
    assert marks(world) == {}


def test_pages_that_are_open_store_nothing_more(world: World, subject: dict[str, Any]):
    c = world.canaries
    employment = {
        "employerName": "Baraka Logistics",
        "refereeName": "Amina Said",
        "refereeEmail": "amina@baraka.test",
    }
    item = {"subject": {**subject, **employment}, "reuse": False}
    asked, granted = (world.create(world.item(consent=HOSTED)) for _ in range(2))
    reference = world.create(world.item("EMPLOYER_VERIFICATION", **item))
    paid = world.create(world.item(paymentMode="CANDIDATE", reuse=False))
    world.api.work()
    visitors = [Visitor(one["consentState"]["consentUrl"]) for one in (asked, granted)]
    year, month, day = subject["dateOfBirth"].split("-")
    for visitor in visitors:
        visitor.open()
        world.confirm(visitor, day=day, month=month, year=year)
    forms = [visitor.form() | {"name": subject["fullName"]} for visitor in visitors]
    assert visitors[1].post("grant", **forms[1]).status_code == 303
    referee = visit_as_referee(Reference.objects.get(report=reference["id"]))
    referee.open()
    payer = Payer(paid["id"])
    payer.open()

    erase(world.api, asked["id"])
    assert marks(world) == {}

    typed = {
        "name": c.name("late name"),
        "reason": c.text("late reason"),
        "remarks": c.text("late remarks"),
        "phone": f"07{c.digits('late phone')}",
        "answer": c.word("late answer"),
    }
    for visitor, form in zip(visitors, forms, strict=True):
        post_everywhere(visitor, consent_urls, typed | form)
    post_everywhere(referee, reference_urls, typed)
    post_everywhere(payer, payment_urls, typed)

    assert marks(world) == {}
    statuses = set(Report.objects.values_list("status", flat=True))
    assert statuses <= {"CANCELLED", "READY", "FAILED", "PARTIAL"}


def post_everywhere(
    visitor: Visitor, urls: Sequence[Any], typed: dict[str, str]
) -> None:
    """Read each page of these addresses, and post the form to it."""
    assert urls
    for path, _name in list_pages(urls):
        place = path.removeprefix("v/<uuid:row>/")
        if "<" not in place:
            for answer in (visitor.get(place), visitor.post(place, **typed)):
                assert answer.status_code < 500, place


def test_correction_that_is_open_is_withdrawn_and_its_rerun_dropped(
    world: World, subject: dict[str, Any], smile_id: FakeSmileId
):
    made = world.create(world.item())
    world.api.work()
    correction = world.dispute(CheckResult.objects.get(report=made["id"]))
    take(correction.pk, reviewer())
    rerun(correction.pk, reviewer(), {"fullName": world.canaries.name("detail")})
    arrived, erased = threading.Event(), threading.Event()
    answer = smile_id.api

    def answer_late(request: Request) -> Answer:
        arrived.set()
        assert erased.wait(SECONDS)
        return answer(request)

    smile_id.api = answer_late  # type: ignore[method-assign]
    with running(world.api.work):
        assert arrived.wait(SECONDS)
        erase(world.api, made["id"])
        erased.set()

    correction.refresh_from_db()
    assert correction.status == "WITHDRAWN"
    with pytest.raises(CorrectionRefused):
        correct(correction.pk, reviewer(), world.canaries.text("late reason"))
    assert marks(world) == {}


def test_second_request_gets_the_erasure_that_ends_beside_it(api: Api):
    report = api.create(person())["id"]
    first = request_erasure(api, report)
    erasing: list[Future[Any]] = []

    def erase_meanwhile(run: Any, sql: str, *arguments: Any) -> Any:
        if "privacy_erasure" in sql and not erasing:
            erasing.append(start(lambda: erase_person(first["id"])))
            until(lambda: erasing[0].done() or count_waiting())
        return run(sql, *arguments)

    with connection.execute_wrapper(erase_meanwhile):
        again = request_erasure(api, report)
    erasing[0].result(SECONDS)

    assert again["id"] == first["id"]
    assert Erasure.objects.get().ended_at is not None


def test_two_erasures_at_once_and_checks_beside_them_end_as_one(
    world: World, subject: dict[str, Any]
):
    reports = [world.create(world.item(reuse=False))["id"] for _ in range(8)]

    def act(number: int) -> None:
        if number % 2:
            world.api.work()
        else:
            made = request_erasure(world.api, reports[number])
            erase_person(made["id"])

    assert run_at_once(4, act) == [None] * 4
    # A job that found another at work did nothing.
    for erasure in Erasure.objects.filter(ended_at=None):
        erase_person(str(erasure.pk))

    assert Erasure.objects.count() == 1
    assert not Report.objects.filter(erased_at=None).exists()
    assert marks(world) == {}


def test_erasure_waits_for_deliveries_before_it_locks_the_account(api: Api):
    configure_receiver(api.workspace)
    made = api.create(person())
    erasure = request_erasure(api, made["id"])
    accounts = Account.objects.select_for_update(nowait=True)

    with uncommitted(lambda: api.create(person(idNumber="22222222"), draft=True)):
        # It has locked the deliveries, and waits for the event of the draft.
        removing = start_and_block(
            lambda: remove(api.workspace.pk, "sandbox", audit.SERVICE)
        )
        erasing = start_and_block(lambda: erase_person(erasure["id"]))
        with transaction.atomic():
            accounts.get(pk=api.account.pk)
    removing.result(SECONDS)
    erasing.result(SECONDS)

    report = Report.objects.get(pk=made["id"])
    assert report.erased_at is not None
    assert Account.objects.get(pk=api.account.pk).balance == 0


def test_erasure_leaves_ended_deliveries_to_the_removal_of_a_receiver(api: Api):
    configure_receiver(api.workspace)
    made = api.create(person())
    api.work()
    ended, *_, waiting = Delivery.objects.order_by("pk")
    update_delivery(ended, **ended_fields("DELIVERED"))
    erasure = request_erasure(api, made["id"])
    rows = Delivery.objects.select_for_update(nowait=True)

    with uncommitted(lambda: rows.get(pk=waiting.pk)):
        erasing = start_and_block(lambda: erase_person(erasure["id"]))
        with transaction.atomic():
            rows.get(pk=ended.pk)

    erasing.result(SECONDS)
