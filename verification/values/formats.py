"""Formats of text as clients and people write it: phones, e-mails, dates, one line.

A check of a format raises a pydantic error whose type is the API's fault code.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any

import phonenumbers
import pycountry
from email_validator import EmailNotValidError, validate_email
from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from verification.values.clock import now

COUNTRIES = frozenset(country.alpha_2 for country in pycountry.countries)
E164 = re.compile(r"\+[1-9][0-9]{6,14}")
KENYAN = re.compile(r"(0|\+?254)[17][0-9]{8}", re.ASCII)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
TIMESTAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})"
)
# A local part that needs no further validation
PLAIN_LOCAL = re.compile(r"(?=.{1,64}$)[A-Za-z0-9]+([._+-][A-Za-z0-9]+)*")
EARLIEST_BIRTH = date(1900, 1, 1)
# A client's clock may be ahead of ours by this much.
CLOCK_SKEW = timedelta(minutes=1)
# Persian, Sinhala and other scripts need these invisible characters in names.
JOINERS = "\u200c\u200d"
# Spreadsheets read a cell that begins with one of these as a formula.
# Some read the full-width signs of East Asian keyboards alike.
FORMULA_SIGNS = "-=+@\uff1d\uff0b\uff0d\uff20"
# A spreadsheet that separates cells by semicolons splits a cell at each of them. The
# gap in braces is the place of the apostrophe that marks a text.
FORMULA = '(?:^{0}(?=[{1}\\t\\r\\n])|([;\\r\\n]"*){0}(?=[{1}]))'
UNMARKED, MARKED = (re.compile(FORMULA.format(m, FORMULA_SIGNS)) for m in ("", "'"))


def one_line(text: str) -> str:
    """Return the text on one line, without control and text direction characters."""
    if not text.isprintable():
        visible = (c for c in text if c.isprintable() or c.isspace() or c in JOINERS)
        text = "".join(visible)
    return " ".join(text.split())


def escape_formula(cell: str) -> str:
    """Return the text of a CSV cell so that no spreadsheet runs it."""
    return UNMARKED.sub(r"\1'", cell)


def unescape_formula(cell: str) -> str:
    """Return a text that `escape_formula` or a person has marked as one."""
    return MARKED.sub(r"\1", cell)


def format_error(code: str, message: str) -> PydanticCustomError:
    return PydanticCustomError(code, message)


def phone(value: str) -> str:
    """Return the number in E.164. It must be valid in its region."""
    digits = re.sub(r"[ ()-]", "", value)
    try:
        # The library alone also accepts letters, extensions and other digits.
        number = phonenumbers.parse(digits) if E164.fullmatch(digits) else None
    except phonenumbers.NumberParseException:
        number = None
    if number is None or not phonenumbers.is_valid_number(number):
        raise format_error(
            "invalid-format",
            "A valid phone number in international form is needed, "
            "such as +254712345678",
        )
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def kenyan_mobile(value: str) -> str:
    """Return a Kenyan mobile number (07…, 01…, 254… or +254…) in E.164."""
    digits = re.sub(r"[\s().-]", "", value)
    if not KENYAN.fullmatch(digits):
        raise ValueError("not a Kenyan mobile number")
    number = phonenumbers.parse(digits[-9:], "KE")
    kind = phonenumbers.number_type(number)
    if kind != phonenumbers.PhoneNumberType.MOBILE:
        raise ValueError("not a Kenyan mobile number")
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def typed_phone(text: str) -> str:
    """Return the number that somebody searches for in E.164, or "" if it is none."""
    try:
        number = phonenumbers.parse(text, "KE")
    except phonenumbers.NumberParseException:
        return ""
    if not phonenumbers.is_possible_number(number):
        return ""
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def email(value: str) -> str:
    local, _, domain = value.rpartition("@")
    if not (PLAIN_LOCAL.fullmatch(local) and _is_mail_domain(domain)):
        _check_email(value)
    return value


# Most addresses share few domains, and the domain takes most of the validation's time.
@lru_cache(maxsize=4096)
def _is_mail_domain(domain: str) -> bool:
    try:
        _check_email(f"a@{domain}")
    except PydanticCustomError:
        return False
    return True


def _check_email(value: str) -> None:
    try:
        # Clients use addresses under .test in their tests; they reach nobody.
        validate_email(value, check_deliverability=False, test_environment=True)
    except EmailNotValidError as e:
        raise format_error("invalid-format", "A valid e-mail address is needed") from e


def country(value: str) -> str:
    if value in COUNTRIES:
        return value
    try:
        meant = pycountry.countries.lookup(value[:100]).alpha_2
    except LookupError:
        meant = ""
    hint = f"; write {meant}" if meant else ", such as KE"
    raise format_error(
        "invalid-choice", f"This must be a country code of two capital letters{hint}"
    )


def real_date(value: str) -> str:
    if DATE.fullmatch(value):
        try:
            date.fromisoformat(value)
        except ValueError:
            pass
        else:
            return value
    raise format_error(
        "invalid-format",
        "This must be a date without a time, as YYYY-MM-DD, such as 2026-01-31",
    )


def birth_date(value: str) -> str:
    born = date.fromisoformat(real_date(value))
    if born < EARLIEST_BIRTH or born > now().date():
        raise format_error("out-of-range", "A date from 1900-01-01 to today is needed")
    return value


def past_moment(value: str) -> str:
    moment = _moment(value)
    if moment is None:
        raise format_error(
            "invalid-format",
            "An RFC 3339 timestamp with its offset is needed, "
            "such as 2026-11-21T08:15:30Z",
        )
    if moment > now() + CLOCK_SKEW:
        raise format_error("out-of-range", "This must not be in the future")
    # strftime would write the year 987 with three digits.
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _moment(value: str) -> datetime | None:
    if not TIMESTAMP.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def is_blank(text: str) -> bool:
    """Return whether nobody would see the text."""
    return not one_line(text).strip(JOINERS)


def _visible(value: str) -> str:
    if is_blank(value):
        raise format_error("required", "This must not be empty")
    return value


def text(limit: int) -> Any:
    """Return a type for non-empty text, from which spaces around it are stripped."""
    return Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=limit),
        AfterValidator(_visible),
        WithJsonSchema(
            {"type": "string", "minLength": 1, "maxLength": limit, "pattern": r"\S"}
        ),
    ]


def _string(check: Callable[[str], str], limit: int | None, **schema: Any) -> Any:
    """Return a type for text of a format. Without a limit, `check` finds it too long,
    in words that name the format.
    """
    if limit:
        schema["maxLength"] = limit
    return Annotated[
        str,
        Field(min_length=1, max_length=limit),
        AfterValidator(check),
        WithJsonSchema({"type": "string", **schema}),
    ]


Name = text(200)
Identifier = text(64)
Email = _string(email, 254, format="email", examples=["jane@example.com"])
Phone = _string(phone, 40, examples=["+254712345678"])
Country = _string(country, None, enum=sorted(COUNTRIES), title="Country")
Date = _string(real_date, None, format="date", maxLength=10)
BirthDate = _string(
    birth_date, None, format="date", maxLength=10, examples=["1990-01-31"]
)
PastMoment = _string(
    past_moment, 40, format="date-time", examples=["2026-01-15T08:15:30Z"]
)
