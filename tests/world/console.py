"""Members of a workspace in the console.

def test_something(owner):
    assert "Keys" in owner.page("keys")
"""

from typing import Any

from django.test import Client
from django.urls import reverse

from tests.world import staff
from verification.accounts.sessions import PROVIDER_FACTOR
from workspaces.models import Member


class ConsoleVisitor:
    """A member with a browser, whose identity provider has asked for a second factor.

    Arguments after `environment` are those of the URL.
    """

    def __init__(self, member: Member, *, has_factor: bool = True) -> None:
        self.member, self.workspace = member, member.workspace
        self.http = Client()
        if has_factor:
            staff.open_session(self.http, member.user, PROVIDER_FACTOR)
        else:
            self.http.force_login(member.user)

    def url(self, name: str, environment: str = "sandbox", **arguments: Any) -> str:
        place = {"workspace": self.workspace.pk, "environment": environment}
        return reverse(f"console:{name}", kwargs={**place, **arguments})

    def get(self, name: str, environment: str = "sandbox", query=None, **arguments):
        return self.http.get(self.url(name, environment, **arguments), query or {})

    def post(self, name: str, fields=None, environment: str = "sandbox", **arguments):
        return self.http.post(self.url(name, environment, **arguments), fields or {})

    def page(self, name: str, environment: str = "sandbox", query=None, **arguments):
        answer = self.get(name, environment, query, **arguments)
        assert answer.status_code == 200, answer.status_code
        return answer.content.decode()

    def messages_after(
        self, name: str, fields=None, environment: str = "sandbox", **arguments
    ):
        """Send a form; return the messages of the page after it."""
        url = self.url(name, environment, **arguments)
        answer = self.http.post(url, fields or {})
        assert answer.status_code in {200, 302, 303}, answer.status_code
        return staff.take_messages(answer)
