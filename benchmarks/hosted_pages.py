"""The pages of a consent at each stage, from a warm server.

Django's test client walks to the stage in this process. The bench then sends its cookie
to the real web server over one connection.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from django.test import Client as Browser

from benchmarks import orders
from benchmarks.client import Connection
from benchmarks.figures import Figure, bench, interleaved
from benchmarks.service import Service, create_client
from verification.checks.engine import run_due_checks

MILLISECONDS = {"what was found": 40}
HOSTED = {"mode": "SERVICE_HOSTED"}
HEADERS = {"Host": "localhost"}


@bench(rounds=3)
def hosted_pages(service: Service, rounds: int = 300) -> Iterator[Figure]:
    _, key = create_client()
    challenge, pending, granted = (_request_consent(key) for _ in range(3))
    _confirm(pending)
    _confirm(granted)
    _grant(granted)
    run_due_checks()
    sent = {
        "the challenge": _request(challenge),
        "the notice": _request(pending),
        "the receipt": _request(granted),
        "what was found": _request(granted, "data/"),
        "the receipt as PDF": _request(granted, "receipt.pdf"),
    }
    with service.web():
        connection = Connection(service.port)

        def ask(message: bytes) -> None:
            status, body = connection.send(message)
            assert status == 200, body

        actions = [lambda message=message: ask(message) for message in sent.values()]
        samples = interleaved(rounds, *actions, warm=10)
    for what, times in zip(sent, samples, strict=True):
        target = None if what.endswith("PDF") else MILLISECONDS.get(what, 30)
        yield Figure(what, times, target=target)


class Visit(Browser):
    """A browser that has opened a consent's link."""

    def __init__(self, link: str, subject: dict[str, str]) -> None:
        super().__init__(headers=HEADERS)
        self.born, self.name = subject["dateOfBirth"], subject["fullName"]
        self.page = self.get(urlsplit(link).path)["Location"]


def _request_consent(key: str) -> Visit:
    order = orders.order() | {"consent": HOSTED}
    answer = Browser(headers=HEADERS | {"Authorization": f"Bearer {key}"}).post(
        "/api/v1/reports", {"reports": [order]}, content_type="application/json"
    )
    assert answer.status_code == 201, answer.content
    (report,) = json.loads(answer.content)["reports"]
    return Visit(report["consentState"]["consentUrl"], order["subject"])


def _confirm(visit: Visit) -> None:
    year, month, day = visit.born.split("-")
    visit.post(f"{visit.page}confirm", {"day": day, "month": month, "year": year})


def _grant(visit: Visit) -> None:
    page = visit.get(visit.page).content.decode()
    shown = re.search(r'name="shown" value="(\w+)"', page)
    assert shown, page
    form = {"name": visit.name, "agreed": "on", "shown": shown[1]}
    visit.post(f"{visit.page}grant", form)


def _request(visit: Visit, place: str = "") -> bytes:
    cookies = "; ".join(f"{name}={m.value}" for name, m in visit.cookies.items())
    return (
        f"GET {visit.page}{place} HTTP/1.1\r\nHost: localhost\r\n"
        f"Cookie: {cookies}\r\nAccept-Language: en\r\n\r\n"
    ).encode()
