from verification.db.triggers import append_only, append_only_except
import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.expressions
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
import workspaces.models
from decimal import Decimal
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('workspaces', '0001_initial'), ('workspaces', '0002_database_rules'), ('workspaces', '0003_workspace_sandbox_retention_days'), ('workspaces', '0004_retention_limits'), ('workspaces', '0005_scope_to_erase')]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Account',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('billing', models.CharField(choices=[('PREPAID', 'Prepaid: refused when balance and credit are used up'), ('POSTPAID', 'Postpaid: pays afterwards what it has used'), ('PLAY', 'Play money of the sandbox')], max_length=8)),
                ('currency', models.CharField(default='KES', max_length=3)),
                ('balance', models.DecimalField(decimal_places=2, default=Decimal('0'), max_digits=14)),
                ('credit_limit', models.DecimalField(decimal_places=2, default=Decimal('0'), max_digits=14)),
                ('ceiling', models.DecimalField(blank=True, decimal_places=2, help_text='How much a postpaid workspace may owe; empty for any amount.', max_digits=14, null=True)),
                ('taken_back', models.DecimalField(decimal_places=2, default=Decimal('0'), editable=False, max_digits=14)),
                ('low_balance_at', models.DecimalField(blank=True, decimal_places=2, default=Decimal('1000'), help_text='When balance and credit are no more than this; empty for never.', max_digits=14, null=True, verbose_name='low-balance alert at')),
                ('low_balance_notified_at', models.DateTimeField(editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='RateCount',
            fields=[
                ('pk', models.CompositePrimaryKey('subject', 'minute', blank=True, editable=False, primary_key=True, serialize=False)),
                ('subject', models.CharField(max_length=100)),
                ('minute', models.DateTimeField()),
                ('count', models.PositiveIntegerField(default=1)),
            ],
        ),
        migrations.CreateModel(
            name='StaffEntry',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('TOP_UP', 'Top Up'), ('ADJUSTMENT', 'Adjustment')], max_length=10)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=14)),
                ('note', models.CharField(blank=True, max_length=200)),
                ('status', models.CharField(choices=[('REQUESTED', 'Waits for a second person'), ('REJECTED', 'Rejected'), ('BOOKED', 'Booked')], max_length=9)),
                ('needs_second', models.BooleanField(default=False)),
                ('requested_by', models.CharField(max_length=100)),
                ('requested_by_user', models.BigIntegerField()),
                ('decided_by', models.CharField(blank=True, max_length=100)),
                ('decided_by_user', models.BigIntegerField(null=True)),
                ('decided_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('account', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='staff_entries', to='workspaces.account')),
            ],
            options={
                'verbose_name_plural': 'staff entries',
            },
        ),
        migrations.CreateModel(
            name='LedgerEntry',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('CHARGE', 'Charge'), ('REVERSAL', 'Reversal'), ('TOP_UP', 'Top Up'), ('ADJUSTMENT', 'Adjustment')], max_length=10)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=14)),
                ('report_id', models.UUIDField(null=True)),
                ('result_id', models.UUIDField(null=True)),
                ('attempt', models.PositiveSmallIntegerField(null=True)),
                ('checkout_id', models.UUIDField(null=True)),
                ('note', models.CharField(blank=True, max_length=200)),
                ('actor', models.CharField(max_length=100)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='entries', to='workspaces.account')),
                ('staff_entry', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='entries', to='workspaces.staffentry')),
            ],
            options={
                'verbose_name_plural': 'ledger entries',
            },
        ),
        migrations.CreateModel(
            name='Workspace',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('legal_name', models.CharField(blank=True, max_length=200)),
                ('trading_name', models.CharField(blank=True, max_length=200)),
                ('kind', models.CharField(choices=[('INDIVIDUAL', 'Individual'), ('BUSINESS', 'Business')], default='BUSINESS', max_length=10)),
                ('owner_email', verification.db.encryption.EncryptedJSONField()),
                ('contact', verification.db.encryption.EncryptedJSONField()),
                ('go_live', models.CharField(choices=[('NONE', 'None'), ('SUBMITTED', 'Submitted'), ('IN_REVIEW', 'In Review'), ('APPROVED', 'Approved'), ('REJECTED', 'Rejected')], default='NONE', max_length=10)),
                ('retention_days', models.PositiveIntegerField(db_default=365, default=365, help_text='Days that reports are kept after their end.', validators=[django.core.validators.MinValueValidator(7), django.core.validators.MaxValueValidator(3650)])),
                ('messages_per_day', models.PositiveIntegerField(blank=True, help_text='Requests to people in a day; empty: as the service allows.', null=True)),
                ('suspended_at', models.DateTimeField(blank=True, null=True)),
                ('suspension_reason', models.CharField(blank=True, max_length=500)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('sandbox_retention_days', models.PositiveIntegerField(db_default=365, default=365, help_text='Days that reports are kept after their end.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3650)])),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('suspended_at__isnull', True), ('suspension_reason', '')), models.Q(('suspended_at__isnull', False), models.Q(('suspension_reason', ''), _negated=True)), _connector='OR'), name='a_suspension_says_why'), models.CheckConstraint(condition=models.Q(models.Q(models.Q(('name', models.F('legal_name')), ('name', models.F('trading_name')), _connector='OR'), models.Q(('legal_name', ''), _negated=True), ('go_live', 'APPROVED')), models.Q(('legal_name', ''), ('trading_name', ''), models.Q(('go_live', 'APPROVED'), _negated=True)), _connector='OR'), name='only_approved_workspaces_have_reviewed_names'), models.CheckConstraint(condition=models.Q(('retention_days__range', (7, 3650)), ('sandbox_retention_days__range', (1, 3650))), name='retention_has_limits')],
            },
        ),
        migrations.CreateModel(
            name='RetentionTerm',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('days', models.PositiveIntegerField()),
                ('ended_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='retention_terms', to='workspaces.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Note',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('text', verification.db.encryption.EncryptedJSONField(null=True)),
                ('author', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='notes', to='workspaces.workspace')),
            ],
            options={
                'default_permissions': ('add', 'view'),
            },
        ),
        migrations.CreateModel(
            name='Member',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('role', models.CharField(choices=[('OWNER', 'Owner'), ('ADMIN', 'Administrator'), ('VIEWER', 'Viewer')], max_length=6)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='members', to='workspaces.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('email', verification.db.encryption.EncryptedJSONField(null=True)),
                ('email_hash', models.BinaryField(db_index=True)),
                ('role', models.CharField(choices=[('OWNER', 'Owner'), ('ADMIN', 'Administrator'), ('VIEWER', 'Viewer')], max_length=6)),
                ('token_digest', models.BinaryField(unique=True)),
                ('expires_at', models.DateTimeField()),
                ('accepted_at', models.DateTimeField(editable=False, null=True)),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('invited_by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='invitations', to='workspaces.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('environment', models.CharField(choices=[('sandbox', 'Sandbox'), ('production', 'Production')], max_length=10)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('reports:create', 'Reports Create'), ('reports:read', 'Reports Read'), ('monitoring:write', 'Monitoring Write'), ('monitoring:read', 'Monitoring Read'), ('webhooks:manage', 'Webhooks Manage'), ('subjects:erase', 'Subjects Erase')], max_length=30), default=workspaces.models.default_scopes, size=None)),
                ('digest', models.BinaryField(unique=True)),
                ('first_characters', models.CharField(max_length=12)),
                ('last_characters', models.CharField(max_length=4)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('last_used_address_hash', models.BinaryField(null=True)),
                ('creates_per_minute', models.PositiveIntegerField(default=600)),
                ('requests_per_minute', models.PositiveIntegerField(default=3000)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='api_keys', to='workspaces.workspace')),
            ],
        ),
        migrations.AddField(
            model_name='account',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='accounts', to='workspaces.workspace'),
        ),
        migrations.AddIndex(
            model_name='staffentry',
            index=models.Index(condition=models.Q(('status', 'REQUESTED')), fields=['id'], name='staff_entries_to_decide'),
        ),
        migrations.AddConstraint(
            model_name='staffentry',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('amount__gt', 0), ('kind', 'TOP_UP')), models.Q(('kind', 'ADJUSTMENT'), models.Q(('amount', 0), _negated=True), models.Q(('note', ''), _negated=True)), _connector='OR'), name='staff_top_up_or_say_why_they_adjust'),
        ),
        migrations.AddConstraint(
            model_name='staffentry',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('needs_second', False), ('status', 'BOOKED')), models.Q(('needs_second', True), ('status__in', ['REQUESTED', 'REJECTED'])), models.Q(models.Q(('decided_by_user__isnull', False), ('needs_second', True)), models.Q(('decided_by_user', models.F('requested_by_user')), _negated=True)), _connector='OR'), name='large_staff_entries_are_decided_by_another'),
        ),
        migrations.AddConstraint(
            model_name='staffentry',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_at', None), ('decided_by_user', None)), models.Q(('decided_at__isnull', False), ('decided_by_user__isnull', False)), _connector='OR'), name='staff_entry_decided_at_iff_decided'),
        ),
        migrations.AddIndex(
            model_name='ledgerentry',
            index=models.Index(fields=['account', '-created_at', '-id'], name='statement'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.UniqueConstraint(condition=models.Q(('result_id__isnull', False)), fields=('result_id', 'attempt', 'kind'), name='a_result_is_charged_and_reversed_once_an_attempt'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.UniqueConstraint(condition=models.Q(('checkout_id__isnull', False), ('kind', 'TOP_UP')), fields=('checkout_id',), name='a_checkout_tops_up_once'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.UniqueConstraint(condition=models.Q(('staff_entry__isnull', False)), fields=('staff_entry',), name='a_staff_entry_is_booked_once'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('amount__lt', 0), ('kind', 'CHARGE')), models.Q(('amount__gt', 0), ('kind__in', ['REVERSAL', 'TOP_UP'])), ('kind', 'ADJUSTMENT'), _connector='OR'), name='charges_take_and_reversals_give'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['TOP_UP', 'ADJUSTMENT']), models.Q(('attempt__isnull', False), ('result_id__isnull', False)), _connector='OR'), name='charges_and_reversals_name_their_result'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.CheckConstraint(condition=models.Q(('checkout_id__isnull', True), ('kind__in', ['TOP_UP', 'ADJUSTMENT']), _connector='OR'), name='only_top_ups_and_adjustments_name_a_checkout'),
        ),
        migrations.AddConstraint(
            model_name='ledgerentry',
            constraint=models.CheckConstraint(condition=models.Q(('staff_entry', None), ('kind__in', ['TOP_UP', 'ADJUSTMENT']), _connector='OR'), name='only_top_ups_and_adjustments_are_by_staff'),
        ),
        migrations.AddConstraint(
            model_name='member',
            constraint=models.UniqueConstraint(fields=('workspace', 'user'), name='one_membership_a_person'),
        ),
        migrations.AddConstraint(
            model_name='member',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['OWNER', 'ADMIN', 'VIEWER'])), name='members_have_a_known_role'),
        ),
        migrations.AddConstraint(
            model_name='invitation',
            constraint=models.CheckConstraint(condition=models.Q(('accepted_at', None), ('revoked_at', None), _connector='OR'), name='invitations_end_once'),
        ),
        migrations.AddConstraint(
            model_name='invitation',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['OWNER', 'ADMIN', 'VIEWER'])), name='invitations_offer_a_known_role'),
        ),
        migrations.AddConstraint(
            model_name='invitation',
            constraint=models.UniqueConstraint(condition=models.Q(('accepted_at', None), ('revoked_at', None)), fields=('workspace', 'email_hash'), name='one_open_invitation_an_address'),
        ),
        migrations.AddConstraint(
            model_name='account',
            constraint=models.UniqueConstraint(fields=('workspace', 'environment'), name='one_account_an_environment'),
        ),
        migrations.AddConstraint(
            model_name='account',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('billing', 'PREPAID'), _negated=True), ('balance__gte', django.db.models.expressions.CombinedExpression(django.db.models.expressions.CombinedExpression(models.F('credit_limit'), '*', models.Value(-1)), '-', models.F('taken_back'))), _connector='OR'), name='prepaid_is_never_overdrawn'),
        ),
        migrations.AddConstraint(
            model_name='account',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('billing', 'POSTPAID'), _negated=True), ('ceiling__isnull', True), ('balance__gte', django.db.models.expressions.CombinedExpression(django.db.models.expressions.CombinedExpression(models.F('ceiling'), '*', models.Value(-1)), '-', models.F('taken_back'))), _connector='OR'), name='postpaid_stays_below_its_ceiling'),
        ),
        migrations.AddConstraint(
            model_name='account',
            constraint=models.CheckConstraint(condition=models.Q(('taken_back__gte', 0)), name='taken_back_is_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='account',
            constraint=models.CheckConstraint(condition=models.Q(('ceiling__isnull', True), ('ceiling__gte', 0), _connector='OR'), name='ceiling_is_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='account',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('billing', 'PLAY'), ('environment', 'sandbox')), models.Q(models.Q(('billing', 'PLAY'), _negated=True), ('environment', 'production')), _connector='OR'), name='play_money_is_for_the_sandbox'),
        ),
        migrations.AddConstraint(
            model_name='account',
            constraint=models.CheckConstraint(condition=models.Q(('credit_limit__gte', 0)), name='credit_limit_is_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='account',
            constraint=models.CheckConstraint(condition=models.Q(('low_balance_at__isnull', True), ('low_balance_at__gte', 0), _connector='OR'), name='low_balance_is_not_negative'),
        ),
        append_only("workspaces_ledgerentry"),
        append_only_except("workspaces_note", "text"),
        # Counts of the running minute are not worth a write-ahead log.
        migrations.RunSQL(
            "ALTER TABLE workspaces_ratecount SET UNLOGGED",
            "ALTER TABLE workspaces_ratecount SET LOGGED",
        ),
        migrations.RunSQL(
            """
            CREATE FUNCTION workspaces_account_overdraft() RETURNS trigger
            LANGUAGE plpgsql AS $$
            DECLARE
                rule text := CASE NEW.billing
                    WHEN 'PREPAID' THEN 'prepaid_is_never_overdrawn'
                    ELSE 'postpaid_stays_below_its_ceiling'
                END;
            BEGIN
                RAISE EXCEPTION 'account % breaks %', NEW.id, rule
                    USING ERRCODE = 'check_violation', CONSTRAINT = rule;
            END $$;
            CREATE TRIGGER workspaces_account_overdraft
                BEFORE UPDATE OF balance ON workspaces_account FOR EACH ROW
                WHEN (
                    NEW.balance + NEW.taken_back < OLD.balance + OLD.taken_back
                    AND NEW.balance < -CASE NEW.billing
                        WHEN 'PREPAID' THEN NEW.credit_limit
                        WHEN 'POSTPAID' THEN NEW.ceiling
                    END
                ) EXECUTE FUNCTION workspaces_account_overdraft();
            """,
            """
            DROP TRIGGER workspaces_account_overdraft ON workspaces_account;
            DROP FUNCTION workspaces_account_overdraft;
            """,
        ),
    ]
