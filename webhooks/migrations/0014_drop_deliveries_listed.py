from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("webhooks", "0013_deliveries_by_event")]

    operations = [RemoveIndexConcurrently("delivery", "deliveries_listed")]
