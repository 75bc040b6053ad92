from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("workspaces", "0014_scope_to_read_the_trail")]

    operations = [
        AddIndexConcurrently(
            model_name="ledgerentry",
            index=models.Index(
                condition=models.Q(("checkout_id__isnull", False)),
                fields=["checkout_id"],
                name="entries_of_a_checkout",
            ),
        ),
    ]
