import django.db.models.deletion
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from django.db import migrations, models


# Who sends it, or gives it up, cannot forget to forget it.
FORGET = """
CREATE FUNCTION notifications_forget_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.context = NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER notifications_forget_key BEFORE UPDATE ON notifications_notification
    FOR EACH ROW WHEN (NEW.kind = 'GO_LIVE_KEY' AND NEW.status <> 'PENDING')
    EXECUTE FUNCTION notifications_forget_key();
"""
KEEP = """
DROP TRIGGER notifications_forget_key ON notifications_notification;
DROP FUNCTION notifications_forget_key;
"""


class Migration(migrations.Migration):

    replaces = [('notifications', '0001_initial'), ('notifications', '0002_triggers'), ('notifications', '0003_messages_about_rights'), ('notifications', '0003_report_of_a_message'), ('notifications', '0004_access_code'), ('notifications', '0005_requests_due'), ('notifications', '0006_corrections'), ('notifications', '0007_access_links'), ('notifications', '0008_late_codes')]

    initial = True

    dependencies = [
        ('workspaces', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='DailyCount',
            fields=[
                ('pk', models.CompositePrimaryKey('subject', 'day', blank=True, editable=False, primary_key=True, serialize=False)),
                ('subject', models.CharField(max_length=100)),
                ('day', models.DateField()),
                ('count', models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('CONSENT_REQUEST', 'Consent Request'), ('CONSENT_REMINDER', 'Consent Reminder'), ('CONSENT_LOCKED', 'Consent Locked'), ('CONSENT_CODE', 'Consent Code'), ('CONSENT_RECEIPT', 'Consent Receipt'), ('ACCESS_CODE', 'Access Code'), ('ACCESS_LINK', 'Access Link'), ('MY_DATA', 'My Data'), ('REFERENCE_REQUEST', 'Reference Request'), ('REFERENCE_REMINDER', 'Reference Reminder'), ('REFERENCE_RECEIPT', 'Reference Receipt'), ('PAYMENT_REQUEST', 'Payment Request'), ('PAYMENT_REMINDER', 'Payment Reminder'), ('PAYMENT_SHORT', 'Payment Short'), ('PAYMENT_RECEIPT', 'Payment Receipt'), ('PAYMENT_REFUNDED', 'Payment Refunded'), ('PAYMENT_TROUBLE', 'Payment Trouble'), ('REQUESTS_DUE', 'Requests Due'), ('TOP_UP_RECEIPT', 'Top Up Receipt'), ('TOP_UP_REFUNDED', 'Top Up Refunded'), ('LOW_BALANCE', 'Low Balance'), ('MONITORING_PAUSED', 'Monitoring Paused'), ('NEW_LINK_WANTED', 'New Link Wanted'), ('WEBHOOK_FAILING', 'Webhook Failing'), ('WEBHOOK_DISABLED', 'Webhook Disabled'), ('INVITATION', 'Invitation'), ('STAFF_INVITATION', 'Staff Invitation'), ('ACCOUNT_CONFIRM', 'Account Confirm'), ('ACCOUNT_EXISTS', 'Account Exists'), ('ACCOUNT_RESET', 'Account Reset'), ('ACCOUNT_CHANGED', 'Account Changed'), ('GO_LIVE_KEY', 'Go Live Key'), ('GO_LIVE_APPROVED', 'Go Live Approved'), ('GO_LIVE_REJECTED', 'Go Live Rejected'), ('GO_LIVE_NAME', 'Go Live Name'), ('CORRECTION_RECEIPT', 'Correction Receipt'), ('CORRECTION_ANSWER', 'Correction Answer'), ('CORRECTION_OPENED', 'Correction Opened'), ('CORRECTION_RERUN', 'Correction Rerun'), ('SANDBOX_ADDRESS', 'Sandbox Address')], max_length=18)),
                ('channel', models.CharField(choices=[('EMAIL', 'E-mail'), ('SMS', 'SMS')], max_length=5)),
                ('cause', models.CharField(max_length=150)),
                ('recipient', verification.db.encryption.EncryptedJSONField(null=True)),
                ('context', verification.db.encryption.EncryptedJSONField(null=True)),
                ('language', models.CharField(choices=[('en', 'English'), ('sw', 'Kiswahili')], max_length=2)),
                ('sandbox', models.BooleanField()),
                ('status', models.CharField(choices=[('PENDING', 'Pending'), ('SENT', 'Sent'), ('FAILED', 'Failed'), ('CANCELLED', 'Cancelled'), ('WITHHELD', 'Withheld')], db_default='PENDING', max_length=9)),
                ('rounds', models.PositiveSmallIntegerField(db_default=1)),
                ('attempts', models.PositiveSmallIntegerField(db_default=0)),
                ('fence', models.PositiveIntegerField(db_default=0)),
                ('next_attempt_at', models.DateTimeField(editable=False, null=True)),
                ('leased_until', models.DateTimeField(editable=False, null=True)),
                ('error', models.CharField(choices=[('REFUSED', 'The address or number was refused.'), ('NOT_TAKEN', 'The mail server or gateway would not take it now.'), ('UNREACHABLE', 'The mail server or gateway could not be reached.'), ('LATE', 'The code would not have worked any more.'), ('NOT_WRITTEN', 'The message could not be written.'), ('INTERRUPTED', 'Every attempt ended before its outcome was known.'), ('BLOCKED', 'The recipient has blocked messages of this workspace.'), ('SANDBOX', 'The sandbox sends to members and confirmed addresses only.'), ('RECIPIENT_LIMIT', 'The recipient got as many as a day allows.'), ('WORKSPACE_LIMIT', 'The workspace sent as many as a day allows.')], db_default='', max_length=15)),
                ('counted_at', models.DateTimeField(editable=False, null=True)),
                ('provider_reference', models.CharField(db_default='', max_length=100)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('sent_at', models.DateTimeField(editable=False, null=True)),
                ('workspace', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='notifications', to='workspaces.workspace')),
                ('report_id', models.UUIDField(editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Block',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('channel', models.CharField(choices=[('EMAIL', 'E-mail'), ('SMS', 'SMS')], max_length=5)),
                ('address_hash', models.BinaryField()),
                ('reason', models.CharField(choices=[('UNWANTED', 'Does not want messages of this workspace'), ('UNKNOWN', 'Does not know this workspace')], max_length=8)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('lifted_at', models.DateTimeField(editable=False, null=True)),
                ('reviewed_at', models.DateTimeField(editable=False, null=True)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='blocks', to='workspaces.workspace')),
                ('notification', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='blocks', to='notifications.notification')),
            ],
        ),
        migrations.CreateModel(
            name='SandboxAddress',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('channel', models.CharField(choices=[('EMAIL', 'E-mail'), ('SMS', 'SMS')], max_length=5)),
                ('address', verification.db.encryption.EncryptedJSONField()),
                ('address_hash', models.BinaryField()),
                ('code_hash', models.BinaryField(null=True)),
                ('wrong_codes', models.PositiveSmallIntegerField(db_default=0)),
                ('confirmed_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='sandbox_addresses', to='workspaces.workspace')),
            ],
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('next_attempt_at__isnull', False)), fields=['next_attempt_at'], name='notifications_due'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('status', 'FAILED')), fields=['id'], name='notifications_failed'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('sandbox', True)), fields=['workspace', '-id'], name='notifications_mailbox'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('recipient__isnull', False)), fields=['created_at'], name='notifications_with_recipient'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('report_id__isnull', False)), fields=['report_id'], name='notifications_of_a_report'),
        ),
        migrations.AddConstraint(
            model_name='notification',
            constraint=models.UniqueConstraint(fields=('cause', 'channel'), name='one_notification_a_cause'),
        ),
        migrations.AddConstraint(
            model_name='notification',
            constraint=models.CheckConstraint(condition=models.Q(('status', 'PENDING'), ('next_attempt_at', None), _connector='XOR'), name='notifications_wait_until_they_end'),
        ),
        migrations.AddConstraint(
            model_name='notification',
            constraint=models.CheckConstraint(condition=models.Q(('leased_until', None), ('next_attempt_at__isnull', False), _connector='OR'), name='ended_notifications_are_not_leased'),
        ),
        migrations.AddConstraint(
            model_name='notification',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('context__isnull', False), ('recipient__isnull', False)), ('next_attempt_at', None), _connector='OR'), name='waiting_notifications_can_be_written'),
        ),
        migrations.AddConstraint(
            model_name='notification',
            constraint=models.CheckConstraint(condition=models.Q(('status', 'SENT'), ('sent_at', None), _connector='XOR'), name='sent_at_iff_sent'),
        ),
        migrations.AddIndex(
            model_name='block',
            index=models.Index(condition=models.Q(('lifted_at', None), ('reason', 'UNKNOWN'), ('reviewed_at', None)), fields=['id'], name='blocks_to_review'),
        ),
        migrations.AddConstraint(
            model_name='block',
            constraint=models.UniqueConstraint(condition=models.Q(('lifted_at', None)), fields=('workspace', 'address_hash'), name='one_block_an_address'),
        ),
        migrations.AddConstraint(
            model_name='sandboxaddress',
            constraint=models.UniqueConstraint(fields=('workspace', 'address_hash'), name='one_sandbox_address'),
        ),
        migrations.AddConstraint(
            model_name='sandboxaddress',
            constraint=models.CheckConstraint(condition=models.Q(('code_hash', None), ('confirmed_at', None), _connector='XOR'), name='sandbox_addresses_wait_for_a_code_or_are_confirmed'),
        ),
        migrations.RunSQL(FORGET, KEEP),
    ]
