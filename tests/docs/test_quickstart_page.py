"""The commands of the guides that have no test of their own work as copied.

The tests of the clients run the tabs in Python and TypeScript.
"""

import re
from pathlib import Path

from tests.docs.guides import ALL_SCOPES, code_blocks, create_test_key, run_command
from tests.world.service import Service
from tests.world.waiting import until

QUICK_START, ERRORS, SANDBOX, CONSENT, PAYMENTS, GOING_LIVE, DECISIONS, PRIVACY = (
    code_blocks(f"docs/client/{name}.md", "sh")
    for name in (
        *("quickstart", "errors", "sandbox", "consent", "payments", "going-live"),
        *("decisions", "privacy"),
    )
)


def test_commands_work_as_copied(service: Service, tmp_path: Path):
    order, read, pdf, wrong = QUICK_START
    key = create_test_key(service)

    created = run_command(order, service, KEY=key)
    report_id = created["reports"][0]["id"]
    report = run_command(read, service, KEY=key, REPORT_ID=report_id)
    problem = run_command(wrong, service, KEY=key)
    saved = pdf.replace("report.pdf", str(tmp_path / "report.pdf"))
    run_command(saved, service, KEY=key, REPORT_ID=report_id)

    assert report["id"] == report_id
    assert (problem["status"], problem["code"]) == (400, "validation-failed")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    (refused,) = ERRORS
    (error,) = run_command(refused, service, KEY=key)["errors"]
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


def test_commands_about_consent_and_payment_work(service: Service):
    ask, state = CONSENT
    order, pay = PAYMENTS
    key = create_test_key(service)

    (asked,) = run_command(ask, service, KEY=key)["reports"]
    read = run_command(state, service, KEY=key, REPORT_ID=asked["id"])
    (payable,) = run_command(order, service, KEY=key)["reports"]
    paid = run_command(pay, service, KEY=key, REPORT_ID=payable["id"])

    assert read["consentUrl"] == asked["consentState"]["consentUrl"]
    assert payable["paymentState"]["paymentUrl"].startswith(service.url)
    assert paid["paymentState"]["status"] == "PAID"


def test_commands_decide_erase_and_verify_the_certificate(
    service: Service, tmp_path: Path
):
    order, read, *_ = QUICK_START
    (show_key,), (decide,), (erase, verify) = GOING_LIVE, DECISIONS, PRIVACY
    key = create_test_key(service, ALL_SCOPES)

    (made,) = run_command(order, service, KEY=key)["reports"]
    ids = {"KEY": key, "REPORT_ID": made["id"]}
    until(lambda: run_command(read, service, **ids)["status"] == "READY")
    decision = run_command(decide, service, **ids)
    erasure = run_command(erase, service, **ids)
    until(lambda: run_command(read, service, **ids)["erasedAt"])
    certificate = f"{service.url}/api/v1/erasures/{erasure['id']}"
    ended = f'curl -s {certificate} -H "Authorization: Bearer $KEY"'
    until(lambda: run_command(ended, service, KEY=key)["status"] == "ENDED")
    said = 'echo "\\"$(cat)\\""'
    verified = run_command(
        f"({verify}) | {said}", service, tmp_path, KEY=key, ERASURE_ID=erasure["id"]
    )

    assert "decisions:write" in run_command(show_key, service, KEY=key)["scopes"]
    assert (decision["status"], decision["state"]) == ("DECLINED", "FINAL")
    assert verified == "Signature Verified Successfully"
