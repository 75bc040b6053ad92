import django.contrib.postgres.indexes
from django.db import migrations, models

# No release has the table, so it begins anew: its rows are 30 days of the requests to a
# version between two releases. An index on the model's fields goes to each partition;
# PostgreSQL builds none CONCURRENTLY on a table with partitions.
TABLE = """
DROP TABLE workspaces_apirequest;
CREATE TABLE workspaces_apirequest (
    id uuid PRIMARY KEY,
    method varchar(7) NOT NULL,
    route varchar(100) NOT NULL,
    report_id uuid,
    status smallint NOT NULL CHECK (status >= 0),
    problem varchar(40) NOT NULL,
    reasons varchar(40)[] NOT NULL,
    duration_ms integer NOT NULL CHECK (duration_ms >= 0),
    given_id varchar(128) NOT NULL,
    key_id uuid NOT NULL
) PARTITION BY RANGE (id);
CREATE INDEX api_requests_of_a_key ON workspaces_apirequest (key_id, id);
CREATE INDEX api_requests_by_route
    ON workspaces_apirequest (key_id, hashtext(route), id);
CREATE INDEX api_requests_by_problem ON workspaces_apirequest (key_id, problem, id)
    WHERE problem <> '';
CREATE INDEX api_requests_refused ON workspaces_apirequest (key_id, id)
    WHERE status >= 400;
CREATE INDEX api_requests_in_error ON workspaces_apirequest (key_id, id)
    WHERE status >= 500;
CREATE INDEX api_requests_by_given_id ON workspaces_apirequest USING hash (given_id)
    WHERE given_id <> '';
"""
# The role of the jobs may own no table, so the function has the rights of its owner,
# for roles that may delete the rows. Names have the schema, because anybody's temporary
# tables come before it. ATTACH lets others read and write. DROP waits a second for
# readers of the table, and again in an hour: a backup reads for longer.
FUNCTION = """
CREATE FUNCTION keep_api_requests(oldest timestamptz, newest timestamptz)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET lock_timeout = '1s' SET timezone = 'UTC' AS $$
DECLARE
    home text := current_schema();
    parent text := format('%I.workspaces_apirequest', home);
    week timestamptz;
    part text;
    ids text[];
BEGIN
    IF NOT has_table_privilege(session_user, parent, 'DELETE') THEN
        RAISE 'no right to delete API requests' USING ERRCODE = '42501';
    END IF;
    FOR week IN SELECT generate_series(
        date_trunc('week', oldest), newest, interval '7 days'
    ) LOOP
        part := format('%s_%s', parent, to_char(week, 'YYYYMMDD'));
        CONTINUE WHEN to_regclass(part) IS NOT NULL;
        -- The first id of the week, and of the one after it: `first_id_at` in Python.
        ids := ARRAY(
            SELECT lpad(to_hex(seconds::bigint * 1000), 12, '0') || repeat('0', 20)
            FROM generate_series(0, 604800, 604800) AS later,
                LATERAL (SELECT extract(epoch FROM week) + later) AS t(seconds)
        );
        EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING ALL)', part, parent);
        EXECUTE format(
            'ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
            parent, part, ids[1], ids[2]
        );
    END LOOP;
    FOR part IN
        SELECT format('%I.%I', home, c.relname)
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass AND right(c.relname, 8)
            < to_char(date_trunc('week', oldest), 'YYYYMMDD')
    LOOP
        EXECUTE 'DROP TABLE ' || part;
    END LOOP;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;
"""
FIRST = """
SELECT keep_api_requests(now() - interval '30 days', now() + interval '14 days')
"""


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0020_networks_of_keys")]
    allowed = {
        "ban-drop-table": "No release has the table.",
        "no-definition": "The function makes empty tables.",
    }

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(TABLE),
                migrations.RunSQL(FUNCTION),
                migrations.RunSQL(FIRST),
            ],
            state_operations=[
                migrations.RemoveIndex("apirequest", "api_requests_by_route"),
                migrations.RemoveIndex("apirequest", "api_requests_by_request_id"),
                migrations.RemoveField("apirequest", "request_id"),
                migrations.AddField(
                    "apirequest",
                    "given_id",
                    models.CharField(blank=True, max_length=128),
                ),
                migrations.AddIndex(
                    "apirequest",
                    models.Index(
                        models.F("key"),
                        models.Func(models.F("route"), function="hashtext"),
                        models.F("id"),
                        name="api_requests_by_route",
                    ),
                ),
                migrations.AddIndex(
                    "apirequest",
                    django.contrib.postgres.indexes.HashIndex(
                        fields=["given_id"],
                        condition=~models.Q(given_id=""),
                        name="api_requests_by_given_id",
                    ),
                ),
            ],
        ),
    ]
