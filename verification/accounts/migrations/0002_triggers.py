from django.db import migrations

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
    dependencies = [("accounts", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
