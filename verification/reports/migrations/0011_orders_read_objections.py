from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("reports", "0010_search_entries_to_fill")]

    operations = [
        # Two statements, because each sees what was committed before it began: an
        # objection that held the lock is seen by the second one.
        migrations.RunSQL(
            """
            CREATE FUNCTION reports_refuse_objected(locks text[], subjects uuid[])
            RETURNS void LANGUAGE plpgsql AS $$
            DECLARE
                is_free boolean := (
                    SELECT bool_and(
                        pg_try_advisory_xact_lock_shared(hashtextextended(l.name, 0))
                    ) FROM unnest(locks) AS l(name)
                );
            BEGIN
                IF NOT is_free THEN
                    RAISE EXCEPTION 'an objection is under way'
                        USING ERRCODE = 'check_violation',
                            CONSTRAINT = 'objections_are_read';
                END IF;
                -- Counted: for the first row alone PostgreSQL would read the table.
                IF 0 < (
                    SELECT count(*) FROM privacy_subjectrequest
                    WHERE kind = 'OBJECTION'
                        AND (subject_id = ANY(subjects) OR further_ids && subjects)
                ) THEN
                    RAISE EXCEPTION 'a subject has objected'
                        USING ERRCODE = 'check_violation',
                            CONSTRAINT = 'objections_are_read';
                END IF;
            END $$;
            """,
            "DROP FUNCTION reports_refuse_objected",
        )
    ]
