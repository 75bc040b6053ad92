from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sources", "0001_initial")]

    operations = [
        migrations.AddField(
            "call", "cause", models.CharField(blank=True, db_default="", max_length=20)
        ),
        migrations.AddField(
            "source",
            "causes",
            ArrayField(models.CharField(max_length=20), db_default=[]),
        ),
        migrations.AddField("source", "failed_at", models.DateTimeField(null=True)),
        migrations.AddField("source", "failing_since", models.DateTimeField(null=True)),
    ]
