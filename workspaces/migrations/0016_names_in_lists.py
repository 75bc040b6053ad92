from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0015_entries_of_a_checkout")]

    operations = [
        migrations.AddField(
            model_name="workspace",
            name="names_in_lists",
            field=models.CharField(
                choices=[("FULL", "Full"), ("INITIALS", "Initials")],
                db_default="FULL",
                default="FULL",
                max_length=8,
            ),
        ),
    ]
