"""Pages, documents and messages tell Nairobi's time with its label; the API UTC."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from tests.world.clients import person
from tests.world.console import ConsoleVisitor
from tests.world.members import create_member
from tests.world.staff import change_url, read_page
from verification.backoffice.models import AuditEvent
from verification.documents.report import _document
from verification.reports.models import Report

TEMPLATES = Path(__file__).parents[2] / "templates"
PATTERN = re.compile(r"""\|(?:date|time):["']([^"']+)["'](.{0,80})""")
NAMED = {"DATETIME_FORMAT", "SHORT_DATETIME_FORMAT", "DATE_FORMAT"}
# 21:30 in London is the next day in Nairobi.
AT = datetime(2026, 11, 20, 21, 30, 15, tzinfo=UTC)
SHOWN, WITH_SECONDS = "21 Nov 2026, 00:30 EAT", "21 Nov 2026, 00:30:15 EAT"


@pytest.mark.django_db
def test_pages_show_nairobi_time_and_the_api_utc(api, superuser, time_machine):
    owner = ConsoleVisitor(create_member(api.workspace, "OWNER"))
    made = api.create(person())
    Report.objects.update(created_at=AT)
    AuditEvent.objects.create(
        actor_kind="STAFF", actor="grace", action="a.b", created_at=AT
    )
    report = Report.objects.get()

    assert SHOWN in owner.page("reports")
    assert SHOWN in owner.page("reports", query={"lang": "sw"})
    assert SHOWN in read_page(superuser, change_url(report))
    assert WITH_SECONDS in read_page(superuser, "/admin/reports/report/")
    assert WITH_SECONDS in read_page(superuser, "/admin/backoffice/auditevent/")
    assert _document(report, [])["ordered"] == SHOWN
    assert api.report(made["id"])["createdAt"] == "2026-11-20T21:30:15.000000Z"
    assert timezone.get_current_timezone_name() == "UTC"


@pytest.mark.django_db
def test_day_filters_of_pages_are_in_nairobi_time(api, superuser):
    owner = ConsoleVisitor(create_member(api.workspace, "OWNER"))
    made = api.create(person())["id"]
    Report.objects.update(created_at=AT)
    AuditEvent.objects.create(
        actor_kind="STAFF", actor="grace", action="a.b", created_at=AT
    )

    for day, is_found in (("2026-11-20", False), ("2026-11-21", True)):
        assert (made in owner.page("reports", query={"first": day, "last": day})) is (
            is_found
        )
        between = {"created_at_from_0": day, "created_at_to_0": day}
        listed = superuser.get("/admin/backoffice/auditevent/", between)
        assert ("a.b" in listed.content.decode()) is is_found
    answer = api.get("/reports", **{"from": "2026-11-20", "to": "2026-11-20"})
    assert [report["id"] for report in answer.json()["content"]] == [made]


@pytest.mark.django_db
def test_last_day_of_a_key_ends_at_midnight_in_nairobi(api, time_machine):
    time_machine.move_to(AT)
    owner = ConsoleVisitor(create_member(api.workspace, "OWNER"))
    fields = {"name": "Loans", "scopes": ["reports:read"]}

    owner.post("keys-create", {**fields, "expires": "2026-11-20"})
    assert not api.workspace.api_keys.filter(name="Loans").exists()
    owner.post("keys-create", {**fields, "expires": "2026-11-21"})

    ends = api.workspace.api_keys.get(name="Loans").expires_at
    assert ends == AT.replace(hour=21, minute=0, second=0) + timedelta(
        days=1, microseconds=-1
    )


def test_each_clock_time_in_a_template_has_a_label():
    bare = [
        f"{path.relative_to(TEMPLATES)}: {pattern}"
        for path in TEMPLATES.rglob("*.*")
        if path.parent.name != "fonts"
        for pattern, after in PATTERN.findall(path.read_text())
        if pattern not in NAMED
        and re.search("[HGhgPi]", pattern)
        and not pattern.endswith("T")
        and not re.search(r"Nairobi time|saa za Nairobi", after)
    ]
    assert bare == []
