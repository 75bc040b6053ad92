from django.db import migrations

from verification.db.encryption import EncryptedJSONField


def seal(apps, schema_editor):
    for alert in apps.get_model("monitoring", "Alert").objects.defer("changes"):
        alert.message = alert.message_text
        alert.save(update_fields=["message"])


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0004_runs_by_number")]

    operations = [
        migrations.RenameField("alert", "message", "message_text"),
        migrations.AddField("alert", "message", EncryptedJSONField(null=True)),
        migrations.RunPython(seal, migrations.RunPython.noop),
        migrations.RemoveField("alert", "message_text"),
        migrations.AlterField("alert", "message", EncryptedJSONField()),
    ]
