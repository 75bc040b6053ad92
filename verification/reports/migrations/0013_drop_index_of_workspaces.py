import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("reports", "0012_report_by_risk"),
        ("workspaces", "0001_squashed_1_0_0"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            # The unique index of the keys begins with the workspace, too.
            database_operations=[
                migrations.RunSQL(
                    "DROP INDEX CONCURRENTLY IF EXISTS "
                    "reports_idempotencyrecord_workspace_id_dce605c6"
                )
            ],
            state_operations=[
                migrations.AlterField(
                    "idempotencyrecord",
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        to="workspaces.workspace",
                        db_index=False,
                    ),
                )
            ],
        )
    ]
