import django.contrib.postgres.fields
import django.db.models.deletion
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from decimal import Decimal
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('checks', '0001_initial'), ('checks', '0002_revisions'), ('checks', '0003_corrections')]

    initial = True

    dependencies = [
        ('reports', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='TurnReservation',
            fields=[
                ('account_id', models.UUIDField(primary_key=True, serialize=False)),
                ('until', models.DateTimeField()),
            ],
            options={
                'verbose_name_plural': 'turns taken',
            },
        ),
        migrations.CreateModel(
            name='CheckDefinition',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=40, unique=True)),
                ('position', models.PositiveSmallIntegerField(default=0)),
                ('display_name', models.CharField(max_length=100)),
                ('category', models.CharField(choices=[('IDENTITY', 'Identity'), ('TAX', 'Tax'), ('EMPLOYMENT', 'Employment'), ('BUSINESS', 'Business'), ('CREDIT', 'Credit'), ('AML', 'AML')], max_length=12)),
                ('description', models.TextField()),
                ('subject_types', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('INDIVIDUAL', 'Individual'), ('COMPANY', 'Company')], max_length=10), size=None)),
                ('active', models.BooleanField(default=True)),
                ('requires_consent', models.BooleanField(default=True)),
                ('price', models.DecimalField(decimal_places=2, max_digits=10)),
                ('currency', models.CharField(default='KES', max_length=3)),
                ('required_inputs', models.JSONField(default=list)),
                ('output_fields', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), size=None)),
                ('flag_codes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), default=list, size=None)),
                ('freshness_days', models.PositiveIntegerField()),
                ('retry_policy', models.JSONField(default=dict)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'ordering': ['position', 'name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('price__gte', 0)), name='check_price_is_not_negative')],
            },
        ),
        migrations.CreateModel(
            name='CheckResult',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=40)),
                ('position', models.PositiveSmallIntegerField()),
                ('status', models.CharField(choices=[('PENDING', 'Pending'), ('RUNNING', 'Running'), ('COMPLETED', 'Completed'), ('FAILED', 'Failed'), ('CANCELLED', 'Cancelled')], default='PENDING', max_length=9)),
                ('price', models.DecimalField(decimal_places=2, default=Decimal('0'), max_digits=10)),
                ('attempt', models.PositiveSmallIntegerField(default=1)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('claims', models.PositiveSmallIntegerField(default=0)),
                ('fence', models.PositiveIntegerField(default=0)),
                ('next_attempt_at', models.DateTimeField(null=True)),
                ('turn_at', models.DateTimeField(default=verification.values.clock.now)),
                ('waits_for', models.CharField(blank=True, db_default='', default='', max_length=40)),
                ('started_at', models.DateTimeField(null=True)),
                ('completed_at', models.DateTimeField(null=True)),
                ('duration_ms', models.PositiveIntegerField(null=True)),
                ('question', models.BinaryField(null=True)),
                ('reused_from_id', models.UUIDField(null=True)),
                ('score', models.PositiveSmallIntegerField(null=True)),
                ('risk_level', models.CharField(choices=[('LOW', 'Low'), ('MEDIUM', 'Medium'), ('HIGH', 'High'), ('UNKNOWN', 'Unknown')], default='UNKNOWN', max_length=7)),
                ('finding', verification.db.encryption.EncryptedJSONField(null=True)),
                ('failure_code', models.CharField(blank=True, max_length=40)),
                ('failure_message', models.CharField(blank=True, max_length=300)),
                ('failure_retryable', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('definition', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to='checks.checkdefinition')),
                ('report', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='results', to='reports.report')),
                ('revision', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('disputed_at', models.DateTimeField(editable=False, null=True)),
                ('inputs', verification.db.encryption.EncryptedJSONField(null=True)),
            ],
            options={
                'ordering': ['position'],
                'indexes': [models.Index(condition=models.Q(('next_attempt_at__isnull', False), ('waits_for', '')), fields=['turn_at', 'id'], include=('next_attempt_at',), name='results_due'), models.Index(condition=models.Q(('next_attempt_at__isnull', False), models.Q(('waits_for', ''), _negated=True)), fields=['waits_for', 'turn_at', 'id'], name='results_waiting'), models.Index(condition=models.Q(('status', 'FAILED')), fields=['id'], name='results_failed'), models.Index(models.F('question'), models.OrderBy(models.F('completed_at'), descending=True), condition=models.Q(('reused_from_id__isnull', True), ('status', 'COMPLETED')), name='results_reusable'), models.Index(condition=models.Q(('reused_from_id__isnull', False)), fields=['reused_from_id'], name='results_reusing')],
                'constraints': [models.CheckConstraint(condition=models.Q(('next_attempt_at__isnull', True), ('status__in', ['PENDING', 'RUNNING']), _connector='OR'), name='only_unfinished_results_are_due'), models.CheckConstraint(condition=models.Q(models.Q(('completed_at', None), ('status__in', ['PENDING', 'RUNNING'])), models.Q(('completed_at__isnull', False), ('status__in', ['COMPLETED', 'FAILED', 'CANCELLED'])), _connector='OR'), name='result_completed_at_iff_ended'), models.CheckConstraint(condition=models.Q(('status', 'FAILED'), ('failure_code', ''), _connector='XOR'), name='failed_results_say_why'), models.CheckConstraint(condition=models.Q(('score__isnull', True), ('score__lte', 100), _connector='OR'), name='result_score_0_to_100'), models.UniqueConstraint(fields=('report', 'name', 'revision'), name='a_report_has_each_check_once')],
            },
        ),
    ]
