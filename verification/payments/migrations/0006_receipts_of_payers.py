from django.db import migrations

import verification.db.encryption


class Migration(migrations.Migration):
    dependencies = [
        ("payments", "0005_doubts_and_transactions"),
    ]

    operations = [
        migrations.AddField(
            model_name="checkout",
            name="receipt",
            field=verification.db.encryption.EncryptedJSONField(null=True),
        ),
    ]
