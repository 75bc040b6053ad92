from django.db import migrations

MOVES = """
CREATE FUNCTION golive_application_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status = 'DRAFT' THEN RETURN NEW; END IF;
        RAISE EXCEPTION 'an application begins as a draft' USING ERRCODE = '23514';
    END IF;
    IF TG_OP = 'DELETE' THEN
        IF OLD.status = 'DRAFT' THEN RETURN OLD; END IF;
        RAISE EXCEPTION 'what was submitted is kept' USING ERRCODE = '23001';
    END IF;
    IF OLD.status <> 'DRAFT' AND (NEW.company_name, NEW.workspace_id, NEW.report_id,
        NEW.submitted_by_id) IS DISTINCT FROM (OLD.company_name, OLD.workspace_id,
        OLD.report_id, OLD.submitted_by_id)
    THEN
        RAISE EXCEPTION 'what was submitted is not changed' USING ERRCODE = '23001';
    END IF;
    IF NEW.status = OLD.status THEN RETURN NEW; END IF;
    IF (OLD.status, NEW.status) NOT IN (('DRAFT', 'SUBMITTED'),
        ('SUBMITTED', 'IN_REVIEW'), ('IN_REVIEW', 'APPROVED'),
        ('IN_REVIEW', 'REJECTED'))
    THEN
        RAISE EXCEPTION 'an application that is % cannot become %', OLD.status,
            NEW.status USING ERRCODE = '23514';
    END IF;
    IF EXISTS (SELECT 1 FROM workspaces_member WHERE workspace_id = NEW.workspace_id
        AND user_id IN (NEW.taken_by_id, NEW.decided_by_id))
    THEN
        RAISE EXCEPTION 'nobody reviews their own workspace' USING ERRCODE = '23514';
    END IF;
    IF NEW.status = 'APPROVED' AND NOT EXISTS (SELECT 1 FROM checks_checkresult
        WHERE report_id = NEW.report_id AND name = 'BUSINESS_VERIFICATION'
        AND status = 'COMPLETED')
    THEN
        RAISE EXCEPTION 'the company is not checked' USING ERRCODE = '23514';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER golive_application_moves
    BEFORE INSERT OR UPDATE OR DELETE ON golive_application
    FOR EACH ROW EXECUTE FUNCTION golive_application_moves();

CREATE FUNCTION golive_document_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Sealing it anew under another key changes nothing of it.
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'data_key' - 'name'
        = to_jsonb(OLD) - 'data_key' - 'name'
    THEN RETURN NEW; END IF;
    IF EXISTS (SELECT 1 FROM golive_application WHERE status <> 'DRAFT'
        AND id IN (NEW.application_id, OLD.application_id))
    THEN
        RAISE EXCEPTION 'documents that were submitted stay' USING ERRCODE = '23001';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER golive_document_stays
    BEFORE INSERT OR UPDATE OR DELETE ON golive_document
    FOR EACH ROW EXECUTE FUNCTION golive_document_stays();
"""
NO_MOVES = """
DROP TRIGGER golive_document_stays ON golive_document;
DROP FUNCTION golive_document_stays;
DROP TRIGGER golive_application_moves ON golive_application;
DROP FUNCTION golive_application_moves;
"""
# What was decided or withdrawn stays as it is.
DECISIONS = """
CREATE FUNCTION golive_decision_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was decided is not changed' USING ERRCODE = '23001';
END $$;
CREATE TRIGGER golive_decision_stays BEFORE UPDATE ON golive_application
    FOR EACH ROW WHEN (OLD.status IN ('APPROVED', 'REJECTED')
        AND (NEW.decided_by_id, NEW.decided_at, NEW.reason)
        IS DISTINCT FROM (OLD.decided_by_id, OLD.decided_at, OLD.reason))
    EXECUTE FUNCTION golive_decision_stays();
CREATE TRIGGER golive_name_decision_stays BEFORE UPDATE ON golive_namechange
    FOR EACH ROW WHEN (OLD.status <> 'WAITING')
    EXECUTE FUNCTION golive_decision_stays();
"""
NO_DECISIONS = """
DROP TRIGGER golive_name_decision_stays ON golive_namechange;
DROP TRIGGER golive_decision_stays ON golive_application;
DROP FUNCTION golive_decision_stays;
"""


class Migration(migrations.Migration):
    dependencies = [("golive", "0001_initial")]

    operations = [
        migrations.RunSQL(MOVES, NO_MOVES),
        migrations.RunSQL(DECISIONS, NO_DECISIONS),
    ]
