from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0012_hand_over_messages")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="made_by_user",
            field=models.BigIntegerField(editable=False, null=True),
        ),
    ]
