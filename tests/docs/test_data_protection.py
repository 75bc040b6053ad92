"""The queries of `docs/operator/data-protection.md` find who a breach affects."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils.timezone import now

from tests.privacy.test_retention import age
from tests.world.clients import Api, person
from tests.world.deliveries import configure_receiver
from tests.world.rules import raise_alert
from tests.world.staff import change_url, create_call, read_page
from verification.checks.models import CheckResult
from verification.privacy.models import RequestKind
from verification.privacy.retention import erase_expired_reports
from webhooks.models import Attempt, Event

pytestmark = pytest.mark.django_db
PAGE = (settings.BASE_DIR / "docs" / "operator" / "data-protection.md").read_text()
QUERIES = dict(re.findall(r"```sql\n-- (\w+)\n(.*?)```", PAGE, re.DOTALL))
(SHELL,) = re.findall(r'shell --no-imports -c "\n(.*?)\n"\n', PAGE, re.DOTALL)
DAY = timedelta(days=1)


def run(name: str, **values: Any) -> list[tuple[Any, ...]]:
    """Run a query of the page, with the variables of psql as parameters."""
    query = QUERIES[name].replace("%", "%%")
    query = re.sub(r":'(\w+)'", r"%(\1)s", query)
    span = {"since": now() - DAY, "until": now() + DAY, "environment": "sandbox"}
    with connection.cursor() as cursor:
        cursor.execute(query, {**span, **values})
        return cursor.fetchall()


def affected(name: str, **values: Any) -> set[str]:
    return {str(report) for (report,) in run(name, **values)}


def order(api: Api, **members: str) -> str:
    item = {**person(**members), "checksRequested": ["IDENTITY"]}
    made = api.create(item)["id"]
    api.work()
    return made


def test_page_sets_each_variable_that_its_queries_use():
    used = set(re.findall(r":'(\w+)'", " ".join(QUERIES.values())))

    assert used == set(re.findall(r"\\set (\w+)", PAGE))


def test_time_finds_reports_that_held_data_then(api: Api):
    kept, erased = order(api), order(api, idNumber="22222222")
    age(erased, 400)
    erase_expired_reports()

    assert affected("time", until=now()) == {kept}
    assert affected("time", until=now() - timedelta(seconds=0.001)) >= {kept}
    assert affected("time", until=now() - DAY) == set()


def test_workspace_finds_the_reports_of_one_client(api: Api, another_api: Api):
    own, _ = order(api), order(another_api)

    assert affected("workspace", workspace=api.workspace.pk) == {own}


def test_workspace_finds_reports_that_were_erased_since(api: Api):
    made = order(api)
    age(made, 400)
    erase_expired_reports()

    found = {"workspace": api.workspace.pk}
    assert affected("workspace", **found, since=now() - DAY) == {made}
    assert affected("workspace", **found, since=now() + DAY) == set()


def test_person_finds_what_a_colleague_opened(api: Api, staff: Client):
    opened, of_result, of_alert, _ = (
        order(api, idNumber=f"1111111{n}") for n in range(4)
    )
    for row in (
        CheckResult.objects.filter(report=of_result).first(),
        raise_alert(api, report_id=of_alert),
    ):
        staff.post(
            change_url(row).replace("change", "reveal"),
            {"reason": "Because", "_form_submitted": "on"},
        )
    read_page(staff, f"/admin/reports/report/{opened}/change/")

    assert affected("person", actor="grace") == {opened, of_result, of_alert}
    assert affected("person", actor="wairimu") == set()
    assert affected("person", actor="grace", until=now() - DAY) == set()


def test_key_finds_what_it_created_and_read(api: Api, another_api: Api):
    made, _ = order(api), order(another_api)
    api.report(made)

    assert affected("key", key=str(api.key)) == {made}
    past = {"since": now() - 9 * DAY, "until": now() - 8 * DAY}
    assert affected("key", key=str(api.key), **past) == set()


def test_source_finds_whose_details_it_received(api: Api):
    asked, _ = order(api), order(api, idNumber="22222222")
    create_call(asked)

    assert affected("source", source="acme") == {asked}
    assert affected("source", source="other") == set()


def test_receiver_finds_whose_events_it_got(api: Api):
    configure_receiver(api.workspace)
    made = order(api)
    event = Event.objects.filter(report_id=made, delivery__isnull=False).first()
    Attempt.objects.create(
        delivery=event.delivery,
        number=1,
        url="https://hooks.example.com/in",
        started_at=now(),
        duration_ms=3,
        status_code=200,
    )

    assert affected("receiver", host="hooks.example.com") == {made}
    assert affected("receiver", host="other.example.com") == set()


def test_count_says_how_many_people_of_each_client(api: Api, another_api: Api):
    made = [order(api), order(api), order(another_api)]

    rows = run("count", reports=",".join(made))

    assert [row[1:] for row in rows] == [
        ("Acacia Lenders", "sandbox", 2, 1),
        ("Baobab Bank", "sandbox", 1, 1),
    ]


def test_every_query_is_tested():
    tested = Path(__file__).read_text()

    assert all(f'("{name}"' in tested for name in QUERIES)


def test_shell_command_lists_whom_to_tell(
    api: Api, tmp_path: Path, monkeypatch, capsys
):
    made = order(api, fullName="=Wanjiku Kamau", email="wanjiku@people.test")
    monkeypatch.chdir(tmp_path)
    Path("affected.txt").write_text(f"{made}\n")

    call_command("shell", "--no-imports", command=SHELL)

    line = capsys.readouterr().out.strip()
    assert line.startswith(f"Acacia Lenders,{made},'=Wanjiku Kamau,")
    assert "wanjiku@people.test" in line


def test_page_names_each_right_of_the_register_with_its_days():
    table = PAGE.split("## Rights and deadlines")[1].split("## ")[0]

    for kind in RequestKind:
        word = {"OBJECTION": "objection, restriction"}.get(kind, kind.lower())
        days = settings.SUBJECT_REQUEST_DAYS[kind]
        assert re.search(rf"^\| {word} \|.*\| {days} \|", table, re.MULTILINE), kind
