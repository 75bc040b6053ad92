import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import uuid_utils.compat
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Edition",
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
                (
                    "list",
                    models.CharField(
                        choices=[
                            ("UN", "United Nations"),
                            ("OFAC", "OFAC, United States"),
                            ("UK", "United Kingdom"),
                            ("EU", "European Union"),
                        ],
                        max_length=4,
                    ),
                ),
                ("published_on", models.DateField(null=True)),
                ("sha256", models.CharField(max_length=64)),
                ("entry_count", models.PositiveIntegerField()),
                (
                    "loaded_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False
                    ),
                ),
                (
                    "confirmed_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False
                    ),
                ),
                ("is_current", models.BooleanField(default=True)),
            ],
            options={
                "ordering": ["-loaded_at"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("is_current", True)),
                        fields=("list",),
                        name="one_current_edition_a_list",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("entry_count__gt", 0)),
                        name="edition_has_entries",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Listed",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("reference", models.CharField(max_length=60)),
                (
                    "kind",
                    models.CharField(
                        choices=[("PERSON", "Person"), ("COMPANY", "Company")],
                        max_length=7,
                    ),
                ),
                (
                    "names",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=300), size=None
                    ),
                ),
                (
                    "birth_dates",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=10),
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "countries",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=2),
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "edition",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="watchlists.edition",
                    ),
                ),
            ],
            options={"verbose_name_plural": "listed"},
        ),
    ]
