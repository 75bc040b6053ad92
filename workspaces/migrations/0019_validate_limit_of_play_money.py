from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0018_limit_of_play_money")]

    operations = [
        ValidateConstraint(
            model_name="account", name="play_money_stays_within_its_limit"
        ),
    ]
