"""Credit reports of Metropol CRB, Kenya, by its REST interface (v2_1).

Metropol gives its guide, the port and the keys to subscribers only. The hash covers the
exact bytes of the request. Members are sent in the guide's order: Metropol refused an
older client that used another.

Metropol writes money as a text with five decimals, an absent date as "None", and the
status of an account as a word or a letter.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any, Literal

from verification.providers.base import Finding, Inquiry, Provider, Subject
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
    clean_text,
    is_same_number,
    join_words,
    national_id,
    refused_error,
    require_covered_country,
    unavailable_error,
    unknown_code_error,
    upper_number,
)
from verification.providers.name_comparison import Comparison
from verification.values.clock import now

logger = logging.getLogger(__name__)

SOURCE = "Metropol"
SECONDS = 24.0
# Seconds within which Metropol does not answer the same question again.
REPEAT_WAIT = 60.0
PERSON, COMPANY = "001", "005"
# Members that some products require: an amount to be lent, and reason 3, to verify.
LOAN = {"loan_amount": 10000}
REASON = {"report_reason": 3}

Outcome = Literal["FOUND", "NOT_FOUND", "CLOCK", "SAME", "REFUSED"]
CODES: dict[str, tuple[Outcome, str]] = {
    "": ("FOUND", ""),
    "200": ("FOUND", ""),
    "1010": ("FOUND", ""),
    "E017": ("NOT_FOUND", ""),
    "E002": ("REFUSED", "misses the key"),
    "E003": ("REFUSED", "does not authorise the account, or the port is another's"),
    "E004": ("REFUSED", "does not take the key"),
    "E016": ("REFUSED", "does not sell this report to the account"),
    "E018": ("REFUSED", "answers about test identities alone at this address"),
    "E019": ("REFUSED", "does not take this kind of number from the account"),
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
NO_ACCOUNTS = "002"
NO_RECORD = {"001", NO_ACCOUNTS}
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
UNREPORTED = "No lender has reported the subject to the bureau."
OTHER_NAME = "Lenders reported another name for this number."


@dataclass(frozen=True, slots=True)
class ReportProduct:
    type: int
    path: str
    read: Callable[..., Finding]
    identity: str = PERSON
    also: Mapping[str, Any] = field(default_factory=dict)


class Answer(Record):
    """A record of Metropol."""

    def count(self, key: str) -> int | None:
        number = self.amount(key)
        return int(number) if number is not None and number >= 0 else None

    def points(self) -> int | None:
        points = self.count("credit_score")
        return points if points is not None and LEAST <= points <= MOST else None

    def amount(self, key: str) -> Decimal | None:
        with suppress(InvalidOperation):
            number = Decimal(self.text(key) or "")
            return number if number.is_finite() else None
        return None


class Metropol(Provider):
    name = "metropol"
    longest_seconds = SECONDS
    countries = frozenset({"KE"})
    not_told = {
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
        subject = inquiry.subject
        number = (
            national_id(subject, SOURCE)
            if is_person
            else upper_number(subject.get("registrationNumber"))
        )
        if report is None or not number:
            raise refused_error(SOURCE, "cannot be asked this")
        body = _body(report, number, inquiry)
        for _ in range(2):
            reply = self._post(report.path, body)
            answer = self._read(reply)
            outcome, why = _outcome(answer)
            if outcome != "CLOCK":
                break
        if outcome == "CLOCK":
            raise unavailable_error(SOURCE, why, may_be_charged=False)
        if outcome == "REFUSED":
            raise refused_error(SOURCE, why)
        if outcome == "SAME":
            late = f"{SOURCE} has answered this before, and does not do so again."
            raise pending_error(inquiry, now(), REPEAT_WAIT, late)
        return report.read(
            inquiry,
            _data(answer, number) if outcome == "FOUND" else None,
            source=self.name,
            provider_reference=answer.reference("trx_id"),
            response_digest=reply.digest,
        )

    def _post(self, path: str, body: bytes) -> Reply:
        stamp = f"{now():%Y%m%d%H%M%S%f}"
        headers = {
            "X-METROPOL-REST-API-KEY": self._public,
            "X-METROPOL-REST-API-HASH": request_hash(
                self._private, body, self._public, stamp
            ),
            "X-METROPOL-REST-API-TIMESTAMP": stamp,
        }
        return self._api.fetch("POST", path, body=body, headers=headers)

    def _read(self, reply: Reply) -> Answer:
        try:
            return Answer(self._api.read_object(reply))
        except RequestRejected as e:
            # A code tells more than the status.
            answer = Answer.of(e.answer)
            if not answer.get("api_code"):
                raise
            return answer


def request_hash(private: str, body: bytes, public: str, stamp: str) -> str:
    signed = private.encode() + body + public.encode() + stamp.encode()
    return sha256(signed).hexdigest()


def _body(report: ReportProduct, number: str, inquiry: Inquiry) -> bytes:
    """Return the request. No report takes a phone; an unknown member is an error."""
    body: dict[str, Any] = {
        "report_type": report.type,
        "identity_number": number,
        "identity_type": report.identity,
        **report.also,
    }
    if report.type == 10:
        body["application_ref_no"] = inquiry.reference
    return json.dumps(body, separators=(",", ":")).encode()


def _outcome(answer: Answer) -> tuple[Outcome, str]:
    code = answer.get("api_code")
    code = "" if code is None else str(code)
    known = CODES.get(code)
    # A record together with an error is as strange as an unknown code.
    if known is None or (known[0] == "FOUND" and answer.get("has_error") is not False):
        raise unknown_code_error(SOURCE, code)
    return known


def _data(answer: Answer, number: str) -> Answer:
    """Return the record: production may wrap it in `data`, the test server does not."""
    data = answer.record("data") if isinstance(answer.get("data"), dict) else answer
    told = data.text("identity_number")
    if told and not is_same_number(told, number):
        raise unavailable_error(SOURCE, "answered about somebody else")
    return data


def score(inquiry: Inquiry, data: Answer | None, **evidence: Any) -> Finding:
    subject = inquiry.subject
    points = (data or Answer()).points()
    details, match = _subject_details(subject, data)
    if inquiry.check == "CREDITBUREAU_SCORE":
        details["bureau"] = "Metropol" if data is not None else None
    details |= {"creditScore": points, "scoreBand": None, "probabilityOfDefault": None}
    flags = _common_flags(subject, data, details, match)
    known = data is None or (
        points is not None and _is_compared(subject, details, match)
    )
    return _finding(flags, details, points, known=known, match=match, **evidence)


def standing(inquiry: Inquiry, data: Answer | None, **evidence: Any) -> Finding:
    subject = inquiry.subject
    code = str((data or Answer()).get("delinquency_code"))
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
    flags = _common_flags(subject, data, details, match)
    if data is not None and listing is None:
        logger.warning("Metropol returned an unknown delinquency code")
    if listing == "LISTED":
        flags["ADVERSE_LISTING"] = "A lender lists this person as not paying a loan."
    if listing == "HISTORICAL":
        flags["PAST_DELINQUENCY"] = "A lender has listed this person in the past."
    known = data is None or (listing is not None and is_compared(subject, match))
    return _finding(flags, details, None, known=known, match=match, **evidence)


def accounts(inquiry: Inquiry, data: Answer | None, **evidence: Any) -> Finding:
    """Make the finding of a standard or full report on a person or a company."""
    subject = inquiry.subject
    code = str((data or Answer()).get("delinquency_code"))
    if code == "001":
        data = None
    found = data or Answer()
    is_told = code == NO_ACCOUNTS or isinstance(found.get("account_info"), list)
    if data is not None and not is_told:
        raise unavailable_error(SOURCE, "answered without accounts")
    listed = [_account(Answer.of(each)) for each in found.entries("account_info")]
    status = STANDINGS.get(code)
    points = found.points()
    full = inquiry.check != "CRB_STANDARD"
    details, match = _subject_details(subject, data)
    if inquiry.check == "CRB_FULL":
        details |= _contacts(found, is_found=data is not None)
    details |= {"creditScore": points, "scoreBand": None, "delinquencyStatus": status}
    details |= _account_figures(listed, is_found=data is not None)
    details |= _behaviour(found) if full else {}
    flags = _common_flags(subject, data, details, match)
    has_none = code == NO_ACCOUNTS and not listed
    if has_none:
        # Other members may still hold something against the subject.
        flags["NO_CREDIT_RECORD"] = UNREPORTED
    if status == "CURRENT" or any(map(_is_bad, listed)):
        bad = "An account is more than 90 days in arrears, or written off."
        flags["NON_PERFORMING_ACCOUNT"] = bad
    elif status == "HISTORICAL":
        flags["PAST_DELINQUENCY"] = "There have been arrears in the past."
    if details.get("bouncedChequesLast12Months"):
        flags["BOUNCED_CHEQUES"] = "Cheques bounced in the last 12 months."
    if details.get("fraudAlert"):
        flags["FRAUD_ALERT"] = "A lender has filed a fraud alert."
    figures = ("status", "daysInArrears", "overdue")
    is_whole = all(None not in map(account.get, figures) for account in listed)
    known = has_none or (status is not None and points is not None and is_whole)
    if full:
        needed = ("fraudAlert", "bouncedChequesLast12Months")
        known = known and all(details[key] is not None for key in needed)
    known = data is None or (known and _is_compared(subject, details, match))
    return _finding(flags, details, points, known=known, match=match, **evidence)


def _finding(
    flags: dict[str, str],
    details: dict[str, Any],
    points: int | None,
    *,
    known: bool,
    **evidence: Any,
) -> Finding:
    clear = "Nothing is held against the subject."
    if not known:
        clear = "The bureau's answer leaves something open."
    return build_finding(
        summary=worst_message(flags, clear),
        flags=flags,
        details=details,
        known=known,
        credit_score=points,
        **evidence,
    )


def _common_flags(
    subject: Subject,
    data: Answer | None,
    details: Mapping[str, Any],
    match: Comparison | None,
) -> dict[str, str]:
    if data is None:
        return {"NO_CREDIT_RECORD": UNREPORTED}
    flags = name_flags(subject, match, OTHER_NAME)
    if not _is_compared(subject, details, match):
        flags["NAME_NOT_COMPARED"] = NO_NAME
    points = details.get("creditScore")
    if points is not None and points <= LOW:
        flags["LOW_CREDIT_SCORE"] = "The credit score is 410 or lower."
    return flags


def _subject_details(
    subject: Subject, data: Answer | None
) -> tuple[dict[str, Any], Comparison | None]:
    """Return the details about the subject, and how its name compares."""
    found = data or Answer()
    person = found.record("identity_verification") or found
    name = join_words(
        person.text("first_name"),
        person.text("other_name"),
        person.text("last_name", "surname"),
    )
    key, called = "idNumber", "fullName"
    if is_company(subject):
        name = found.text("company_name") or name
        key, called = "registrationNumber", "registeredName"
    match = name_match(subject, name)
    details = {key: subject.get(key), called: name, "nameMatch": likeness_of(match)}
    return details, match


def _is_compared(
    subject: Subject, details: Mapping[str, Any], match: Comparison | None
) -> bool:
    """Return whether the name was compared.

    A client may state a company's number alone. The bureau must then give a name, so
    that the client sees whose record it is.
    """
    is_named = not is_company(subject) or details["registeredName"] is not None
    return is_named and is_compared(subject, match)


def _contacts(found: Answer, *, is_found: bool) -> dict[str, Any]:
    scrub = found.record("identity_scrub")
    phones = (clean_text(phone, found.absent) for phone in scrub.entries("phone"))
    addresses = [
        {
            "street": address.text("address"),
            "town": address.text("town"),
            "country": address.text("country"),
        }
        for address in scrub.records("physical_address")
    ]
    employers = [
        {
            "name": employer.text("employer_name"),
            "reportedOn": employer.day("employment_date"),
        }
        for employer in scrub.records("employment")
    ]
    return {
        "dateOfBirth": found.record("identity_verification").day(
            "date_of_birth", "dob"
        ),
        "phone": next(filter(None, phones), None),
        "addresses": addresses if is_found else None,
        "employers": employers if is_found else None,
    }


def _account(account: Answer) -> dict[str, Any]:
    status = STATUS.get(str(account.get("account_status")).strip().casefold())
    if status is None:
        logger.warning("Metropol returned an unknown status of an account")
    return {
        "lender": None,
        "product": PRODUCTS.get(account.count("product_type_id") or 0),
        "accountNumber": account.text("account_number"),
        "status": status,
        "openedOn": account.day("date_opened"),
        "currency": account.text("account_currency") or "KES",
        "originalAmount": _number(account.amount("original_amount")),
        "balance": _number(account.amount("current_balance")),
        "overdue": _number(account.amount("overdue_balance")),
        "daysInArrears": account.count("days_in_arrears"),
        "lastPaidOn": account.day("last_payment_date"),
    }


def _account_figures(
    accounts: list[dict[str, Any]], *, is_found: bool
) -> dict[str, Any]:
    opened = [account for account in accounts if account["status"] not in SETTLED]
    late = [account["daysInArrears"] for account in opened]
    bad = [_is_bad(account) for account in opened]
    is_told = all(account["status"] for account in opened)
    currencies = {account["currency"] for account in accounts} or {"KES"}
    # Amounts in several currencies have no sum.
    currency = next(iter(currencies)) if len(currencies) == 1 else None
    figures = {
        "accounts": accounts,
        "openAccounts": len(opened) if is_told else None,
        "nonPerformingAccounts": None if None in bad else bad.count(True),
        "totalBalance": _total(accounts, "balance") if currency else None,
        "totalOverdue": _total(accounts, "overdue") if currency else None,
        "worstDaysInArrears": None if None in late else max(late, default=0),
        "currency": currency,
    }
    return figures if is_found else dict.fromkeys(figures)


def _is_bad(account: Mapping[str, Any]) -> bool | None:
    """Return whether an account is non-performing, or None if that is unknown."""
    status, days = account["status"], account["daysInArrears"]
    if status in BAD or (days or 0) > 90:
        return status not in SETTLED
    return None if None in {status, days} else False


def _behaviour(found: Answer) -> dict[str, Any]:
    trend = [
        {"month": month.text("month"), "creditScore": month.points()}
        for month in map(Answer.of, found.entries("metro_score_trend"))
    ]
    has_trend = isinstance(found.get("metro_score_trend"), list)
    enquiries = found.record("no_of_enquiries")
    cheques = found.record("no_of_bounced_cheques")
    fraud, guarantor = found.get("has_fraud"), found.get("is_guarantor")
    return {
        "scoreTrend": trend if has_trend else None,
        "enquiriesLast12Months": enquiries.count("last_12_months"),
        "bouncedChequesLast12Months": cheques.count("last_12_months"),
        # Metropol does not tell which loans a guarantor guarantees.
        "guarantees": [] if guarantor is False else None,
        "fraudAlert": fraud if isinstance(fraud, bool) else None,
    }


def _number(amount: Decimal | None) -> int | float | None:
    """Return the amount as a JSON number, rounded to cents."""
    if amount is None:
        return None
    whole = amount.quantize(Decimal("0.01"))
    return int(whole) if whole == whole.to_integral_value() else float(whole)


def _total(accounts: Iterable[Mapping[str, Any]], key: str) -> int | float | None:
    amounts = [account[key] for account in accounts]
    if None in amounts:
        return None
    return _number(sum((Decimal(str(amount)) for amount in amounts), Decimal(0)))


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
