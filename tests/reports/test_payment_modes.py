from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client as Browser

from tests.world.clients import HOSTED, Api, person
from tests.world.orders import PAYER, fault_codes
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
def test_payer_gets_a_link_for_14_days(api: Api, mode: str):
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


@pytest.mark.parametrize("mode", ["CANDIDATE", "THIRD_PARTY"])
def test_report_does_not_run_before_payment(api: Api, mode: str):
    report = api.create({**person(), **MODES[mode]})

    api.work()

    assert api.report(report["id"])["status"] == "PENDING_PAYMENT"


def test_payment_is_requested_after_consent(api: Api):
    report = api.create({**person(), **MODES["CANDIDATE"], "consent": HOSTED})

    assert report["status"] == "PENDING_CONSENT"


@pytest.mark.parametrize("mode", ["SELF", "CANDIDATE"])
def test_payer_is_refused_except_with_third_party(api: Api, mode: str):
    item = {**person(), "paymentMode": mode, "payer": PAYER}

    assert fault_codes(api, item) == {"payer": "not-allowed-here"}
    del item["paymentMode"]
    assert fault_codes(api, item) == {"payer": "not-allowed-here"}


def test_third_party_needs_a_payer_with_contact(api: Api):
    item = {**person(), "paymentMode": "THIRD_PARTY"}

    assert fault_codes(api, item) == {"payer": "required"}
    item["payer"] = {"name": "Kilele Insurance"}
    assert fault_codes(api, item) == {"payer/email": "required"}
    item["payer"] = {"email": "accounts@kilele.test"}
    assert fault_codes(api, item) == {"payer/name": "required"}
    item["payer"] = {"name": "Kilele", "email": "nobody", "phone": "12"}
    assert fault_codes(api, item) == {
        "payer/email": "invalid-format",
        "payer/phone": "invalid-format",
    }
    item["payer"] = {"name": "Kilele", "phone": "+254 712 345678"}
    assert api.create(item)["status"] == "PENDING_PAYMENT"


@pytest.mark.parametrize("mode", ["", "self", "FREE"])
def test_unknown_payment_mode_is_refused(api: Api, mode: str):
    assert fault_codes(api, {**person(), "paymentMode": mode}) == {
        "paymentMode": "invalid-choice"
    }
