from typing import Any

from django.db import migrations

from verification.backoffice.models import fingerprints


def record(apps: Any, schema_editor: Any) -> None:
    """The tables are written with the key that this installation has."""
    rows = apps.get_model("backoffice", "LookupKey").objects
    made = fingerprints()
    rows.create(id=len(made), fingerprint=made[-1])


def forget(apps: Any, schema_editor: Any) -> None:
    apps.get_model("backoffice", "LookupKey").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0002_triggers")]

    operations = [migrations.RunPython(record, forget)]
