"""Files of 500 rows in the console: sent until the quote shows, and ordered.

Django's test client goes through every middleware in this process.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import count

from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client as Browser
from openpyxl import Workbook

from benchmarks.figures import Figure, bench, timed
from benchmarks.service import Service, create_client
from verification.console import batch_pages
from workspaces.models import Member, Role

HEADINGS = ["Full name", "ID number", "Your reference"]
# A hosted consent, so that no check runs meanwhile
CHOICE = (
    "subject_type=INDIVIDUAL&country=KE&checks=IDENTITY&checks=CRB_SCORE"
    "&consent=SERVICE_HOSTED&payment_mode=SELF&step=details"
)
DIGEST = re.compile(r'name="digest" value="(\w+)"')
# Every row of every file names another person.
numbers = count(10_000_000)


@bench(rows=5, rounds=1)
def uploads(_service: Service, rows: int = 500, rounds: int = 10) -> Iterator[Figure]:
    client, _ = create_client()
    batch_pages.UPLOADS_PER_MINUTE = 10**6  # type: ignore[misc]
    user = User.objects.create_user("uploads@example.com")
    Member.objects.create(workspace=client.workspace, user=user, role=Role.ADMIN)
    browser = Browser(headers={"Host": "localhost"})
    browser.force_login(user)
    place = f"/console/{client.workspace.pk}/sandbox/batches/new?{CHOICE}"
    for kind, write in (("CSV", _write_csv), ("XLSX", _write_xlsx)):
        sent, ordered = [], []
        for _ in range(rounds + 1):
            visit = Visit(browser, place, f"people.{kind.lower()}", write(rows))
            sent.append(timed(visit.send))
            ordered.append(timed(visit.order))
        yield Figure(f"{rows} rows as {kind}, sent and quoted", sent[1:], target=1500)
        yield Figure(f"{rows} rows as {kind}, ordered", ordered[1:], target=1500)


class Visit:
    """A member with one file."""

    def __init__(self, browser: Browser, place: str, name: str, content: bytes) -> None:
        self.browser, self.place = browser, place
        self.file = SimpleUploadedFile(name, content)
        self.html = ""

    def send(self) -> None:
        typed = {"file": self.file, "purpose": "Loan application", "reuse": "on"}
        answer = self.browser.post(self.place, typed, follow=True)
        assert answer.redirect_chain, "the file is refused"
        self.place = answer.redirect_chain[-1][0]
        self.html = answer.content.decode()

    def order(self) -> None:
        found = DIGEST.search(self.html)
        assert found, "the file has faults"
        answer = self.browser.post(self.place, {"step": "order", "digest": found[1]})
        assert answer.status_code == 303, answer.status_code


def _people(rows: int) -> list[list[str]]:
    people = ((next(numbers), n) for n in range(rows))
    return [[f"Person {number}", str(number), f"LN-{n}"] for number, n in people]


def _write_csv(rows: int) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file).writerows([HEADINGS, *_people(rows)])
    return file.getvalue().encode()


def _write_xlsx(rows: int) -> bytes:
    workbook = Workbook(write_only=True)
    sheet = workbook.create_sheet()
    for row in [HEADINGS, *_people(rows)]:
        sheet.append(row)
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()
