"""Credit reports of Metropol CRB, Kenya, by its REST interface (v2_1).

Metropol gives its guide, the port and the keys to subscribers only. The hash covers the
exact bytes of the request. Members are sent in the guide's order: Metropol refused an
older client that used another.

In its answers money is a text with five decimals, an absent date is the text "None",
and the status of an account is a word or a letter.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any, ClassVar, Literal

from verification.providers.base import Finding, Inquiry, NotTold
from verification.providers.findings import (
    NO_NAME,
    build_finding,
    is_company,
    is_compared,
    likeness_of,
    name_flags,
    name_match,
    pending_error,
    worst_message,
)
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    RequestRejected,
    as_list,
    as_object,
    as_objects,
    clean_text,
    iso_date,
    printable_code,
    refused_error,
    require_covered_country,
    unavailable_error,
)
from verification.providers.name_comparison import Comparison

logger = logging.getLogger(__name__)

SOURCE = "Metropol"
SECONDS = 24.0
# Seconds within which Metropol does not answer the same question again.
REPEAT_WAIT = 60.0
PERSON, COMPANY = "001", "005"
# Members that some products require: an amount to be lent, and reason 3, to verify.
LOAN = {"loan_amount": 10000}
REASON = {"report_reason": 3}

Outcome = Literal["FOUND", "NOT_FOUND", "NO_ANSWER", "CLOCK", "SAME", "REFUSED"]
CODES: dict[str, tuple[Outcome, str]] = {
    "": ("FOUND", ""),
    "200": ("FOUND", ""),
    "1010": ("FOUND", ""),
    "E017": ("NOT_FOUND", ""),
    "E019": ("NO_ANSWER", "has no answer at present"),
    "E002": ("REFUSED", "misses the key"),
    "E003": ("REFUSED", "does not authorise the account, or the port is another's"),
    "E004": ("REFUSED", "does not take the key"),
    "E016": ("REFUSED", "does not sell this report to the account"),
    "E018": ("REFUSED", "answers about test identities alone at this address"),
    "E023": ("REFUSED", "misses the time of the request"),
    "E024": ("CLOCK", "does not take the time of the request"),
    "E025": ("CLOCK", "does not take the time of the request"),
    "E026": ("REFUSED", "misses the hash"),
    "E027": ("REFUSED", "does not take the hash"),
    "E028": ("REFUSED", "does not take the credentials"),
    "E029": ("REFUSED", "does not sell this report to the account"),
    "E030": ("REFUSED", "does not take the credentials"),
    "E409": ("SAME", ""),
}


LOW, LEAST, MOST = 410, 200, 900
STANDINGS = {"003": "NONE", "004": "CURRENT", "005": "HISTORICAL"}
LISTINGS = {"NONE": "NOT_LISTED", "CURRENT": "LISTED", "HISTORICAL": "HISTORICAL"}
NO_RECORD = {"001", "002"}
# Metropol's letter and word for the status of an account, and our word.
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


@dataclass(frozen=True, slots=True)
class ReportProduct:
    type: int
    path: str
    read: Callable[..., Finding]
    identity: str = PERSON
    also: Mapping[str, Any] = field(default_factory=dict)


class Metropol:
    name: ClassVar[str] = "metropol"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = False
    countries: ClassVar[frozenset[str]] = frozenset({"KE"})
    not_told: ClassVar[NotTold] = {
        "CRB_SCORE": ("scoreBand", "probabilityOfDefault"),
        "CRB_STANDARD": ("scoreBand",),
        "CRB_FULL": ("scoreBand",),
        "CREDITBUREAU_SCORE": ("scoreBand", "probabilityOfDefault"),
        "CREDITBUREAU_STATUS": ("totalOverdue", "clearanceCertificate"),
        "CREDITBUREAU_COMP": ("scoreBand",),
    }

    def __init__(
        self,
        public_key: str,
        private_key: str,
        url: str,
        opened: Collection[str] = (),
    ) -> None:
        self._public, self._private = public_key, private_key
        self._api = Api(SOURCE, url, opened=opened, seconds=SECONDS)

    def ask(self, inquiry: Inquiry) -> Finding:
        require_covered_country(self, inquiry.subject, SOURCE)
        report = REPORTS.get(inquiry.check)
        is_person = report is None or report.identity == PERSON
        key = "idNumber" if is_person else "registrationNumber"
        number = re.sub(r"\s", "", str(inquiry.subject.get(key) or ""))
        if report is None or not number:
            raise refused_error(SOURCE, "cannot be asked this")
        body = _body(report, number, inquiry)
        for _ in range(2):
            reply = self._post(report.path, body)
            answer = self._read(reply)
            outcome, why = _outcome(answer)
            if outcome != "CLOCK":
                break
        if outcome in {"CLOCK", "NO_ANSWER"}:
            raise unavailable_error(SOURCE, why)
        if outcome == "REFUSED":
            raise refused_error(SOURCE, why)
        if outcome == "SAME":
            late = f"{SOURCE} has answered this before, and does not do so again."
            raise pending_error(inquiry, datetime.now(UTC), REPEAT_WAIT, late)
        found = outcome == "FOUND"
        data = _data(answer, number) if found else None
        evidence = {
            "source": self.name,
            "provider_reference": _reference(answer),
            "response_digest": reply.digest,
        }
        return report.read(inquiry, data, **evidence)

    def _post(self, path: str, body: bytes) -> Reply:
        stamp = f"{datetime.now(UTC):%Y%m%d%H%M%S%f}"
        headers = {
            "X-METROPOL-REST-API-KEY": self._public,
            "X-METROPOL-REST-API-HASH": request_hash(
                self._private, body, self._public, stamp
            ),
            "X-METROPOL-REST-API-TIMESTAMP": stamp,
        }
        return self._api.fetch("POST", path, body=body, headers=headers)

    def _read(self, reply: Reply) -> Record:
        try:
            return self._api.read_object(reply)
        except RequestRejected as e:
            # A code tells more than the status.
            answer = as_object(e.answer)
            if not answer.get("api_code"):
                raise
            return answer


def request_hash(private: str, body: bytes, public: str, stamp: str) -> str:
    signed = private.encode() + body + public.encode() + stamp.encode()
    return sha256(signed).hexdigest()


def _body(report: ReportProduct, number: str, inquiry: Inquiry) -> bytes:
    body: dict[str, Any] = {
        "report_type": report.type,
        "identity_number": number,
        "identity_type": report.identity,
        **report.also,
    }
    if report.type == 10:
        body["application_ref_no"] = inquiry.reference
    return json.dumps(body, separators=(",", ":")).encode()


def _outcome(answer: Mapping[str, Any]) -> tuple[Outcome, str]:
    code = answer.get("api_code")
    code = "" if code is None else str(code)
    known = CODES.get(code)
    # A record together with an error is as strange as an unknown code.
    if known is None or (known[0] == "FOUND" and answer.get("has_error") is not False):
        shown = printable_code(code)
        logger.warning("Metropol answered with the unknown code %s", shown)
        why = f"answered with code {shown}, which is not understood"
        raise unavailable_error(SOURCE, why)
    return known


def _data(answer: Mapping[str, Any], number: str) -> dict[str, Any]:
    """Return the record: production may wrap it in `data`, the test server does not."""
    inner = answer.get("data")
    data = dict(inner if isinstance(inner, dict) else answer)
    if str(data.get("identity_number", number)) != number:
        raise unavailable_error(SOURCE, "answered about somebody else")
    return data


def _reference(answer: Mapping[str, Any]) -> str | None:
    reference = answer.get("trx_id")
    return reference[:64] if isinstance(reference, str) else None


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
    details, match = _subject_details(subject, data)
    details |= {
        "listingStatus": listing,
        # Metropol does not tell the lenders or the amounts.
        "listings": [] if listing == "NOT_LISTED" else None,
        "totalOverdue": None,
        "currency": "KES" if data is not None else None,
        "clearanceCertificate": None,
    }
    flags = _common(subject, data, details, match)
    if data is not None and listing is None:
        logger.warning("Metropol returned an unknown delinquency code")
        flags["ADVERSE_LISTING"] = NOT_CLEAN
    if listing == "LISTED":
        flags["ADVERSE_LISTING"] = "A lender lists this person as not paying a loan."
    if listing == "HISTORICAL":
        flags["PAST_DELINQUENCY"] = "A lender has listed this person in the past."
    known = listing is not None and is_compared(subject, match)
    return _finding(flags, details, known=known, match=match, **evidence)


def accounts(inquiry: Inquiry, data: Record | None, **evidence: Any) -> Finding:
    """Make the finding of a standard or full report on a person or a company."""
    subject = inquiry.subject
    if data is not None and str(data.get("delinquency_code")) == "001":
        data = None
    found = data or {}
    listed = found.get("account_info")
    if data is not None and not isinstance(listed, list):
        raise unavailable_error(SOURCE, "answered without accounts")
    each = [_account(one) for one in as_objects(listed)]
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
    """Return the details about the subject, and how its name compares."""
    found = data or {}
    person = found.get("identity_verification")
    person = person if isinstance(person, dict) else found
    names = [person.get(key) for key in ("first_name", "other_name")]
    names.append(person.get("last_name") or person.get("surname"))
    name = " ".join(filter(None, map(_text, names))) or None
    if is_company(subject):
        name = _text(found.get("company_name")) or name
        key, called = "registrationNumber", "registeredName"
    else:
        key, called = "idNumber", "fullName"
    match = name_match(subject, name)
    details = {key: subject.get(key), called: name, "nameMatch": likeness_of(match)}
    return details, match


def _is_compared(subject: Record, details: Record, match: Comparison | None) -> bool:
    """Return whether the name was compared.

    A client may state a company's number alone. The bureau must then give a name, so
    that the client sees whose record it is.
    """
    is_named = not is_company(subject) or details["registeredName"] is not None
    return is_named and is_compared(subject, match)


def _contacts(found: Record, *, is_found: bool) -> dict[str, Any]:
    verified = as_object(found.get("identity_verification"))
    scrub = as_object(found.get("identity_scrub"))
    phones = [_text(one) for one in as_list(scrub.get("phone"))]
    streets = map(as_object, as_list(scrub.get("physical_address")))
    employers = map(as_object, as_list(scrub.get("employment")))
    return {
        "dateOfBirth": iso_date(verified.get("date_of_birth") or verified.get("dob")),
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
                "reportedOn": iso_date(one.get("employment_date")),
            }
            for one in employers
        ]
        if is_found
        else None,
    }


def _account(one: Record) -> dict[str, Any]:
    status = STATUS.get(str(one.get("account_status")).strip().casefold())
    if status is None:
        logger.warning("Metropol returned an unknown status of an account")
    return {
        "lender": None,
        "product": PRODUCTS.get(_count(one.get("product_type_id")) or 0),
        "accountNumber": _text(one.get("account_number")),
        "status": status,
        "openedOn": iso_date(one.get("date_opened")),
        "originalAmount": _number(_money(one.get("original_amount"))),
        "balance": _number(_money(one.get("current_balance"))),
        "overdue": _number(_money(one.get("overdue_balance"))),
        "daysInArrears": _count(one.get("days_in_arrears")),
        "lastPaidOn": iso_date(one.get("last_payment_date")),
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
    # Amounts in several currencies have no sum.
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
    summary = {"creditScore": points, "scoreBand": None, "delinquencyStatus": status}
    return {**summary, **figures}


def _behaviour(found: Record) -> dict[str, Any]:
    def of_the_year(key: str) -> int | None:
        return _count(as_object(found.get(key)).get("last_12_months"))

    trend = found.get("metro_score_trend")
    fraud, guarantor = found.get("has_fraud"), found.get("is_guarantor")
    return {
        "scoreTrend": [
            {
                "month": _text(as_object(one).get("month")),
                "creditScore": _points(as_object(one).get("credit_score")),
            }
            for one in trend
        ]
        if isinstance(trend, list)
        else None,
        "enquiriesLast12Months": of_the_year("no_of_enquiries"),
        "bouncedChequesLast12Months": of_the_year("no_of_bounced_cheques"),
        # Metropol does not tell which loans a guarantor guarantees.
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
    """Return the amount as a JSON number, rounded to cents."""
    if amount is None:
        return None
    whole = amount.quantize(Decimal("0.01"))
    return int(whole) if whole == whole.to_integral_value() else float(whole)


def _total(each: Iterable[Record], key: str) -> int | float | None:
    amounts = [_money(one[key]) for one in each]
    if None in amounts:
        return None
    return _number(sum((a for a in amounts if a is not None), Decimal(0)))


def _text(value: Any) -> str | None:
    return clean_text(value, absent={"none"})


SCORE = ReportProduct(3, "/score/consumer", score)
REPORTS = {
    "CRB_SCORE": SCORE,
    "CREDITBUREAU_SCORE": SCORE,
    "CREDITBUREAU_STATUS": ReportProduct(2, "/delinquency/status", standing, also=LOAN),
    "CRB_STANDARD": ReportProduct(
        8, "/report/credit_info", accounts, also=LOAN | REASON
    ),
    "CRB_FULL": ReportProduct(12, "/report/credit_info", accounts, also=LOAN | REASON),
    "CREDITBUREAU_COMP": ReportProduct(
        10, "/report/credit_info_enhanced", accounts, COMPANY, LOAN | REASON
    ),
}
