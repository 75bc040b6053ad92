from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reports", "0006_return_url"),
    ]

    operations = [
        migrations.AddField(
            model_name="report",
            name="reuse_requested",
            field=models.BooleanField(null=True),
        ),
    ]
