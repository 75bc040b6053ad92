import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reports", "0007_reuse_requested")]

    operations = [
        migrations.AddField(
            model_name="searchentry",
            name="further_ids",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(), null=True, size=None
            ),
        ),
    ]
