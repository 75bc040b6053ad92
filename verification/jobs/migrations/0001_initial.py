import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                (
                    "cluster",
                    models.CharField(max_length=100, primary_key=True, serialize=False),
                ),
                (
                    "beat_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("function", models.CharField(max_length=200)),
                ("arguments", models.JSONField(default=list)),
                (
                    "due_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(db_default=0)),
                (
                    "claimed_by",
                    models.CharField(blank=True, db_default="", max_length=100),
                ),
                ("gave_up_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("gave_up_at", None)),
                        fields=["due_at", "id"],
                        name="jobs_due",
                    ),
                    models.Index(
                        condition=models.Q(("gave_up_at__isnull", False)),
                        fields=["id"],
                        name="jobs_given_up",
                    ),
                    models.Index(
                        condition=models.Q(("arguments", []), ("gave_up_at", None)),
                        fields=["function", "due_at"],
                        name="jobs_wake_ups",
                    ),
                ]
            },
        ),
    ]
