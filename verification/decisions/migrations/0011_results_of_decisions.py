import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0010_cases_without_hours")]

    operations = [
        migrations.AddField(
            model_name="decision",
            name="result_ids",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(), editable=False, null=True, size=None
            ),
        ),
        migrations.AlterField(
            model_name="case",
            name="cause",
            field=models.CharField(
                choices=[
                    ("ENDED", "The report has ended"),
                    ("PROPOSED", "A decision is proposed"),
                    ("REVIEW", "A decision left it to a person"),
                    ("CHANGED", "The findings of a decision changed"),
                    ("REQUESTED", "The subject asks a person to decide"),
                ],
                max_length=9,
            ),
        ),
    ]
