"""`returnUrl`: where the pages of a report lead back to."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.world.brands import ADDRESS, HOST, save_brand
from tests.world.clients import HOSTED, person
from verification.reports.models import Report
from workspaces.models import Brand

pytestmark = pytest.mark.django_db


def fault_of(api, address, path="/reports") -> dict:
    problem = api.refused(path, {"reports": [{**person(), "returnUrl": address}]})
    (fault,) = problem["errors"]
    assert fault["pointer"] == "#/reports/0/returnUrl"
    return fault


def test_address_of_a_listed_host_is_kept(api):
    save_brand(api.workspace)

    made, without = api.create({**person(), "returnUrl": ADDRESS}, person())

    assert api.report(made["id"])["returnUrl"] == ADDRESS
    assert api.report(without["id"])["returnUrl"] is None


def test_address_of_another_host_is_refused_with_the_reason(api):
    save_brand(api.workspace)

    for path in ("/reports", "/reports/quote"):
        fault = fault_of(api, "https://evil.example/", path)

        assert fault["code"] == "not-allowed-here"
        assert "does not list evil.example" in fault["detail"]
        assert not Report.objects.exists()


def test_hosts_of_others_do_not_count(api, another_api):
    save_brand(another_api.workspace)

    assert fault_of(api, ADDRESS)["code"] == "not-allowed-here"


def test_malformed_address_is_refused_with_the_reason(api):
    save_brand(api.workspace)
    reasons = {
        "http://apply.acacia.example/": "https",
        "javascript:alert(1)": "https",
        "https://me@apply.acacia.example/": "user name",
        "https://apply.acacia.example:8443/": "port",
        "https://apply.acacia.example/#x": "fragment",
        "https://apply.acacia.example/\\evil": "control characters",
    }
    others = {f"https://{HOST}/{'x' * 500}": "too-long", 7: "invalid-type"}

    items = [{**person(), "returnUrl": sent} for sent in (*reasons, *others)]
    faults = api.refused("/reports", {"reports": items})["errors"]

    codes = ["invalid-format"] * len(reasons) + list(others.values())
    assert [fault["code"] for fault in faults] == codes
    for fault, reason in zip(faults, reasons.values(), strict=False):
        assert reason in fault["detail"]


def test_edit_of_a_draft_changes_the_address(api):
    save_brand(api.workspace)
    made = api.create({**person(), "consent": HOSTED, "returnUrl": ADDRESS}, draft=True)
    path, other = f"/reports/{made['id']}/draft", f"https://{HOST}/b"

    assert api.post(path, {"returnUrl": other}).status_code == 200
    assert api.report(made["id"])["returnUrl"] == other
    # A draft whose host was removed can be edited.
    Brand.objects.update(return_hosts=[])
    assert api.post(path, {"purpose": "Another one"}).status_code == 200
    assert api.post(path, {"returnUrl": ADDRESS}).status_code == 400


def test_address_is_sealed(api):
    save_brand(api.workspace)
    made = api.create({**person(), "returnUrl": ADDRESS})

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT return_url::text FROM reports_report WHERE id = %s", [made["id"]]
        )
        (kept,) = cursor.fetchone()

    assert kept
    assert "acacia" not in bytes.fromhex(kept.removeprefix("\\x")).decode("latin-1")


def test_hosts_are_read_only_for_orders_with_an_address(api):
    save_brand(api.workspace)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        api.create(person())

    assert not [q for q in queries if "workspaces_brand" in q["sql"]]
