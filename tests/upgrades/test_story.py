"""The story behind the dumps of released versions has a row for every table."""

from typing import Any

import pytest
from django.db import connection

from tests.upgrades.dumps import UNUSED
from tests.upgrades.story import *  # noqa: F403

pytestmark = pytest.mark.slow


def test_story_fills_every_table(story: Any) -> None:
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        filled = set()
        for table in tables:
            cursor.execute(f'SELECT EXISTS (SELECT FROM "{table}")')  # noqa: S608
            filled |= {table} if cursor.fetchone()[0] else set()

    assert sorted(tables - filled) == sorted(UNUSED)
