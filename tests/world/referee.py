"""The referee, who answers questions about employment."""

import re

import pytest

from tests.world.clients import Api
from tests.world.employer import create_reference
from tests.world.subject import Visitor
from verification import links
from verification.references.models import Reference

ANSWER = {
    "employed": "YES",
    "employer": "Baraka Logistics Limited",
    "job_title": "Fleet manager",
    "from_day": "1",
    "from_month": "3",
    "from_year": "2019",
    "to_day": "",
    "to_month": "6",
    "to_year": "2023",
    "rehire": "YES",
    "remarks": "Always on time.",
    "name": "Amina Said",
    "title": "Head of Operations",
    "may_answer": "on",
}
NO = {"employed": "NO", "name": "Amina", "title": "HR", "may_answer": "on"}
PLACES = ["", "submit", "decline"]


@pytest.fixture
def referee(paying_api: Api) -> Visitor:
    return visit_as_referee(create_reference(paying_api))


class Referee(Visitor):
    def post(self, at: str = "", **form: str):
        """Post a form with the version of the notice that the page showed."""
        shown = re.search(r'name="shown" value="(\w+)"', self.text())
        return super().post(at, **({"shown": shown[1]} if shown else {}) | form)


def visit_as_referee(reference: Reference) -> Visitor:
    found = Referee(links.reference_url(reference.pk, reference.generation))
    found.reference = reference
    return found


def saved_reference(referee: Visitor) -> Reference:
    return Reference.objects.get(pk=referee.reference.pk)
