from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("consents", "0004_retired_links")]

    operations = [
        migrations.AlterField(
            model_name="retiredlink",
            name="purpose",
            field=models.CharField(
                choices=[
                    ("consent", "Consent"),
                    ("reference", "Reference"),
                    ("payment", "Payment"),
                ],
                max_length=9,
            ),
        ),
    ]
