import json

import pytest
import requests

from tests.world.clients import person
from tests.world.service import Service
from tests.world.waiting import until


class Client:
    """A client that calls the service over HTTP with its own key."""

    def __init__(self, service: Service, environment: str, *options: str) -> None:
        made = service.manage("create_workspace", "Acacia", "--owner=a@acacia.test")
        self.workspace = json.loads(made)["workspaceId"]
        made = service.manage(
            "create_key",
            self.workspace,
            f"--environment={environment}",
            "--force",
            *options,
        )
        self.key = json.loads(made)["key"]
        self._url = f"{service.url}/api/v1"
        self._http = requests.Session()
        self._http.headers["Authorization"] = f"Bearer {self.key}"

    def get(self, path, **query):
        return self._http.get(self._url + path, params=query, timeout=60)

    def post(self, path, body=None, **headers):
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._http.post(self._url + path, json=body, headers=sent, timeout=60)

    def patch(self, path, body=None):
        return self._http.patch(self._url + path, json=body, timeout=60)

    def put(self, path, body=None):
        return self._http.put(self._url + path, json=body, timeout=60)

    def order(self, *items):
        answer = self.post("/reports", {"reports": items})
        assert answer.status_code == 201, answer.text
        return answer.json()["reports"]

    def order_ended(self):
        """Return the id of a report that is ready, about a person of no guide."""
        (made,) = self.order(person(idNumber="23456789"))
        until(lambda: self.status(made["id"]) == "READY")
        return made["id"]

    def status(self, report_id):
        answer = self.get(f"/reports/{report_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()["status"]


@pytest.fixture(scope="session")
def client(service):
    return Client(service, "sandbox")


@pytest.fixture(scope="session")
def live_client(service):
    return Client(service, "production")


@pytest.fixture(scope="module")
def unlimited_client(service):
    """Create a workspace and a client without rate limits."""
    client = Client(service, "sandbox")
    with service.connect() as connection:
        connection.execute(
            "UPDATE workspaces_apikey"
            " SET creates_per_minute = 1000000, requests_per_minute = 1000000"
            " WHERE workspace_id = %s",
            [client.workspace],
        )
    return client
