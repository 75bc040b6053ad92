from django.db import migrations

from verification.db.triggers import append_only_except

KEEP = """
CREATE FUNCTION keep_retired_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO consents_retiredlink (digest, purpose, report_id, row_id, generation)
    VALUES (OLD.token_digest, TG_ARGV[0], OLD.report_id, OLD.id, OLD.generation)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER keep_changed_link AFTER UPDATE OF token_digest ON consents_consent
FOR EACH ROW WHEN (OLD.token_digest IS DISTINCT FROM NEW.token_digest
    AND OLD.token_digest IS NOT NULL)
EXECUTE FUNCTION keep_retired_link('consent');
CREATE TRIGGER keep_link_of_deleted AFTER DELETE ON consents_consent
FOR EACH ROW WHEN (OLD.token_digest IS NOT NULL)
EXECUTE FUNCTION keep_retired_link('consent');
"""
KEEP_NO_MORE = """
DROP TRIGGER keep_changed_link ON consents_consent;
DROP TRIGGER keep_link_of_deleted ON consents_consent;
DROP FUNCTION keep_retired_link();
"""


class Migration(migrations.Migration):
    dependencies = [("consents", "0001_initial")]

    operations = [
        append_only_except("consents_consentrecord", "evidence"),
        migrations.RunSQL(KEEP, KEEP_NO_MORE),
    ]
