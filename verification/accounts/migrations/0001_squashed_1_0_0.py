import django.db.models.deletion
import verification.values.clock
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


# Sessions are signed with the password's hash, so a session that was open when its user
# was deactivated stays ended, however the user was deactivated, and whatever happens to
# `is_active` later. "!" is Django's prefix of a password that nobody can type.
FORWARD = """
CREATE FUNCTION accounts_void_password() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.password := '!' || replace(gen_random_uuid()::text, '-', '');
    RETURN NEW;
END
$$;
CREATE TRIGGER inactive_users_have_no_password
    BEFORE INSERT OR UPDATE OF is_active, password ON auth_user
    FOR EACH ROW WHEN (NOT NEW.is_active AND NEW.password NOT LIKE '!%')
    EXECUTE FUNCTION accounts_void_password();
"""
BACKWARD = """
DROP TRIGGER inactive_users_have_no_password ON auth_user;
DROP FUNCTION accounts_void_password;
"""


class Migration(migrations.Migration):

    replaces = [('accounts', '0001_initial'), ('accounts', '0002_triggers')]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Colleague',
            fields=[
            ],
            options={
                'verbose_name': 'colleague',
                'verbose_name_plural': 'staff',
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('auth.user',),
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('session_key', models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name='session key')),
                ('session_data', models.TextField(verbose_name='session data')),
                ('expire_date', models.DateTimeField(db_index=True, verbose_name='expire date')),
                ('user', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='sessions', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'session',
                'verbose_name_plural': 'sessions',
                'abstract': False,
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='StaffInvitation',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('token_digest', models.BinaryField(unique=True)),
                ('expires_at', models.DateTimeField()),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='staff_invitation', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='StaffRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('FACTOR_REMOVAL', 'Removal of the second factor'), ('PROMOTION', 'Promotion to superuser')], max_length=14)),
                ('requested_by_user', models.BigIntegerField()),
                ('requested_by', models.CharField(max_length=150)),
                ('reason', models.CharField(max_length=500)),
                ('email', models.EmailField(blank=True, max_length=254)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now)),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='staff_requests', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('user', 'kind'), name='one_staff_request_of_a_kind')],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
