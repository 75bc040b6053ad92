from typing import Any

import django.utils.timezone
from django.db import migrations, models

from verification.backoffice.lookup_key import fingerprints


def record(apps: Any, schema_editor: Any) -> None:
    """The tables so far were written with the key that this installation has."""
    rows = apps.get_model("backoffice", "LookupKey").objects
    made = fingerprints()
    rows.create(id=len(made), fingerprint=made[-1])


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0002_append_only")]

    operations = [
        migrations.CreateModel(
            name="LookupKey",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(
                        editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("fingerprint", models.BinaryField()),
                (
                    "since",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False
                    ),
                ),
                ("ends_links", models.BooleanField(default=False, editable=False)),
            ],
            options={"ordering": ["pk"], "default_permissions": ()},
        ),
        migrations.RunPython(record, migrations.RunPython.noop),
    ]
