from verification.db.triggers import append_only
from typing import Any
from verification.backoffice.models import fingerprints
import django.contrib.postgres.fields
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from django.db import migrations, models


def record(apps: Any, schema_editor: Any) -> None:
    """The tables are written with the key that this installation has."""
    rows = apps.get_model("backoffice", "LookupKey").objects
    made = fingerprints()
    rows.create(id=len(made), fingerprint=made[-1])


def forget(apps: Any, schema_editor: Any) -> None:
    apps.get_model("backoffice", "LookupKey").objects.all().delete()


class Migration(migrations.Migration):

    replaces = [('backoffice', '0001_initial'), ('backoffice', '0002_triggers'), ('backoffice', '0003_lookup_key'), ('backoffice', '0004_key_probe')]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='KeyProbe',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('value', verification.db.encryption.EncryptedJSONField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='LookupKey',
            fields=[
                ('id', models.PositiveSmallIntegerField(editable=False, primary_key=True, serialize=False)),
                ('fingerprint', models.BinaryField()),
                ('since', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('ends_links', models.BooleanField(default=False, editable=False)),
            ],
            options={
                'ordering': ['pk'],
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='AuditEvent',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('actor_kind', models.CharField(choices=[('STAFF', 'Staff'), ('MEMBER', 'Member of a workspace'), ('SERVICE', 'The service itself')], max_length=7)),
                ('actor', models.CharField(max_length=150)),
                ('action', models.CharField(max_length=60)),
                ('object_type', models.CharField(max_length=60)),
                ('object_id', models.CharField(max_length=64)),
                ('workspace_id', models.UUIDField(null=True)),
                ('fields', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), default=list, size=None)),
                ('reason', models.CharField(blank=True, max_length=500)),
                ('request_id', models.CharField(blank=True, max_length=128)),
                ('address', verification.db.encryption.EncryptedJSONField(null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
            ],
            options={
                'permissions': [('reveal_personal', 'Can reveal personal data, with a reason')],
                'default_permissions': ('view',),
                'indexes': [models.Index(models.OrderBy(models.F('created_at'), descending=True), name='audit_by_time'), models.Index(models.F('actor'), models.OrderBy(models.F('created_at'), descending=True), name='audit_of_an_actor'), models.Index(models.F('object_id'), models.OrderBy(models.F('created_at'), descending=True), name='audit_of_an_object'), models.Index(models.F('action'), models.OrderBy(models.F('created_at'), descending=True), name='audit_of_an_action'), models.Index(models.F('workspace_id'), models.OrderBy(models.F('created_at'), descending=True), condition=models.Q(('workspace_id__isnull', False)), name='audit_of_a_workspace')],
            },
        ),
        append_only("backoffice_auditevent"),
        migrations.RunPython(record, forget),
    ]
