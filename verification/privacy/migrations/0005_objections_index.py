from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("privacy", "0004_certificates_and_journal")]

    operations = [
        AddIndexConcurrently(
            "subjectrequest",
            models.Index(
                fields=["subject_id"],
                condition=models.Q(kind="OBJECTION"),
                name="objections_of_a_subject",
            ),
        ),
    ]
