"""What Metropol's reports become: our fields, flags and scores.

Money comes as a text with five decimals, an absent date as the text "None", and the
status of an account as a word or as its letter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from verification.providers.base import Finding, Inquiry
from verification.providers.http_api import unavailable_error
from verification.providers.name_comparison import Comparison
from verification.providers.scoring import (
    NO_NAME,
    build_finding,
    is_company,
    is_compared,
    likeness_of,
    name_flags,
    name_match,
    worst_message,
)

logger = logging.getLogger(__name__)

Record = Mapping[str, Any]

LOW, LEAST, MOST = 410, 200, 900
STANDINGS = {"003": "NONE", "004": "CURRENT", "005": "HISTORICAL"}
LISTINGS = {"NONE": "NOT_LISTED", "CURRENT": "LISTED", "HISTORICAL": "HISTORICAL"}
NO_RECORD = {"001", "002"}
# Letter, word, ours.
STATUSES = [
    ("A", "closed", "CLOSED"),
    ("B", "dormant", "DORMANT"),
    ("C", "performing", "PERFORMING"),
    ("D", "non-performing", "NON_PERFORMING"),
    ("E", "write-off", "WRITTEN_OFF"),
    ("F", "legal", "LEGAL"),
    ("G", "collection", "COLLECTION"),
    ("H", "active", "ACTIVE"),
    ("I", "terms extended", "TERMS_EXTENDED"),
    ("J", "early settlement", "SETTLED_EARLY"),
    ("K", "fully settled", "SETTLED"),
    ("L", "revoked", "REVOKED"),
    ("M", "suspended", "SUSPENDED"),
    ("N", "not updated", "NOT_UPDATED"),
    ("P", "paid up", "PAID_UP"),
    ("Q", "disability/deceased/insurance", "INSURED_EVENT"),
    ("R", "deferred", "DEFERRED"),
]
STATUS = {
    key: ours for letter, word, ours in STATUSES for key in (letter.casefold(), word)
}
SETTLED = {"CLOSED", "SETTLED_EARLY", "SETTLED", "PAID_UP"}
BAD = {"NON_PERFORMING", "WRITTEN_OFF", "LEGAL", "COLLECTION"}
PRODUCTS = {
    2: "CURRENT_ACCOUNT",
    3: "LOAN",
    4: "CREDIT_CARD",
    5: "LINE_OF_CREDIT",
    6: "REVOLVING_CREDIT",
    7: "OVERDRAFT",
    8: "CREDIT_CARD",
    9: "WORKING_CAPITAL",
    10: "EXPANSION_LOAN",
    11: "MORTGAGE",
    12: "ASSET_FINANCE",
    13: "TRADE_FINANCE",
    14: "PERSONAL_LOAN",
    18: "MOBILE_LOAN",
    19: "OTHER",
}
OTHER_NAME = "Lenders reported another name for this number."
NOT_CLEAN = "The bureau does not say that nothing is listed."


def score(inquiry: Inquiry, data: Record | None, **evidence: Any) -> Finding:
    subject = inquiry.subject
    points = _points((data or {}).get("credit_score"))
    details, match = _subject_details(subject, data)
    if inquiry.check == "CREDITBUREAU_SCORE":
        details["bureau"] = "Metropol" if data is not None else None
    details |= {"creditScore": points, "scoreBand": None, "probabilityOfDefault": None}
    flags = _common(subject, data, details, match)
    known = points is not None and _is_compared(subject, details, match)
    more = {"known": known, "credit_score": points, "match": match}
    return _finding(flags, details, **more, **evidence)


def standing(inquiry: Inquiry, data: Record | None, **evidence: Any) -> Finding:
    subject = inquiry.subject
    code = str((data or {}).get("delinquency_code"))
    if code in NO_RECORD:
        data = None
    listing = LISTINGS.get(STANDINGS.get(code, "")) if data is not None else None
    who, match = _subject_details(subject, data)
    details = {
        **who,
        "listingStatus": listing,
        # Who listed what, and for how much, is not told.
        "listings": [] if listing == "NOT_LISTED" else None,
        "totalOverdue": None,
        "currency": "KES" if data is not None else None,
        "clearanceCertificate": None,
    }
    flags = _common(subject, data, details, match)
    if data is not None and listing is None:
        logger.warning("Metropol gave a delinquency code that is not known")
        flags["ADVERSE_LISTING"] = NOT_CLEAN
    if listing == "LISTED":
        flags["ADVERSE_LISTING"] = "A lender lists this person as not paying a loan."
    if listing == "HISTORICAL":
        flags["PAST_DELINQUENCY"] = "A lender has listed this person in the past."
    known = listing is not None and is_compared(subject, match)
    return _finding(flags, details, known=known, match=match, **evidence)


def accounts(inquiry: Inquiry, data: Record | None, **evidence: Any) -> Finding:
    """Of a person or a company; the full reports have more."""
    subject = inquiry.subject
    if data is not None and str(data.get("delinquency_code")) == "001":
        data = None
    found = data or {}
    listed = found.get("account_info")
    if data is not None and not isinstance(listed, list):
        raise unavailable_error("Metropol", "answered without accounts")
    each = [_account(one) for one in listed or [] if isinstance(one, dict)]
    status = STANDINGS.get(str(found.get("delinquency_code")))
    points = _points(found.get("credit_score"))
    full = inquiry.check != "CRB_STANDARD"
    details, match = _subject_details(subject, data)
    if inquiry.check == "CRB_FULL":
        details |= _contacts(found, is_found=data is not None)
    details |= _accounts(data, each, points, status)
    details |= _behaviour(found) if full else {}
    flags = _common(subject, data, details, match)
    if status == "CURRENT" or details["nonPerformingAccounts"]:
        bad = "An account is more than 90 days in arrears, or written off."
        flags["NON_PERFORMING_ACCOUNT"] = bad
    elif status == "HISTORICAL":
        flags["PAST_DELINQUENCY"] = "There have been arrears in the past."
    if details.get("bouncedChequesLast12Months"):
        flags["BOUNCED_CHEQUES"] = "Cheques bounced in the last 12 months."
    if details.get("fraudAlert"):
        flags["FRAUD_ALERT"] = "A lender has filed a fraud alert."
    known = status is not None and points is not None and all(map(_is_known, each))
    if full:
        needed = ("fraudAlert", "bouncedChequesLast12Months")
        known = known and all(details[key] is not None for key in needed)
    known = known and _is_compared(subject, details, match)
    more = {"known": known, "credit_score": points, "match": match}
    return _finding(flags, details, **more, **evidence)


def _finding(flags: dict[str, str], details: dict[str, Any], **more: Any) -> Finding:
    clear = "Nothing is held against the subject."
    if not more["known"]:
        clear = "The bureau's answer leaves something open."
    source = more.pop("source")
    summary = worst_message(flags, clear)
    return build_finding(source, summary=summary, flags=flags, details=details, **more)


def _common(
    subject: Record, data: Record | None, details: Record, match: Comparison | None
) -> dict[str, str]:
    if data is None:
        return {"NO_CREDIT_RECORD": "No lender has reported the subject to the bureau."}
    flags = name_flags(subject, match, OTHER_NAME)
    if not _is_compared(subject, details, match):
        flags["NAME_NOT_COMPARED"] = NO_NAME
    points = details.get("creditScore")
    if points is not None and points <= LOW:
        flags["LOW_CREDIT_SCORE"] = "The credit score is 410 or lower."
    return flags


def _subject_details(
    subject: Record, data: Record | None
) -> tuple[dict[str, Any], Comparison | None]:
    """The subject in the bureau's words, and how its name compares."""
    found = data or {}
    verified = found.get("identity_verification")
    person = verified if isinstance(verified, dict) else found
    names = [person.get(key) for key in ("first_name", "other_name")]
    names.append(person.get("last_name") or person.get("surname"))
    name = " ".join(filter(None, map(_text, names))) or None
    if is_company(subject):
        name = _text(found.get("company_name")) or name
        key, called = "registrationNumber", "registeredName"
    else:
        key, called = "idNumber", "fullName"
    match = name_match(subject, name)
    who = {key: subject.get(key), called: name, "nameMatch": likeness_of(match)}
    return who, match


