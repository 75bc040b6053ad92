from django.db import migrations

from verification.db.triggers import append_only


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0001_initial")]

    operations = [
        append_only("workspaces_ledgerentry"),
        # Counts of the running minute are not worth a write-ahead log.
        migrations.RunSQL(
            "ALTER TABLE workspaces_ratecount SET UNLOGGED",
            "ALTER TABLE workspaces_ratecount SET LOGGED",
        ),
    ]
