from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Cast, Right


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("references", "0001_squashed_1_0_0")]

    operations = [
        AddIndexConcurrently(
            "reference",
            models.Index(
                Right(Cast("id", models.TextField()), 12),
                name="references_by_number",
            ),
        ),
    ]
