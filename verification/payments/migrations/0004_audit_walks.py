import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("payments", "0001_squashed_1_0_0"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditWalk",
            fields=[
                (
                    "name",
                    models.CharField(
                        choices=[
                            ("NIGHT", "What came since the last night"),
                            ("ROUND", "All rows, over as many nights as it takes"),
                        ],
                        max_length=5,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("read_to", models.DateTimeField()),
                ("since", models.DateTimeField(null=True)),
                ("until", models.DateTimeField(null=True)),
                ("found", models.JSONField(default=list)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="ledgeraudit",
            name="all_since",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="ledgeraudit",
            name="since",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.CreateModel(
            name="AuditTotal",
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
                ("account_id", models.UUIDField()),
                ("total", models.DecimalField(decimal_places=2, max_digits=20)),
                (
                    "walk",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="totals",
                        to="payments.auditwalk",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("walk", "account_id"),
                        name="an_account_has_a_total_in_a_walk",
                    )
                ],
            },
        ),
    ]
