from django.db import migrations

KEEP = """
CREATE TRIGGER keep_changed_link AFTER UPDATE OF token_digest ON references_reference
FOR EACH ROW WHEN (OLD.token_digest IS DISTINCT FROM NEW.token_digest)
EXECUTE FUNCTION keep_retired_link('reference');
"""
KEEP_NO_MORE = "DROP TRIGGER keep_changed_link ON references_reference;"


class Migration(migrations.Migration):
    dependencies = [
        ("references", "0001_initial"),
        # Where the function and its table are.
        ("consents", "0002_triggers"),
    ]

    operations = [migrations.RunSQL(KEEP, KEEP_NO_MORE)]
