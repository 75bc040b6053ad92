"""Forms that no browser sends, posted to the running service."""

import re
from contextlib import closing, suppress
from http.client import HTTPConnection

import pytest

from tests.world.clients import HOSTED, person

BOUNDARY = "multipart/form-data; boundary=b"
FORM = "application/x-www-form-urlencoded"
BROKEN = (
    b'--b\r\nContent-Disposition: form-data; name="a"; filename="a"\r\n'
    b"Content-Transfer-Encoding: base64\r\n\r\nabcde\r\n--b--\r\n"
)
LARGE = 10 * 1024 * 1024


class Page:
    """Open a consent page; return it with its connection."""

    def __init__(self, service, link):
        self._port, self._cookies = service.port, []
        answer = self._send("GET", link.removeprefix(service.url))
        self.path = answer.getheader("Location")
        self._cookies = [cookie.split(";")[0] for cookie in cookies(answer)]
        shown = self._send("GET", self.path)
        self._cookies += [cookie.split(";")[0] for cookie in cookies(shown)]
        found = re.search('name="csrfmiddlewaretoken" value="(.*?)"', shown.text)
        self.token = found[1]

    def post(self, body, kind=FORM, language="en", **headers):
        sent = {"Content-Type": kind, "Accept-Language": language, **headers}
        return self._send("POST", f"{self.path}confirm", body, sent)

    def post_chunks(self, body, kind=FORM):
        """Post without a length, in chunks of 64 KiB."""
        pieces = (body[n : n + 65536] for n in range(0, len(body), 65536))
        return self.post(pieces, kind, **{"Transfer-Encoding": "chunked"})

    def _send(self, method, path, body=None, headers=None):
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        cookies = "; ".join(self._cookies)
        chunked = "Transfer-Encoding" in (headers or {})
        sent = {"Cookie": cookies, **(headers or {})}
        # The answer may come before the whole body is sent.
        with suppress(ConnectionError):
            connection.request(method, path, body, sent, encode_chunked=chunked)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        connection.close()
        return answer


def cookies(answer):
    return answer.msg.get_all("Set-Cookie") or []


@pytest.fixture
def visited(service, client):
    service.start_web()
    item = {**person(dateOfBirth="1990-03-27"), "consent": HOSTED}
    (report,) = client.order(item)
    return Page(service, report["consentState"]["consentUrl"])


def is_private(answer):
    assert answer.getheader("Cache-Control") == "no-store"
    assert "noindex" in answer.getheader("X-Robots-Tag")
    return "<h1>" in answer.text


def test_chunked_form_is_accepted(visited):
    form = f"csrfmiddlewaretoken={visited.token}&day=27&month=3&year=1990"

    answer = visited.post_chunks(form.encode())

    assert (answer.status, answer.getheader("Location")) == (303, visited.path)


@pytest.mark.parametrize("kind", [FORM, BOUNDARY])
def test_too_large_chunked_form_is_413(visited, kind):
    answer = visited.post_chunks(b"a=" + b"x" * LARGE, kind)

    assert answer.status == 413
    assert is_private(answer)
    assert "larger than this form allows" in answer.text


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"a=b", "multipart/form-data", 400),
        (BROKEN, BOUNDARY, 400),
        # The form is empty, so it has no token.
        (b"--b\r\nContent-Disposition: form-data; na", BOUNDARY, 403),
        (b"a=b", f"{FORM}; charset=utf-16", 400),
        (b"&".join(b"a=b" for _ in range(1500)), FORM, 413),
    ],
)
def test_body_that_is_no_form_gets_a_page_and_logs_no_error(
    service, visited, body, kind, status
):
    mark = len(service.log())

    answer = visited.post(body, kind)

    assert answer.status == status
    assert is_private(answer)
    assert "ERROR" not in service.log()[mark:]


def test_form_without_its_token_is_refused_in_private(visited):
    answer = visited.post(b"day=27&month=3&year=1990")

    assert answer.status == 403
    assert is_private(answer)
    assert "Please try again" in answer.text


def test_other_pages_answer_a_faulty_form_with_a_page(service):
    mark = len(service.log())
    fields = b"&".join(b"a=b" for _ in range(1500))
    headers = {"Content-Type": FORM, "Cookie": f"csrftoken={'a' * 32}"}

    with closing(HTTPConnection("127.0.0.1", service.port, timeout=60)) as connection:
        connection.request("POST", "/accounts/login/", fields, headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()

    assert answer.status == 400
    assert is_private(answer)
    assert "ERROR" not in service.log()[mark:]
