from django.db import migrations

KEEP = """
CREATE TRIGGER keep_changed_link AFTER UPDATE OF token_digest ON payments_payment
FOR EACH ROW WHEN (OLD.token_digest IS DISTINCT FROM NEW.token_digest
    AND OLD.token_digest IS NOT NULL)
EXECUTE FUNCTION keep_retired_link('payment');
CREATE TRIGGER keep_link_of_deleted AFTER DELETE ON payments_payment
FOR EACH ROW WHEN (OLD.token_digest IS NOT NULL)
EXECUTE FUNCTION keep_retired_link('payment');
"""
KEEP_NO_MORE = """
DROP TRIGGER keep_changed_link ON payments_payment;
DROP TRIGGER keep_link_of_deleted ON payments_payment;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("payments", "0001_initial"),
        # Where the function and its table are.
        ("consents", "0002_triggers"),
    ]

    operations = [migrations.RunSQL(KEEP, KEEP_NO_MORE)]
