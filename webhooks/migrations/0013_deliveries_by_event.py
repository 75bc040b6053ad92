from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("webhooks", "0012_deliveries_outlive_configurations")]

    operations = [
        AddIndexConcurrently(
            "delivery",
            models.Index(
                models.F("workspace"),
                models.F("environment"),
                models.OrderBy(models.F("event"), descending=True),
                include=["name", "status"],
                name="deliveries_by_event",
            ),
        ),
    ]
