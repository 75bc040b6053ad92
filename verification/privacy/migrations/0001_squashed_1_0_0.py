import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.text
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('privacy', '0001_initial'), ('privacy', '0002_reminders'), ('privacy', '0003_corrections'), ('privacy', '0004_certificates_and_journal'), ('privacy', '0005_objections_index'), ('privacy', '0006_reruns'), ('privacy', '0007_earlier_erasures')]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('checks', '0001_squashed_1_0_0'),
        ('reports', '0001_squashed_1_0_0'),
        ('workspaces', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='JournalEntry',
            fields=[
                ('name', models.CharField(editable=False, max_length=100, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
            ],
            options={
                'verbose_name_plural': 'journal entries',
            },
        ),
        migrations.CreateModel(
            name='SigningKey',
            fields=[
                ('id', models.CharField(editable=False, max_length=16, primary_key=True, serialize=False)),
                ('pem', models.CharField(max_length=200)),
                ('first_used_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name='Correction',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('check_name', models.CharField(max_length=40)),
                ('status', models.CharField(choices=[('OPEN', 'Open'), ('IN_REVIEW', 'In review'), ('CORRECTED', 'Corrected'), ('CONFIRMED', 'Confirmed as it was'), ('WITHDRAWN', 'Withdrawn by the person')], default='OPEN', max_length=9)),
                ('statement', verification.db.encryption.EncryptedJSONField(null=True)),
                ('decision', verification.db.encryption.EncryptedJSONField(null=True)),
                ('taken_by', models.CharField(blank=True, max_length=100)),
                ('taken_at', models.DateTimeField(editable=False, null=True)),
                ('decided_by', models.CharField(blank=True, max_length=100)),
                ('decided_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('report', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='corrections', to='reports.report')),
                ('rerun', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='checks.checkresult')),
                ('result', models.ForeignKey(on_delete=django.db.models.deletion.DO_NOTHING, related_name='corrections', to='checks.checkresult')),
                ('taken_by_user', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='CorrectionDocument',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', verification.db.encryption.EncryptedJSONField()),
                ('content_type', models.CharField(max_length=15)),
                ('size', models.PositiveIntegerField()),
                ('file', models.CharField(max_length=40, unique=True)),
                ('data_key', verification.db.encryption.EncryptedJSONField()),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('correction', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='documents', to='privacy.correction')),
            ],
        ),
        migrations.CreateModel(
            name='RetentionRun',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('before', models.DateTimeField()),
                ('report_count', models.PositiveIntegerField()),
                ('created_at', models.DateTimeField(db_index=True, default=verification.values.clock.now, editable=False)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='retention_runs', to='workspaces.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='StaffErasure',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('person', verification.db.encryption.EncryptedJSONField(null=True)),
                ('report_count', models.PositiveIntegerField()),
                ('workspace_count', models.PositiveIntegerField()),
                ('reason', models.CharField(max_length=500)),
                ('status', models.CharField(choices=[('REQUESTED', 'Waits for a second person'), ('APPROVED', 'Approved'), ('REJECTED', 'Rejected')], default='REQUESTED', max_length=9)),
                ('requested_by', models.CharField(max_length=100)),
                ('requested_by_user', models.BigIntegerField()),
                ('decided_by', models.CharField(blank=True, max_length=100)),
                ('decided_by_user', models.BigIntegerField(null=True)),
                ('decided_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('report', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='staff_erasures', to='reports.report')),
                ('earlier_erasures', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), db_default=[], default=list, editable=False, size=None)),
            ],
        ),
        migrations.CreateModel(
            name='SubjectRequest',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('ACCESS', 'Access'), ('PORTABILITY', 'Portability'), ('CORRECTION', 'Correction'), ('OBJECTION', 'Objection and restriction'), ('ERASURE', 'Erasure')], max_length=11)),
                ('origin', models.CharField(choices=[('SUBJECT', "The subject's page"), ('MY_DATA', 'The page /my-data'), ('CLIENT', 'The client'), ('STAFF', 'Staff')], max_length=7)),
                ('environment', models.CharField(blank=True, choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('subject_id', models.UUIDField(db_index=True, null=True)),
                ('details', verification.db.encryption.EncryptedJSONField(null=True)),
                ('requested_by', models.CharField(max_length=100)),
                ('received_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('due_at', models.DateTimeField()),
                ('reminded_at', models.DateTimeField(editable=False, null=True)),
                ('answered_at', models.DateTimeField(editable=False, null=True)),
                ('outcome', models.CharField(blank=True, choices=[('DONE', 'Done'), ('REFUSED', 'Refused'), ('WITHDRAWN', 'Withdrawn'), ('NOTHING_FOUND', 'Nothing found')], max_length=13)),
                ('reason', models.CharField(blank=True, max_length=500)),
                ('report', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='subject_requests', to='reports.report')),
                ('workspace', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='subject_requests', to='workspaces.workspace')),
                ('overdue_notified_at', models.DateTimeField(editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Erasure',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('ended_at', models.DateTimeField(editable=False, null=True)),
                ('report_count', models.PositiveIntegerField(default=0)),
                ('counts', models.JSONField(blank=True, default=dict)),
                ('certificate', models.TextField(blank=True)),
                ('signature', models.BinaryField(null=True)),
                ('request', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='erasure', to='privacy.subjectrequest')),
                ('found_at', models.DateTimeField(editable=False, null=True)),
                ('report_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, editable=False, size=None)),
                ('rule_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, editable=False, size=None)),
                ('sweep_at', models.DateTimeField(editable=False, null=True)),
                ('sweeps', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('staff_erasure', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='erasures', to='privacy.stafferasure')),
            ],
        ),
        migrations.AddField(
            model_name='correction',
            name='request',
            field=models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='correction', to='privacy.subjectrequest'),
        ),
        migrations.CreateModel(
            name='Disclosure',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('channel', models.CharField(choices=[('API', 'API'), ('PDF', 'PDF document'), ('CONSOLE', 'Console'), ('SUBJECT', "The subject's page")], max_length=7)),
                ('recipient', models.CharField(max_length=100)),
                ('first_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('last_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('report', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='disclosures', to='reports.report')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('report', 'channel', 'recipient'), name='one_disclosure_a_recipient')],
            },
        ),
        migrations.CreateModel(
            name='Hold',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('reason', models.CharField(max_length=500)),
                ('ends_at', models.DateTimeField()),
                ('held_by', models.CharField(max_length=100)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('released_by', models.CharField(blank=True, max_length=100)),
                ('released_at', models.DateTimeField(editable=False, null=True)),
                ('report', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='holds', to='reports.report')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('reason', ''), _negated=True), name='holds_say_why'), models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('created_at'))), name='holds_end_after_they_begin'), models.CheckConstraint(condition=models.Q(models.Q(('released_at', None), ('released_by', '')), models.Q(('released_at__isnull', False), models.Q(('released_by', ''), _negated=True)), _connector='OR'), name='released_holds_name_who')],
            },
        ),
        migrations.CreateModel(
            name='Rerun',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('origin', models.CharField(choices=[('SUBJECT', "The subject's page"), ('MY_DATA', 'The page /my-data'), ('CLIENT', 'The client'), ('STAFF', 'Staff')], max_length=7)),
                ('fields', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), default=list, size=None)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('correction', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reruns', to='privacy.correction')),
                ('result', models.OneToOneField(on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='checks.checkresult')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('origin', 'CLIENT'), _negated=True), ('fields', []), _connector='OR'), name='clients_rerun_with_the_same_details')],
            },
        ),
        migrations.AddIndex(
            model_name='stafferasure',
            index=models.Index(condition=models.Q(('status', 'REQUESTED')), fields=['id'], name='staff_erasures_to_decide'),
        ),
        migrations.AddConstraint(
            model_name='stafferasure',
            constraint=models.CheckConstraint(condition=models.Q(('reason', ''), _negated=True), name='staff_erasures_say_why'),
        ),
        migrations.AddConstraint(
            model_name='stafferasure',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_at', None), ('decided_by_user', None), ('status', 'REQUESTED')), models.Q(('decided_by_user__isnull', False), ('status', 'REJECTED')), models.Q(models.Q(('decided_by_user__isnull', False), ('status', 'APPROVED')), models.Q(('decided_by_user', models.F('requested_by_user')), _negated=True)), _connector='OR'), name='staff_erasures_are_decided_by_another'),
        ),
        migrations.AddConstraint(
            model_name='stafferasure',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('person__isnull', False), ('report', None), ('status', 'REQUESTED')), models.Q(('person', None), ('report__isnull', False)), models.Q(models.Q(('status', 'REQUESTED'), _negated=True), ('person', None)), _connector='OR'), name='staff_erasures_name_one_person'),
        ),
        migrations.AddIndex(
            model_name='subjectrequest',
            index=models.Index(condition=models.Q(('answered_at', None)), fields=['due_at'], name='subject_requests_open'),
        ),
        migrations.AddIndex(
            model_name='subjectrequest',
            index=models.Index(django.db.models.functions.text.Right(django.db.models.functions.comparison.Cast('id', models.TextField()), 12), name='subject_requests_by_number'),
        ),
        migrations.AddIndex(
            model_name='subjectrequest',
            index=models.Index(condition=models.Q(('kind', 'OBJECTION')), fields=['subject_id'], name='objections_of_a_subject'),
        ),
        migrations.AddConstraint(
            model_name='subjectrequest',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('answered_at', None), ('outcome', '')), models.Q(('answered_at__isnull', False), models.Q(('outcome', ''), _negated=True)), _connector='OR'), name='answered_requests_have_an_outcome'),
        ),
        migrations.AddConstraint(
            model_name='subjectrequest',
            constraint=models.CheckConstraint(condition=models.Q(('outcome', 'REFUSED'), ('reason', ''), _negated=True), name='refused_requests_say_why'),
        ),
        migrations.AddConstraint(
            model_name='subjectrequest',
            constraint=models.CheckConstraint(condition=models.Q(('due_at__gt', models.F('received_at'))), name='requests_are_due_after_they_came'),
        ),
        migrations.AddIndex(
            model_name='erasure',
            index=models.Index(condition=models.Q(('ended_at', None)), fields=['id'], name='erasures_to_do'),
        ),
        migrations.AddIndex(
            model_name='erasure',
            index=models.Index(condition=models.Q(('sweep_at__isnull', False)), fields=['sweep_at'], name='erasures_to_sweep'),
        ),
        migrations.AddIndex(
            model_name='erasure',
            index=django.contrib.postgres.indexes.GinIndex(fields=['report_ids'], name='erasures_of_a_report'),
        ),
        migrations.AddConstraint(
            model_name='erasure',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('certificate', ''), ('ended_at', None), ('signature', None)), models.Q(('ended_at__isnull', False), ('signature__isnull', False), models.Q(('certificate', ''), _negated=True)), _connector='OR'), name='ended_erasures_have_a_certificate'),
        ),
        migrations.AddIndex(
            model_name='correction',
            index=models.Index(condition=models.Q(('status__in', ['OPEN', 'IN_REVIEW'])), fields=['id'], name='corrections_open'),
        ),
        migrations.AddConstraint(
            model_name='correction',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ['OPEN', 'IN_REVIEW'])), fields=('result',), name='one_open_correction_a_result'),
        ),
        migrations.AddConstraint(
            model_name='correction',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_at', None), ('decided_by', ''), ('status__in', ('OPEN', 'IN_REVIEW'))), models.Q(('decided_at__isnull', False), ('status__in', ['CORRECTED', 'CONFIRMED', 'WITHDRAWN']), models.Q(('decided_by', ''), _negated=True)), _connector='OR'), name='decided_corrections_name_who'),
        ),
        migrations.AddConstraint(
            model_name='correction',
            constraint=models.CheckConstraint(condition=models.Q(('rerun', None), ('status', 'CORRECTED'), _negated=True), name='corrected_corrections_have_a_rerun'),
        ),
    ]
