"""The web server without a database."""

import pytest
import requests

from tests.world.service import free_port


@pytest.fixture
def database_away(service):
    """Start the web server with a database URL of a closed port."""
    before = service.environment
    service.stop_web()
    service.set_environment(DATABASE_URL=f"postgres://x@127.0.0.1:{free_port()}/x")
    service.start_web()
    yield
    service.stop_web()
    service.environment = before
    service.start_web()


def test_pages_and_api_send_retry_after_without_a_database(
    service, client, database_away
):
    def get(path, **headers):
        return requests.get(service.url + path, headers=headers, timeout=60)

    for path in ("/c/unknown", "/p/unknown", "/r/unknown"):
        page = get(path, **{"Accept-Language": "sw"})
        assert (page.status_code, page.headers["Retry-After"]) == (503, "60")
        assert "jaribu tena baada ya dakika moja" in page.text
    problem = client.get("/reports")
    assert (problem.status_code, problem.json()["code"]) == (503, "unavailable")
    assert int(problem.headers["Retry-After"]) > 0
    assert get("/healthz").status_code == 200
    assert get("/").status_code == 200
    said = [line for line in service.log().splitlines() if "did not answer" in line]
    assert len(said) >= 4
    for line in said[-4:]:
        assert "Connection refused); start the server" in line
        assert "exc_info" not in line
