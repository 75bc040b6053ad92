"""Describes pydantic shapes in the OpenAPI document.

The extension that comes with drf-spectacular describes what is sent as it describes
what is received. Here a request's shapes are the ones that are validated, with the
suffix Request, so that a member with a default is not called required.
"""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.drainage import set_override
from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

REF = "#/components/schemas/"


class _Generator(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave out the titles that pydantic makes of members' names."""
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        """An answer has all its members, be they null."""
        return self.mode == "serialization" or super().field_is_required(field, total)


class ShapeExtension(OpenApiSerializerExtension):
    target_class = "pydantic.BaseModel"
    match_subclasses = True
    priority = 1

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        # A shape may have been met before inside of another one.
        set_override(self.target, "suppress_collision_warning", True)
        return _component_name(self.target.__name__).removesuffix("Request")

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        schema = json_schema(self.target, is_request=direction == "request")
        for name, definition in schema.pop("$defs", {}).items():
            auto_schema.registry.register_on_missing(
                ResolvedComponent(
                    name=name,
                    type=ResolvedComponent.SCHEMA,
                    # Marked as ours: shapes are told apart by their names.
                    object=self.target,
                    schema=definition,
                )
            )
        return schema


def json_schema(shape: type[BaseModel], *, is_request: bool) -> dict[str, Any]:
    mode: JsonSchemaMode = "validation" if is_request else "serialization"
    schema = shape.model_json_schema(
        by_alias=True,
        ref_template=REF + "{model}",
        schema_generator=_Generator,
        mode=mode,
    )
    definitions = schema.pop("$defs", {})
    names = {
        name: _name_of(name, definition, is_request=is_request)
        for name, definition in definitions.items()
    }
    schema = _renamed(_without_title(schema), names)
    schema["$defs"] = {
        names[name]: _renamed(_without_title(definition), names)
        for name, definition in definitions.items()
    }
    return schema


def _name_of(name: str, definition: dict[str, Any], *, is_request: bool) -> str:
    name = _component_name(name)
    # An enumeration is the same both ways.
    if not is_request or "properties" not in definition:
        return name
    return f"{name.removesuffix('Request')}Request"


def _component_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]", "", name)


def _without_title(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "title"}


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: REF + names.get(value.removeprefix(REF), value.removeprefix(REF))
        if key == "$ref" and isinstance(value, str)
        else _renamed(value, names)
        for key, value in schema.items()
    }