def _is_compared(subject: Record, details: Record, match: Comparison | None) -> bool:
    """Return whether the name was compared. A company can be ordered by its number
    alone: then the bureau has to give a name, for the client to see whose record it is.
    """
    is_named = not is_company(subject) or details["registeredName"] is not None
    return is_named and is_compared(subject, match)


def _contacts(found: Record, *, is_found: bool) -> dict[str, Any]:
    verified = _record(found.get("identity_verification"))
    scrub = _record(found.get("identity_scrub"))
    phones = [_text(one) for one in _list(scrub.get("phone"))]
    streets = map(_record, _list(scrub.get("physical_address")))
    employers = map(_record, _list(scrub.get("employment")))
    return {
        "dateOfBirth": _day(verified.get("date_of_birth") or verified.get("dob")),
        "phone": next(filter(None, phones), None),
        "addresses": [
            {
                "street": _text(one.get("address")),
                "town": _text(one.get("town")),
                "country": _text(one.get("country")),
            }
            for one in streets
        ]
        if is_found
        else None,
        "employers": [
            {
                "name": _text(one.get("employer_name")),
                "reportedOn": _day(one.get("employment_date")),
            }
            for one in employers
        ]
        if is_found
        else None,
    }


def _account(one: Record) -> dict[str, Any]:
    status = STATUS.get(str(one.get("account_status")).strip().casefold())
    if status is None:
        logger.warning("Metropol gave an account a status that is not known")
    return {
        "lender": None,
        "product": PRODUCTS.get(_count(one.get("product_type_id")) or 0),
        "accountNumber": _text(one.get("account_number")),
        "status": status,
        "openedOn": _day(one.get("date_opened")),
        "originalAmount": _number(_money(one.get("original_amount"))),
        "balance": _number(_money(one.get("current_balance"))),
        "overdue": _number(_money(one.get("overdue_balance"))),
        "daysInArrears": _count(one.get("days_in_arrears")),
        "lastPaidOn": _day(one.get("last_payment_date")),
        "currency": _text(one.get("account_currency")),
    }


