"""The API's objects: their common shape, and the types of their times and amounts."""

import ast
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent
from typing import Annotated, Any, Self

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

from verification.values.local_time import utc_text

CURRENCY = "KES"


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
    def from_row(cls, row: object, **members: Any) -> Self:
        """Make the shape; a member that is not given is the row's field of its name."""
        rest = cls.model_fields.keys() - members.keys()
        return cls(**{name: getattr(row, name) for name in rest}, **members)

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


def enumeration(name: str, values: Iterable[str]) -> WithJsonSchema:
    """Describe a text that is one of `values`; the API document names the list so."""
    return WithJsonSchema({"type": "string", "enum": list(values), "title": name})


Timestamp = Annotated[
    datetime,
    PlainSerializer(utc_text, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Number = Annotated[
    Decimal,
    PlainSerializer(float, return_type=float),
    WithJsonSchema({"type": "number"}),
]


class Money(Shape):
    amount: Number
    currency: str
