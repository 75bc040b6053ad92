from django.db import migrations, models

ANSWERS = [
    ("500", "The receiver answered 500."),
    ("410", "The receiver answered 410 Gone."),
    ("timeout", "The receiver did not answer in time."),
]


class Migration(migrations.Migration):
    # Apart from 0007: an order locks this table before that one, and the two would wait
    # for each other.
    dependencies = [("webhooks", "0007_simulated_answers")]

    operations = [
        migrations.AddField(
            model_name="delivery",
            name="simulated_answer",
            field=models.CharField(
                blank=True, choices=ANSWERS, db_default="", max_length=7
            ),
        ),
    ]
