import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("webhooks", "0009_validate_simulated_answers"),
        ("workspaces", "0001_squashed_1_0_0"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            # No query reads the events of a workspace but by `events_to_pull`.
            database_operations=[
                migrations.RunSQL(
                    "DROP INDEX CONCURRENTLY IF EXISTS "
                    "webhooks_event_workspace_id_be348ac1"
                )
            ],
            state_operations=[
                migrations.AlterField(
                    "event",
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="workspaces.workspace",
                        db_index=False,
                    ),
                )
            ],
        )
    ]
