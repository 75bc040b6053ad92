import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.comparison
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('monitoring', '0001_initial'), ('monitoring', '0002_drop_alerts_by_age'), ('monitoring', '0003_objection')]

    initial = True

    dependencies = [
        ('reports', '0001_squashed_1_0_0'),
        ('workspaces', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='Rule',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('subject_id', models.UUIDField()),
                ('subject_type', models.CharField(choices=[('INDIVIDUAL', 'Individual'), ('COMPANY', 'Company')], max_length=10)),
                ('subject_name', models.CharField(max_length=620)),
                ('search_name', models.TextField(default='', editable=False)),
                ('terms', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), editable=False, size=None)),
                ('subject', verification.db.encryption.EncryptedJSONField()),
                ('check_names', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), size=None)),
                ('cadence', models.CharField(choices=[('DAILY', 'Daily'), ('WEEKLY', 'Weekly'), ('MONTHLY', 'Monthly'), ('QUARTERLY', 'Quarterly'), ('SEMI_ANNUALLY', 'Semi Annually'), ('ANNUALLY', 'Annually')], max_length=13)),
                ('consent', verification.db.encryption.EncryptedJSONField(null=True)),
                ('reference', models.CharField(blank=True, max_length=100, null=True)),
                ('status', models.CharField(choices=[('ACTIVE', 'Active'), ('PAUSED', 'Paused')], default='ACTIVE', max_length=6)),
                ('pause_reason', models.CharField(blank=True, choices=[('CONSENT_WITHDRAWN', 'The subject withdrew consent'), ('INSUFFICIENT_BALANCE', 'The balance did not cover a run'), ('CHECK_INACTIVE', 'A check is not offered any more'), ('BY_STAFF', 'Paused by staff'), ('BY_CLIENT', 'Paused by the client'), ('OBJECTION', 'The subject objected')], max_length=20)),
                ('paused_at', models.DateTimeField(null=True)),
                ('consent_withdrawn_at', models.DateTimeField(null=True)),
                ('notified_at', models.DateTimeField(null=True)),
                ('starts_at', models.DateTimeField()),
                ('next_run_at', models.DateTimeField()),
                ('put_off_until', models.DateTimeField(null=True)),
                ('launch_at', models.GeneratedField(db_persist=True, expression=django.db.models.functions.comparison.Greatest('next_run_at', 'put_off_until'), output_field=models.DateTimeField())),
                ('launch_failures', models.PositiveIntegerField(db_default=0, default=0)),
                ('last_error', models.CharField(blank=True, db_default='', default='', max_length=100)),
                ('runs_made', models.PositiveIntegerField(default=0)),
                ('created_by', models.CharField(max_length=100)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='monitoring_rules', to='workspaces.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Baseline',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('check_name', models.CharField(max_length=40)),
                ('result_id', models.UUIDField(null=True)),
                ('run_number', models.PositiveIntegerField(default=0)),
                ('completed_at', models.DateTimeField(null=True)),
                ('said', verification.db.encryption.EncryptedJSONField(null=True)),
                ('unanswered', models.PositiveIntegerField(db_default=0, default=0)),
                ('failed_number', models.PositiveIntegerField(db_default=0, default=0)),
                ('rule', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='baselines', to='monitoring.rule')),
            ],
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('due_at', models.DateTimeField()),
                ('compared_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('report', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='monitoring_run', to='reports.report')),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='monitoring.rule')),
            ],
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('rule_id', models.UUIDField()),
                ('kind', models.CharField(choices=[('CHANGE', 'A result changed'), ('NO_ANSWER', 'A check could not be done')], db_default='CHANGE', default='CHANGE', max_length=9)),
                ('title', models.CharField(max_length=200)),
                ('message', verification.db.encryption.EncryptedJSONField()),
                ('severity', models.CharField(choices=[('INFO', 'Info'), ('WARNING', 'Warning'), ('CRITICAL', 'Critical')], max_length=8)),
                ('changes', verification.db.encryption.EncryptedJSONField()),
                ('read', models.BooleanField(default=False)),
                ('actioned', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('report', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='reports.report')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='alerts', to='workspaces.workspace')),
            ],
            options={
                'indexes': [models.Index(models.F('workspace'), models.F('environment'), models.OrderBy(models.F('created_at'), descending=True), models.OrderBy(models.F('id'), descending=True), include=('severity', 'read'), name='alert_list'), models.Index(models.F('workspace'), models.F('environment'), models.OrderBy(models.F('created_at'), descending=True), models.OrderBy(models.F('id'), descending=True), condition=models.Q(('read', False)), include=('severity',), name='alerts_unread'), models.Index(models.F('rule_id'), models.OrderBy(models.F('id'), descending=True), name='alerts_of_a_rule')],
            },
        ),
        migrations.AddIndex(
            model_name='rule',
            index=models.Index(condition=models.Q(('status', 'ACTIVE')), fields=['launch_at', 'id'], name='rules_due'),
        ),
        migrations.AddIndex(
            model_name='rule',
            index=models.Index(condition=models.Q(('launch_failures__gt', 0)), fields=['id'], name='rules_not_launched'),
        ),
        migrations.AddIndex(
            model_name='rule',
            index=models.Index(models.F('workspace'), models.F('environment'), models.OrderBy(models.F('created_at'), descending=True), models.OrderBy(models.F('id'), descending=True), include=('search_name',), name='rule_list'),
        ),
        migrations.AddIndex(
            model_name='rule',
            index=models.Index(fields=['subject_id'], name='rules_of_a_subject'),
        ),
        migrations.AddIndex(
            model_name='rule',
            index=django.contrib.postgres.indexes.GinIndex(fields=['terms'], name='rule_terms'),
        ),
        migrations.AddIndex(
            model_name='rule',
            index=models.Index(condition=models.Q(('notified_at', None), ('pause_reason__in', ['CHECK_INACTIVE', 'CONSENT_WITHDRAWN', 'INSUFFICIENT_BALANCE', 'OBJECTION'])), fields=['workspace', 'environment', 'pause_reason'], name='rules_paused_untold'),
        ),
        migrations.AddConstraint(
            model_name='rule',
            constraint=models.CheckConstraint(condition=models.Q(('next_run_at__gt', models.F('starts_at'))), name='a_rule_runs_after_its_start'),
        ),
        migrations.AddConstraint(
            model_name='rule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('pause_reason__in', ['CONSENT_WITHDRAWN', 'INSUFFICIENT_BALANCE', 'CHECK_INACTIVE', 'BY_STAFF', 'BY_CLIENT', 'OBJECTION']), ('paused_at__isnull', False), ('status', 'PAUSED')), models.Q(('pause_reason', ''), ('paused_at', None), ('status', 'ACTIVE')), _connector='OR'), name='a_pause_says_why_and_when'),
        ),
        migrations.AddConstraint(
            model_name='rule',
            constraint=models.CheckConstraint(condition=models.Q(('pause_reason', 'BY_STAFF'), models.Q(('consent_withdrawn_at__isnull', False), ('pause_reason__in', ['CONSENT_WITHDRAWN', 'OBJECTION'])), models.Q(models.Q(('pause_reason__in', ['CONSENT_WITHDRAWN', 'OBJECTION']), _negated=True), ('consent_withdrawn_at', None)), _connector='OR'), name='no_rule_runs_without_consent'),
        ),
        migrations.AddConstraint(
            model_name='baseline',
            constraint=models.UniqueConstraint(fields=('rule', 'check_name'), name='one_baseline_a_check'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('compared_at', None)), fields=['created_at'], name='runs_not_compared'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(fields=('rule', 'number'), name='runs_of_a_rule_are_counted'),
        ),
    ]
