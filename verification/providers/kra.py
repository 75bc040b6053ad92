"""PINs at the Kenya Revenue Authority: GavaConnect, https://developer.go.ke

Unlike its sandbox, production masks names and PINs ("J**h M**ua", "A***7Q"). An
application there is for one product, so that "PIN by PIN" and "PIN by ID" may need a
pair of credentials each.
"""

from __future__ import annotations

import logging
import re
from base64 import b64encode
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Literal

from verification.providers.base import (
    Finding,
    Inquiry,
    NotTold,
    Refused,
    covers_subject,
)
from verification.providers.http_api import (
    FOREIGN,
    REFUSED,
    Api,
    Reply,
    RequestRejected,
    unavailable_error,
)
from verification.providers.scoring import (
    build_finding,
    is_company,
    is_compared,
    likeness_of,
    name_flags,
    name_match,
)
from verification.providers.tokens import TokenCache

logger = logging.getLogger(__name__)

SOURCE = "KRA"
TOKEN_PATH = "/v1/token/generate"  # noqa: S105
# A check may need six calls: two tokens, two questions, and each of them again.
SECONDS = 9.0
# Tokens are said to last an hour; one that dies on the way costs a call.
EARLY, LIFE = 60.0, 300.0
# What is asked of each product, and its codes.
BY_PIN, BY_ID = "/checker/v1/pinbypin", "/checker/v1/pin"
Verdict = Literal["FOUND", "NOT_FOUND"]
CODES: dict[str, Verdict] = {
    "23000": "FOUND",
    "30000": "FOUND",
    "19005": "NOT_FOUND",
    "30002": "NOT_FOUND",
}
TYPES = {"individual": "INDIVIDUAL", "non individual": "COMPANY"}
OTHER_NAME = "The revenue authority has another name for this PIN."
NAME_UNKNOWN = "The PIN is active; the name could not be compared."
STATUSES = {
    "active": "ACTIVE",
    "suspended": "SUSPENDED",
    "cancelled": "CANCELLED",
    "stopped": "STOPPED",
}
MESSAGES = {
    "SUSPENDED": "The PIN is suspended.",
    "CANCELLED": "The PIN is cancelled.",
    "STOPPED": "The PIN is stopped.",
}


@dataclass(frozen=True, slots=True)
class _Answer:
    verdict: Verdict
    # What it says of the taxpayer; empty where nobody was found.
    data: dict[str, Any]
    reply: Reply


class Kra:
    name: ClassVar[str] = "kra"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset({"KE"})
    not_told: ClassVar[NotTold] = {
        "KRA_PIN": ("taxStation", "registeredAddress", "obligations")
    }

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        url: str = "https://api.kra.go.ke",
        opened: Collection[str] = (),
        *,
        by_id_client_id: str = "",
        by_id_client_secret: str = "",
    ) -> None:
        self._api = Api(SOURCE, url, opened=opened, seconds=SECONDS)
        by_pin = self._token(client_id, client_secret)
        self._tokens = {BY_PIN: by_pin, BY_ID: by_pin}
        if by_id_client_id:
            self._tokens[BY_ID] = self._token(by_id_client_id, by_id_client_secret)

    def ask(self, inquiry: Inquiry) -> Finding:
        if inquiry.check != "KRA_PIN":
            raise Refused(REFUSED, f"{SOURCE} does not answer {inquiry.check}.")
        if not covers_subject(self, inquiry.subject):
            raise Refused(REFUSED, FOREIGN.format(SOURCE))
        subject = inquiry.subject
        if subject.get("kraPin"):
            pin = re.sub(r"\s", "", subject["kraPin"]).upper()
            return _finding(subject, [self._by_pin(pin)])
        if is_company(subject) or not subject.get("idNumber"):
            raise Refused(REFUSED, f"{SOURCE} needs a PIN, or a person's ID number.")
        found = self._by_id(subject["idNumber"])
        pin = str(found.data.get("KRAPIN") or "")
        if found.verdict == "NOT_FOUND" or not pin or "*" in pin:
            return _finding(subject, [found])
        # By ID there is no status, and a suspended PIN is none to be content with.
        return _finding(subject, [found, self._by_pin(pin)])

    def _by_pin(self, pin: str) -> _Answer:
        answer = self._look_up(BY_PIN, {"KRAPIN": pin})
        told = answer.data.get("KRAPIN")
        if told and not _may_match(str(told), pin):
            raise unavailable_error(SOURCE, "answered about another PIN")
        return answer

    def _by_id(self, number: str) -> _Answer:
        kind = {"TaxpayerType": "KE", "TaxpayerID": number.strip()}
        answer = self._look_up(BY_ID, kind)
        data = {
            "KRAPIN": answer.data.get("TaxpayerPIN"),
            "Name": answer.data.get("TaxpayerName"),
            "TypeOfTaxpayer": "Individual",
        }
        return _Answer(answer.verdict, data, answer.reply)

    def _look_up(self, path: str, asked: dict[str, str]) -> _Answer:
        reply = self._fetch(path, asked)
        try:
            body = self._api.read(reply)
        except RequestRejected as e:
            # An unknown number comes with 200 or with a 4xx.
            if _code(e.answer) not in CODES:
                raise
            body = e.answer
        return _parse_answer(path, body, reply)

    def _token(self, key: str, secret: str) -> TokenCache:
        credentials = _basic(key, secret)
        return TokenCache(lambda: _ask_token(self._api, credentials), SECONDS)

    def _fetch(self, path: str, asked: dict[str, str]) -> Reply:
        token = self._tokens[path]
        for _ in range(2):
            bearer = token.bearer()
            headers = {"Authorization": f"Bearer {bearer}"}
            reply = self._api.fetch("POST", path, json=asked, headers=headers)
            if not _has_expired(reply):
                break
            token.drop(bearer)
        return reply


