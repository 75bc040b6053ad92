import django.db.models.deletion
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from django.conf import settings
from django.db import migrations, models


MOVES = """
CREATE FUNCTION golive_application_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status = 'DRAFT' THEN RETURN NEW; END IF;
        RAISE EXCEPTION 'an application begins as a draft' USING ERRCODE = '23514';
    END IF;
    IF TG_OP = 'DELETE' THEN
        IF OLD.status = 'DRAFT' THEN RETURN OLD; END IF;
        RAISE EXCEPTION 'what was submitted is kept' USING ERRCODE = '23001';
    END IF;
    IF OLD.status <> 'DRAFT' AND (NEW.company_name, NEW.workspace_id, NEW.report_id,
        NEW.submitted_by_id) IS DISTINCT FROM (OLD.company_name, OLD.workspace_id,
        OLD.report_id, OLD.submitted_by_id)
    THEN
        RAISE EXCEPTION 'what was submitted is not changed' USING ERRCODE = '23001';
    END IF;
    IF NEW.status = OLD.status THEN RETURN NEW; END IF;
    IF (OLD.status, NEW.status) NOT IN (('DRAFT', 'SUBMITTED'),
        ('SUBMITTED', 'IN_REVIEW'), ('IN_REVIEW', 'APPROVED'),
        ('IN_REVIEW', 'REJECTED'))
    THEN
        RAISE EXCEPTION 'an application that is % cannot become %', OLD.status,
            NEW.status USING ERRCODE = '23514';
    END IF;
    IF EXISTS (SELECT 1 FROM workspaces_member WHERE workspace_id = NEW.workspace_id
        AND user_id IN (NEW.taken_by_id, NEW.decided_by_id))
    THEN
        RAISE EXCEPTION 'nobody reviews their own workspace' USING ERRCODE = '23514';
    END IF;
    IF NEW.status = 'APPROVED' AND NOT EXISTS (SELECT 1 FROM checks_checkresult
        WHERE report_id = NEW.report_id AND name = 'BUSINESS_VERIFICATION'
        AND status = 'COMPLETED')
    THEN
        RAISE EXCEPTION 'the company is not checked' USING ERRCODE = '23514';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER golive_application_moves
    BEFORE INSERT OR UPDATE OR DELETE ON golive_application
    FOR EACH ROW EXECUTE FUNCTION golive_application_moves();

CREATE FUNCTION golive_document_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Sealing it anew under another key changes nothing of it.
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'data_key' - 'name'
        = to_jsonb(OLD) - 'data_key' - 'name'
    THEN RETURN NEW; END IF;
    IF EXISTS (SELECT 1 FROM golive_application WHERE status <> 'DRAFT'
        AND id IN (NEW.application_id, OLD.application_id))
    THEN
        RAISE EXCEPTION 'documents that were submitted stay' USING ERRCODE = '23001';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER golive_document_stays
    BEFORE INSERT OR UPDATE OR DELETE ON golive_document
    FOR EACH ROW EXECUTE FUNCTION golive_document_stays();
"""
NO_MOVES = """
DROP TRIGGER golive_document_stays ON golive_document;
DROP FUNCTION golive_document_stays;
DROP TRIGGER golive_application_moves ON golive_application;
DROP FUNCTION golive_application_moves;
"""
# What was decided or withdrawn stays as it is.
DECISIONS = """
CREATE FUNCTION golive_decision_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was decided is not changed' USING ERRCODE = '23001';
END $$;
CREATE TRIGGER golive_decision_stays BEFORE UPDATE ON golive_application
    FOR EACH ROW WHEN (OLD.status IN ('APPROVED', 'REJECTED')
        AND (NEW.decided_by_id, NEW.decided_at, NEW.reason)
        IS DISTINCT FROM (OLD.decided_by_id, OLD.decided_at, OLD.reason))
    EXECUTE FUNCTION golive_decision_stays();
CREATE TRIGGER golive_name_decision_stays BEFORE UPDATE ON golive_namechange
    FOR EACH ROW WHEN (OLD.status <> 'WAITING')
    EXECUTE FUNCTION golive_decision_stays();
"""
NO_DECISIONS = """
DROP TRIGGER golive_name_decision_stays ON golive_namechange;
DROP TRIGGER golive_decision_stays ON golive_application;
DROP FUNCTION golive_decision_stays;
"""


