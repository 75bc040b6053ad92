from django.db import migrations

from verification.db.triggers import append_only


class Migration(migrations.Migration):
    dependencies = [("reports", "0001_initial")]

    operations = [append_only("reports_statuschange")]
