from django.db import migrations

import verification.encryption


class Migration(migrations.Migration):
    dependencies = [
        ("payments", "0005_doubts_and_transactions"),
    ]

    operations = [
        migrations.AddField(
            model_name="checkout",
            name="receipt",
            field=verification.encryption.EncryptedJSONField(null=True),
        ),
    ]
