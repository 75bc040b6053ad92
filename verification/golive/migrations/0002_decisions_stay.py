from django.db import migrations

RULE = """
CREATE FUNCTION golive_decision_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was decided is not changed' USING ERRCODE = '23001';
END $$;
CREATE TRIGGER golive_decision_stays BEFORE UPDATE ON golive_application
    FOR EACH ROW WHEN (OLD.status IN ('APPROVED', 'REJECTED')
        AND (NEW.decided_by_id, NEW.decided_at, NEW.reason)
        IS DISTINCT FROM (OLD.decided_by_id, OLD.decided_at, OLD.reason))
    EXECUTE FUNCTION golive_decision_stays();
"""
NO_RULE = """
DROP TRIGGER golive_decision_stays ON golive_application;
DROP FUNCTION golive_decision_stays;
"""


class Migration(migrations.Migration):
    dependencies = [("golive", "0001_applications")]

    operations = [migrations.RunSQL(RULE, NO_RULE)]
