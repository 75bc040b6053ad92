from django.db import migrations

from verification.db.triggers import CREATE_FUNCTION

# A version that has been switched on is switched off or breaks, and nothing else.
KEEP_VERSIONS = f"""{CREATE_FUNCTION}
CREATE FUNCTION keep_policy_versions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'DRAFT' THEN
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        IF NEW.state <> 'RETIRED' THEN RETURN NEW; END IF;
    ELSIF TG_OP = 'UPDATE'
        AND to_jsonb(NEW) - '{{state,retired_at,broken_at}}'::text[]
            = to_jsonb(OLD) - '{{state,retired_at,broken_at}}'::text[]
        AND (NEW.state = OLD.state OR NEW.state = 'RETIRED')
        AND (OLD.retired_at IS NULL OR NEW.retired_at = OLD.retired_at)
        AND (OLD.broken_at IS NULL OR NEW.broken_at = OLD.broken_at)
    THEN RETURN NEW; END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = '23001';
END $$;
CREATE TRIGGER policy_versions_stay BEFORE UPDATE OR DELETE ON decisions_policyversion
    FOR EACH ROW EXECUTE FUNCTION keep_policy_versions();
CREATE TRIGGER policy_versions_no_truncate BEFORE TRUNCATE ON decisions_policyversion
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();
"""
DROP = """
DROP TRIGGER policy_versions_stay ON decisions_policyversion;
DROP TRIGGER policy_versions_no_truncate ON decisions_policyversion;
DROP FUNCTION keep_policy_versions;
"""


class Migration(migrations.Migration):
    dependencies = [("decisions", "0004_policies")]

    operations = [migrations.RunSQL(KEEP_VERSIONS, DROP)]
