from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("reports", "0008_further_ids")]

    operations = [
        AddIndexConcurrently(
            "searchentry",
            GinIndex(fields=["further_ids"], name="search_further_ids"),
        ),
    ]
