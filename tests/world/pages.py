"""A row for each page of the console.

rows = create_page_rows(owner, viewer)
owner.get("reports-detail", **page_arguments("reports-detail", rows))
"""

import re
from typing import Any

from django.utils.timezone import now

from tests.files.samples import pdf
from tests.golive.applications import draft
from tests.world.addresses import list_pages
from tests.world.clients import HOSTED, Api, erase, person
from tests.world.console import ConsoleVisitor
from tests.world.corrections import STATEMENT
from tests.world.decisions import decide, deciding_api, demand_second
from tests.world.deliveries import configure_receiver
from tests.world.orders import REFUSED, two_checks
from tests.world.packages import create_package
from tests.world.policies import APPROVE_LOW, draft_policy
from tests.world.rules import RISK_CHANGE, raise_alert
from verification.batches.models import Batch
from verification.checks.models import CheckResult
from verification.console.urls import PAGES
from verification.db.ids import uuid7
from verification.files.inspection import InspectedFile
from verification.files.uploads import UploadedFile
from verification.notifications.models import Notification
from verification.privacy.corrections import open_correction
from verification.privacy.joins import ask_to_join, joins
from verification.privacy.people import Proof
from verification.reports.models import Report
from webhooks.models import Delivery
from workspaces import members
from workspaces.models import Role

# Only there for reviewed workspaces; tests/golive/test_names.py opens them.
OF_REVIEWED = {"settings-name", "settings-name-withdraw"}


def create_page_rows(
    api: Api, owner: ConsoleVisitor, viewer: ConsoleVisitor
) -> dict[str, Any]:
    """Create a row of each kind, by the name of its URL argument."""
    configure_receiver(api.workspace)
    report = api.create(person())["id"]
    api.work()
    alert = raise_alert(api, changes=[RISK_CHANGE])
    result = CheckResult.objects.filter(report=report).first()
    file = UploadedFile("id.pdf", InspectedFile("application/pdf", pdf()))
    correction = open_correction(result.report_id, result.pk, STATEMENT, [file])
    members.invite(owner.member, "new@people.test", Role.VIEWER)
    hosted = api.create({**person(email="wanjiku@kamau.test"), "consent": HOSTED})["id"]
    ask_to_join(Proof(Report.objects.get(pk=hosted), "wanjiku@kamau.test"))
    declined = api.create(person(idNumber="33333333"))["id"]
    api.work()
    notice = decide(deciding_api(api), declined)["notice"]
    demand_second(api)
    proposed = decide(deciding_api(api), report)
    erased = api.create(person(idNumber="22222222"))["id"]
    failed = api.create(two_checks(idNumber=REFUSED))["id"]
    draft_report = api.create({**person(), "draft": True})["id"]
    api.work()
    batch = Batch.objects.create(
        id=uuid7(),
        workspace=api.workspace,
        environment=api.environment,
        digest=b"digest",
        name="applicants.csv",
        report_ids=[report],
        row_numbers=[2],
        draft=False,
        created_by=f"member {owner.member.pk}",
    )
    return {
        "batch": batch.pk,
        "key": api.key.pk,
        "package": create_package(workspace=api.workspace).pk,
        "erasure": erase(api, erased).pk,
        "report": report,
        # Pages that show no other report
        "reports-edit": {"report": draft_report},
        "reports-launch": {"report": draft_report},
        "reports-cancel": {"report": draft_report},
        "reports-retry": {"report": failed},
        "version": draft_policy(api, APPROVE_LOW).pk,
        "number": 1,
        "delivery": Delivery.objects.order_by("pk")[0].pk,
        "alert": alert.pk,
        "asked": joins().get().pk,
        "correction": correction.pk,
        "decision": proposed["id"],
        "notice": notice["id"],
        "reason": api.workspace.reason_codes.get(code="OWN_CRITERIA").pk,
        "file": correction.documents.get().pk,
        "rule": alert.rule_id,
        "member": viewer.member.pk,
        "invitation": api.workspace.invitations.get().pk,
        "month": f"{now():%Y-%m}",
        "format": "csv",
        "kind": "cr12",
        "message": Notification.objects.get(kind="CONSENT_REQUEST").pk,
        "address": api.workspace.sandbox_addresses.first().pk,
        "document": draft(owner.member).documents.get(kind="CR12").pk,
    }


def page_arguments(name: str, rows: dict[str, Any]) -> dict[str, Any]:
    """Return the URL arguments of the page that have a row."""
    path = next(path for path, page in list_pages(PAGES) if page == name)
    wanted = re.findall(r":(\w+)>", path)
    found = {key: rows[key] for key in wanted if key in rows}
    return {**found, **rows.get(name, {})}
