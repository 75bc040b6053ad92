from django.db import migrations, models

# Checks with this many failures have their alert.
TOLD = """
UPDATE monitoring_baseline AS baseline SET told_number = failed_number
FROM monitoring_rule AS rule
WHERE rule.id = baseline.rule_id AND unanswered >=
    CASE rule.cadence WHEN 'DAILY' THEN 3 WHEN 'WEEKLY' THEN 2 ELSE 1 END
"""


class Migration(migrations.Migration):
    allowed = {"no-definition": "Few rows: checks that fail at this time."}

    dependencies = [("monitoring", "0004_package")]

    operations = [
        migrations.AddField(
            model_name="baseline",
            name="told_number",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.RunSQL(TOLD, migrations.RunSQL.noop),
    ]
