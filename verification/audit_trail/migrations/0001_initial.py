from django.db import migrations, models

from verification.db.triggers import append_only


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditSeal",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("event_id", models.UUIDField(unique=True)),
                ("hash", models.BinaryField()),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="UnsealedEvent",
            fields=[
                ("event_id", models.UUIDField(primary_key=True, serialize=False)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="TrailState",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(
                        default=1, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("filled_to", models.UUIDField(null=True)),
                ("is_filled", models.BooleanField(default=False)),
                ("anchored_number", models.BigIntegerField(default=0)),
                ("anchored_at", models.DateTimeField(null=True)),
                ("check_number", models.BigIntegerField(null=True)),
                ("check_found", models.JSONField(default=list)),
                ("checked_at", models.DateTimeField(null=True)),
                ("faults", models.PositiveIntegerField(default=0)),
                ("exported_number", models.BigIntegerField(default=0)),
            ],
            options={"default_permissions": ()},
        ),
        append_only("audit_trail_auditseal"),
    ]
