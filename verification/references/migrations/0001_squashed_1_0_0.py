import django.db.models.deletion
import verification.values.clock
import uuid_utils.compat
import verification.db.encryption
from django.db import migrations, models


KEEP = """
CREATE TRIGGER keep_changed_link AFTER UPDATE OF token_digest ON references_reference
FOR EACH ROW WHEN (OLD.token_digest IS DISTINCT FROM NEW.token_digest)
EXECUTE FUNCTION keep_retired_link('reference');
"""
KEEP_NO_MORE = "DROP TRIGGER keep_changed_link ON references_reference;"


class Migration(migrations.Migration):

    replaces = [('references', '0001_initial'), ('references', '0002_triggers')]

    initial = True

    dependencies = [
        ('consents', '0001_squashed_1_0_0'),
        ('reports', '0001_squashed_1_0_0'),
    ]

    operations = [
        migrations.CreateModel(
            name='Reference',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('result_id', models.UUIDField()),
                ('attempt', models.PositiveSmallIntegerField()),
                ('status', models.CharField(choices=[('PENDING', 'Pending'), ('SUBMITTED', 'Submitted'), ('DECLINED', 'Declined'), ('EXPIRED', 'Expired')], default='PENDING', max_length=9)),
                ('generation', models.PositiveIntegerField(default=1)),
                ('token_digest', models.BinaryField(unique=True)),
                ('expires_at', models.DateTimeField()),
                ('link_made_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('reminded_at', models.DateTimeField(editable=False, null=True)),
                ('answers', verification.db.encryption.EncryptedJSONField(null=True)),
                ('evidence', verification.db.encryption.EncryptedJSONField(null=True)),
                ('submitted_at', models.DateTimeField(editable=False, null=True)),
                ('declined_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(default=verification.values.clock.now, editable=False)),
                ('report', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='references', to='reports.report')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('status', 'PENDING')), fields=['expires_at'], name='references_waiting')],
                'constraints': [models.UniqueConstraint(fields=('result_id', 'attempt'), name='one_reference_an_attempt'), models.CheckConstraint(condition=models.Q(('status', 'SUBMITTED'), ('submitted_at', None), _connector='XOR'), name='reference_submitted_at_iff_submitted'), models.CheckConstraint(condition=models.Q(('status', 'DECLINED'), ('declined_at', None), _connector='XOR'), name='reference_declined_at_iff_declined'), models.CheckConstraint(condition=models.Q(('status', 'SUBMITTED'), ('answers', None), _connector='OR'), name='only_submitted_references_have_answers')],
            },
        ),
        migrations.RunSQL(KEEP, KEEP_NO_MORE),
    ]
