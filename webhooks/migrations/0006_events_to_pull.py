from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("webhooks", "0005_place_of_events")]

    operations = [
        AddIndexConcurrently(
            model_name="event",
            index=models.Index(
                fields=["workspace", "environment", "listed_at", "id"],
                include=["name", "created_at"],
                condition=models.Q(payload__isnull=False, restricted_at=None),
                name="events_to_pull",
            ),
        ),
    ]
