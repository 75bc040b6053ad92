"""Every column that can hold text is erased, or named as one without personal data."""

from django.apps import apps
from django.db import connection

from verification.db.encryption import KeyedUUIDField
from verification.privacy.other_data import NOT_OF_SUBJECTS
from verification.privacy.personal_data import TABLES

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
    """Return table.column of each column that can hold text or the hash of one."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT table_name || '.' || column_name
            FROM information_schema.columns
            WHERE table_schema = current_schema() AND data_type <> ALL(%s)""",
            [list(WITHOUT_TEXT)],
        )
        found = {name for (name,) in cursor.fetchall()}
    hashes = {
        f"{model._meta.db_table}.{field.column}"
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, KeyedUUIDField)
    }
    return found | hashes


def erased_columns(columns: set[str]) -> set[str]:
    """Return the columns that erasing empties, or whose rows it deletes."""
    found = set()
    for table in TABLES:
        of_table = {name for name in columns if name.startswith(f"{table.name}.")}
        erased = {f"{table.name}.{column}" for column in table.erased}
        found |= erased & of_table if erased else of_table
    return found


def other_columns(columns: set[str]) -> set[str]:
    """Return the columns of NOT_OF_SUBJECTS."""
    found = set()
    for table, why in NOT_OF_SUBJECTS.items():
        if isinstance(why, str):
            found |= {name for name in columns if name.startswith(f"{table}.")}
        else:
            found |= {f"{table}.{c}" for names in why.values() for c in names.split()}
    return found


def test_each_column_is_erased_or_holds_no_personal_data(db: None):
    columns = columns_with_text()

    erased, other = erased_columns(columns), other_columns(columns)

    assert columns - erased - other == set(), "classify these"
    assert erased & other == set(), "these are in both lists"


def test_lists_name_existing_columns(db: None):
    columns = columns_with_text()
    tables = {name.split(".")[0] for name in columns}

    assert other_columns(columns) - columns == set()
    assert NOT_OF_SUBJECTS.keys() - tables == set()


def test_tables_without_personal_data_refer_to_no_report(db: None):
    """A new column of a table with rows about a report needs a decision of its own."""
    whole = {table for table, why in NOT_OF_SUBJECTS.items() if isinstance(why, str)}
    of_reports = {
        model._meta.db_table
        for model in apps.get_models()
        if {"report", "report_id", "checkout", "result_id", "subject_id"}
        & {field.name for field in model._meta.concrete_fields}
    }

    assert whole & of_reports == set()
