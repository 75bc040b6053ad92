from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("notifications", "0012_sms_in_doubt")]

    operations = [
        AddIndexConcurrently(
            "notification",
            models.Index(
                condition=models.Q(
                    kind__in=("ACCESS_CODE", "CONSENT_CODE"),
                    next_attempt_at__isnull=False,
                ),
                fields=["sandbox", "next_attempt_at"],
                name="notifications_codes_due",
            ),
        ),
    ]
