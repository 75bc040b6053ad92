from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("reports", "0011_orders_read_objections")]

    operations = [
        AddIndexConcurrently(
            model_name="report",
            index=models.Index(
                models.F("workspace"),
                models.F("environment"),
                models.OrderBy(
                    models.F("risk_score"), descending=True, nulls_last=True
                ),
                models.OrderBy(models.F("id"), descending=True),
                name="report_by_risk",
            ),
        ),
    ]
