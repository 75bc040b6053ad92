"""Sanctions and other lists at OpenSanctions, or at the operator's own yente.

https://www.opensanctions.org/docs/api/matching/

The hosted service needs a key and charges each query. The operator's own yente, which
is OpenSanctions' server software, needs none.
"""

import re
import time
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from verification.providers.base import (
    Cause,
    Finding,
    Inquiry,
    Provider,
    Subject,
    Unavailable,
)
from verification.providers.findings import is_company, stated_name
from verification.providers.http_api import (
    Api,
    Record,
    refused_error,
    unavailable_error,
)
from verification.providers.screening import Hit, ListEdition, screening_finding

SOURCE = "OpenSanctions"
SECONDS = 15.0
ALGORITHM = "logic-v2"
MOST = 20
# Lifetime of the cached catalogue.
CATALOGUE_SECONDS = 60.0
# A version begins with the time of the index: 20261120061002-abc.
VERSION = re.compile(r"\d{14}|\d{8}")
REFUSALS = {
    401: "does not take the key",
    402: "has no balance left to pay for this",
    403: "does not take the key",
    404: "does not have the dataset",
}


class OpenSanctions(Provider):
    name = "opensanctions"
    # The catalogue and the query
    longest_seconds = 2 * SECONDS

    def __init__(
        self,
        url: str,
        api_key: str = "",
        dataset: str = "default",
        threshold: float = 0.7,
        opened: Collection[str] = (),
        days: int = 7,
    ) -> None:
        # The operator's own yente sends no data outside.
        self.is_hosted = urlsplit(url).hostname == "api.opensanctions.org"
        headers = {"Authorization": f"ApiKey {api_key}"} if api_key else {}
        self._api = Api(
            SOURCE,
            url,
            opened=opened,
            headers=headers,
            seconds=SECONDS,
            refusals=REFUSALS,
        )
        self._dataset, self._threshold = dataset, threshold
        self._age = timedelta(days=days)
        self._catalogue: tuple[float, ListEdition] | None = None

    def ask(self, inquiry: Inquiry) -> Finding:
        subject = inquiry.subject
        if inquiry.check != "AML_SCREENING" or not stated_name(subject):
            raise refused_error(SOURCE, "cannot be asked this")
        # The catalogue is free of charge; the query is not.
        edition = self._edition()
        params = {
            "limit": str(MOST),
            "threshold": str(self._threshold),
            "algorithm": ALGORITHM,
        }
        queries = {"queries": {"q": _query(subject)}}
        path = f"/match/{self._dataset}"
        reply = self._api.fetch("POST", path, params=params, json=queries)
        results, count = _results(self._api.read_object(reply))
        return screening_finding(
            subject,
            [
                _hit(each)
                for each in results
                if each.get("match") is True or _score(each) >= self._threshold
            ],
            self.name,
            editions=[edition],
            algorithm=ALGORITHM,
            threshold=self._threshold,
            count=count,
            response_digest=reply.digest,
        )

    def _edition(self) -> ListEdition:
        """Return the edition of the index. Raises Unavailable if it is old or unknown.

        A search of last year's lists would clear nobody.
        """
        at = time.monotonic()
        if not self._catalogue or at - self._catalogue[0] >= CATALOGUE_SECONDS:
            version = _index_version(self._datasets(), self._dataset)
            self._catalogue = at, ListEdition(self._dataset, version, _made_at(version))
        edition = self._catalogue[1]
        if edition.age > self._age:
            why = f"has an index that is {edition.age.days} days old"
            raise unavailable_error(
                SOURCE, why, may_be_charged=False, cause=Cause.LIST_TOO_OLD
            )
        return edition

    def _datasets(self) -> Record:
        """Return the catalogue. It is free, so its failures cost nothing either."""
        try:
            reply = self._api.fetch("GET", "/catalog")
            return Record() if reply.status == 404 else self._api.read_object(reply)
        except Unavailable as e:
            raise Unavailable(e.code, e.message, cause=e.cause) from None


def _query(subject: Subject) -> dict[str, Any]:
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
    known = of_company if is_company(subject) else of_person
    properties = {key: [value] for key, value in known.items() if value}
    schema = "Company" if is_company(subject) else "Person"
    return {"schema": schema, "properties": properties}


def _results(answer: Record) -> tuple[list[Record], int]:
    """Return the candidates, and their total number if more exist; else 0."""
    query = answer.record("responses").record("q")
    if query.get("status") != 200:
        raise unavailable_error(SOURCE, "could not answer the query")
    results = query.records("results")
    listed = query.get("results")
    if not isinstance(listed, list) or len(results) < len(listed):
        raise unavailable_error(SOURCE, "answered without a list of results")
    count = query.record("total").get("value")
    if not isinstance(count, int) or len(results) < min(count, MOST):
        raise unavailable_error(SOURCE, "answered with less than it found")
    # If the answer holds all candidates, we count those above the threshold ourselves.
    return results, count if count > len(results) else 0


def _score(result: Record) -> float:
    score = result.get("score")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not 0 <= score <= 1:  # type: ignore[operator]
        raise unavailable_error(SOURCE, "answered with a score that is not understood")
    return float(score)  # type: ignore[arg-type]


def _hit(result: Record) -> Hit:
    properties = result.record("properties")
    return Hit(
        lists=_texts(result, "datasets"),
        entry=str(result.get("id") or "")[:200],
        name=str(result.get("caption") or "")[:200],
        matched_name=None,
        topics=_texts(properties, "topics"),
        score=_score(result),
        birth_dates=_texts(properties, "birthDate"),
        countries=[
            code.upper()
            for key in ("country", "nationality", "jurisdiction")
            for code in _texts(properties, key)
        ],
    )


def _index_version(answer: Record, dataset: str) -> str:
    """Return the index version of a dataset, or '' if it is unknown.

    A collection without a version gets the oldest version of its parts.
    """
    datasets = {str(each.get("name")): each for each in answer.records("datasets")}
    entry = datasets.get(dataset, Record())
    parts = [datasets.get(name, Record()) for name in _texts(entry, "children")]
    versions = [
        str(part["index_version"]) for part in parts if part.get("index_version")
    ]
    return str(entry.get("index_version") or min(versions, default=""))[:60]


def _made_at(version: str) -> datetime:
    found = VERSION.match(version)
    try:
        digits = found[0].ljust(14, "0") if found else ""
        return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        why = "does not tell which edition it searches"
        raise unavailable_error(SOURCE, why, may_be_charged=False) from None


def _texts(record: Record, key: str) -> list[str]:
    texts = (str(each)[:200] for each in record.entries(key)[:20] if each)
    return list(dict.fromkeys(texts))
