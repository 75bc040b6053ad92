import django.db.models.deletion
from django.db import migrations, models

# The table is new since the last release.
EMPTY = "The table is empty when a released version is upgraded."
RULES = (
    "adding-foreign-key-constraint",
    "adding-not-nullable-field",
    "require-concurrent-index-creation",
    "constraint-missing-not-valid",
)


class Migration(migrations.Migration):
    allowed = dict.fromkeys(RULES, EMPTY)
    dependencies = [("decisions", "0008_notices_to_hand_over")]

    operations = [
        migrations.AlterField(
            model_name="adversenotice",
            name="environment",
            field=models.CharField(
                choices=[("sandbox", "Sandbox"), ("production", "Production")],
                max_length=10,
            ),
        ),
        migrations.AlterField(
            model_name="adversenotice",
            name="workspace",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="notices",
                to="workspaces.workspace",
            ),
        ),
        migrations.AddIndex(
            model_name="adversenotice",
            index=models.Index(
                condition=models.Q(("state", "UNDELIVERED")),
                fields=["workspace", "environment", "undelivered_at"],
                name="notices_to_hand_over",
            ),
        ),
        migrations.AddConstraint(
            model_name="adversenotice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "UNDELIVERED"), _negated=True),
                    ("undelivered_at__isnull", False),
                    _connector="OR",
                ),
                name="undelivered_notices_say_when",
            ),
        ),
    ]
