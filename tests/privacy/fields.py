"""Every member and field that takes a text from somebody, and every column for it."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from django import forms
from django.apps import apps
from django.db import connection

from tests.privacy.other_data import NOT_OF_SUBJECTS, RULES
from verification import hosted
from verification.api.docs import document
from verification.checks.catalogue import CATALOGUE
from verification.db.encryption import KeyedUUIDField
from verification.privacy.personal_data import TABLES

# Texts that carry no mark, and why
WITHOUT_MARK = {
    "ConsentInput.obtainedAt": "a time",
    "Decision.reasonCodes[]": "codes",
    "Decision.replaces": "an id",
    "DraftEdit.package": "the name of a package",
    "MonitoringRule.package": "the name of a package",
    "Recover.since": "a time",
    "ReportItem.package": "the name of a package",
    "WebhookConfiguration.secret": "the client's",
    "WebhookConfiguration.url": "the client's",
    # Forms
    "AmountForm.amount": "money of a client",
    "AnswersForm.from_day": "AnswersForm.from",
    "AnswersForm.from_month": "AnswersForm.from",
    "AnswersForm.from_year": "AnswersForm.from",
    "AnswersForm.to_day": "AnswersForm.to",
    "AnswersForm.to_month": "AnswersForm.to",
    "AnswersForm.to_year": "AnswersForm.to",
    "CodeForm.answer": "a code of the service",
    "CompanyGrantForm.shown": "a digest",
    "DateOfBirthForm.day": "compared, not stored",
    "DateOfBirthForm.month": "compared, not stored",
    "DateOfBirthForm.year": "compared, not stored",
    "GrantForm.name": "like SubjectInput.fullName, or the page refuses it",
    "GrantForm.shown": "a digest",
    "IdNumberEndForm.answer": "compared, not stored",
    "KraPinForm.answer": "compared, not stored",
    "MyDataForm.address": "of no report; erased when the request is answered",
    "MyDataForm.number": "of no report; erased when the request is answered",
    "RegistrationNumberForm.answer": "compared, not stored",
}


def fields_with_text() -> set[str]:
    """Return the names of all members of requests, inputs of checks, and form fields
    that take a text."""
    inputs = {i["key"] for check in CATALOGUE for i in check.required_inputs}
    return {
        *api_members(),
        *form_fields(),
        *(f"SubjectInput.{key}" for key in inputs),
    } - {"SubjectInput.*"}


def api_members() -> Iterator[str]:
    """Yield the text members of all requests, such as `SubjectInput.fullName`."""
    whole = document()
    for operations in whole["paths"].values():
        for operation in operations.values():
            for body in operation.get("requestBody", {}).get("content", {}).values():
                for member in text_members(whole, body["schema"], "", frozenset()):
                    yield member.replace("Request.", ".")


def text_members(
    whole: dict[str, Any], schema: dict[str, Any], at: str, above: frozenset[str]
) -> Iterator[str]:
    if name := schema.get("$ref", "").rpartition("/")[2]:
        if name not in above:
            found = whole["components"]["schemas"][name]
            yield from text_members(whole, found, name, above | {name})
        return
    parts = [(at, part) for kind in KINDS for part in schema.get(kind, ())]
    parts += [(f"{at}.{k}", part) for k, part in schema.get("properties", {}).items()]
    parts += [(f"{at}[]", schema["items"])] if "items" in schema else []
    for place, part in parts:
        yield from text_members(whole, part, place, above)
    if schema.get("additionalProperties"):
        yield f"{at}.*"
    types = schema.get("type", ())
    is_text = types == "string" or "string" in types
    if is_text and not {"enum", "const"} & schema.keys():
        yield at


KINDS = ("allOf", "anyOf", "oneOf")
CHOSEN = (forms.BooleanField, forms.ChoiceField)


def form_fields() -> Iterator[str]:
    """Yield the fields of all forms of hosted pages that are typed."""
    for info in pkgutil.walk_packages(hosted.__path__, f"{hosted.__name__}."):
        module = import_module(info.name)
        for name, form in inspect.getmembers(module, inspect.isclass):
            if issubclass(form, forms.Form) and form.__module__ == info.name:
                for field, how in form.base_fields.items():
                    if not isinstance(how, CHOSEN):
                        yield f"{name}.{field}"


# Columns for which no mark can be made, and why
COLUMNS_WITHOUT_MARK = {
    "checks_checkresult.question": "a keyed hash",
    "decisions_decision.codes": "codes",
    "monitoring_rule.subject_id": "a keyed hash",
    "monitoring_rule.terms": "keyed hashes",
    "privacy_correctiondocument.content_type": "a code",
    "privacy_correctiondocument.data_key": "a random key",
    "privacy_correctiondocument.file": "a random name",
    "reports_report.subject_id": "a keyed hash",
    "reports_searchentry.further_ids": "keyed hashes",
    "reports_searchentry.terms": "keyed hashes",
}
WITHOUT_TEXT = (
    "bigint",
    "boolean",
    "date",
    "double precision",
    "integer",
    "interval",
    "numeric",
    "smallint",
    "timestamp with time zone",
    "uuid",
)


def columns_with_text() -> set[str]:
    """Return table.column of each column that can hold free text or a hash of it.

    A field with choices holds none.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT table_name || '.' || column_name
            FROM information_schema.columns JOIN pg_class
                ON oid = format('%%I.%%I', table_schema, table_name)::regclass
            WHERE table_schema = current_schema() AND data_type <> ALL(%s)
                AND NOT relispartition""",
            [list(WITHOUT_TEXT)],
        )
        found = {name for (name,) in cursor.fetchall()}
    fields = {
        f"{model._meta.db_table}.{field.column}": field
        for model in apps.get_models()
        for field in model._meta.concrete_fields
    }
    hashes = {name for name, one in fields.items() if isinstance(one, KeyedUUIDField)}
    codes = {
        name for name, one in fields.items() if getattr(one, "base_field", one).choices
    }
    return (found | hashes) - codes


def erased_columns(columns: set[str]) -> set[str]:
    """Return the columns that erasing empties, or whose rows it deletes."""
    found = set()
    for table in TABLES:
        of_table = {name for name in columns if name.startswith(f"{table.name}.")}
        erased = {f"{table.name}.{column}" for column in table.erased}
        found |= erased & of_table if erased else of_table
    return found


def personal_columns() -> set[str]:
    """Return the columns with text about people of reports, rules included."""
    of_rule = NOT_OF_SUBJECTS["monitoring_rule"]
    assert isinstance(of_rule, dict)
    of_rules = {f"monitoring_rule.{name}" for name in of_rule[RULES].split()}
    return erased_columns(columns_with_text()) | of_rules
