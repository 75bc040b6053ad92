import django.db.models.deletion
import django.utils.timezone
import uuid_utils.compat
from django.db import migrations, models

import verification.db.encryption


class Migration(migrations.Migration):
    initial = True

    dependencies = [("reports", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Reference",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("result_id", models.UUIDField()),
                ("attempt", models.PositiveSmallIntegerField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("PENDING", "Pending"),
                            ("SUBMITTED", "Submitted"),
                            ("DECLINED", "Declined"),
                            ("EXPIRED", "Expired"),
                        ],
                        default="PENDING",
                        max_length=9,
                    ),
                ),
                ("generation", models.PositiveIntegerField(default=1)),
                ("token_digest", models.BinaryField(unique=True)),
                ("expires_at", models.DateTimeField()),
                (
                    "link_made_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False
                    ),
                ),
                ("reminded_at", models.DateTimeField(editable=False, null=True)),
                ("answers", verification.db.encryption.EncryptedJSONField(null=True)),
                ("evidence", verification.db.encryption.EncryptedJSONField(null=True)),
                ("submitted_at", models.DateTimeField(editable=False, null=True)),
                ("declined_at", models.DateTimeField(editable=False, null=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="references",
                        to="reports.report",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "PENDING")),
                        fields=["expires_at"],
                        name="references_waiting",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("result_id", "attempt"), name="one_reference_an_attempt"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "SUBMITTED"),
                            ("submitted_at", None),
                            _connector="XOR",
                        ),
                        name="reference_submitted_at_iff_submitted",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "DECLINED"),
                            ("declined_at", None),
                            _connector="XOR",
                        ),
                        name="reference_declined_at_iff_declined",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "SUBMITTED"), ("answers", None), _connector="OR"
                        ),
                        name="only_submitted_references_have_answers",
                    ),
                ],
            },
        )
    ]
