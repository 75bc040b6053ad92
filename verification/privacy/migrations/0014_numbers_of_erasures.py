from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Cast, Right


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("privacy", "0013_further_ids_index")]

    operations = [
        AddIndexConcurrently(
            "erasure",
            models.Index(
                Right(Cast("id", models.TextField()), 12),
                name="erasures_by_number",
            ),
        ),
    ]
