import django.contrib.postgres.fields
from django.db import migrations, models

import workspaces.models


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0013_makers_of_keys"),
    ]

    operations = [
        migrations.AlterField(
            model_name="apikey",
            name="scopes",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(
                    choices=[
                        ("reports:create", "Reports Create"),
                        ("reports:read", "Reports Read"),
                        ("monitoring:write", "Monitoring Write"),
                        ("monitoring:read", "Monitoring Read"),
                        ("webhooks:manage", "Webhooks Manage"),
                        ("subjects:erase", "Subjects Erase"),
                        ("decisions:write", "Decisions Write"),
                        ("audit:read", "Audit Read"),
                    ],
                    max_length=30,
                ),
                default=workspaces.models.default_scopes,
                size=None,
            ),
        ),
    ]
