from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("privacy", "0014_numbers_of_erasures")]

    operations = [
        migrations.AddField(
            "stafferasure",
            "found_ids",
            ArrayField(models.UUIDField(), editable=False, null=True, size=None),
        ),
        migrations.AddField(
            "stafferasure",
            "subject_ids",
            ArrayField(models.UUIDField(), editable=False, null=True, size=None),
        ),
    ]
