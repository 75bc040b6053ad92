from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("notifications", "0013_codes_due")]

    operations = [
        AddIndexConcurrently(
            "notification",
            models.Index(
                condition=models.Q(sandbox=False, next_attempt_at__isnull=False),
                fields=["next_attempt_at"],
                name="notifications_live_due",
            ),
        ),
    ]
