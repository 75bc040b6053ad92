from django.db import migrations

from verification.db.triggers import append_only, append_only_except


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0001_initial")]

    operations = [
        append_only("workspaces_ledgerentry"),
        append_only_except("workspaces_note", "text"),
        # Counts of the running minute are not worth a write-ahead log.
        migrations.RunSQL(
            "ALTER TABLE workspaces_ratecount SET UNLOGGED",
            "ALTER TABLE workspaces_ratecount SET LOGGED",
        ),
        migrations.RunSQL(
            """
            CREATE FUNCTION workspaces_account_overdraft() RETURNS trigger
            LANGUAGE plpgsql AS $$
            DECLARE
                rule text := CASE NEW.billing
                    WHEN 'PREPAID' THEN 'prepaid_is_never_overdrawn'
                    ELSE 'postpaid_stays_below_its_ceiling'
                END;
            BEGIN
                RAISE EXCEPTION 'account % breaks %', NEW.id, rule
                    USING ERRCODE = 'check_violation', CONSTRAINT = rule;
            END $$;
            CREATE TRIGGER workspaces_account_overdraft
                BEFORE UPDATE OF balance ON workspaces_account FOR EACH ROW
                WHEN (
                    NEW.balance + NEW.taken_back < OLD.balance + OLD.taken_back
                    AND NEW.balance < -CASE NEW.billing
                        WHEN 'PREPAID' THEN NEW.credit_limit
                        WHEN 'POSTPAID' THEN NEW.ceiling
                    END
                ) EXECUTE FUNCTION workspaces_account_overdraft();
            """,
            """
            DROP TRIGGER workspaces_account_overdraft ON workspaces_account;
            DROP FUNCTION workspaces_account_overdraft;
            """,
        ),
    ]
