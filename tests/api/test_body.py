import json
from typing import Any

import pytest
from django.test import Client

from tests.api.small import bearer, new_key
from tests.api.small import small_api as small_api
from verification.api.content import parse_json_object
from verification.api.problems import Problem

pytestmark = pytest.mark.django_db

MIB = 1024 * 1024


@pytest.fixture
def text() -> str:
    return new_key()[1]


def send(client: Client, text: str, body: bytes | str, **headers: str) -> Any:
    return client.generic(
        "POST",
        "/api/v1/things",
        body,
        content_type=headers.pop("content_type", "application/json"),
        headers=bearer(text) | headers,
    )


def refusal(raw: bytes | str) -> str:
    with pytest.raises(Problem) as caught:
        parse_json_object(raw if isinstance(raw, bytes) else raw.encode())
    assert caught.value.kind.code == "malformed-body"
    return caught.value.detail


def test_valid_bodies_are_read_unchanged(client: Client, text: str) -> None:
    for body in (
        {"fullName": "عبد الله بن محمد", "a": [1, 2.5, None, True]},
        {"fullName": "Wanjikũ 🌍 Ng'ang'a", "": {"": []}},
        {},
    ):
        escaped = send(client, text, json.dumps(body))
        plain = send(client, text, json.dumps(body, ensure_ascii=False))

        assert escaped.json() == plain.json() == body
        assert escaped.status_code == 201


def test_malformed_json_is_refused_with_line_and_column() -> None:
    assert "line 2, column 7" in refusal('{"a": 1,\n "b": }')
    assert "line 1, column 1" in refusal("")
    assert "line 1, column 3" in refusal("{}x")
    assert "column" in refusal('{"a": 1,}')
    assert "column" in refusal('{"a": "line\nbreak"}')
    assert "column" in refusal('{"a": 01}')
    assert "column" in refusal("{'a': 1}")


@pytest.mark.parametrize("body", ["[]", '"text"', "17", "null", "true"])
def test_top_level_must_be_an_object(body: str) -> None:
    assert "must be a JSON object" in refusal(body)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_json_are_refused_with_their_place(number: str) -> None:
    message = refusal(f'{{"reports": [{{"a": 1}}, {{"score": {number}}}]}}')

    assert message == f"At #/reports/1/score: {number} is not JSON."


def test_too_large_numbers_are_refused_with_their_place() -> None:
    assert refusal('{"a": [1e999]}') == "At #/a/0: the number is too large."
    assert refusal('{"a": -1.5e400}') == "At #/a: the number is too large."
    assert "#/a: the number has more" in refusal('{"a": ' + "9" * 5000 + "}")
    assert "#/a: the number" in refusal('{"a": ' + "9" * 5000 + ".5}")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_too_deep_nesting_is_refused(opening: str) -> None:
    assert "nested too deeply" in refusal('{"a":' + opening * 10_000)
    assert "nested too deeply" in refusal('{"\\u0000":' + opening * 100_000)


def test_nesting_of_any_depth_is_read_or_refused(client: Client, text: str) -> None:
    for depth in range(50, 1000, 50):
        body = '{"a":' + "[" * depth + '"\\u0000"' + "]" * depth + "}"

        assert send(client, text, body).json()["code"] == "malformed-body", depth


def test_repeated_member_is_refused_with_its_place() -> None:
    message = refusal('{"reports": [{"draft": true, "purpose": "", "draft": false}]}')

    assert message == "At #/reports/0/draft: the member is there twice."
    assert "#/a" in refusal('{"a": 1, "\\u0061": 1}')
    assert "#/a/b" in refusal('{"a": {"b": 1, "b": 1}}')


@pytest.mark.parametrize("escape", ["\\u0000", "\\ud800", "\\uDFFF", "\\udc00\\ud800"])
def test_texts_that_cannot_be_stored_are_refused_with_their_place(escape: str) -> None:
    assert "At #/a/0:" in refusal(f'{{"a": ["x{escape}y"]}}')
    assert "the name has" in refusal(f'{{"a": {{"x{escape}": 1}}}}')


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8 at byte 7"),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8 at byte 0"),
        (b'{"a": "\x00"}', "column"),
    ],
)
def test_body_that_is_not_plain_utf_8_is_refused(raw: bytes, message: str) -> None:
    assert message in refusal(raw)


def body_of(size: int) -> bytes:
    return b'{"a":"' + b"x" * (size - 8) + b'"}'


def test_body_of_two_mebibytes_is_read_and_a_larger_one_refused(
    client: Client, text: str
) -> None:
    assert send(client, text, body_of(2 * MIB)).status_code == 201

    response = send(client, text, body_of(2 * MIB + 1))
    assert response.status_code == 413
    assert response.json()["code"] == "body-too-large"


JSON_TYPES = [
    "application/json",
    "application/json; charset=utf-8",
    'Application/JSON; charset="UTF-8"',
]
OTHER_TYPES = [
    "application/json; charset=utf-16",
    "application/json; charset=no-such-thing",
    "application/xml",
    "text/json",
    "application/problem+json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "nonsense",
    "",
]


def test_body_needs_the_content_type_of_json(client: Client, text: str) -> None:
    for kind in JSON_TYPES:
        assert send(client, text, "{}", content_type=kind).status_code == 201, kind
    for kind in OTHER_TYPES:
        response = send(client, text, "{}", content_type=kind)
        assert response.status_code == 415, kind
        assert response.json()["code"] == "unsupported-media-type"


def test_compressed_bodies_are_refused(client: Client, text: str) -> None:
    response = send(client, text, "{}", **{"Content-Encoding": "gzip"})

    assert response.json()["code"] == "unsupported-media-type"


def test_operation_without_a_body_takes_none_or_an_empty_object(
    client: Client, text: str
) -> None:
    def delete(body: str = "") -> Any:
        return client.delete(
            "/api/v1/things/1",
            body,
            content_type="application/json",
            headers=bearer(text),
        )

    assert client.delete("/api/v1/things/1", headers=bearer(text)).status_code == 204
    assert delete("{}").status_code == 204
    assert delete("[]").json()["code"] == "malformed-body"
    assert delete('{"force": true}').json()["errors"] == [
        {
            "pointer": "#/force",
            "code": "unknown-member",
            "detail": "This operation takes no members.",
        }
    ]


def test_unknown_and_repeated_query_parameters_are_refused(
    client: Client, text: str
) -> None:
    def errors(query: str) -> list[tuple[str, str]]:
        body = client.get(f"/api/v1/things?{query}", headers=bearer(text)).json()
        return [(e["parameter"], e["code"]) for e in body.get("errors", [])]

    assert errors("page=1&search=Wanjiku") == []
    assert errors("staus=READY&page=1") == [("staus", "unknown-parameter")]
    assert errors("page=1&page=2&Page=3") == [
        ("page", "duplicate"),
        ("Page", "unknown-parameter"),
    ]
    assert errors("search=a%00b") == [("search", "invalid-format")]
    assert errors("=1") == [("", "unknown-parameter")]
