import re

import time_machine
from django.test import Client
from django.utils.timezone import now, timedelta

from tests.hosted.test_pages import PAGE_BYTES, size_of
from tests.references.conftest import paying_api as paying_api
from tests.world.clients import Api
from tests.world.clock import let_days_pass
from tests.world.employer import create_reference
from tests.world.referee import ANSWER, saved_reference, visit_as_referee
from tests.world.referee import referee as referee
from tests.world.subject import Visitor, visible_text
from verification.references.requests import reference_links

SCRIPT = "<script>alert(1)</script>{{ 7 }}"
# Its control characters change the order of the words after it.
TURNED = "Acme\u202e\n\n\u2066DO NOT AGREE\u2028"


def test_replaced_link_says_so_and_works_nowhere(
    referee: Visitor,
):
    referee.open()
    let_days_pass(1)
    newer = visit_as_referee(reference_links.renew(referee.reference.pk))

    assert referee.post("submit", **ANSWER).status_code == 303
    page = referee.get()
    assert page.status_code == 410
    assert b"This link was replaced" in page.content
    referee.open()
    assert referee.get().status_code == 410
    newer.open()
    newer.post("submit", **ANSWER)
    assert saved_reference(referee).status == "SUBMITTED"


def test_link_of_a_cancelled_report_is_dead(paying_api: Api, referee: Visitor):
    referee.open()
    paying_api.post(f"/reports/{referee.reference.report_id}/cancel")

    referee.post("submit", **ANSWER)

    page = referee.get()
    assert page.status_code == 410
    assert b"Your answer is not needed any longer" in page.content
    assert b"Wanjiku" not in page.content
    assert saved_reference(referee).status == "EXPIRED"


def test_visit_opens_no_other_reference(paying_api: Api, referee: Visitor):
    another = visit_as_referee(create_reference(paying_api, idNumber="87654321"))
    referee.open(), another.open()
    stranger = Client()
    stranger.cookies["visit"] = referee.browser.cookies["visit"].value

    assert stranger.get(referee.page).status_code == 200
    assert stranger.get(another.page).status_code == 403
    assert stranger.post(another.page + "submit", ANSWER).status_code == 403


def test_scripts_and_reversed_names_are_plain_text(paying_api: Api):
    name = f"{TURNED}{SCRIPT}"
    paying_api.workspace.name = name
    paying_api.workspace.save()
    referee = visit_as_referee(
        create_reference(paying_api, fullName=name, employerName=name, refereeName=name)
    )
    referee.open()

    wrong = referee.post("submit", **ANSWER | {"remarks": SCRIPT, "name": ""})
    for page in (referee.text(), referee.text("decline"), wrong.content.decode()):
        assert "<script" not in page
        assert SCRIPT in visible_text(page)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029]", page)
        assert "<bdi>Acme DO NOT AGREE" in page


def test_page_is_small_and_needs_few_queries(
    referee: Visitor, django_assert_max_num_queries
):
    referee.open()
    with django_assert_max_num_queries(5):
        page = referee.get()

    assert size_of(page) < PAGE_BYTES
    assert b"<script" not in page.content


def test_visit_ends_after_a_day(referee: Visitor):
    referee.open()

    # A referee may type for longer than a working day.
    for hours, status in [(23, 200), (24, 403)]:
        with time_machine.travel(now() + timedelta(hours=hours, seconds=1)):
            assert referee.get().status_code == status


def test_page_is_in_kiswahili(referee: Visitor):
    referee.browser = Client(headers={"Accept-Language": "sw-KE,sw;q=0.9,en;q=0.5"})
    referee.open()

    assert "Uthibitisho wa kazi wa Wanjiku Kamau" in visible_text(referee.text())
    wrong = referee.post("submit", employed="YES").content.decode()
    assert "Andika jina la mwajiri" in wrong
