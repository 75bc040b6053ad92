"""What the shapes that cross the wire have in common: names, times and money."""

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

# The time of the people who read documents and messages, and of the tax months of their
# books. The API speaks UTC.
NAIROBI = ZoneInfo("Africa/Nairobi")


class Shape(BaseModel):
    """snake_case inside, camelCase outside; unknown members are refused."""

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
        """Say of each field what the string below it says.

        Pydantic's `use_attribute_docstrings` reads them in every process that loads the
        shapes, which takes a tenth of its start; only the schema of the API needs them.
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
    except OSError:  # it has no source, as the one with a parameter made of a generic
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


# Names are spelt with them in Persian, Sinhala and other scripts.
JOINERS = "\u200c\u200d"


def one_line(text: str) -> str:
    """Somebody's words, which begin no paragraph and turn no text around."""
    kept = (c for c in text if c.isprintable() or c.isspace() or c in JOINERS)
    return " ".join("".join(kept).split())


def utc_text(value: datetime) -> str:
    """`2026-11-21T08:15:30.123456Z`"""
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def nairobi_text(value: datetime) -> str:
    """`2026-11-21T11:15:30.123456+03:00`"""
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
