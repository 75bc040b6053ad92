import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

import verification.values.clock

NEW = "No released version has the table of decisions, so it is empty."


class Migration(migrations.Migration):
    allowed = {
        "adding-foreign-key-constraint": NEW,
        "constraint-missing-not-valid": NEW,
        "require-concurrent-index-creation": NEW,
    }
    dependencies = [
        ("decisions", "0003_queue"),
        ("reports", "0005_package"),
        ("workspaces", "0007_scope_to_decide"),
    ]

    operations = [
        migrations.CreateModel(
            name="PolicyVersion",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "environment",
                    models.CharField(
                        choices=[("sandbox", "Sandbox"), ("production", "Production")],
                        max_length=10,
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("rules", models.JSONField(default=list)),
                (
                    "mode",
                    models.CharField(
                        choices=[
                            ("PROPOSE", "It proposes, and a member confirms"),
                            ("DECIDE", "It decides"),
                        ],
                        default="PROPOSE",
                        max_length=7,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("DRAFT", "Not switched on yet"),
                            ("ACTIVE", "Decides about reports that end"),
                            ("RETIRED", "Switched off"),
                        ],
                        default="DRAFT",
                        max_length=7,
                    ),
                ),
                ("made_by_user", models.BigIntegerField(null=True)),
                ("activated_by_user", models.BigIntegerField(null=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        default=verification.values.clock.now, editable=False
                    ),
                ),
                ("activated_at", models.DateTimeField(editable=False, null=True)),
                ("retired_at", models.DateTimeField(editable=False, null=True)),
                ("broken_at", models.DateTimeField(editable=False, null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="policy_versions",
                        to="workspaces.workspace",
                    ),
                ),
            ],
            options={
                "ordering": ["workspace", "environment", "number"],
            },
        ),
        migrations.AddField(
            model_name="decision",
            name="policy_version",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="decisions",
                to="decisions.policyversion",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("made_by_kind", "POLICY"),
                    ("policy_version", None),
                    _connector="XOR",
                ),
                name="policies_name_their_version",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(
                condition=models.Q(("made_by_kind", "POLICY"), ("needs_second", False)),
                fields=("report",),
                name="a_policy_decides_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="policyversion",
            constraint=models.UniqueConstraint(
                fields=("workspace", "environment", "number"),
                name="one_policy_version_a_number",
            ),
        ),
        migrations.AddConstraint(
            model_name="policyversion",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "ACTIVE")),
                fields=("workspace", "environment"),
                name="one_active_policy_version",
            ),
        ),
        migrations.AddConstraint(
            model_name="policyversion",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "DRAFT")),
                fields=("workspace", "environment"),
                name="one_draft_of_a_policy",
            ),
        ),
        migrations.AddConstraint(
            model_name="policyversion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("activated_at", None), ("retired_at", None), ("state", "DRAFT")
                    ),
                    models.Q(
                        ("activated_at__isnull", False),
                        ("retired_at", None),
                        ("state", "ACTIVE"),
                    ),
                    models.Q(
                        ("activated_at__isnull", False),
                        ("retired_at__isnull", False),
                        ("state", "RETIRED"),
                    ),
                    _connector="OR",
                ),
                name="policy_versions_say_when",
            ),
        ),
    ]
