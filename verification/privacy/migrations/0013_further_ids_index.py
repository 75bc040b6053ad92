from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("privacy", "0012_further_ids")]

    operations = [
        AddIndexConcurrently(
            "subjectrequest",
            GinIndex(fields=["further_ids"], name="requests_by_further_ids"),
        ),
    ]
