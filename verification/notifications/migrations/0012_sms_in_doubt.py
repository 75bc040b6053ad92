from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("notifications", "0011_newcomer_limits"),
    ]

    operations = [
        migrations.AddField(
            model_name="notification",
            name="doubts",
            field=models.SmallIntegerField(db_default=0),
        ),
    ]
