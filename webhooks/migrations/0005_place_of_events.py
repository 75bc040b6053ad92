from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0004_event_of_decisions")]

    operations = [
        migrations.AddField(
            model_name="event",
            name="listed_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
