"""What the shapes that cross the wire have in common: names, times and money."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

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
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )


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
