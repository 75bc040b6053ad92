"""The words of a live source run in nobody's browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from tests.world.clients import Api, Refusing
from tests.world.console import ConsoleVisitor
from tests.world.members import create_member
from tests.world.staff import change_url, read_page, reveal
from verification.checks.models import CheckResult
from verification.providers import registry
from verification.providers.base import Finding, Flag, Inquiry

pytestmark = pytest.mark.django_db
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 }}"
FIELDS = ("idNumber", "serialNumber", "fullName", "dateOfBirth", "gender")
FIELDS += ("citizenship", "placeOfBirth", "lifeStatus", "dateOfBirthMatch")


class Scripting(Refusing):
    """A live source whose every word is a script."""

    def ask(self, inquiry: Inquiry) -> Finding:
        return Finding(
            summary=SCRIPT,
            score=10,
            details=dict.fromkeys(FIELDS, SCRIPT) | {"nameMatch": "MATCH"},
            provider=self.name,
            flags=[Flag("NEW_FLAG", "LOW", SCRIPT)],
            provider_reference=SCRIPT,
        )


@pytest.fixture
def live_source() -> Iterator[None]:
    path = f"{Scripting.__module__}.{Scripting.__name__}"
    routes = {"IDENTITY": {registry.EVERYWHERE: [Scripting.name]}}
    registry.configure({Scripting.name: (path, {})}, routes)
    yield
    registry.configure({}, {})


def test_words_of_a_source_are_no_markup_on_any_page(
    live_source: None, live_ask: Any, paying_api: Api, superuser: Client
):
    visitor = live_ask(
        subject={"email": "wanjiku@kamau.test"}, checksRequested=["IDENTITY"]
    )
    visitor.prove()
    assert visitor.grant().status_code == 303
    paying_api.work()
    visitor.prove("data/")
    owner = ConsoleVisitor(create_member(paying_api.workspace, "OWNER"))
    result = CheckResult.objects.get(report=visitor.report_id)
    reveal(superuser, result)

    pages = [
        owner.page("reports-detail", "production", report=visitor.report_id),
        visitor.text(),
        visitor.get("?lang=sw").content.decode(),
        read_page(superuser, change_url(result)),
    ]

    for html in pages:
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "<script>alert" not in html
        assert "<img src=x" not in html
    assert visitor.get("my-data.pdf").content.startswith(b"%PDF")
