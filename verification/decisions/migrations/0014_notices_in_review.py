from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("decisions", "0013_numbers_of_notices")]

    operations = [
        AddIndexConcurrently(
            "adversenotice",
            models.Index(
                fields=["report"],
                condition=models.Q(review_asked_at__isnull=False, reviewed_at=None),
                name="notices_in_review",
            ),
        ),
    ]
