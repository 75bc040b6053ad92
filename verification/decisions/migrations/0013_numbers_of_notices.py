from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Cast, Right


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("decisions", "0012_makers_of_keys")]

    operations = [
        AddIndexConcurrently(
            "adversenotice",
            models.Index(
                Right(Cast("id", models.TextField()), 12),
                name="notices_by_number",
            ),
        ),
    ]
