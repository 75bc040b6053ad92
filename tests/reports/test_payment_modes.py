from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client as Browser

from tests.world.clients import HOSTED, Api, person
from tests.world.orders import PAYER, faults_of_each
from workspaces.models import LedgerEntry

MODES = {
    "SELF": {},
    "CANDIDATE": {"paymentMode": "CANDIDATE"},
    "THIRD_PARTY": {"paymentMode": "THIRD_PARTY", "payer": PAYER},
}


def test_default_payer_is_the_workspace(api: Api):
    report = api.create(person())

    assert report["paymentState"] == {
        "status": "NOT_REQUIRED",
        "amount": {"amount": 250.0, "currency": "KES"},
        "paidAt": None,
        "paymentUrl": None,
        "expiresAt": None,
    }
    assert api.report(report["id"])["paymentMode"] == "SELF"


@pytest.mark.parametrize("mode", ["CANDIDATE", "THIRD_PARTY"])
def test_payer_gets_a_link_for_14_days_and_nothing_runs_before(api: Api, mode: str):
    report = api.create({**person(), **MODES[mode]})

    state = report["paymentState"]
    expires = datetime.fromisoformat(state["expiresAt"])
    assert report["status"] == "PENDING_PAYMENT"
    assert state["status"] == "PENDING"
    assert state["amount"] == {"amount": 250.0, "currency": "KES"}
    assert state["paidAt"] is None
    assert abs(expires - datetime.now(UTC) - timedelta(days=14)) < timedelta(minutes=1)
    assert Browser().get("/" + state["paymentUrl"].split("/", 3)[3]).status_code == 303
    assert api.report(report["id"])["paymentState"] == state
    assert not LedgerEntry.objects.exists()
    api.work()
    assert api.report(report["id"])["status"] == "PENDING_PAYMENT"


def test_payment_is_requested_after_consent(api: Api):
    report = api.create({**person(), **MODES["CANDIDATE"], "consent": HOSTED})

    assert report["status"] == "PENDING_CONSENT"


def test_third_party_needs_a_payer_with_contact_and_no_other_has_one(api: Api):
    def paid_by(mode: str, **members: Any) -> dict[str, Any]:
        return {**person(), "paymentMode": mode, **members}

    faults = faults_of_each(
        api,
        {**person(), "payer": PAYER},
        paid_by("SELF", payer=PAYER),
        paid_by("CANDIDATE", payer=PAYER),
        paid_by("THIRD_PARTY"),
        paid_by("THIRD_PARTY", payer={"name": "Kilele Insurance"}),
        paid_by("THIRD_PARTY", payer={"email": "accounts@kilele.test"}),
        paid_by(
            "THIRD_PARTY", payer={"name": "Kilele", "email": "nobody", "phone": "12"}
        ),
        *[paid_by(unknown) for unknown in ("", "self", "FREE")],
    )

    assert faults == [
        *[{"payer": "not-allowed-here"}] * 3,
        {"payer": "required"},
        {"payer/email": "required"},
        {"payer/name": "required"},
        {"payer/email": "invalid-format", "payer/phone": "invalid-format"},
        *[{"paymentMode": "invalid-choice"}] * 3,
    ]
    by_phone = {"name": "Kilele", "phone": "+254 712 345678"}
    accepted = api.create(paid_by("THIRD_PARTY", payer=by_phone))
    assert accepted["status"] == "PENDING_PAYMENT"
