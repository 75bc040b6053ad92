from django.db import migrations, models

import verification.db.encryption

REVIEWED = (
    "SELECT company_name FROM golive_application"
    " WHERE workspace_id = %s AND status = 'APPROVED'"
)


def fill_in(apps, schema_editor):
    """Take the reviewed name from the approved application, if there is one."""
    connection = schema_editor.connection
    workspaces = apps.get_model("workspaces", "Workspace").objects
    for workspace in workspaces.using(connection.alias).iterator():
        workspace.contact = workspace.owner_email
        if workspace.go_live == "APPROVED":
            with connection.cursor() as cursor:
                cursor.execute(REVIEWED, [workspace.pk])
                found = cursor.fetchone()
            workspace.name = found[0] if found else workspace.name
            workspace.legal_name = workspace.name
        workspace.save(update_fields=["name", "legal_name", "contact"])


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0008_ceilings")]

    operations = [
        migrations.AddField(
            model_name="workspace",
            name="legal_name",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.AddField(
            model_name="workspace",
            name="trading_name",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.AddField(
            model_name="workspace",
            name="contact",
            field=verification.db.encryption.EncryptedJSONField(null=True),
        ),
        migrations.RunPython(fill_in, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="workspace",
            name="contact",
            field=verification.db.encryption.EncryptedJSONField(),
        ),
        migrations.AddConstraint(
            model_name="workspace",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        models.Q(
                            ("name", models.F("legal_name")),
                            ("name", models.F("trading_name")),
                            _connector="OR",
                        ),
                        models.Q(("legal_name", ""), _negated=True),
                        ("go_live", "APPROVED"),
                    ),
                    models.Q(
                        ("legal_name", ""),
                        ("trading_name", ""),
                        models.Q(("go_live", "APPROVED"), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="only_approved_workspaces_have_reviewed_names",
            ),
        ),
    ]