def _is_known(account: Record) -> bool:
    return None not in (account["status"], account["daysInArrears"], account["overdue"])


def _accounts(
    data: Record | None,
    each: list[dict[str, Any]],
    points: int | None,
    status: str | None,
) -> dict[str, Any]:
    days = [one["daysInArrears"] or 0 for one in each]
    bad = [
        one["status"] in BAD or late > 90 for one, late in zip(each, days, strict=True)
    ]
    currencies = {one.pop("currency") or "KES" for one in each} or {"KES"}
    # Sums over several currencies would be none.
    one_currency = next(iter(currencies)) if len(currencies) == 1 else None
    figures = {
        "accounts": each,
        "openAccounts": sum(one["status"] not in SETTLED for one in each),
        "nonPerformingAccounts": sum(bad),
        "totalBalance": _total(each, "balance") if one_currency else None,
        "totalOverdue": _total(each, "overdue") if one_currency else None,
        "worstDaysInArrears": max(days, default=0),
        "currency": one_currency,
    }
    if data is None:
        figures = dict.fromkeys(figures)
    told = {"creditScore": points, "scoreBand": None, "delinquencyStatus": status}
    return {**told, **figures}


def _behaviour(found: Record) -> dict[str, Any]:
    def of_the_year(key: str) -> int | None:
        return _count(_record(found.get(key)).get("last_12_months"))

    trend = found.get("metro_score_trend")
    fraud, guarantor = found.get("has_fraud"), found.get("is_guarantor")
    return {
        "scoreTrend": [
            {
                "month": _text(_record(one).get("month")),
                "creditScore": _points(_record(one).get("credit_score")),
            }
            for one in trend
        ]
        if isinstance(trend, list)
        else None,
        "enquiriesLast12Months": of_the_year("no_of_enquiries"),
        "bouncedChequesLast12Months": of_the_year("no_of_bounced_cheques"),
        # Which loans somebody guarantees is not told.
        "guarantees": [] if guarantor is False else None,
        "fraudAlert": fraud if isinstance(fraud, bool) else None,
    }


def _points(value: Any) -> int | None:
    points = _count(value)
    return points if points is not None and LEAST <= points <= MOST else None


def _count(value: Any) -> int | None:
    number = _money(value)
    return int(number) if number is not None else None


def _money(value: Any) -> Decimal | None:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _number(amount: Decimal | None) -> int | float | None:
    """As JSON has it, in cents."""
    if amount is None:
        return None
    whole = amount.quantize(Decimal("0.01"))
    return int(whole) if whole == whole.to_integral_value() else float(whole)


def _total(each: Iterable[Record], key: str) -> int | float | None:
    amounts = [_money(one[key]) for one in each]
    if None in amounts:
        return None
    return _number(sum((a for a in amounts if a is not None), Decimal(0)))


def _day(value: Any) -> str | None:
    try:
        return date.fromisoformat(str(value)[:10]).isoformat()
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    text = str(value).strip() if isinstance(value, str | int) else ""
    return text if text and text.casefold() != "none" else None


def _record(value: Any) -> Record:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
