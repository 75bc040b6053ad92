from django.db import migrations

# An event that is recorded is queued for its receiver by the same statement, whoever
# records it, and the workers are given a job if there is any: nobody can forget it, and
# those without a receiver pay nothing for it.
QUEUE = """
CREATE FUNCTION webhooks_queue_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhooks_delivery (
        event_id, configuration_id, workspace_id, environment, name,
        next_attempt_at, created_at
    )
    SELECT e.id, c.id, e.workspace_id, e.environment, e.name,
        e.created_at, e.created_at
    FROM recorded e JOIN webhooks_configuration c USING (workspace_id, environment)
    WHERE c.enabled AND (e.name = ANY (c.enabled_events) OR e.name = 'webhook.test')
    -- Whoever removes the configuration waits until these are committed.
    FOR KEY SHARE OF c;
    IF FOUND THEN
        INSERT INTO jobs_job (function, arguments)
        VALUES ('webhooks.delivery.send_due_deliveries', '[]');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER webhooks_event_queue_deliveries AFTER INSERT ON webhooks_event
    REFERENCING NEW TABLE AS recorded
    FOR EACH STATEMENT EXECUTE FUNCTION webhooks_queue_deliveries();
"""
UNQUEUE = """
DROP TRIGGER webhooks_event_queue_deliveries ON webhooks_event;
DROP FUNCTION webhooks_queue_deliveries();
"""
# Each delivery is updated twice or more: what is dead is cleared away early.
VACUUM = """
ALTER TABLE webhooks_delivery SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0
)
"""
NO_VACUUM = """
ALTER TABLE webhooks_delivery RESET (
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay
)
"""


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0001_initial"), ("jobs", "0001_initial")]

    operations = [
        migrations.RunSQL(QUEUE, UNQUEUE),
        migrations.RunSQL(VACUUM, NO_VACUUM),
    ]
