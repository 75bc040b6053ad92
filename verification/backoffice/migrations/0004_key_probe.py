from django.db import migrations, models

import verification.db.encryption


class Migration(migrations.Migration):
    dependencies = [
        ("backoffice", "0003_lookup_key"),
    ]

    operations = [
        migrations.CreateModel(
            name="KeyProbe",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(
                        default=1, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("value", verification.db.encryption.EncryptedJSONField()),
            ],
            options={
                "default_permissions": (),
            },
        ),
    ]
