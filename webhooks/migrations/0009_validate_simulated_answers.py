from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0008_simulated_answer_of_deliveries")]

    operations = [
        ValidateConstraint(
            model_name="configuration", name="answers_are_simulated_in_the_sandbox"
        ),
    ]
