"""The frame around the console's pages: navigation, switches, icons, scripts."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.template import engines
from django.utils import translation

from tests.console.test_translations import TEMPLATES
from tests.world.clients import Api, person
from tests.world.decisions import create_case
from tests.world.rules import raise_alert
from verification.console import navigation
from verification.console.templatetags.console import drawings
from verification.console.words import STATES
from verification.decisions.models import Case
from verification.reports.models import Report
from verification.values.clock import now
from verification.values.local_time import format_nairobi


def counts(html: str) -> dict[str, str]:
    """Return what the navigation says beside the names of sections."""
    side = html.partition('id="side"')[2].partition("</nav>")[0]
    links = re.findall(r"<a [^>]*>(.*?)</a>", side, re.DOTALL)
    texts = [" ".join(re.sub(r"<[^>]*>", " ", link).split()) for link in links]
    return dict(text.partition(" ")[::2] for text in texts)


def test_navigation_counts_what_waits_and_says_what_is_late(owner, api: Api):
    assert counts(owner.page("dashboard"))["Queue"] == ""
    report = create_case(api, "11111111")
    create_case(api, "22222222")
    raise_alert(api)

    assert counts(owner.page("keys"))["Queue"] == "2 waiting"
    Case.objects.filter(pk=report).update(due_at=now() - timedelta(hours=1))
    found = counts(owner.page("keys"))
    assert found["Queue"] == "1 late , of 2 waiting"
    assert found["Monitoring"] == "1 unread"

    owner.http.cookies[settings.LANGUAGE_COOKIE_NAME] = "sw"
    found = counts(owner.page("keys"))
    assert found["Foleni"].startswith("1 imechelewa ,")


def test_navigation_counts_up_to_a_limit(owner, api: Api, stop_counting_at):
    stop_counting_at(1)
    create_case(api, "11111111")
    create_case(api, "22222222")

    assert counts(owner.page("keys"))["Queue"] == "1+ waiting"


def test_navigation_shows_an_officer_no_administration(officer):
    sections = counts(officer.page("dashboard"))

    assert "Reports" in sections
    assert not {"Keys", "Webhooks", "Balance", "Members"} & sections.keys()


def test_sandbox_is_named_in_the_title(owner):
    assert "<title>[Sandbox] Home" in owner.page("dashboard")
    assert "<title>Home" in owner.page("dashboard", environment="production")


def test_page_of_a_section_is_current(owner):
    for page in ("settings-packages", "settings-brand", "settings"):
        html = owner.page(page)

        current = re.findall(r'<a href="([^"]*)" aria-current="page"', html)
        assert current == [owner.url(page)]


def test_each_icon_has_a_drawing():
    templates = Path(settings.BASE_DIR, "templates").rglob("*.html")
    used = {
        name
        for path in templates
        for name in re.findall(
            r'{% icon "([^"]+)"|icon_name="([^"]+)"', path.read_text()
        )
        for name in name
        if name
    }
    used |= {one.icon for states in STATES.values() for one in states.values()}
    used |= {section.icon for section in navigation.SECTIONS}

    assert used - drawings().keys() == set()


def test_number_in_a_list_has_its_word_where_cards_hide_the_heading():
    lists = re.compile(r"{% table.*?{% endtable %}", re.DOTALL)
    numbers = [
        cell
        for template in TEMPLATES
        for table in lists.findall(template.read_text())
        for cell in re.findall(r'<td class="number[^>]*>(?={{)', table)
    ]

    shown = [cell for cell in numbers if "wide-only" not in cell]
    assert len(shown) > 2
    assert [cell for cell in shown if "data-label=" not in cell] == []


def test_buttons_of_a_row_span_its_card():
    """Three of them wrap in the left column of a phone."""
    start = re.compile(r'<td([^>]*)>(?:{%[^%]*%})?<span class="row row-end">')
    cells = [css for path in TEMPLATES for css in start.findall(path.read_text())]

    assert set(cells) == {' class="long"'}


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (timedelta(minutes=-12), "12 min ago"),
        (timedelta(hours=2, minutes=10), "in 2 h 10 min"),
        (timedelta(hours=-2), "2 h ago"),
    ],
)
def test_time_within_a_day_is_relative(away, said):
    page = engines["django"].from_string("{% load console %}{% moment at %}")

    html = page.render({"at": now() + away})

    assert f">{said}</time>" in html
    assert 'datetime="' in html


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(minutes=54), "54 min late"),
        (timedelta(days=1), "1 day late"),
        (timedelta(days=2), "2 days late"),
    ],
)
def test_time_of_a_deadline_that_is_over_is_late(ago, said):
    page = engines["django"].from_string("{% load console %}{% due at %}")

    html = page.render({"at": now() - ago})
    assert f">{said}</time>" in html


@pytest.mark.parametrize("language", ["en", "sw"])
def test_time_of_another_day_has_its_date_as_django_writes_it(language):
    page = engines["django"].from_string("{% moment at %}")
    at = datetime(2025, 8, 31, 21, 5, tzinfo=UTC)

    with translation.override(language):
        html = page.render({"at": at})
        assert f">{format_nairobi(at, 'j M Y')}</time>" in html
        assert f'title="{format_nairobi(at)}"' in html


def test_badge_follows_the_language():
    page = engines["django"].from_string(
        '{% badge "READY" "report" %}{% risk "HIGH" 80 %}'
    )
    with translation.override("en"):
        assert "Ready" in page.render({})
    with translation.override("sw"):
        html = page.render({})
    assert "Ready" not in html
    assert "High" not in html


def test_finder_names_reports_pages_and_actions(owner, api: Api):
    made = api.create(person())["id"]

    found = owner.page("find", query={"search": "wanjiku"})
    assert owner.url("reports-detail", report=made) in found
    assert "1 report listed" in found
    assert owner.url("keys-create") in owner.page("find", query={"search": "create"})
    assert owner.url("webhooks") in owner.page("find", query={"search": "WEBH"})
    # More match than are listed.
    api.create(*(person(idNumber=f"2222222{n}") for n in range(5)))
    found = owner.page("find", query={"search": "wanjiku"})
    assert "5 reports listed" in found
    assert "All reports that match" in found


def test_search_opens_its_only_match_and_lists_several(owner, api: Api):
    first = api.create(person(), person(idNumber="22222222"))[0]
    number = Report.objects.get(pk=first["id"]).number

    def led_to(text):
        return owner.get("find", query={"search": text, "open": ""})["Location"]

    assert led_to(number) == owner.url("reports-detail", report=first["id"])
    assert led_to("keys") == owner.url("keys")
    assert led_to("order") == owner.url("reports-new")
    for text in ("wanjiku", "nobody", ""):
        assert led_to(text) == f"{owner.url('reports')}?search={text}"


def test_finder_shows_no_report_for_one_letter_or_to_strangers(owner, stranger, api):
    made = api.create(person())["id"]

    for visitor, text in ((owner, "w"), (owner, ""), (stranger, "wanjiku")):
        assert made not in visitor.page("find", query={"search": text})


def test_finder_offers_no_action_that_the_role_may_not_do(officer):
    found = officer.page("find")

    assert officer.url("reports-new") in found
    assert officer.url("keys-create") not in found