class Migration(migrations.Migration):

    replaces = [('golive', '0001_initial'), ('golive', '0002_triggers')]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('reports', '0001_squashed_1_0_0'),
        ('workspaces', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='Application',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('DRAFT', 'Being filled in'), ('SUBMITTED', 'Waiting for a review'), ('IN_REVIEW', 'In review'), ('APPROVED', 'Approved'), ('REJECTED', 'Rejected')], default='DRAFT', max_length=9)),
                ('company_name', models.CharField(max_length=200)),
                ('details', verification.db.encryption.EncryptedJSONField()),
                ('submitted_at', models.DateTimeField(editable=False, null=True)),
                ('taken_at', models.DateTimeField(editable=False, null=True)),
                ('decided_at', models.DateTimeField(editable=False, null=True)),
                ('reason', models.CharField(blank=True, max_length=500)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('api_key', models.OneToOneField(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='workspaces.apikey')),
                ('decided_by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('report', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='reports.report')),
                ('submitted_by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('taken_by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='applications', to='workspaces.workspace')),
            ],
            options={
                'verbose_name': 'go-live application',
                'permissions': [('decide_application', 'Can review go-live applications')],
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Document',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('INCORPORATION', 'Certificate of incorporation'), ('CR12', 'CR12'), ('KRA', 'KRA certificate'), ('DIRECTOR_ID', "Director's ID")], max_length=13)),
                ('name', verification.db.encryption.EncryptedJSONField()),
                ('content_type', models.CharField(choices=[('application/pdf', 'Pdf'), ('image/jpeg', 'Jpeg'), ('image/png', 'Png')], max_length=15)),
                ('size', models.PositiveIntegerField()),
                ('file', models.CharField(db_index=True, max_length=40)),
                ('data_key', verification.db.encryption.EncryptedJSONField()),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('application', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='documents', to='golive.application')),
                ('uploaded_by', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='NameChange',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('WAITING', 'Waiting for a review'), ('APPROVED', 'Approved'), ('REJECTED', 'Rejected'), ('WITHDRAWN', 'Withdrawn')], default='WAITING', max_length=9)),
                ('legal_name', models.CharField(max_length=200)),
                ('trading_name', models.CharField(blank=True, max_length=200)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('decided_at', models.DateTimeField(editable=False, null=True)),
                ('reason', models.CharField(blank=True, max_length=500)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('asked_by', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('decided_by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='name_changes', to='workspaces.workspace')),
            ],
            options={
                'default_permissions': ('view',),
            },
        ),
        migrations.AddIndex(
            model_name='application',
            index=models.Index(condition=models.Q(('status__in', ['SUBMITTED', 'IN_REVIEW'])), fields=['id'], name='applications_waiting'),
        ),
        migrations.AddConstraint(
            model_name='application',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'REJECTED'), _negated=True), fields=('workspace',), name='one_application_at_a_time'),
        ),
        migrations.AddConstraint(
            model_name='application',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['DRAFT', 'SUBMITTED', 'IN_REVIEW', 'APPROVED', 'REJECTED'])), name='applications_have_a_known_status'),
        ),
        migrations.AddConstraint(
            model_name='application',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('report', None), ('status', 'DRAFT'), ('submitted_at', None), ('submitted_by', None)), models.Q(models.Q(('status', 'DRAFT'), _negated=True), ('report__isnull', False), ('submitted_at__isnull', False), ('submitted_by__isnull', False)), _connector='OR'), name='what_is_submitted_names_who_and_its_report'),
        ),
        migrations.AddConstraint(
            model_name='application',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status__in', ['DRAFT', 'SUBMITTED']), ('taken_at', None), ('taken_by', None)), models.Q(('status__in', ['IN_REVIEW', 'APPROVED', 'REJECTED']), ('taken_at__isnull', False), ('taken_by__isnull', False)), _connector='OR'), name='what_is_reviewed_names_who'),
        ),
        migrations.AddConstraint(
            model_name='application',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_at__isnull', False), ('decided_by__isnull', False), ('status__in', ['APPROVED', 'REJECTED'])), models.Q(models.Q(('status__in', ['APPROVED', 'REJECTED']), _negated=True), ('decided_at', None), ('decided_by', None)), _connector='OR'), name='what_is_decided_names_who'),
        ),
        migrations.AddConstraint(
            model_name='application',
            constraint=models.CheckConstraint(condition=models.Q(('decided_by', None), models.Q(('decided_by', models.F('submitted_by')), _negated=True), _connector='OR'), name='nobody_decides_what_they_submitted'),
        ),
        migrations.AddConstraint(
            model_name='application',
            constraint=models.CheckConstraint(condition=models.Q(('status', 'REJECTED'), ('reason', ''), _connector='XOR'), name='a_rejection_says_why'),
        ),
        migrations.AddConstraint(
            model_name='application',
            constraint=models.CheckConstraint(condition=models.Q(('status', 'APPROVED'), ('api_key', None), _connector='XOR'), name='an_approval_makes_a_key'),
        ),
        migrations.AddConstraint(
            model_name='document',
            constraint=models.UniqueConstraint(fields=('application', 'kind'), name='one_document_of_a_kind'),
        ),
        migrations.AddConstraint(
            model_name='document',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['INCORPORATION', 'CR12', 'KRA', 'DIRECTOR_ID'])), name='documents_are_of_a_known_kind'),
        ),
        migrations.AddConstraint(
            model_name='document',
            constraint=models.CheckConstraint(condition=models.Q(('content_type__in', ['application/pdf', 'image/jpeg', 'image/png'])), name='documents_are_pdf_jpeg_or_png'),
        ),
        migrations.AddConstraint(
            model_name='document',
            constraint=models.CheckConstraint(condition=models.Q(('size__gt', 0)), name='documents_are_not_empty'),
        ),
        migrations.AddIndex(
            model_name='namechange',
            index=models.Index(condition=models.Q(('status', 'WAITING')), fields=['id'], name='name_changes_waiting'),
        ),
        migrations.AddConstraint(
            model_name='namechange',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'WAITING')), fields=('workspace',), name='one_name_change_waits_at_a_time'),
        ),
        migrations.AddConstraint(
            model_name='namechange',
            constraint=models.CheckConstraint(condition=models.Q(('legal_name', ''), _negated=True), name='name_changes_have_a_legal_name'),
        ),
        migrations.AddConstraint(
            model_name='namechange',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_at__isnull', False), ('decided_by__isnull', False), ('status__in', ['APPROVED', 'REJECTED'])), models.Q(('decided_at', None), ('decided_by', None), ('status__in', ['WAITING', 'WITHDRAWN'])), _connector='OR'), name='decided_name_changes_name_who'),
        ),
        migrations.AddConstraint(
            model_name='namechange',
            constraint=models.CheckConstraint(condition=models.Q(('decided_by', None), models.Q(('decided_by', models.F('asked_by')), _negated=True), _connector='OR'), name='nobody_decides_their_own_name_change'),
        ),
        migrations.AddConstraint(
            model_name='namechange',
            constraint=models.CheckConstraint(condition=models.Q(('status', 'REJECTED'), ('reason', ''), _connector='XOR'), name='a_rejected_name_change_says_why'),
        ),
        migrations.RunSQL(MOVES, NO_MOVES),
        migrations.RunSQL(DECISIONS, NO_DECISIONS),
    ]
