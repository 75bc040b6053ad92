"""Add the role of officers."""

from django.db import migrations, models

ROLES = ["OWNER", "ADMIN", "OFFICER", "VIEWER"]
CHOICES = [
    ("OWNER", "Owner"),
    ("ADMIN", "Administrator"),
    ("OFFICER", "Officer"),
    ("VIEWER", "Viewer"),
]
CONSTRAINTS = {
    "invitation": "invitations_offer_a_known_role",
    "member": "members_have_a_known_role",
}


class Migration(migrations.Migration):
    allowed = {
        "changing-column-type": "A longer varchar is not rewritten.",
        "constraint-missing-not-valid": "There are few members and invitations.",
    }

    dependencies = [
        ("workspaces", "0008_decision_hours"),
    ]

    operations = [
        operation
        for model, name in CONSTRAINTS.items()
        for operation in (
            migrations.RemoveConstraint(model, name),
            migrations.AlterField(
                model, "role", models.CharField(choices=CHOICES, max_length=10)
            ),
            migrations.AddConstraint(
                model,
                models.CheckConstraint(name=name, condition=models.Q(role__in=ROLES)),
            ),
        )
    ]
