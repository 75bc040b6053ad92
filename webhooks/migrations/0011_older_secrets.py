from django.db import migrations

import verification.db.encryption


class Migration(migrations.Migration):
    dependencies = [
        ("webhooks", "0010_drop_index_of_workspaces"),
    ]

    operations = [
        migrations.AddField(
            model_name="configuration",
            name="older_secrets",
            field=verification.db.encryption.EncryptedJSONField(null=True),
        ),
    ]
