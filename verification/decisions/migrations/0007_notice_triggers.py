from django.db import migrations

from verification.db.triggers import append_only_except

# A row takes the answer to a proposal once, and the end of a decline that waits.
FUNCTION = """
CREATE OR REPLACE FUNCTION decisions_decision_only_answers_and_erases() RETURNS trigger
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
    {more}
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = '23001';
END $$;
"""
WAITING = """
    IF OLD.state = 'WAITING' AND NEW.state IN ('FINAL', 'WITHDRAWN')
        AND to_jsonb(NEW)
            - '{state,final_at,withdrawn_by,withdrawn_by_user,withdrawn_at}'::text[]
            = to_jsonb(OLD)
            - '{state,final_at,withdrawn_by,withdrawn_by_user,withdrawn_at}'::text[]
    THEN RETURN NEW; END IF;
"""


class Migration(migrations.Migration):
    dependencies = [("decisions", "0006_adverse_notices")]

    operations = [
        migrations.RunSQL(FUNCTION.format(more=WAITING), FUNCTION.format(more="")),
        append_only_except("decisions_noticefact", "details"),
    ]
