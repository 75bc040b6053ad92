from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

ANSWERS = [
    ("500", "The receiver answered 500."),
    ("410", "The receiver answered 410 Gone."),
    ("timeout", "The receiver did not answer in time."),
]


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0006_events_to_pull")]

    operations = [
        migrations.AddField(
            model_name="configuration",
            name="simulated_answer",
            field=models.CharField(
                blank=True, choices=ANSWERS, db_default="", default="", max_length=7
            ),
        ),
        migrations.AddField(
            model_name="configuration",
            name="simulated_left",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        AddConstraintNotValid(
            model_name="configuration",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("simulated_left", 0),
                    ("environment", "sandbox"),
                    _connector="OR",
                ),
                name="answers_are_simulated_in_the_sandbox",
            ),
        ),
    ]
