"""Every column that can hold text is erased, or named as one without personal data."""

from django.apps import apps

from tests.privacy.fields import columns_with_text, erased_columns
from tests.privacy.other_data import NOT_OF_SUBJECTS


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
