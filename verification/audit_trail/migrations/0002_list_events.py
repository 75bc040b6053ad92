from django.db import migrations

CREATE = """
CREATE FUNCTION audit_trail_list_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_trail_unsealedevent (event_id) VALUES (NEW.id)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_trail_list_event AFTER INSERT ON backoffice_auditevent
    FOR EACH ROW EXECUTE FUNCTION audit_trail_list_event();
"""
DROP = """
DROP TRIGGER audit_trail_list_event ON backoffice_auditevent;
DROP FUNCTION audit_trail_list_event;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("audit_trail", "0001_initial"),
        ("backoffice", "0005_actor_key"),
    ]

    operations = [migrations.RunSQL(CREATE, DROP)]
