import logging

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from tests.api.small import bearer, new_key
from tests.api.small import small_api as small_api
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from verification.web.log import redact
from workspaces.models import ApiKey

pytestmark = pytest.mark.django_db

NAME = "Wanjiku Canary"
ID_NUMBER = "31415926"
PHONE = "+254712345678"
EMAIL = "wanjiku.canary@example.com"
CANARIES = ["canary", ID_NUMBER, "712345678", "0SEUbx", "whsec", "Path-Canary"]
UNKNOWN = "vrf_test_0123456789ABCDEFGHIJKLMNOPQRSTUV0SEUbx"


def test_request_is_logged_with_its_route_and_ids(
    client: Client, log_lines: LogLines
) -> None:
    key, text = new_key()

    client.get("/api/v1/things", headers=bearer(text) | {"X-Request-Id": "order-17"})

    [line] = log_lines()
    assert line.pop("ms") >= 0
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "INFO",
        "name": "verification.request",
        "message": "request",
        "method": "GET",
        "route": "api/v1/things$",
        "status": 200,
        "workspace_id": str(key.workspace_id),
        "key_id": str(key.id),
        "user_id": None,
        "request_id": "order-17",
    }


def test_log_contains_no_personal_data_of_requests(log_lines: LogLines) -> None:
    client = Client(raise_request_exception=False)
    _, text = new_key()
    body = {"fullName": NAME, "idNumber": ID_NUMBER, "phone": PHONE, "email": EMAIL}
    query = f"?search={NAME}&idNumber={ID_NUMBER}"

    for headers in (bearer(text), bearer(UNKNOWN), {"Authorization": EMAIL}):
        headers |= {"User-Agent": NAME, "Cookie": f"sessionid={NAME}"}
        client.get(f"/api/v1/things{query}", headers=headers)
        client.get(f"/api/v1/things/crash{query}", headers=headers)
        client.get(f"/api/v1/things/{ID_NUMBER}", headers=headers)
        client.get(f"/api/v1/Path-Canary/{EMAIL}", headers=headers)
        client.get(f"/c/Path-Canary{query}", headers=headers)
        client.get(f"/problems/Path-Canary{query}", headers=headers)
        client.generic("CANARY", "/api/v1/things", headers=headers)
        for payload in (body, '{"fullName": "Canary', '{"Canary": 1, "Canary": 2}'):
            client.post(
                "/api/v1/things",
                payload,
                content_type="application/json",
                headers=headers,
            )
    prompt = "/p/v/019a5b2c-a1b2-7c3d-9e4f-5a6b7c8d9e0f/prompt"
    client.post(prompt, {"phone": PHONE}, headers={"Referer": PHONE})
    client.get("/", headers={"Host": "canary..example", "Cookie": NAME})

    logged = str(log_lines()).lower()
    assert len(log_lines()) > 30
    assert text.lower() not in logged
    assert [c for c in CANARIES if c.lower() in logged] == []


def test_database_error_is_logged_without_its_row(
    log_lines: LogLines,
) -> None:
    key, _ = new_key()

    try:
        with transaction.atomic():
            ApiKey.objects.create(workspace=key.workspace, name=NAME, digest=key.digest)
    except IntegrityError:
        logging.getLogger("anything").exception("not saved for %s", EMAIL)

    [line] = log_lines()
    assert line["message"] == "not saved for [email]"
    assert "sqlstate=23505" in line["exc_info"]
    assert "workspaces_apikey" in line["exc_info"]
    assert "Canary" not in str(line)


def test_lines_of_other_code_are_redacted(log_lines: LogLines) -> None:
    logging.getLogger("any.library").warning(
        "sent %s to %s", ID_NUMBER, EMAIL, extra={"to": PHONE, "tries": 3}
    )

    [line] = log_lines()
    assert line["message"] == "sent [number] to [email]"
    assert line["to"] == "[phone]"
    assert line["tries"] == 3


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("key vrf_test_abc, vrf_live_XYZ9", "key [key], [key]"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw==", "[secret]"),
        ("to o'brien+x@mail.example.co.ke.", "to [email]."),
        ("+254712345678, +254 712 345 678", "[phone], [phone]"),
        ("id 12345678 and A123456789Z", "id [number] and A[number]Z"),
        ("report 0192f3a1-7c1e-7f3a-9f0e-312345678905", None),
        ("at 2026-11-21T08:15:30.123456789Z", None),
        ("at 2026-11-21 08:15:30,123 took 123456 ms", None),
        ("reports.py:123 said 999999", None),
    ],
)
def test_redact_masks_only_personal_and_secret_values(
    text: str, left: str | None
) -> None:
    assert redact(text) == (left or text)


def test_line_outside_of_a_request_has_no_request_id(log_lines: LogLines) -> None:
    Client().get("/problems/")
    logging.getLogger("a.job").warning("later")

    inside, outside = log_lines()
    assert inside["request_id"]
    assert outside["request_id"] is None


@pytest.mark.parametrize("page", ["b", "c", "p", "r"])
def test_link_to_a_hosted_page_is_masked(page: str):
    text = f"Forbidden (CSRF cookie not set.): /{page}/1dWk88Rb1MPtkmQDM3Oyxe"
    assert redact(text).endswith(f"/{page}/[link]")


@pytest.mark.parametrize(
    "page", ["/c/", "/accounts/join/", "/console/invitations/", "/accounts/nowhere/"]
)
def test_refused_form_logs_no_token(log_lines: LogLines, page: str):
    browser = Client(enforce_csrf_checks=True)
    browser.post(f"{page}1dWk88Rb1MPtkmQDM3Oyxe")
    (line,) = log_lines()
    assert line["message"] == "request"
    assert "1dWk88Rb1MPtkmQDM3Oyxe" not in str(line)
