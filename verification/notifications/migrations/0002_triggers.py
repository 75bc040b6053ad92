from django.db import migrations

# Who sends it, or gives it up, cannot forget to forget it.
FORGET = """
CREATE FUNCTION notifications_forget_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.context = NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER notifications_forget_key BEFORE UPDATE ON notifications_notification
    FOR EACH ROW WHEN (NEW.kind = 'GO_LIVE_KEY' AND NEW.status <> 'PENDING')
    EXECUTE FUNCTION notifications_forget_key();
"""
KEEP = """
DROP TRIGGER notifications_forget_key ON notifications_notification;
DROP FUNCTION notifications_forget_key;
"""


class Migration(migrations.Migration):
    dependencies = [("notifications", "0001_initial")]

    operations = [migrations.RunSQL(FORGET, KEEP)]
