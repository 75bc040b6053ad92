"""PINs at the Kenya Revenue Authority: GavaConnect, https://developer.go.ke

Production masks names and PINs ("J**h M**ua", "A***7Q"); its sandbox does not. An
application there gets one product, so "PIN by PIN" and "PIN by ID" may each need
their own pair of credentials.
"""

import re
from base64 import b64encode
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from verification.providers.base import Finding, Inquiry, Provider, Subject
from verification.providers.findings import (
    Taxpayer,
    is_company,
    pin_finding,
    pin_status,
    taxpayer_kind,
)
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    RequestRejected,
    TokenCache,
    national_id,
    refused_error,
    require_covered_country,
    unavailable_error,
    unknown_code_error,
    upper_number,
)

SOURCE = "KRA"
TOKEN_PATH = "/v1/token/generate"  # noqa: S105
# For each call. A check may need six: two tokens, two look-ups, a repeat of each.
SECONDS = 9.0
# Seconds. KRA's tokens last about an hour; one that expires on the way costs a call.
EARLY, LIFE = 60.0, 300.0
# The paths of the two products, and the codes in their answers.
BY_PIN, BY_ID = "/checker/v1/pinbypin", "/checker/v1/pin"
Verdict = Literal["FOUND", "NOT_FOUND"]
CODES: dict[str, Verdict] = {
    "23000": "FOUND",
    "30000": "FOUND",
    "19005": "NOT_FOUND",
    "30002": "NOT_FOUND",
}
TYPES = {"individual": "INDIVIDUAL", "non individual": "COMPANY"}


@dataclass(frozen=True, slots=True)
class _Answer:
    verdict: Verdict
    # The taxpayer's members; empty if KRA found none.
    data: Record
    reply: Reply


class Kra(Provider):
    name = "kra"
    repeats_are_free = True
    longest_seconds = 6 * SECONDS
    countries = frozenset({"KE"})
    not_told = {"KRA_PIN": ("taxStation", "registeredAddress", "obligations")}

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
            raise refused_error(SOURCE, f"does not answer {inquiry.check}")
        subject = inquiry.subject
        require_covered_country(self, subject, SOURCE)
        if subject.get("kraPin"):
            pin = upper_number(subject["kraPin"])
            return _finding(subject, [self._by_pin(pin)])
        if is_company(subject) or not subject.get("idNumber"):
            raise refused_error(SOURCE, "needs a PIN, or a person's ID number")
        found = self._by_id(national_id(subject, SOURCE))
        pin = str(found.data.get("KRAPIN") or "")
        if found.verdict == "NOT_FOUND" or not pin or "*" in pin:
            return _finding(subject, [found])
        # The answer by ID has no status, and the PIN may be suspended.
        return _finding(subject, [found, self._by_pin(pin)])

    def _by_pin(self, pin: str) -> _Answer:
        answer = self._look_up(BY_PIN, {"KRAPIN": pin})
        returned = str(answer.data.get("KRAPIN") or "").strip().upper()
        mask = ".*".join(re.escape(part) for part in re.split(r"\*+", returned))
        if returned and not re.fullmatch(mask, pin):
            raise unavailable_error(SOURCE, "answered about another PIN")
        return answer

    def _by_id(self, number: str) -> _Answer:
        query = {"TaxpayerType": "KE", "TaxpayerID": number}
        answer = self._look_up(BY_ID, query)
        data = Record(
            KRAPIN=answer.data.get("TaxpayerPIN"),
            Name=answer.data.get("TaxpayerName"),
            TypeOfTaxpayer="Individual",
        )
        return _Answer(answer.verdict, data, answer.reply)

    def _look_up(self, path: str, query: dict[str, str]) -> _Answer:
        def send(bearer: str) -> Reply:
            headers = {"Authorization": f"Bearer {bearer}"}
            return self._api.fetch("POST", path, json=query, headers=headers)

        reply = self._tokens[path].fetch(send, _has_expired)
        try:
            body = self._api.read_object(reply)
        except RequestRejected as e:
            # KRA answers an unknown number with a 200 or with a 4xx.
            if _code(e.answer) not in CODES:
                raise
            body = Record.of(e.answer)
        return _parse_answer(path, body, reply)

    def _token(self, key: str, secret: str) -> TokenCache:
        credentials = "Basic " + b64encode(f"{key}:{secret}".encode()).decode()

        def ask() -> tuple[str, float]:
            bearer, answer = self._api.ask_token(
                "GET",
                TOKEN_PATH,
                "access_token",
                params={"grant_type": "client_credentials"},
                headers={"Authorization": credentials},
            )
            return bearer, _life(answer.get("expires_in"))

        return TokenCache(ask, SECONDS)


def _life(expires_in: object) -> float:
    """Return for how many seconds to use a token. KRA writes a number or a text."""
    try:
        life = float(str(expires_in))
    except ValueError:
        life = LIFE
    return max(life - EARLY, life / 2)


def _has_expired(reply: Reply) -> bool:
    """Return whether the token has expired: a 401, or a gateway's fault with 500."""
    if reply.status != 500:
        return reply.status == 401
    return "access_token_expired" in str(Record.of(reply.parsed()).record("fault"))


def _parse_answer(path: str, body: Record, reply: Reply) -> _Answer:
    code = _code(body)
    data = body.record("PINDATA") if path == BY_PIN else body
    has_data = bool(data.get("KRAPIN") or data.get("TaxpayerPIN"))
    # Some answers by ID have no code, only the data.
    verdict = CODES.get(code, "FOUND" if not code and path == BY_ID else None)
    if verdict == "NOT_FOUND" and not has_data:
        return _Answer(verdict, Record(), reply)
    is_ok = str(body.get("Status") or "OK").upper() == "OK"
    if verdict == "FOUND" and has_data and is_ok:
        return _Answer(verdict, data, reply)
    raise unknown_code_error(SOURCE, code)


def _code(body: Any) -> str:
    keys = ("ResponseCode", "responseCode", "ErrorCode", "errorCode")
    answer = Record.of(body)
    return next((str(answer[key]) for key in keys if answer.get(key)), "")


def _finding(subject: Subject, answers: list[_Answer]) -> Finding:
    """Make the finding from all answers; the last one knows most."""
    data: dict[str, Any] = {}
    for answer in answers:
        data |= {key: value for key, value in answer.data.items() if value}
    # KRA may mask the PIN or the name in one answer and not in the other.
    latest_first = [answer.data for answer in answers[::-1]]
    pins = [each.get("KRAPIN") for each in latest_first]
    pin = _clearest([*pins, subject.get("kraPin")])
    taxpayer = Taxpayer(
        pin=pin,
        name=_clearest([each.text("Name") for each in latest_first]),
        kind=TYPES.get(_plain(data.get("TypeOfTaxpayer")))
        or (taxpayer_kind(pin) if data else None),
        status=pin_status(SOURCE, Record(data).code("StatusOfPIN")),
    )
    bodies = b"".join(answer.reply.body for answer in answers)
    return pin_finding(
        subject,
        taxpayer,
        Kra.name,
        is_found=answers[0].verdict == "FOUND",
        response_digest=sha256(bodies).hexdigest(),
    )


def _clearest(values: list[Any]) -> str | None:
    """Return the first value without a mask, else the first one."""
    texts = [str(value) for value in values if value]
    return next((text for text in texts if "*" not in text), next(iter(texts), None))


def _plain(word: Any) -> str:
    return " ".join(re.findall(r"[a-z]+", str(word or "").casefold()))
