import django.contrib.postgres.fields
import django.db.models.deletion
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from django.db import migrations, models


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

    replaces = [('webhooks', '0001_initial'), ('webhooks', '0002_database_rules'), ('webhooks', '0003_events_about_rights'), ('webhooks', '0003_corrections'), ('webhooks', '0004_restricted_events'), ('webhooks', '0005_rights')]

    initial = True

    dependencies = [
        ('jobs', '0001_initial'),
        ('workspaces', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('name', models.CharField(choices=[('report.created', 'A report is created.'), ('report.ready', 'Every check in a report has finished.'), ('report.failed', 'A report could not complete.'), ('check.completed', 'One check finished.'), ('check.failed', 'One check could not complete.'), ('reference.submitted', 'A referee submitted their answers.'), ('monitoring.alert.created', 'A monitoring run raised an alert.'), ('payment.paid', 'A candidate or third-party payment completed.'), ('correction.opened', 'A subject says that a finding is wrong.'), ('correction.closed', 'A correction was decided.'), ('report.restricted', 'The subject of a report objected.'), ('report.erased', 'The personal data of a report was erased.'), ('webhook.test', 'A test event was asked for.')], max_length=30)),
                ('cause', models.CharField(max_length=100)),
                ('report_id', models.UUIDField(db_index=True, null=True)),
                ('payload', verification.db.encryption.EncryptedJSONField(null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='events', to='workspaces.workspace')),
                ('restricted_at', models.DateTimeField(editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Configuration',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('url', models.CharField(max_length=2048)),
                ('enabled', models.BooleanField()),
                ('enabled_events', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('report.created', 'A report is created.'), ('report.ready', 'Every check in a report has finished.'), ('report.failed', 'A report could not complete.'), ('check.completed', 'One check finished.'), ('check.failed', 'One check could not complete.'), ('reference.submitted', 'A referee submitted their answers.'), ('monitoring.alert.created', 'A monitoring run raised an alert.'), ('payment.paid', 'A candidate or third-party payment completed.'), ('correction.opened', 'A subject says that a finding is wrong.'), ('correction.closed', 'A correction was decided.'), ('report.restricted', 'The subject of a report objected.'), ('report.erased', 'The personal data of a report was erased.'), ('webhook.test', 'A test event was asked for.')], max_length=30), size=None)),
                ('secret', verification.db.encryption.EncryptedJSONField()),
                ('previous_secret', verification.db.encryption.EncryptedJSONField(null=True)),
                ('previous_secret_ends_at', models.DateTimeField(editable=False, null=True)),
                ('failures_in_row', models.PositiveIntegerField(default=0)),
                ('failing_since', models.DateTimeField(editable=False, null=True)),
                ('resting_until', models.DateTimeField(editable=False, null=True)),
                ('rests', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('disabled_at', models.DateTimeField(editable=False, null=True)),
                ('disabled_reason', models.CharField(blank=True, choices=[('GONE', 'The receiver answered 410 Gone.'), ('FAILING', 'Nothing was delivered for five days.')], max_length=7)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('updated_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='webhook_configurations', to='workspaces.workspace')),
            ],
            options={
                'verbose_name': 'webhook configuration',
                'constraints': [models.UniqueConstraint(fields=('workspace', 'environment'), name='one_webhook_configuration_an_environment'), models.CheckConstraint(condition=models.Q(models.Q(('disabled_at', None), ('disabled_reason', '')), models.Q(('disabled_at__isnull', False), ('enabled', False), models.Q(('disabled_reason', ''), _negated=True)), _connector='OR'), name='disabled_configurations_say_why'), models.CheckConstraint(condition=models.Q(models.Q(('failing_since', None), ('failures_in_row', 0)), models.Q(('failing_since__isnull', False), ('failures_in_row__gt', 0)), _connector='OR'), name='failing_since_the_first_failure')],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('event', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='delivery', serialize=False, to='webhooks.event')),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('name', models.CharField(choices=[('report.created', 'A report is created.'), ('report.ready', 'Every check in a report has finished.'), ('report.failed', 'A report could not complete.'), ('check.completed', 'One check finished.'), ('check.failed', 'One check could not complete.'), ('reference.submitted', 'A referee submitted their answers.'), ('monitoring.alert.created', 'A monitoring run raised an alert.'), ('payment.paid', 'A candidate or third-party payment completed.'), ('correction.opened', 'A subject says that a finding is wrong.'), ('correction.closed', 'A correction was decided.'), ('report.restricted', 'The subject of a report objected.'), ('report.erased', 'The personal data of a report was erased.'), ('webhook.test', 'A test event was asked for.')], max_length=30)),
                ('status', models.CharField(choices=[('PENDING', 'Pending'), ('RETRYING', 'Retrying'), ('DELIVERED', 'Delivered'), ('FAILED', 'Failed')], db_default='PENDING', max_length=9)),
                ('failures', models.PositiveSmallIntegerField(db_default=0)),
                ('attempts', models.PositiveIntegerField(db_default=0)),
                ('fence', models.PositiveIntegerField(db_default=0)),
                ('next_attempt_at', models.DateTimeField(editable=False, null=True)),
                ('leased_until', models.DateTimeField(editable=False, null=True)),
                ('status_code', models.PositiveSmallIntegerField(null=True)),
                ('delivered_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(editable=False)),
                ('configuration', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='deliveries', to='webhooks.configuration')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='workspaces.workspace')),
            ],
            options={
                'verbose_name_plural': 'deliveries',
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('url', models.CharField(max_length=2048)),
                ('started_at', models.DateTimeField()),
                ('duration_ms', models.PositiveIntegerField()),
                ('status_code', models.PositiveSmallIntegerField(null=True)),
                ('error', models.CharField(blank=True, choices=[('NAME_UNKNOWN', 'The host name could not be resolved.'), ('TARGET_BLOCKED', 'The address may not be called.'), ('NOT_CONNECTED', 'No connection could be made.'), ('NOT_TRUSTED', 'The certificate was not accepted.'), ('TIMED_OUT', 'The answer was not complete in time.'), ('BROKEN', 'The connection ended before the answer did.'), ('UNREADABLE', 'The stored event could not be read.')], max_length=14)),
                ('answer', verification.db.encryption.EncryptedJSONField(null=True)),
                ('delivery', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='attempt_set', to='webhooks.delivery')),
            ],
            options={
                'ordering': ['number'],
            },
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('payload__isnull', False)), fields=['created_at'], name='events_with_payload'),
        ),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.UniqueConstraint(fields=('name', 'cause'), name='one_event_a_cause'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('next_attempt_at__isnull', False)), fields=['configuration', 'next_attempt_at', 'event'], name='deliveries_due'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('leased_until__isnull', False)), fields=['configuration', 'leased_until'], name='deliveries_leased'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.F('workspace'), models.F('environment'), models.OrderBy(models.F('event'), descending=True), name='deliveries_listed'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('status', 'FAILED')), fields=['workspace', 'environment', 'created_at'], name='deliveries_failed'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('next_attempt_at__isnull', False), ('status__in', ['PENDING', 'RETRYING'])), models.Q(('next_attempt_at', None), ('status__in', ['DELIVERED', 'FAILED'])), _connector='OR'), name='deliveries_wait_until_they_end'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(('leased_until', None), ('next_attempt_at__isnull', False), _connector='OR'), name='ended_deliveries_are_not_leased'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(('status', 'DELIVERED'), ('delivered_at', None), _connector='XOR'), name='delivered_at_iff_delivered'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(condition=models.Q(('answer__isnull', False)), fields=['started_at'], name='attempts_with_answer'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(fields=('delivery', 'number'), name='attempts_are_numbered'),
        ),
        migrations.RunSQL(QUEUE, UNQUEUE),
        migrations.RunSQL(VACUUM, NO_VACUUM),
    ]
