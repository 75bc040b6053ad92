"""The common parts of the API's shapes: names, times and money."""

import ast
from datetime import datetime
from decimal import Decimal
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

# The time zone of documents, messages and tax months. The API uses UTC.
NAIROBI = ZoneInfo("Africa/Nairobi")


class Shape(BaseModel):
    """An API object: snake_case in Python, camelCase in JSON, no unknown members."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        from_attributes=True,
        extra="forbid",
        protected_namespaces=(),
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add each field's description from the string below the field.

        Pydantic's `use_attribute_docstrings` reads these strings in every process and
        takes a tenth of its start. Only the API document needs them.
        """
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for base in reversed(cls.__mro__):
            for name, text in _strings_below_fields(base).items():
                field = cls.model_fields.get(name)
                if field and field.description is None:
                    properties[field.alias]["description"] = text
        return schema


@cache
def _strings_below_fields(shape: type) -> dict[str, str]:
    if not issubclass(shape, Shape):
        return {}
    try:
        (tree,) = ast.parse(dedent(getsource(shape))).body
    except OSError:  # A generic shape with its parameter filled in has no source.
        return {}
    found = {}
    for field, below in pairwise(tree.body):  # type: ignore[attr-defined]
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = cleandoc(text)
    return found


# Persian, Sinhala and other scripts need these invisible characters in names.
JOINERS = "\u200c\u200d"


def one_line(text: str) -> str:
    """Return the text on one line, without control and text direction characters."""
    kept = (c for c in text if c.isprintable() or c.isspace() or c in JOINERS)
    return " ".join("".join(kept).split())


def utc_text(value: datetime) -> str:
    """Format in UTC, like `2026-11-21T08:15:30.123456Z`."""
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def nairobi_text(value: datetime) -> str:
    """Format in Nairobi's time, like `2026-11-21T11:15:30.123456+03:00`."""
    return value.astimezone(NAIROBI).isoformat(timespec="microseconds")


Timestamp = Annotated[
    datetime,
    PlainSerializer(utc_text, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "format": "date-time",
            "examples": ["2026-11-21T08:15:30.123456Z"],
        }
    ),
]
Number = Annotated[
    Decimal,
    PlainSerializer(float, return_type=float),
    WithJsonSchema({"type": "number"}),
]


CURRENCY = "KES"


class Money(Shape):
    amount: Number
    currency: str
