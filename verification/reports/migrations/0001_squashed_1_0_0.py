from verification.db.triggers import append_only
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.text
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('reports', '0001_initial'), ('reports', '0002_triggers'), ('reports', '0003_erasure'), ('reports', '0004_answers_about_reports')]

    initial = True

    dependencies = [
        ('workspaces', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='Report',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('status', models.CharField(choices=[('DRAFT', 'Draft'), ('PENDING_CONSENT', 'Pending Consent'), ('PENDING_PAYMENT', 'Pending Payment'), ('RUNNING', 'Running'), ('PARTIAL', 'Partial'), ('READY', 'Ready'), ('FAILED', 'Failed'), ('CANCELLED', 'Cancelled')], max_length=15)),
                ('subject_id', models.UUIDField()),
                ('subject_type', models.CharField(choices=[('INDIVIDUAL', 'Individual'), ('COMPANY', 'Company')], max_length=10)),
                ('country', models.CharField(max_length=2)),
                ('subject_name', models.CharField(max_length=620)),
                ('search_name', models.TextField(default='', editable=False)),
                ('subject', verification.db.encryption.EncryptedJSONField(null=True)),
                ('checks_requested', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), size=None)),
                ('purpose', models.CharField(max_length=500)),
                ('payment_mode', models.CharField(choices=[('SELF', 'The workspace pays'), ('CANDIDATE', 'The subject pays through a payment link'), ('THIRD_PARTY', 'A nominated payer pays')], max_length=11)),
                ('reuse', models.BooleanField(default=True)),
                ('reference', models.CharField(blank=True, max_length=100, null=True)),
                ('monitoring_id', models.UUIDField(editable=False, null=True)),
                ('risk_score', models.PositiveSmallIntegerField(null=True)),
                ('risk_level', models.CharField(choices=[('LOW', 'Low'), ('MEDIUM', 'Medium'), ('HIGH', 'High'), ('UNKNOWN', 'Unknown')], default='UNKNOWN', max_length=7)),
                ('failure_code', models.CharField(blank=True, max_length=40)),
                ('failure_message', models.CharField(blank=True, max_length=300)),
                ('created_by', models.CharField(max_length=100)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('updated_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('launched_at', models.DateTimeField(null=True)),
                ('completed_at', models.DateTimeField(null=True)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='reports', to='workspaces.workspace')),
                ('erased_at', models.DateTimeField(editable=False, null=True)),
                ('restricted_at', models.DateTimeField(editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='StatusChange',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('source', models.CharField(blank=True, choices=[('DRAFT', 'Draft'), ('PENDING_CONSENT', 'Pending Consent'), ('PENDING_PAYMENT', 'Pending Payment'), ('RUNNING', 'Running'), ('PARTIAL', 'Partial'), ('READY', 'Ready'), ('FAILED', 'Failed'), ('CANCELLED', 'Cancelled')], max_length=15)),
                ('target', models.CharField(choices=[('DRAFT', 'Draft'), ('PENDING_CONSENT', 'Pending Consent'), ('PENDING_PAYMENT', 'Pending Payment'), ('RUNNING', 'Running'), ('PARTIAL', 'Partial'), ('READY', 'Ready'), ('FAILED', 'Failed'), ('CANCELLED', 'Cancelled')], max_length=15)),
                ('trigger', models.CharField(max_length=60)),
                ('actor', models.CharField(max_length=100)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('report', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='status_changes', to='reports.report')),
            ],
            options={
                'ordering': ['created_at', 'id'],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyRecord',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('key', models.BinaryField()),
                ('fingerprint', models.BinaryField()),
                ('body', verification.db.encryption.EncryptedJSONField(null=True)),
                ('created_at', models.DateTimeField(db_index=True, default=verification.values.clock.now, editable=False)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='workspaces.workspace')),
                ('report_id', models.UUIDField(editable=False, null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('report_id__isnull', False)), fields=['report_id'], name='answers_about_a_report')],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'environment', 'key'), name='one_answer_an_idempotency_key')],
            },
        ),
        migrations.CreateModel(
            name='SearchEntry',
            fields=[
                ('report', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='search_entry', serialize=False, to='reports.report')),
                ('terms', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
            ],
            options={
                'verbose_name_plural': 'search entries',
                'indexes': [django.contrib.postgres.indexes.GinIndex(fields=['terms'], name='search_terms')],
            },
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(models.F('workspace'), models.F('environment'), models.OrderBy(models.F('created_at'), descending=True), models.OrderBy(models.F('id'), descending=True), include=('status', 'subject_type', 'search_name'), name='report_list'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(models.F('workspace'), models.F('environment'), models.F('status'), models.OrderBy(models.F('created_at'), descending=True), models.OrderBy(models.F('id'), descending=True), condition=models.Q(('status', 'READY'), _negated=True), include=('subject_type', 'search_name'), name='report_not_ready'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(condition=models.Q(('completed_at', None), ('status__in', ['RUNNING', 'PARTIAL'])), fields=['updated_at'], name='reports_under_way'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(condition=models.Q(('reference__isnull', False)), fields=['reference'], name='report_reference', opclasses=['varchar_pattern_ops']),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(fields=['workspace', 'environment', 'status', 'subject_type'], name='report_totals'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(django.db.models.functions.text.Right(django.db.models.functions.comparison.Cast('id', models.TextField()), 12), name='reports_by_number'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(fields=['subject_id'], name='reports_of_a_subject'),
        ),
        migrations.AddIndex(
            model_name='report',
            index=models.Index(condition=models.Q(('completed_at__isnull', False), ('erased_at', None)), fields=['workspace', 'environment', 'completed_at'], name='reports_to_erase'),
        ),
        migrations.AddConstraint(
            model_name='report',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('completed_at__isnull', False), ('status__in', ['READY', 'FAILED', 'CANCELLED'])), ('status', 'PARTIAL'), models.Q(('completed_at__isnull', True), ('status__in', ['DRAFT', 'PENDING_CONSENT', 'PENDING_PAYMENT', 'RUNNING'])), _connector='OR'), name='report_completed_at_tells_its_end'),
        ),
        migrations.AddConstraint(
            model_name='report',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('launched_at__isnull', True), ('status', 'DRAFT')), ('status', 'CANCELLED'), models.Q(models.Q(('status', 'DRAFT'), _negated=True), ('launched_at__isnull', False)), _connector='OR'), name='report_launched_at_unless_draft'),
        ),
        migrations.AddConstraint(
            model_name='report',
            constraint=models.CheckConstraint(condition=models.Q(('risk_score__isnull', True), ('risk_score__lte', 100), _connector='OR'), name='report_risk_score_0_to_100'),
        ),
        migrations.AddConstraint(
            model_name='report',
            constraint=models.CheckConstraint(condition=models.Q(('erased_at', None), models.Q(('completed_at__isnull', False), ('purpose', ''), ('reference', None), ('risk_score', None), ('search_name', ''), ('subject', None), ('subject_name', '')), _connector='OR'), name='erased_report_names_nobody'),
        ),
        append_only("reports_statuschange"),
    ]
