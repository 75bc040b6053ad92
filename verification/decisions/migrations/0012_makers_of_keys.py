from django.db import migrations, models

# The table is new since the last release.
EMPTY = "The table is empty when a released version is upgraded."


class Migration(migrations.Migration):
    allowed = {"constraint-missing-not-valid": EMPTY}
    dependencies = [
        ("decisions", "0011_results_of_decisions"),
        ("workspaces", "0013_makers_of_keys"),
    ]

    operations = [
        migrations.AddField(
            model_name="decision",
            name="key_made_by_user",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state", "REFUSED"),
                    ("key_made_by_user", None),
                    ("second_by_user", None),
                    models.Q(
                        ("second_by_user", models.F("key_made_by_user")), _negated=True
                    ),
                    _connector="OR",
                ),
                name="keys_count_as_their_makers",
            ),
        ),
    ]
