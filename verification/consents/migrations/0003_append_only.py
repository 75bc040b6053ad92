from django.db import migrations

from verification.db.triggers import append_only_but


class Migration(migrations.Migration):
    dependencies = [("consents", "0002_hosted_consent")]

    operations = [append_only_but("consents_consentrecord", "evidence")]
