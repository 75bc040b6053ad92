"""Rules that the links and pages of all visitors keep."""

from uuid import UUID

import pytest
from django.test import Client

from tests.hosted.test_links import PLACES as SUBJECT_PLACES
from tests.hosted.test_payment_safety import PLACES as PAYER_PLACES
from tests.references.conftest import paying_api as paying_api
from tests.world.orders import count_rows
from tests.world.payer import create_payer, poll_providers
from tests.world.referee import ANSWER
from tests.world.referee import PLACES as REFEREE_PLACES
from tests.world.referee import referee as referee
from tests.world.subject import Visitor
from verification import links

pytestmark = pytest.mark.django_db


@pytest.fixture
def visitors(ask, api, referee):
    """The subject, payer and referee, and the person who adds money, each by a link."""
    owner = Visitor(links.top_up_url(api.account.pk))
    return ask(), create_payer(api), referee, owner


def token_of(visitor):
    return visitor.link.rpartition("/")[2]


def test_link_leads_to_a_page_without_its_token(visitors):
    for visitor in visitors:
        answer = Client().get(visitor.link)

        assert answer.status_code == 303
        _, kind, visit, row, _ = answer["Location"].split("/")
        assert (kind, visit, str(UUID(row))) == (visitor.link[1], "v", row)
        cookie = answer.cookies["visit"]
        assert cookie["path"] == answer["Location"]
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
        visitor.open()
        for text in (answer.content.decode(), cookie.value, visitor.text()):
            assert token_of(visitor) not in text


def test_every_wrong_link_gets_the_same_answer(visitors):
    plain = Client().get("/c/nothing").content
    for visitor in visitors:
        start, _, token = visitor.link.rpartition("/")
        row = UUID(visitor.open().split("/")[3])
        for wrong in (
            token[:-1],
            token[:-1] + ("a" if token[-1] != "a" else "b"),
            token + "0",
            "é" * 22,
            "a" * 5000,
            *(token_of(other) for other in visitors if other is not visitor),
            # Of the same row for another purpose, or before its link
            *(links.token("genuine", row, 1), links.token("consent", row, 2)),
        ):
            answer = Client().get(f"{start}/{wrong}")

            assert (answer.status_code, answer.content) == (404, plain), wrong
            assert not answer.cookies, wrong


def test_every_page_asks_for_the_link_without_a_visit(visitors):
    places = (
        [*SUBJECT_PLACES, "receipt.pdf"],
        PAYER_PLACES,
        [*REFEREE_PLACES, "receipt.pdf"],
        ["", "paid", "state"],
    )
    for visitor in visitors:
        visitor.open()
    before = count_rows()

    for visitor, its_places in zip(visitors, places, strict=True):
        for cookie in ("", "e30:1abc:def"):
            visitor.browser.cookies["visit"] = cookie
            assert visitor.get().status_code == 403
        visitor.browser.cookies["visit"] = "forged"
        for place in its_places:
            at = visitor.page + place
            assert visitor.browser.get(at).status_code == 403, at
            assert visitor.browser.post(at).status_code in {403, 405}, at
    assert count_rows() == before


def test_form_of_another_site_is_refused(visitors):
    for visitor in visitors:
        visitor.open()
    before = count_rows()

    for visitor, place in zip(visitors, ("decline", "pay", "submit", ""), strict=True):
        browser = Client(enforce_csrf_checks=True)
        browser.cookies = visitor.browser.cookies
        answer = browser.post(visitor.page + place)

        assert answer.status_code == 403
        assert b"Please try again" in answer.content
    assert count_rows() == before


def test_every_answer_is_private_and_strict(visitors):
    answers = []
    for visitor in visitors:
        visitor.open()
        answers += [
            visitor.browser.get(visitor.link),
            visitor.get(),
            Client().get(visitor.link + "x"),
            Client().get(visitor.page),
        ]
    subject, payer, referee, owner = visitors
    too_large = [
        Client().post(page, {"x": "y" * 70_000})
        for page in (subject.page + "grant", referee.page + "submit")
    ]
    assert [answer.status_code for answer in too_large] == [413, 413]
    answers += [
        *too_large,
        subject.get("not-me"),
        subject.post("confirm", day="x"),
        payer.post("pay"),
        payer.browser.get(f"/sandbox/checkout/{payer.checkout.pk}"),
        payer.get(f"back/{payer.checkout.pk}"),
        referee.get("decline"),
        referee.post("submit"),
        owner.post("", amount="x"),
    ]

    for answer in answers:
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "script-src" not in policy
        assert answer["Referrer-Policy"] == "same-origin"
        assert answer["Cache-Control"] == "no-store"
        assert "noindex" in answer["X-Robots-Tag"]
        assert answer["X-Request-Id"]


def test_log_names_neither_token_nor_person(visitors, caplog):
    for visitor in visitors:
        visitor.open()
    _, payer, referee, _ = visitors
    payer.choose("pay")
    poll_providers()
    referee.post("submit", **ANSWER)

    logged = str([record.__dict__ for record in caplog.records])
    for kind in ("c/", "p/", "r/", "t/<uuid:account>/"):
        assert f"{kind}<str:token>" in logged
    for visitor in visitors:
        assert visitor.link.rpartition("/")[2] not in logged
    for person in ("Wanjiku", "wanjiku@", "Amina"):
        assert person not in logged
