from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("checks", "0006_results_to_reuse")]

    operations = [RemoveIndexConcurrently("checkresult", "results_reusable")]
