"""The bodies of Paystack's answers and events, and what each has to hold.

`ANSWERS` is our reading of the responses in Paystack's published description of its API
(https://github.com/PaystackOSS/openapi, dist/paystack.yaml): the members that it says
are required, and their types. `wrong` compares an answer with it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fakes.paystack import FakePaystack, Refund, Transaction

INTEGRATION = 463433


def moment(at: datetime | None) -> str | None:
    return at and at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _metadata(one: Transaction, fake: FakePaystack) -> Any:
    return one.metadata if fake.metadata is None else fake.metadata


def _log(one: Transaction) -> dict[str, Any]:
    return {
        "start_time": int(one.created_at.timestamp()),
        "time_spent": 4,
        "attempts": 1,
        "errors": 0,
        "success": one.status == "success",
        "mobile": False,
        "input": [],
        "history": [{"type": "action", "message": "Attempted to pay", "time": 3}],
    }


AUTHORIZATION = {
    "authorization_code": "AUTH_uh8bcl3zbn",
    "bin": "408408",
    "last4": "4081",
    "exp_month": "12",
    "exp_year": "2030",
    "channel": "card",
    "card_type": "visa ",
    "bank": "TEST BANK",
    "country_code": "KE",
    "brand": "visa",
    "reusable": True,
    "signature": "SIG_yEXu7dLBeqG0kU7g95Ke",
    "account_name": None,
}


def _customer(one: Transaction) -> dict[str, Any]:
    return {
        "id": 181873746,
        "first_name": None,
        "last_name": None,
        "email": one.email,
        "customer_code": "CUS_1rkzaqsv4rrhqo6",
        "phone": None,
        "metadata": None,
        "risk_action": "default",
        "international_format_phone": None,
    }


def _common(one: Transaction, fake: FakePaystack) -> dict[str, Any]:
    return {
        "id": one.id,
        "domain": "test",
        "status": one.status,
        "reference": one.reference,
        "amount": one.amount or one.requested_amount,
        "message": one.message,
        "gateway_response": one.gateway_response,
        "paid_at": moment(one.paid_at),
        "created_at": moment(one.created_at),
        "channel": one.channel,
        "currency": one.currency,
        "ip_address": "197.210.54.33",
        "metadata": _metadata(one, fake),
        "log": _log(one),
        "fees": one.fees,
        "customer": _customer(one),
        "authorization": AUTHORIZATION if one.paid_at else {},
    }


def charged(reference: str, status: str) -> dict[str, Any]:
    told = "Please complete authorization process on your mobile phone"
    return {"reference": reference, "status": status, "display_text": told}


def charge(one: Transaction, fake: FakePaystack) -> dict[str, Any]:
    return {**_common(one, fake), "requested_amount": one.requested_amount, "plan": {}}


def verified(one: Transaction, fake: FakePaystack) -> dict[str, Any]:
    return {
        **_common(one, fake),
        "receipt_number": None,
        "fees_split": None,
        "plan": None,
        "split": {},
        "order_id": None,
        "paidAt": moment(one.paid_at),
        "createdAt": moment(one.created_at),
        "requested_amount": one.requested_amount,
        "pos_transaction_data": None,
        "source": None,
        "fees_breakdown": None,
        "connect": None,
        "transaction_date": moment(one.paid_at or one.created_at),
        "plan_object": {},
        "subaccount": {},
    }


def listed(one: Transaction, fake: FakePaystack) -> dict[str, Any]:
    metadata = _metadata(one, fake)
    return {
        **_common(one, fake),
        "metadata": metadata if isinstance(metadata, dict) else None,
        "authorization": AUTHORIZATION,
        "fees_split": None,
        "plan": {},
        "split": {},
        "subaccount": {},
        "order_id": None,
        "paidAt": moment(one.paid_at),
        "createdAt": moment(one.created_at),
        "requested_amount": one.requested_amount,
        "source": None,
        "connect": None,
        "pos_transaction_data": None,
    }


def _refund(one: Refund) -> dict[str, Any]:
    return {
        "integration": INTEGRATION,
        "id": one.id,
        "domain": "test",
        "currency": one.currency,
        "amount": one.amount,
        "status": one.status,
        "refunded_by": "staff@example.org",
        "customer_note": one.customer_note,
        "merchant_note": one.merchant_note,
        "deducted_amount": 0,
        "createdAt": moment(one.created_at),
    }


def refund_made(one: Refund) -> dict[str, Any]:
    paid = one.transaction
    transaction = {
        "id": paid.id,
        "domain": "test",
        "reference": paid.reference,
        "amount": paid.amount,
        "paid_at": moment(paid.paid_at),
        "channel": "card",
        "currency": paid.currency,
        "authorization": {"exp_month": None, "exp_year": None, "account_name": None},
        "customer": {"international_format_phone": None},
        "plan": {},
        "subaccount": {"currency": None},
        "split": {},
        "order_id": None,
        "paidAt": moment(paid.paid_at),
        "pos_transaction_data": None,
        "source": None,
        "fees_breakdown": None,
    }
    return {
        **_refund(one),
        "transaction": transaction,
        "channel": None,
        "expected_at": moment(one.created_at),
        "fully_deducted": False,
        "updatedAt": moment(one.created_at),
    }


def disputed(number: int, one: Transaction, fake: FakePaystack) -> dict[str, Any]:
    created = moment(datetime.now(UTC))
    return {
        "id": number,
        "refund_amount": one.amount,
        "currency": one.currency,
        "status": "awaiting-merchant-feedback",
        "resolution": None,
        "domain": "test",
        "transaction": charge(one, fake),
        "transaction_reference": None,
        "category": "chargeback",
        "customer": _customer(one),
        "bin": "123456",
        "last4": "1234",
        "dueAt": created,
        "resolvedAt": None,
        "evidence": None,
        "attachments": None,
        "note": None,
        "history": [],
        "messages": [],
        "createdAt": created,
        "updatedAt": created,
    }


def refund_listed(one: Refund, time: str = "createdAt") -> dict[str, Any]:
    # Here the transaction is its number, and whether it was deducted a number, too.
    made = _refund(one)
    made[time] = made.pop("createdAt")
    return {
        **made,
        "transaction": one.transaction.id,
        "dispute": None,
        "settlement": None,
        "refunded_at": None,
        "fully_deducted": 0,
        "bank_reference": None,
        "transaction_reference": one.transaction.reference,
        "reason": one.status.upper(),
        "customer": {**_customer(one.transaction), "first_name": "", "last_name": ""},
        "refund_type": "full",
        "transaction_amount": one.transaction.amount,
        "initiated_by": "staff@example.org",
        "refund_channel": "MIGS",
        "session_id": None,
        "collect_account_number": False,
    }


def refund_event(one: Refund) -> dict[str, Any]:
    failed = one.status == "failed"
    data = {
        "status": one.status,
        "transaction_reference": one.transaction.reference,
        "refund_reference": None if failed else f"RR-{one.id}",
        # Text, save in this one event.
        "amount": one.amount if failed else str(one.amount),
        "currency": one.currency,
        "processor": "mpesa",
        "customer": {
            "first_name": None,
            "last_name": None,
            "email": one.transaction.email,
        },
        "integration": INTEGRATION,
        "domain": "test",
    }
    return {"event": f"refund.{one.status}", "data": data}


ANY = object
STR_OR_NONE = (str, type(None))
INT_OR_NONE = (int, type(None))
DICT_OR_NONE = (dict, type(None))

LOG = {
    "start_time": int,
    "time_spent": int,
    "attempts": int,
    "errors": int,
    "success": bool,
    "mobile": bool,
    "input": list,
    "history": [{"type": str, "message": str, "time": int}],
}
CUSTOMER = {
    "id": int,
    "first_name": STR_OR_NONE,
    "last_name": STR_OR_NONE,
    "email": str,
    "customer_code": str,
    "phone": STR_OR_NONE,
    "metadata": ANY,
    "risk_action": str,
}
COMMON = {
    "id": int,
    "domain": str,
    "status": str,
    "reference": str,
    "amount": int,
    "message": STR_OR_NONE,
    "gateway_response": str,
    "paid_at": STR_OR_NONE,
    "created_at": str,
    "channel": str,
    "currency": str,
    "log": LOG,
    "fees": INT_OR_NONE,
    "fees_split": ANY,
    "customer": CUSTOMER,
    "split": dict,
    "subaccount": dict,
    "order_id": ANY,
    "paidAt": STR_OR_NONE,
    "createdAt": str,
    "requested_amount": int,
    "pos_transaction_data": ANY,
    "source": DICT_OR_NONE,
    "connect": DICT_OR_NONE,
}
VERIFIED = {
    **COMMON,
    "receipt_number": STR_OR_NONE,
    "ip_address": str,
    "metadata": (str, dict),
    "authorization": dict,
    "customer": {**CUSTOMER, "international_format_phone": STR_OR_NONE},
    "plan": STR_OR_NONE,
    "fees_breakdown": ANY,
    "transaction_date": str,
    "plan_object": dict,
}
LISTED = {
    **COMMON,
    "ip_address": STR_OR_NONE,
    "metadata": DICT_OR_NONE,
    "authorization": dict.fromkeys(AUTHORIZATION, ANY),
    "plan": dict,
}
REFUND = {
    "integration": int,
    "id": int,
    "domain": str,
    "currency": str,
    "amount": int,
    "status": str,
    "refunded_by": str,
    "customer_note": str,
    "merchant_note": str,
    "deducted_amount": int,
    "createdAt": str,
}
REFUND_MADE = {
    **REFUND,
    "transaction": {
        "id": int,
        "domain": str,
        "reference": str,
        "amount": int,
        "paid_at": str,
        "channel": str,
        "currency": str,
        "authorization": {"exp_month": ANY, "exp_year": ANY, "account_name": ANY},
        "customer": {"international_format_phone": STR_OR_NONE},
        "plan": dict,
        "subaccount": {"currency": ANY},
        "split": dict,
        "order_id": ANY,
        "paidAt": str,
        "pos_transaction_data": ANY,
        "source": ANY,
        "fees_breakdown": ANY,
    },
    "channel": ANY,
    "expected_at": str,
    "fully_deducted": bool,
    "updatedAt": str,
}
REFUND_LISTED = {
    **REFUND,
    "transaction": int,
    "dispute": ANY,
    "settlement": ANY,
    "refunded_at": ANY,
    "fully_deducted": int,
    "bank_reference": ANY,
    "transaction_reference": str,
    "reason": str,
    "customer": {**CUSTOMER, "first_name": str, "last_name": str},
    "refund_type": str,
    "transaction_amount": int,
    "initiated_by": str,
    "refund_channel": str,
    "session_id": ANY,
    "collect_account_number": bool,
}
META = {"total": int, "skipped": int, "page": int, "pageCount": int}


def _envelope(data: Any, **more: Any) -> dict[str, Any]:
    return {"status": bool, "message": str, "data": data, **more}


ANSWERS: dict[str, Any] = {
    "POST /transaction/initialize": _envelope(
        {"authorization_url": str, "access_code": str, "reference": str}
    ),
    "POST /charge": _envelope({"reference": str, "status": str, "display_text": str}),
    "GET /transaction/verify": _envelope(VERIFIED),
    "GET /transaction": _envelope(
        [LISTED], meta={**META, "total_volume": int, "perPage": (str, int)}
    ),
    "POST /refund": _envelope(REFUND_MADE),
    "GET /refund": _envelope(
        [REFUND_LISTED], meta={**META, "perPage": str, "failedRefundCount": int}
    ),
    "GET /refund/{id}": _envelope(REFUND_LISTED),
    "error": {"status": bool, "message": str},
}


def wrong(answer: Any, shape: Any, path: str = "") -> list[str]:
    """Return the places where an answer differs from its shape."""
    if isinstance(shape, dict):
        if not isinstance(answer, dict):
            return [f"{path} is no object"]
        missing = [f"{path}.{name} is missing" for name in shape if name not in answer]
        parts = [(answer[n], shape[n], f"{path}.{n}") for n in shape if n in answer]
    elif isinstance(shape, list):
        missing = [] if isinstance(answer, list) else [f"{path} is no list"]
        parts = [] if missing else [(one, shape[0], f"{path}[]") for one in answer]
    else:
        is_number = not isinstance(answer, bool) or shape in (bool, ANY)
        fits = isinstance(answer, shape) and is_number
        return [] if fits else [f"{path} is {answer!r}"]
    return missing + [told for part in parts for told in wrong(*part)]