def _ask_token(api: Api, credentials: str) -> tuple[str, float]:
    try:
        answer = api.call(
            "GET",
            TOKEN_PATH,
            params={"grant_type": "client_credentials"},
            headers={"Authorization": credentials},
        )
    except RequestRejected as e:
        told = f"{SOURCE} does not take the credentials (status {e.status})."
        raise Refused(REFUSED, told) from None
    bearer = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(bearer, str) or not bearer:
        raise unavailable_error(SOURCE, "answered without a token")
    return bearer, _life(answer.get("expires_in"))


def _life(seconds: object) -> float:
    """A number or a text that is one."""
    try:
        told = float(str(seconds))
    except ValueError:
        told = LIFE
    return max(told - EARLY, told / 2)


def _has_expired(reply: Reply) -> bool:
    """401, or the gateway's fault, which comes with status 500."""
    if reply.status == 401:
        return True
    body = reply.parsed() if reply.status == 500 else None
    fault = body.get("fault") if isinstance(body, dict) else None
    return isinstance(fault, dict) and "access_token_expired" in str(fault)


def _basic(key: str, secret: str) -> str:
    return "Basic " + b64encode(f"{key}:{secret}".encode()).decode()


def _parse_answer(path: str, body: Any, reply: Reply) -> _Answer:
    if not isinstance(body, dict):
        raise unavailable_error(SOURCE, "answered with JSON that is no object")
    code = _code(body)
    told = body.get("PINDATA") if path == BY_PIN else body
    data = told if isinstance(told, dict) else {}
    has_data = bool(data.get("KRAPIN") or data.get("TaxpayerPIN"))
    # Some answers by ID have the data alone.
    verdict = CODES.get(code, "FOUND" if not code and path == BY_ID else None)
    if verdict == "NOT_FOUND" and not has_data:
        return _Answer(verdict, {}, reply)
    is_ok = str(body.get("Status") or "OK").upper() == "OK"
    if verdict == "FOUND" and has_data and is_ok:
        return _Answer(verdict, data, reply)
    shown = code if re.fullmatch(r"\w{1,8}", code) else "?"
    logger.warning("KRA answered %s with code %s, which is not known", path, shown)
    raise unavailable_error(
        SOURCE, f"answered with code {shown}, which is not understood"
    )


def _code(body: Any) -> str:
    if not isinstance(body, dict):
        return ""
    keys = ("ResponseCode", "responseCode", "ErrorCode", "errorCode")
    return next((str(body[key]) for key in keys if body.get(key)), "")


def _may_match(told: str, pin: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"\*+", told.strip().upper())]
    return re.fullmatch(".*".join(parts), pin) is not None


def _finding(subject: dict[str, Any], answers: list[_Answer]) -> Finding:
    """What all answers say together; the last one knows most."""
    data: dict[str, Any] = {}
    for answer in answers:
        data |= {key: value for key, value in answer.data.items() if value}
    # The PIN by ID may be whole where the one by PIN is masked, and so may the name.
    whole = [answer.data for answer in answers[::-1]]
    name = _clearest([each.get("Name") for each in whole])
    match = name_match(subject, name)
    status = STATUSES.get(_plain(data.get("StatusOfPIN")))
    details = {
        "kraPin": _clearest(
            [each.get("KRAPIN") for each in whole] + [subject.get("kraPin")]
        ),
        "taxpayerName": name,
        "taxpayerType": TYPES.get(_plain(data.get("TypeOfTaxpayer"))),
        "pinStatus": status,
        "taxStation": None,
        "registeredAddress": None,
        "obligations": None,
        "nameMatch": likeness_of(match),
    }
    found = all(answer.verdict == "FOUND" for answer in answers)
    by_pin = bool(subject.get("kraPin")) or len(answers) > 1
    flags = name_flags(subject, match, OTHER_NAME)
    flags = _flags(flags, status, found=found, status_is_told=by_pin)
    return build_finding(
        Kra.name,
        summary=_summary(flags, status),
        flags=flags,
        details=details,
        known=status is not None and is_compared(subject, match),
        match=match,
        response_digest=sha256(
            b"".join(answer.reply.body for answer in answers)
        ).hexdigest(),
    )


def _flags(
    of_name: dict[str, str],
    status: str | None,
    *,
    found: bool,
    status_is_told: bool,
) -> dict[str, str]:
    if not found:
        return {"PIN_NOT_FOUND": "The revenue authority knows no such PIN or ID."}
    flags = dict(of_name)
    if status != "ACTIVE" and status_is_told:
        if status is None:
            logger.warning("KRA gave a PIN a status that is not known")
        unknown = "The revenue authority does not say that the PIN is active."
        flags["PIN_INACTIVE"] = MESSAGES.get(status or "", unknown)
    return flags


def _summary(flags: dict[str, str], status: str | None) -> str:
    if "PIN_NOT_FOUND" in flags:
        return "No taxpayer has this PIN or ID number."
    if "PIN_INACTIVE" in flags:
        return "The PIN is not active."
    if "NAME_MISMATCH" in flags:
        return "The PIN is registered under another name."
    if status is None:
        return "The PIN is registered; whether it is active is not known."
    if "NAME_NOT_COMPARED" in flags:
        return NAME_UNKNOWN
    return "The PIN is active."


def _clearest(values: list[Any]) -> str | None:
    """The first that is not masked, else the first."""
    texts = [str(value) for value in values if value]
    masked = texts[0] if texts else None
    return next((text for text in texts if "*" not in text), masked)


def _plain(word: Any) -> str:
    return " ".join(re.findall(r"[a-z]+", str(word or "").casefold()))
