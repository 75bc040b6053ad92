from django.db import migrations

from verification.db.triggers import CREATE_FUNCTION

# Like `append_only_except`, with two columns that are erased, and with the answer to a
# proposal: a row that still waits takes it once.
ONLY_ANSWERS_AND_ERASES = f"""{CREATE_FUNCTION}
CREATE FUNCTION decisions_decision_only_answers_and_erases() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - '{{codes,content}}'::text[]
            = to_jsonb(OLD) - '{{codes,content}}'::text[]
        AND (NEW.codes IS NULL OR NEW.codes = OLD.codes)
        AND (NEW.content IS NULL OR NEW.content = OLD.content)
    THEN RETURN NEW; END IF;
    IF OLD.state = 'PENDING'
        AND to_jsonb(NEW)
            - '{{state,second_by,second_by_user,second_at,final_at}}'::text[]
            = to_jsonb(OLD)
            - '{{state,second_by,second_by_user,second_at,final_at}}'::text[]
    THEN RETURN NEW; END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = '23001';
END $$;
CREATE TRIGGER decisions_decision_append_only BEFORE UPDATE ON decisions_decision
    FOR EACH ROW EXECUTE FUNCTION decisions_decision_only_answers_and_erases();
CREATE TRIGGER decisions_decision_no_delete BEFORE DELETE ON decisions_decision
    FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER decisions_decision_no_truncate BEFORE TRUNCATE ON decisions_decision
    FOR EACH STATEMENT EXECUTE FUNCTION append_only();
"""
DROP = """
DROP TRIGGER decisions_decision_append_only ON decisions_decision;
DROP TRIGGER decisions_decision_no_delete ON decisions_decision;
DROP TRIGGER decisions_decision_no_truncate ON decisions_decision;
DROP FUNCTION decisions_decision_only_answers_and_erases;
"""


class Migration(migrations.Migration):
    dependencies = [("decisions", "0001_initial")]

    operations = [migrations.RunSQL(ONLY_ANSWERS_AND_ERASES, DROP)]
