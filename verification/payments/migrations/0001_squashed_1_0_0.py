import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.functions.math
import django.db.models.functions.text
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from decimal import Decimal
from django.db import migrations, models


KEEP = """
CREATE TRIGGER keep_changed_link AFTER UPDATE OF token_digest ON payments_payment
FOR EACH ROW WHEN (OLD.token_digest IS DISTINCT FROM NEW.token_digest
    AND OLD.token_digest IS NOT NULL)
EXECUTE FUNCTION keep_retired_link('payment');
CREATE TRIGGER keep_link_of_deleted AFTER DELETE ON payments_payment
FOR EACH ROW WHEN (OLD.token_digest IS NOT NULL)
EXECUTE FUNCTION keep_retired_link('payment');
"""
KEEP_NO_MORE = """
DROP TRIGGER keep_changed_link ON payments_payment;
DROP TRIGGER keep_link_of_deleted ON payments_payment;
"""


class Migration(migrations.Migration):

    replaces = [('payments', '0001_initial'), ('payments', '0002_triggers'), ('payments', '0003_ledger_audit')]

    initial = True

    dependencies = [
        ('consents', '0001_squashed_1_0_0'),
        ('reports', '0001_squashed_1_0_0'),
        ('workspaces', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='LedgerAudit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('differences', models.PositiveIntegerField()),
                ('made_at', models.DateTimeField(db_index=True, default=verification.values.clock.now, editable=False)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='ReconciliationProgress',
            fields=[
                ('provider', models.CharField(max_length=20, primary_key=True, serialize=False)),
                ('day', models.DateField()),
            ],
        ),
        migrations.CreateModel(
            name='SandboxCheckout',
            fields=[
                ('reference', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('state', models.CharField(default='OPEN', max_length=9)),
                ('failure', models.CharField(blank=True, max_length=11)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=12)),
                ('currency', models.CharField(max_length=3)),
                ('description', models.CharField(max_length=200)),
                ('return_url', models.TextField()),
                ('cancel_url', models.TextField()),
                ('paid_amount', models.DecimalField(decimal_places=2, max_digits=12, null=True)),
                ('refunds', models.JSONField(default=dict)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('paid_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Checkout',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('payment_id', models.UUIDField(null=True)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('provider', models.CharField(max_length=20)),
                ('kind', models.CharField(choices=[('PAGE', "On the provider's page"), ('PROMPT', "By an M-Pesa prompt on the payer's phone")], default='PAGE', max_length=6)),
                ('status', models.CharField(choices=[('OPEN', 'Open'), ('PAID', 'Paid'), ('REVERSED', 'Reversed'), ('FAILED', 'Failed'), ('CANCELLED', 'Cancelled'), ('EXPIRED', 'Expired')], default='OPEN', max_length=9)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=12)),
                ('currency', models.CharField(max_length=3)),
                ('url', models.TextField(blank=True)),
                ('session', models.CharField(blank=True, max_length=255)),
                ('phone', verification.db.encryption.EncryptedJSONField(null=True)),
                ('failure', models.CharField(blank=True, max_length=11)),
                ('paid_amount', models.DecimalField(decimal_places=2, max_digits=12, null=True)),
                ('paid_currency', models.CharField(blank=True, max_length=3)),
                ('transaction', models.CharField(blank=True, max_length=255)),
                ('receipt', verification.db.encryption.EncryptedJSONField(null=True)),
                ('is_counted', models.BooleanField(default=False)),
                ('counted_amount', models.DecimalField(decimal_places=2, default=Decimal('0'), max_digits=12)),
                ('is_part', models.BooleanField(default=False)),
                ('refunded', models.DecimalField(decimal_places=2, default=Decimal('0'), max_digits=12)),
                ('disputed', models.DecimalField(decimal_places=2, default=Decimal('0'), editable=False, max_digits=12)),
                ('refunded_elsewhere', models.DecimalField(decimal_places=2, default=Decimal('0'), editable=False, max_digits=12)),
                ('review_flags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('OTHER_CURRENCY', 'Paid in another currency than requested'), ('CONTRADICTED', 'The provider no longer reports it as paid'), ('DISPUTED', 'The payer disputes it at their bank'), ('DISPUTE_LOST', 'A dispute was lost: the bank took the money back'), ('FRAUD_WARNING', "The payer's bank suspects fraud"), ('REFUND_FAILED', 'A refund has failed'), ('REFUND_STUCK', 'A refund waits for a person, or for days'), ('REFUNDED_ELSEWHERE', 'Refunded at the provider, not by us'), ('PAYS_NOTHING', 'It holds money that pays for nothing'), ('BOOKS_DIFFER', "The provider's books differ")], max_length=20), blank=True, default=list, size=None)),
                ('accounted_at', models.DateTimeField(editable=False, null=True)),
                ('reason_to_keep', models.CharField(blank=True, max_length=500)),
                ('message', models.CharField(blank=True, max_length=200)),
                ('started_by', models.CharField(max_length=100)),
                ('language', models.CharField(blank=True, max_length=2)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('paid_at', models.DateTimeField(null=True)),
                ('next_poll_at', models.DateTimeField(null=True)),
                ('polled_at', models.DateTimeField(editable=False, null=True)),
                ('unanswered', models.PositiveSmallIntegerField(default=0)),
                ('account', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='checkouts', to='workspaces.account')),
                ('report', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='checkouts', to='reports.report')),
            ],
        ),
        migrations.CreateModel(
            name='Dispute',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('provider_dispute', models.CharField(max_length=255)),
                ('status', models.CharField(choices=[('OPEN', 'Open'), ('WON', 'Won'), ('LOST', 'Lost: the money is gone')], max_length=4)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=12)),
                ('held_amount', models.DecimalField(decimal_places=2, default=Decimal('0'), max_digits=12)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('ended_at', models.DateTimeField(null=True)),
                ('checkout', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='disputes', to='payments.checkout')),
            ],
        ),
        migrations.CreateModel(
            name='OperatorAlert',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('UNOPENED', 'Checkout not opened'), ('REFUND', 'Refund needs a person'), ('REVIEW', 'Payment to review'), ('BOOKS', 'Books differ'), ('UNREAD', 'Books not read'), ('SIGNATURE', 'Signatures refused'), ('ACCESS', 'Access refused'), ('LEDGER', 'Ledger does not add up')], max_length=9)),
                ('cause', models.CharField(max_length=150, unique=True)),
                ('message', models.CharField(max_length=300)),
                ('times', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('notified_at', models.DateTimeField(editable=False, null=True)),
                ('checkout', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='operator_alerts', to='payments.checkout')),
            ],
        ),
        migrations.CreateModel(
            name='Payment',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('NOT_REQUIRED', 'Not Required'), ('PENDING', 'Pending'), ('PAID', 'Paid'), ('FAILED', 'The last attempt failed'), ('EXPIRED', 'Expired'), ('REFUNDED', 'Refunded'), ('CANCELLED', 'Cancelled')], max_length=12)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=10)),
                ('currency', models.CharField(default='KES', max_length=3)),
                ('payer', verification.db.encryption.EncryptedJSONField(null=True)),
                ('generation', models.PositiveIntegerField(default=1)),
                ('token_digest', models.BinaryField(null=True, unique=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('link_made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('reminded_at', models.DateTimeField(editable=False, null=True)),
                ('link_requested_at', models.DateTimeField(editable=False, null=True)),
                ('paid_at', models.DateTimeField(null=True)),
                ('report', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='payment', to='reports.report')),
            ],
        ),
        migrations.CreateModel(
            name='PaymentEvent',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('provider', models.CharField(max_length=20)),
                ('event_id', models.CharField(max_length=255)),
                ('type', models.CharField(max_length=100)),
                ('body_sha256', models.BinaryField()),
                ('body', verification.db.encryption.EncryptedJSONField(null=True)),
                ('received_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('checkout', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='events', to='payments.checkout')),
            ],
        ),
        migrations.CreateModel(
            name='Refund',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=12)),
                ('cause', models.CharField(choices=[('STAFF', 'Decided by staff'), ('PAID_TWICE', 'The payment was paid already'), ('NOT_ASKED', 'The report no longer asks for this payment'), ('OVERPAID', 'More was paid than requested'), ('SHORT', 'Less was paid than requested, and the rest did not come'), ('NOT_DONE', 'Checks that it paid for were not done'), ('ELSEWHERE', 'Refunded at the provider, and recorded by staff')], max_length=10)),
                ('reason', models.CharField(max_length=300)),
                ('status', models.CharField(choices=[('REQUESTED', 'Waits for a second person'), ('REJECTED', 'Rejected'), ('APPROVED', 'Approved'), ('DONE', 'Done'), ('FAILED', 'Failed')], max_length=9)),
                ('requested_by', models.CharField(max_length=100)),
                ('requested_by_user', models.BigIntegerField(null=True)),
                ('decided_by_user', models.BigIntegerField(null=True)),
                ('needs_second', models.BooleanField(default=False)),
                ('decided_by', models.CharField(blank=True, max_length=100)),
                ('decided_at', models.DateTimeField(null=True)),
                ('provider_refund', models.CharField(blank=True, max_length=255)),
                ('message', models.CharField(blank=True, max_length=200)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('stuck_at', models.DateTimeField(editable=False, null=True)),
                ('next_try_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('ended_at', models.DateTimeField(null=True)),
                ('checkout', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='refunds', to='payments.checkout')),
            ],
        ),
        migrations.AddIndex(
            model_name='checkout',
            index=models.Index(condition=models.Q(('next_poll_at__isnull', False)), fields=['next_poll_at'], name='checkouts_to_poll'),
        ),
        migrations.AddIndex(
            model_name='checkout',
            index=models.Index(condition=models.Q(('payment_id__isnull', False)), fields=['payment_id', '-id'], name='checkouts_of_a_payment'),
        ),
        migrations.AddIndex(
            model_name='checkout',
            index=models.Index(condition=models.Q(models.Q(('is_counted', True), ('is_part', True), _connector='OR'), ('accounted_at', None), ('payment_id__isnull', False)), fields=['id'], name='checkouts_to_account_for'),
        ),
        migrations.AddIndex(
            model_name='checkout',
            index=models.Index(condition=models.Q(('phone__isnull', False)), fields=['created_at'], name='checkout_phones'),
        ),
        migrations.AddIndex(
            model_name='checkout',
            index=models.Index(condition=models.Q(('review_flags', []), _negated=True), fields=['id'], name='review_flags'),
        ),
        migrations.AddIndex(
            model_name='checkout',
            index=models.Index(condition=models.Q(('transaction', ''), _negated=True), fields=['provider', 'transaction'], name='checkouts_by_transaction'),
        ),
        migrations.AddIndex(
            model_name='checkout',
            index=models.Index(condition=models.Q(('paid_at__isnull', False)), fields=['paid_at'], name='checkouts_paid'),
        ),
        migrations.AddIndex(
            model_name='checkout',
            index=models.Index(django.db.models.functions.text.Right(django.db.models.functions.comparison.Cast('id', models.TextField()), 12), name='checkouts_by_number'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('account', None), ('payment_id__isnull', False), ('report__isnull', False)), models.Q(('account__isnull', False), ('payment_id', None), ('report', None)), _connector='OR'), name='a_checkout_is_for_a_report_or_an_account'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('environment', 'sandbox'), ('provider', 'sandbox')), models.Q(models.Q(('provider', 'sandbox'), _negated=True), ('environment', 'production')), _connector='OR'), name='play_money_is_paid_in_the_sandbox'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('failure', ''), ('kind', 'PAGE'), ('phone__isnull', True)), models.Q(('amount', django.db.models.functions.math.Floor('amount')), ('currency', 'KES'), ('kind', 'PROMPT'), ('payment_id__isnull', False), ('url', '')), _connector='OR'), name='a_prompt_asks_a_payer_for_whole_shillings'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='checkout_amount_is_positive'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('paid_amount__isnull', False), ('paid_at__isnull', False), ('status', 'PAID')), models.Q(models.Q(('status', 'PAID'), _negated=True), ('paid_amount', None), ('paid_at', None)), _connector='OR'), name='paid_checkout_has_amount_and_time'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('counted_amount', 0), ('is_counted', False)), models.Q(('counted_amount__gt', 0), ('counted_amount__lte', models.F('paid_amount')), ('is_counted', True), ('paid_currency', models.F('currency')), ('status', 'PAID')), _connector='OR'), name='counted_amount_was_paid'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.CheckConstraint(condition=models.Q(('is_part', False), models.Q(('paid_currency', models.F('currency')), ('status', 'PAID'), models.Q(('is_counted', True), models.Q(('disputed', 0), ('refunded', 0)), _connector='OR')), _connector='OR'), name='waiting_part_is_not_refunded'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('disputed', 0), ('refunded', 0)), models.Q(('disputed__gte', 0), ('refunded__gte', 0), ('refunded__lte', django.db.models.expressions.CombinedExpression(models.F('paid_amount'), '-', models.F('disputed')))), _connector='OR'), name='paid_amount_covers_refunds'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.UniqueConstraint(condition=models.Q(('is_counted', True), ('is_part', False), ('payment_id__isnull', False)), fields=('payment_id',), name='a_payment_is_paid_once'),
        ),
        migrations.AddConstraint(
            model_name='checkout',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'PROMPT'), ('status', 'OPEN')), fields=('payment_id',), name='payment_has_one_open_prompt'),
        ),
        migrations.AddIndex(
            model_name='dispute',
            index=models.Index(condition=models.Q(('status', 'OPEN')), fields=['id'], name='disputes_open'),
        ),
        migrations.AddConstraint(
            model_name='dispute',
            constraint=models.UniqueConstraint(fields=('checkout', 'provider_dispute'), name='a_dispute_is_recorded_once'),
        ),
        migrations.AddConstraint(
            model_name='dispute',
            constraint=models.CheckConstraint(condition=models.Q(('held_amount__gte', 0), ('held_amount__lte', models.F('amount'))), name='dispute_holds_at_most_its_amount'),
        ),
        migrations.AddConstraint(
            model_name='dispute',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'WON'), _negated=True), ('held_amount', 0), _connector='OR'), name='won_dispute_holds_nothing'),
        ),
        migrations.AddConstraint(
            model_name='dispute',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at', None), ('status', 'OPEN')), models.Q(models.Q(('status', 'OPEN'), _negated=True), ('ended_at__isnull', False)), _connector='OR'), name='dispute_ended_at_iff_ended'),
        ),
        migrations.AddIndex(
            model_name='operatoralert',
            index=models.Index(condition=models.Q(('notified_at', None)), fields=['id'], name='operator_alerts_to_send'),
        ),
        migrations.AddIndex(
            model_name='operatoralert',
            index=models.Index(fields=['created_at'], name='operator_alerts_by_time'),
        ),
        migrations.AddIndex(
            model_name='payment',
            index=models.Index(condition=models.Q(('status__in', ['PENDING', 'FAILED'])), fields=['expires_at'], name='payments_waiting'),
        ),
        migrations.AddConstraint(
            model_name='payment',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('paid_at__isnull', False), ('status__in', ['PAID', 'REFUNDED'])), models.Q(models.Q(('status__in', ['PAID', 'REFUNDED']), _negated=True), ('paid_at', None)), _connector='OR'), name='paid_at_iff_paid'),
        ),
        migrations.AddConstraint(
            model_name='payment',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 0)), name='payment_amount_is_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='payment',
            constraint=models.CheckConstraint(condition=models.Q(('status', 'NOT_REQUIRED'), models.Q(('expires_at__isnull', False), ('token_digest__isnull', False)), _connector='OR'), name='payment_has_a_link_unless_free'),
        ),
        migrations.AddIndex(
            model_name='paymentevent',
            index=models.Index(condition=models.Q(('body__isnull', False)), fields=['received_at'], name='payment_events_with_body'),
        ),
        migrations.AddConstraint(
            model_name='paymentevent',
            constraint=models.UniqueConstraint(fields=('provider', 'event_id'), name='payment_event_is_stored_once'),
        ),
        migrations.AddIndex(
            model_name='refund',
            index=models.Index(condition=models.Q(('next_try_at__isnull', False)), fields=['next_try_at'], name='refunds_to_try'),
        ),
        migrations.AddIndex(
            model_name='refund',
            index=models.Index(condition=models.Q(('status', 'REQUESTED')), fields=['id'], name='refunds_to_decide'),
        ),
        migrations.AddIndex(
            model_name='refund',
            index=models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='refunds_ended'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='refund_amount_is_positive'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('next_try_at__isnull', False), ('status', 'APPROVED')), models.Q(models.Q(('status', 'APPROVED'), _negated=True), ('next_try_at', None)), _connector='OR'), name='refunds_are_tried_while_approved'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('status__in', ['REJECTED', 'DONE', 'FAILED'])), models.Q(('ended_at', None), ('status__in', ['REQUESTED', 'APPROVED'])), _connector='OR'), name='refund_ended_at_iff_ended'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.CheckConstraint(condition=models.Q(('needs_second', False), ('status__in', ['REQUESTED', 'REJECTED']), models.Q(models.Q(('decided_by_user__isnull', False), ('requested_by_user__isnull', False)), models.Q(('decided_by_user', models.F('requested_by_user')), _negated=True)), _connector='OR'), name='large_refunds_are_decided_by_another'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.UniqueConstraint(condition=models.Q(('cause__in', ['STAFF', 'ELSEWHERE']), _negated=True), fields=('checkout', 'cause'), name='service_refunds_once_for_a_cause'),
        ),
        migrations.AddConstraint(
            model_name='refund',
            constraint=models.UniqueConstraint(condition=models.Q(('provider_refund', ''), _negated=True), fields=('checkout', 'provider_refund'), name='a_refund_of_the_provider_is_recorded_once'),
        ),
        migrations.RunSQL(KEEP, KEEP_NO_MORE),
    ]
