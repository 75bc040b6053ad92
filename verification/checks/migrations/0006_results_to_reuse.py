from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("checks", "0005_next_results")]

    operations = [
        AddIndexConcurrently(
            model_name="checkresult",
            index=models.Index(
                models.F("question"),
                models.OrderBy(models.F("completed_at"), descending=True),
                condition=models.Q(
                    status="COMPLETED",
                    reused_from_id__isnull=True,
                    question__isnull=False,
                ),
                name="results_to_reuse",
            ),
        ),
    ]
