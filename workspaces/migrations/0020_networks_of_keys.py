import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0019_validate_limit_of_play_money"),
    ]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="networks",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=43),
                blank=True,
                db_default=[],
                default=list,
                size=20,
            ),
        ),
    ]
