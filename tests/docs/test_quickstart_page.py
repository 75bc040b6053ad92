"""The commands of `quickstart.md`, `errors.md` and `sandbox.md` work as copied.

The tests of the clients run the tabs in Python and TypeScript.
"""

import re
from pathlib import Path

from tests.docs.guides import code_blocks, create_test_key, run_command
from tests.world.service import Service

QUICK_START, ERRORS, SANDBOX = (
    code_blocks(f"docs/client/{name}.md", "sh")
    for name in ("quickstart", "errors", "sandbox")
)


def test_commands_work_as_copied(service: Service, tmp_path: Path):
    order, read, pdf, subjects, wrong = QUICK_START
    key = create_test_key(service)

    created = run_command(order, service, KEY=key)
    report_id = created["reports"][0]["id"]
    other = order.replace("90000000", "90000003")
    adverse = run_command(other, service, KEY=key)["reports"][0]["id"]
    report = run_command(read, service, KEY=key, REPORT_ID=report_id)
    listed = run_command(subjects, service, KEY=key)
    problem = run_command(wrong, service, KEY=key)
    saved = pdf.replace("report.pdf", str(tmp_path / "report.pdf"))
    run_command(saved, service, KEY=key, REPORT_ID=report_id)

    assert report["id"] == report_id != adverse
    assert any("90000003" in str(row) for row in listed["content"])
    assert (problem["status"], problem["code"]) == (400, "validation-failed")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    (command,) = ERRORS
    (error,) = run_command(command, service, KEY=key)["errors"]
    assert error["pointer"] == "#/reports/0/subject/idNumber"


def test_commands_of_the_sandbox_act_and_skip(service: Service):
    order, *_ = QUICK_START
    grant, skip = SANDBOX
    asked = re.sub(r'"CUSTOMER_ATTESTED",[^}]*', '"SERVICE_HOSTED"', order)
    key = create_test_key(service)

    one, other = (run_command(asked, service, KEY=key)["reports"][0] for _ in range(2))
    granted = run_command(grant, service, KEY=key, REPORT_ID=one["id"])
    skipped = run_command(skip, service, KEY=key, REPORT_ID=other["id"])

    assert one["consentState"]["status"] == "PENDING"
    assert granted["consentState"]["status"] == "GRANTED"
    assert skipped["done"]["name"] == "CONSENT_EXPIRY"
