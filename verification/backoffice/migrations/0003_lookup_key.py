from typing import Any

import django.utils.timezone
from django.db import migrations, models

from verification.backoffice.lookup_key import fingerprints


def record(apps: Any, schema_editor: Any) -> None:
    """The tables so far were written with the key that this installation has."""
    rows = apps.get_model("backoffice", "LookupKey").objects
    rows.create(fingerprint=fingerprints()[-1])


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0002_append_only")]

    operations = [
        migrations.CreateModel(
            name="LookupKey",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(
                        default=1, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("fingerprint", models.BinaryField()),
                (
                    "since",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("pk", 1)), name="there_is_one_key"
                    )
                ],
            },
        ),
        migrations.RunPython(record, migrations.RunPython.noop),
    ]
