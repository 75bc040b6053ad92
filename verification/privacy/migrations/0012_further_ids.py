import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("privacy", "0011_claims_of_the_retention")]

    operations = [
        migrations.AddField(
            model_name="erasure",
            name="searched_by",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=20),
                db_default=[],
                default=list,
                editable=False,
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="subjectrequest",
            name="further_ids",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(), null=True, size=None
            ),
        ),
    ]
