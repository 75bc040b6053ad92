from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from pydantic import Field
from rest_framework.routers import SimpleRouter

from verification.api.docs import document
from verification.api.operations import OperationViewSet, operation
from verification.values.shapes import Shape, Timestamp
from workspaces.models import Scope


class Part(Shape):
    given_name: str
    priority: int = 3


class Order(Shape):
    parts: list[Part]
    reference: str | None = Field(None, max_length=100)


class Receipt(Shape):
    """What was ordered."""

    part: Part
    created_at: Timestamp


class Orders(OperationViewSet):
    @operation(
        "createOrder",
        "Order",
        scope=Scope.REPORTS_CREATE,
        body=Order,
        status=201,
        answer=Receipt,
        problems=("insufficient-balance",),
    )
    def create(self, request: Any) -> None:
        """Orders parts."""

    @operation("getOrder", "Look", scope=None, answer=Receipt)
    def retrieve(self, request: Any, order_id: str) -> None:
        pass


@pytest.fixture(scope="module")
def small_document() -> dict[str, Any]:
    router = SimpleRouter(trailing_slash=False, use_regex_path=False)
    router.register("orders", Orders, basename="order")
    schema: dict[str, Any] = SchemaGenerator(patterns=router.urls).get_schema(
        request=None, public=True
    )
    return schema


def test_shapes_are_described_with_camel_case_names(
    small_document: dict[str, Any],
) -> None:
    shapes = small_document["components"]["schemas"]

    assert shapes["OrderRequest"]["properties"]["parts"]["items"] == {
        "$ref": "#/components/schemas/PartRequest"
    }
    assert shapes["Receipt"]["properties"]["createdAt"]["format"] == "date-time"
    assert shapes["Receipt"]["description"] == "What was ordered."
    assert "title" not in str(shapes["Receipt"])


def test_member_with_a_default_is_required_in_answers_only(
    small_document: dict[str, Any],
) -> None:
    shapes = small_document["components"]["schemas"]

    assert shapes["PartRequest"]["required"] == ["givenName"]
    assert shapes["Part"]["required"] == ["givenName", "priority"]
    assert shapes["PartRequest"]["additionalProperties"] is False
    assert "additionalProperties" not in shapes["Part"]


def test_operation_names_its_key_and_scope(small_document: dict[str, Any]) -> None:
    create = small_document["paths"]["/orders"]["post"]
    retrieve = small_document["paths"]["/orders/{id}"]["get"]

    assert create["security"] == [{"Bearer": ["reports:create"]}]
    assert "`reports:create`" in create["description"]
    assert retrieve["security"] == [{"Bearer": []}]
    assert (
        small_document["components"]["securitySchemes"]["Bearer"]["scheme"] == "bearer"
    )


def test_operation_lists_its_problems(small_document: dict[str, Any]) -> None:
    create = small_document["paths"]["/orders"]["post"]["responses"]
    retrieve = small_document["paths"]["/orders/{id}"]["get"]["responses"]

    always = {"400", "401", "403", "406", "429", "500", "503"}
    assert create.keys() == always | {"201", "402", "408", "413", "415"}
    assert retrieve.keys() == always | {"200", "404"}
    shared = small_document["components"]["responses"]
    assert create["402"] == {"$ref": "#/components/responses/InsufficientBalance"}
    content = shared["InsufficientBalance"]["content"]["application/problem+json"]
    assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert list(content["examples"]) == ["insufficient-balance"]
    assert create["401"] == {"$ref": "#/components/responses/Unauthorized"}
    headers = shared["Unauthorized"]["headers"].keys()
    assert {"WWW-Authenticate", "X-Request-Id"} <= headers
    assert create["429"] == {"$ref": "#/components/responses/RateLimited"}
    assert "Retry-After" in shared["RateLimited"]["headers"]
    assert {"X-Request-Id", "RateLimit"} <= create["201"]["headers"].keys()


@pytest.mark.django_db
def test_document_needs_no_key_and_is_json_or_yaml(client: Client) -> None:
    plain = client.get("/api/v1/schema")
    yaml = client.get("/api/v1/schema", headers={"Accept": "application/yaml"})

    assert plain["Content-Type"] == "application/json"
    assert plain.json() == document()
    assert yaml.content == settings.OPENAPI_FILE.read_bytes()
    assert client.get("/api/v1/schema?format=yaml").content == yaml.content
    assert client.get("/api/v1/schema?fromat=yaml").status_code == 400
    assert (
        client.get("/api/v1/schema", headers={"Accept": "text/html"}).status_code == 406
    )


@pytest.mark.django_db
def test_document_is_sent_once_to_a_client_that_keeps_it(client: Client) -> None:
    first = client.get("/api/v1/schema")
    again = client.get("/api/v1/schema", headers={"If-None-Match": first["ETag"]})
    other = client.get("/api/v1/schema", headers={"If-None-Match": '"another"'})

    unmatched = client.get("/api/v1/schema", headers={"If-Match": '"another"'})

    assert unmatched.status_code == 412
    assert first["Cache-Control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")
    assert other.content == first.content


def test_every_operation_states_its_scope() -> None:
    for path in document()["paths"].values():
        for described in path.values():
            assert described["security"]
