"""Sanctions and other lists at OpenSanctions, or at a yente of one's own.

https://www.opensanctions.org/docs/api/matching/

A yente of one's own wants no key. The hosted service does, and is paid for each query.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from verification.providers.base import (
    Finding,
    Inquiry,
    NotTold,
    Refused,
    Unavailable,
)
from verification.providers.http_api import (
    REFUSED,
    Api,
    Reply,
    RequestRejected,
    unavailable_error,
)
from verification.providers.scoring import is_company, stated_name
from verification.providers.screening_answers import Hit, ListEdition, screening_finding

SOURCE = "OpenSanctions"
SECONDS = 15.0
ALGORITHM = "logic-v2"
MOST = 20
# How long an edition of the catalogue is believed.
CATALOGUE_SECONDS = 60.0
# 20261120061002-abc: when the index was made.
VERSION = re.compile(r"\d{14}|\d{8}")
REFUSALS = {
    401: "does not take the key",
    402: "has no balance left to pay for this",
    403: "does not take the key",
    404: "does not have the dataset",
}
Record = Mapping[str, Any]


class OpenSanctions:
    name: ClassVar[str] = "opensanctions"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = False
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[NotTold] = {}

    def __init__(
        self,
        url: str,
        api_key: str = "",
        dataset: str = "default",
        threshold: float = 0.7,
        opened: Collection[str] = (),
        days: int = 7,
    ) -> None:
        # Else a yente of the operator's own, which tells nobody.
        self.is_hosted = urlsplit(url).hostname == "api.opensanctions.org"
        headers = {"Authorization": f"ApiKey {api_key}"} if api_key else {}
        self._api = Api(SOURCE, url, opened=opened, headers=headers, seconds=SECONDS)
        self._dataset, self._threshold = dataset, threshold
        self._age = timedelta(days=days)
        self._catalogue: tuple[float, ListEdition] | None = None

    def ask(self, inquiry: Inquiry) -> Finding:
        subject = inquiry.subject
        if inquiry.check != "AML_SCREENING" or not stated_name(subject):
            raise Refused(REFUSED, f"{SOURCE} cannot be asked this.")
        # Before anything is paid for.
        edition = self._edition()
        params = {
            "limit": str(MOST),
            "threshold": str(self._threshold),
            "algorithm": ALGORITHM,
        }
        queries = {"queries": {"q": _query(subject)}}
        path = f"/match/{self._dataset}"
        reply = self._api.fetch("POST", path, params=params, json=queries)
        results, count = _results(self._read(reply))
        return screening_finding(
            subject,
            [_hit(each) for each in results if self._is_hit(each)],
            self.name,
            editions=[edition],
            algorithm=ALGORITHM,
            threshold=self._threshold,
            count=count,
            response_digest=reply.digest,
        )

    def _is_hit(self, result: Record) -> bool:
        """By its score as well as by its word: a doubt is a hit."""
        return result.get("match") is True or _score(result) >= self._threshold

    def _read(self, reply: Reply) -> Record:
        try:
            answer = self._api.read(reply)
        except RequestRejected as e:
            told = REFUSALS.get(e.status)
            if told is None:
                raise
            raise Refused(REFUSED, f"{SOURCE} {told} (status {e.status}).") from None
        if not isinstance(answer, dict):
            raise unavailable_error(SOURCE, "answered with JSON that is no object")
        return answer

    def _edition(self) -> ListEdition:
        """The edition that is searched. Raises Unavailable if it is too old, or is not
        told: nobody is clean of lists that may be those of last year."""
        at = time.monotonic()
        if not self._catalogue or at - self._catalogue[0] >= CATALOGUE_SECONDS:
            version = _index_version(self._datasets(), self._dataset)
            self._catalogue = at, ListEdition(self._dataset, version, _made_at(version))
        edition = self._catalogue[1]
        if edition.age > self._age:
            told = f"has an index that is {edition.age.days} days old"
            raise unavailable_error(SOURCE, told, may_be_charged=False)
        return edition

    def _datasets(self) -> Record:
        """The catalogue, which is free of charge."""
        try:
            reply = self._api.fetch("GET", "/catalog")
            return {} if reply.status == 404 else self._read(reply)
        except Unavailable as e:
            raise Unavailable(e.code, e.message) from None


def _query(subject: Record) -> dict[str, Any]:
    country = str(subject.get("country") or "").lower()
    of_company = {
        "name": stated_name(subject),
        "jurisdiction": country,
        "registrationNumber": subject.get("registrationNumber"),
    }
    of_person = {
        "name": stated_name(subject),
        "firstName": subject.get("firstName"),
        "lastName": subject.get("lastName"),
        "birthDate": subject.get("dateOfBirth"),
        "country": country,
        "idNumber": subject.get("idNumber"),
    }
    told = of_company if is_company(subject) else of_person
    properties = {key: [value] for key, value in told.items() if value}
    schema = "Company" if is_company(subject) else "Person"
    return {"schema": schema, "properties": properties}


def _results(answer: Record) -> tuple[list[Record], int]:
    """The candidates, and how many there are in all."""
    responses = answer.get("responses")
    one = responses.get("q") if isinstance(responses, dict) else None
    if not isinstance(one, dict) or one.get("status") != 200:
        raise unavailable_error(SOURCE, "could not answer the query")
    results, total = one.get("results"), one.get("total")
    if not isinstance(results, list) or not all(isinstance(r, dict) for r in results):
        raise unavailable_error(SOURCE, "answered without a list of results")
    count = total.get("value") if isinstance(total, dict) else None
    if not isinstance(count, int) or len(results) < min(count, MOST):
        raise unavailable_error(SOURCE, "answered with less than it found")
    # Where all are here, those below the threshold are not counted.
    return results, count if count > len(results) else 0


def _score(result: Record) -> float:
    score = result.get("score")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not 0 <= score <= 1:  # type: ignore[operator]
        raise unavailable_error(SOURCE, "answered with a score that is not understood")
    return float(score)  # type: ignore[arg-type]


def _hit(result: Record) -> Hit:
    properties = result.get("properties")
    of = properties if isinstance(properties, dict) else {}
    return Hit(
        lists=_texts(result.get("datasets")),
        entry=str(result.get("id") or "")[:200],
        name=str(result.get("caption") or "")[:200],
        topics=_texts(of.get("topics")),
        score=_score(result),
        birth_dates=_texts(of.get("birthDate")),
        countries=[
            code.upper()
            for key in ("country", "nationality", "jurisdiction")
            for code in _texts(of.get(key))
        ],
    )


def _index_version(answer: Record, dataset: str) -> str:
    """The version of a dataset in the index: of a collection that has none, the oldest
    of its parts."""
    listed = answer.get("datasets")
    datasets = {
        str(one.get("name")): one
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict)
    }
    of = datasets.get(dataset, {})
    parts = [datasets.get(name, {}) for name in _texts(of.get("children"))]
    found = [str(one["index_version"]) for one in parts if one.get("index_version")]
    return str(of.get("index_version") or min(found, default=""))[:60]


def _made_at(version: str) -> datetime:
    found = VERSION.match(version)
    try:
        digits = found[0].ljust(14, "0") if found else ""
        return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        told = "does not tell which edition it searches"
        raise unavailable_error(SOURCE, told, may_be_charged=False) from None


def _texts(value: Any) -> list[str]:
    given = value if isinstance(value, list) else []
    return list(dict.fromkeys(str(each)[:200] for each in given[:20] if each))
