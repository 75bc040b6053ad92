import gzip
import re

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from tests.hosted.test_names import CONTROLS, TURNED
from tests.world.policies import DECLINE_HIGH, switch_on
from tests.world.subject import visible_text
from verification.consents.models import ConsentRecord
from verification.hosted.forms import GrantForm

pytestmark = pytest.mark.django_db

# The HTML and the style sheet of a hosted page, not compressed
PAGE_BYTES = 20 * 1024
SCRIPT = "<script>alert(1)</script>{{ 7 }}{purpose}"


def size_of(page):
    """Return the bytes of the page and of its style sheet."""
    with open(finders.find("verification/hosted.css"), "rb") as file:
        return len(page.content) + len(file.read())


def test_whole_page_is_small(ask):
    page = ask().enter()

    assert size_of(page) < PAGE_BYTES
    assert b"<script" not in page.content
    assert len(gzip.compress(page.content)) < size_of(page) / 4


def test_page_with_all_countries_is_small():
    for language in ("en", "sw"):
        page = Client().get("/my-data", {"lang": language})

        assert page.content.count(b"<option") > 200
        assert size_of(page) < PAGE_BYTES


def test_scripts_and_reversed_names_are_text(api, ask):
    name = f"{TURNED}{SCRIPT}"
    api.workspace.name = name
    api.workspace.save()
    visitor = ask(purpose=name, reference=name, subject={"fullName": name})
    visitor.open()
    pages = {"challenge": visitor.text()}
    visitor.prove()
    pages |= {at: visitor.text(at) for at in ("", "decline", "not-me")}
    visitor.grant(name=name)
    pages |= {"granted": visitor.text(), "withdraw": visitor.text("withdraw")}
    visitor.post("withdraw", reason=SCRIPT)
    pages["withdrawn"] = visitor.text()

    for at, page in pages.items():
        assert "<script" not in page, at
        assert SCRIPT in visible_text(page), at
        assert not CONTROLS.search(page), at
        assert "<bdi>Acme DO NOT AGREE" in page, at
        heading = re.search("<h1>(.*?)</h1>", page, re.DOTALL)
        assert heading
        assert "\n" not in heading[1], at
    # Name, purpose, reference and requester; the requester is in our sentences, too.
    assert pages[""].count("<bdi>Acme DO NOT AGREE") > 8
    typed = ConsentRecord.objects.first().evidence["typedName"]
    assert typed.endswith(SCRIPT)


def test_form_of_10_mb_is_refused_before_it_is_read(ask):
    visitor = ask()
    visitor.open()
    body = b"name=" + b"x" * 10 * 1024 * 1024
    for kind in (
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
    ):
        answer = visitor.browser.post(visitor.page + "grant", body, content_type=kind)

        assert answer.status_code == 413
        assert b"larger than this form allows" in answer.content
    assert not ConsentRecord.objects.exists()


def test_invalid_form_names_errors_and_keeps_the_rest(ask):
    visitor = ask()
    visitor.prove()
    for name in ("", "   ", "x"):
        assert "Type your full name" in str(GrantForm({"name": name}).errors["name"])
    for form, error in [
        ({"name": "x" * 201}, "at most 200 characters"),
        ({"agreed": ""}, "Tick the box if you agree"),
    ]:
        assert visitor.grant(**form)["Location"] == visitor.page

        page = visitor.text()
        assert "<title>Error: " in page
        assert error in page
        assert 'class="errors" role="alert"' in page
    assert 'value="Wanjiku Kamau"' in page
    assert 'value="Wanjiku Kamau"' in visitor.text("?lang=sw")
    assert not ConsentRecord.objects.exists()


def test_grant_of_a_changed_notice_is_refused(api, ask):
    visitor = ask()
    visitor.prove()
    form = visitor.form()
    api.workspace.sandbox_retention_days = 3650
    api.workspace.save()

    answer = visitor.post("grant", **form)

    page = visitor.browser.get(answer["Location"]).content.decode()
    assert "This page has changed" in page
    assert "<title>Error: " in page
    assert 'tabindex="-1" autofocus' in page
    page = visitor.text("?lang=en")
    assert "This page has changed" in page
    assert "Tick the box" not in page
    # The name stays; the new text needs its own tick.
    assert f'value="{form["name"]}"' in page
    assert 'name="agreed" checked' not in page
    assert not ConsentRecord.objects.exists()
    visitor.grant()
    assert "3650 days" in ConsentRecord.objects.get().evidence["text"]


def test_grant_is_refused_when_rules_may_decide_meanwhile(api, ask):
    visitor = ask()
    visitor.prove()
    form = visitor.form()
    switch_on(api, DECLINE_HIGH)

    answer = visitor.post("grant", **form)

    page = visible_text(visitor.browser.get(answer["Location"]).content.decode())
    assert "This page has changed" in page
    assert "no person looks at it before" in page
    assert not ConsentRecord.objects.exists()
    visitor.grant()
    assert ConsentRecord.objects.get().evidence["automated"] is True


def test_browser_chooses_the_language_and_the_visitor_another(ask):
    visitor = ask()
    visitor.browser = Client(headers={"Accept-Language": "sw-KE,sw;q=0.9,en;q=0.5"})
    visitor.open()
    page = visitor.get()
    assert page["Content-Language"] == "sw"
    assert "Thibitisha kuwa ni wewe" in page.content.decode()

    english = visitor.get(lang="en")

    assert "Confirm that it is you" in english.content.decode()
    assert "Confirm that it is you" in visitor.text()


def test_record_says_in_which_language_it_was_read(ask):
    visitor = ask()
    visitor.prove()
    visitor.get(lang="sw")

    visitor.grant()

    record = ConsentRecord.objects.get()
    assert record.language == "sw"
    assert "Hakuna kinachohakikiwa" in record.evidence["text"]
    assert "Ulikubali ukaguzi" in visitor.text()


def test_language_switched_in_another_tab_is_asked_about_again(ask):
    visitor = ask()
    visitor.prove()
    form = visitor.form()
    visitor.get(lang="sw")

    visitor.post("grant", **form)

    assert not ConsentRecord.objects.exists()


def test_page_needs_few_queries(ask, django_assert_max_num_queries):
    visitor = ask()
    visitor.prove()

    with django_assert_max_num_queries(5):
        visitor.get()


def test_page_shows_the_price_to_a_paying_candidate(ask):
    page = visible_text(ask(paymentMode="CANDIDATE").enter().content.decode())

    assert "KES 250.00, which you are asked to pay" in page


def test_page_addresses_a_company(ask_company):
    visitor = ask_company()
    visitor.open()
    assert "Confirm that it is your company" in visitor.text()
    visitor.confirm(answer="PVT-12345")

    page = visitor.text()

    assert "wants to check your company" in page
    assert "I may decide for the company" in page
    assert "Your position in the company" in page
