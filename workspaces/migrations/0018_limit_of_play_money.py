from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0017_next_results")]

    operations = [
        AddConstraintNotValid(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=~Q(billing="PLAY")
                | Q(ceiling__isnull=True)
                | Q(balance__gte=-F("ceiling") - F("taken_back")),
                name="play_money_stays_within_its_limit",
            ),
        ),
    ]
