"""Parse the arguments of commands. Raises CommandError with the reason."""

from decimal import Decimal, InvalidOperation
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.core.validators import validate_email

from verification.values.networks import WrongNetwork, read_networks
from workspaces.models import Scope, Workspace

LARGEST_AMOUNT = Decimal("999999999999.99")


def parse_workspace(text: str) -> Workspace:
    try:
        return Workspace.objects.get(pk=UUID(text))
    except (ValueError, Workspace.DoesNotExist):
        raise CommandError(f"There is no workspace {text!r}.") from None


def parse_name(text: str, *, longest: int) -> str:
    stripped = text.strip()
    if not stripped or "\0" in stripped:
        raise CommandError("A name must not be empty or hold NUL characters.")
    if len(stripped) > longest:
        raise CommandError(f"A name has at most {longest} characters.")
    return stripped


def parse_email(text: str) -> str:
    try:
        validate_email(text)
    except ValidationError:
        raise CommandError(f"{text!r} is not an e-mail address.") from None
    return text


def parse_scopes(text: str) -> list[str]:
    named = [scope.strip() for scope in text.split(",")]
    known = ", ".join(Scope.values)
    for scope in named:
        if scope not in Scope.values:
            raise CommandError(f"There is no scope {scope!r}; there are {known}.")
    if len(set(named)) < len(named):
        raise CommandError("A scope is named twice.")
    return named


def parse_networks(text: str) -> list[str]:
    try:
        return read_networks(text.split(","))
    except WrongNetwork as e:
        raise CommandError(str(e)) from None


def parse_amount(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise CommandError(f"{text!r} is not an amount.") from None
    if not (value.is_finite() and 0 < value <= LARGEST_AMOUNT):
        raise CommandError(f"The amount must be above 0 and up to {LARGEST_AMOUNT}.")
    if value != round(value, 2):
        raise CommandError("An amount has at most two decimals.")
    return value
