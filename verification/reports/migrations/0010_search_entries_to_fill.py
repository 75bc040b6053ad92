from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("reports", "0009_further_ids_index")]

    operations = [
        AddIndexConcurrently(
            "searchentry",
            models.Index(
                fields=["report"],
                condition=models.Q(further_ids=None),
                name="search_entries_to_fill",
            ),
        ),
    ]
