from django.db import migrations

from verification.db.encryption import EncryptedJSONField

# Only the documents of an application whose details are erased can be deleted, too.
ERASED = """
CREATE OR REPLACE FUNCTION golive_document_stays() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- Sealing it anew under another key changes nothing of it.
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - 'data_key' - 'name'
        = to_jsonb(OLD) - 'data_key' - 'name'
    THEN RETURN NEW; END IF;
    IF EXISTS (SELECT 1 FROM golive_application WHERE status <> 'DRAFT'
        AND (TG_OP <> 'DELETE' OR details IS NOT NULL)
        AND id IN (NEW.application_id, OLD.application_id))
    THEN
        RAISE EXCEPTION 'documents that were submitted stay' USING ERRCODE = '23001';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
"""


class Migration(migrations.Migration):
    allowed = {
        "ban-drop-not-null": "The first is null a year after the release before this.",
    }

    dependencies = [("golive", "0001_squashed_1_0_0")]

    operations = [
        migrations.AlterField(
            model_name="application",
            name="details",
            field=EncryptedJSONField(null=True),
        ),
        migrations.RunSQL(ERASED, migrations.RunSQL.noop),
    ]
