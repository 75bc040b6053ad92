from verification.db.triggers import append_only_except
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.functions.text
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from django.db import migrations, models


KEEP = """
CREATE FUNCTION keep_retired_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO consents_retiredlink (digest, purpose, report_id, row_id, generation)
    VALUES (OLD.token_digest, TG_ARGV[0], OLD.report_id, OLD.id, OLD.generation)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER keep_changed_link AFTER UPDATE OF token_digest ON consents_consent
FOR EACH ROW WHEN (OLD.token_digest IS DISTINCT FROM NEW.token_digest
    AND OLD.token_digest IS NOT NULL)
EXECUTE FUNCTION keep_retired_link('consent');
CREATE TRIGGER keep_link_of_deleted AFTER DELETE ON consents_consent
FOR EACH ROW WHEN (OLD.token_digest IS NOT NULL)
EXECUTE FUNCTION keep_retired_link('consent');
"""
KEEP_NO_MORE = """
DROP TRIGGER keep_changed_link ON consents_consent;
DROP TRIGGER keep_link_of_deleted ON consents_consent;
DROP FUNCTION keep_retired_link();
"""


class Migration(migrations.Migration):

    replaces = [('consents', '0001_initial'), ('consents', '0002_triggers'), ('consents', '0003_erased_and_attested_links')]

    initial = True

    dependencies = [
        ('reports', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='RetiredLink',
            fields=[
                ('digest', models.BinaryField(primary_key=True, serialize=False)),
                ('purpose', models.CharField(choices=[('consent', 'Consent'), ('reference', 'Reference'), ('payment', 'Payment')], max_length=9)),
                ('row_id', models.UUIDField(db_index=True)),
                ('generation', models.PositiveIntegerField()),
                ('retired_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('report', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='retired_links', to='reports.report')),
            ],
        ),
        migrations.CreateModel(
            name='Consent',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('mode', models.CharField(choices=[('SERVICE_HOSTED', 'The service asks the subject'), ('CUSTOMER_ATTESTED', 'The client states it has consent')], max_length=17)),
                ('status', models.CharField(choices=[('NOT_REQUIRED', 'Not Required'), ('PENDING', 'Pending'), ('GRANTED', 'Granted'), ('ATTESTED', 'Attested'), ('DECLINED', 'Declined'), ('EXPIRED', 'Expired'), ('WITHDRAWN', 'Withdrawn')], max_length=12)),
                ('generation', models.PositiveIntegerField(default=1)),
                ('token_digest', models.BinaryField(null=True, unique=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('attestation', verification.db.encryption.EncryptedJSONField(null=True)),
                ('shown_sources', models.JSONField(db_default={}, default=dict, editable=False)),
                ('link_made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('reminded_at', models.DateTimeField(editable=False, null=True)),
                ('wrong_answers', models.PositiveSmallIntegerField(db_default=0)),
                ('locks', models.PositiveSmallIntegerField(db_default=0)),
                ('locked_until', models.DateTimeField(editable=False, null=True)),
                ('codes_sent', models.PositiveSmallIntegerField(db_default=0)),
                ('code_channel', models.CharField(db_default='', max_length=5)),
                ('code_sent_at', models.DateTimeField(editable=False, null=True)),
                ('wrong_codes', models.PositiveSmallIntegerField(db_default=0)),
                ('link_requested_at', models.DateTimeField(editable=False, null=True)),
                ('report', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='consent', to='reports.report')),
                ('is_erased', models.BooleanField(db_default=False, default=False, editable=False)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('mode', 'SERVICE_HOSTED'), ('status', 'PENDING')), fields=['expires_at'], name='consents_waiting')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('locked_until', None), ('locks', 0)), ('locks__range', (1, 3)), models.Q(('locked_until', None), ('locks', 4)), _connector='OR'), name='consent_is_locked_for_a_time_or_for_good'), models.CheckConstraint(condition=models.Q(models.Q(('code_channel', ''), ('code_sent_at', None), ('codes_sent', 0)), models.Q(('code_channel__in', ['EMAIL', 'SMS']), ('codes_sent__gt', 0)), _connector='OR'), name='code_of_a_consent_went_somewhere'), models.CheckConstraint(condition=models.Q(models.Q(('expires_at__isnull', False), ('mode', 'SERVICE_HOSTED'), ('token_digest__isnull', False)), models.Q(('expires_at', None), ('mode', 'CUSTOMER_ATTESTED'), ('token_digest', None)), models.Q(('expires_at__isnull', False), ('mode', 'CUSTOMER_ATTESTED'), ('token_digest__isnull', False)), _connector='OR'), name='hosted_consent_has_a_link'), models.CheckConstraint(condition=models.Q(models.Q(('attestation__isnull', False), ('status', 'ATTESTED')), models.Q(('status', 'ATTESTED'), _negated=True), ('is_erased', True), _connector='OR'), name='an_attested_consent_has_its_attestation')],
            },
        ),
        migrations.CreateModel(
            name='ConsentRecord',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('consent_id', models.UUIDField()),
                ('decision', models.CharField(choices=[('GRANTED', 'Granted'), ('DECLINED', 'Declined'), ('WITHDRAWN', 'Withdrawn'), ('EXPIRED', 'Expired')], max_length=9)),
                ('generation', models.PositiveIntegerField()),
                ('language', models.CharField(blank=True, max_length=2)),
                ('notice_version', models.CharField(blank=True, max_length=40)),
                ('notice_sha256', models.BinaryField(null=True)),
                ('evidence', verification.db.encryption.EncryptedJSONField(null=True)),
                ('digest', models.BinaryField()),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('report', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='consent_records', to='reports.report')),
            ],
            options={
                'ordering': ['created_at', 'id'],
                'indexes': [models.Index(django.db.models.functions.text.Right(django.db.models.functions.comparison.Cast('id', models.TextField()), 12), name='consent_records_by_number')],
                'constraints': [models.UniqueConstraint(fields=('consent_id', 'generation', 'decision'), name='one_record_a_decision_and_link')],
            },
        ),
        append_only_except("consents_consentrecord", "evidence"),
        migrations.RunSQL(KEEP, KEEP_NO_MORE),
    ]
