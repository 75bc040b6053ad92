import django.db.models.deletion
import django.utils.timezone
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

import verification.db.encryption


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("reports", "0001_initial"),
        ("workspaces", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Application",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("DRAFT", "Being filled in"),
                            ("SUBMITTED", "Waiting for a review"),
                            ("IN_REVIEW", "In review"),
                            ("APPROVED", "Approved"),
                            ("REJECTED", "Rejected"),
                        ],
                        default="DRAFT",
                        max_length=9,
                    ),
                ),
                ("company_name", models.CharField(max_length=200)),
                ("details", verification.db.encryption.EncryptedJSONField()),
                ("submitted_at", models.DateTimeField(editable=False, null=True)),
                ("taken_at", models.DateTimeField(editable=False, null=True)),
                ("decided_at", models.DateTimeField(editable=False, null=True)),
                ("reason", models.CharField(blank=True, max_length=500)),
                (
                    "created_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False
                    ),
                ),
                (
                    "api_key",
                    models.OneToOneField(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="workspaces.apikey",
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="reports.report",
                    ),
                ),
                (
                    "submitted_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "taken_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="applications",
                        to="workspaces.workspace",
                    ),
                ),
            ],
            options={
                "verbose_name": "go-live application",
                "permissions": [
                    ("decide_application", "Can review go-live applications")
                ],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("status__in", ["SUBMITTED", "IN_REVIEW"])),
                        fields=["id"],
                        name="applications_waiting",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("status", "REJECTED"), _negated=True),
                        fields=("workspace",),
                        name="one_application_at_a_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                [
                                    "DRAFT",
                                    "SUBMITTED",
                                    "IN_REVIEW",
                                    "APPROVED",
                                    "REJECTED",
                                ],
                            )
                        ),
                        name="applications_have_a_known_status",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("report", None),
                                ("status", "DRAFT"),
                                ("submitted_at", None),
                                ("submitted_by", None),
                            ),
                            models.Q(
                                models.Q(("status", "DRAFT"), _negated=True),
                                ("report__isnull", False),
                                ("submitted_at__isnull", False),
                                ("submitted_by__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="what_is_submitted_names_who_and_its_report",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("status__in", ["DRAFT", "SUBMITTED"]),
                                ("taken_at", None),
                                ("taken_by", None),
                            ),
                            models.Q(
                                ("status__in", ["IN_REVIEW", "APPROVED", "REJECTED"]),
                                ("taken_at__isnull", False),
                                ("taken_by__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="what_is_reviewed_names_who",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("decided_at__isnull", False),
                                ("decided_by__isnull", False),
                                ("status__in", ["APPROVED", "REJECTED"]),
                            ),
                            models.Q(
                                models.Q(
                                    ("status__in", ["APPROVED", "REJECTED"]),
                                    _negated=True,
                                ),
                                ("decided_at", None),
                                ("decided_by", None),
                            ),
                            _connector="OR",
                        ),
                        name="what_is_decided_names_who",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("decided_by", None),
                            models.Q(
                                ("decided_by", models.F("submitted_by")), _negated=True
                            ),
                            _connector="OR",
                        ),
                        name="nobody_decides_what_they_submitted",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "REJECTED"), ("reason", ""), _connector="XOR"
                        ),
                        name="a_rejection_says_why",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "APPROVED"), ("api_key", None), _connector="XOR"
                        ),
                        name="an_approval_makes_a_key",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Document",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("INCORPORATION", "Certificate of incorporation"),
                            ("CR12", "CR12"),
                            ("KRA", "KRA certificate"),
                            ("DIRECTOR_ID", "Director's ID"),
                        ],
                        max_length=13,
                    ),
                ),
                ("name", verification.db.encryption.EncryptedJSONField()),
                (
                    "content_type",
                    models.CharField(
                        choices=[
                            ("application/pdf", "Pdf"),
                            ("image/jpeg", "Jpeg"),
                            ("image/png", "Png"),
                        ],
                        max_length=15,
                    ),
                ),
                ("size", models.PositiveIntegerField()),
                ("file", models.CharField(db_index=True, max_length=40)),
                ("data_key", verification.db.encryption.EncryptedJSONField()),
                (
                    "created_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False
                    ),
                ),
                (
                    "application",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="documents",
                        to="golive.application",
                    ),
                ),
                (
                    "uploaded_by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("application", "kind"), name="one_document_of_a_kind"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "kind__in",
                                ["INCORPORATION", "CR12", "KRA", "DIRECTOR_ID"],
                            )
                        ),
                        name="documents_are_of_a_known_kind",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "content_type__in",
                                ["application/pdf", "image/jpeg", "image/png"],
                            )
                        ),
                        name="documents_are_pdf_jpeg_or_png",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("size__gt", 0)),
                        name="documents_are_not_empty",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="NameChange",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("WAITING", "Waiting for a review"),
                            ("APPROVED", "Approved"),
                            ("REJECTED", "Rejected"),
                            ("WITHDRAWN", "Withdrawn"),
                        ],
                        default="WAITING",
                        max_length=9,
                    ),
                ),
                ("legal_name", models.CharField(max_length=200)),
                ("trading_name", models.CharField(blank=True, max_length=200)),
                ("note", models.CharField(blank=True, max_length=500)),
                ("decided_at", models.DateTimeField(editable=False, null=True)),
                ("reason", models.CharField(blank=True, max_length=500)),
                (
                    "created_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False
                    ),
                ),
                (
                    "asked_by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="name_changes",
                        to="workspaces.workspace",
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("status", "WAITING")),
                        fields=["id"],
                        name="name_changes_waiting",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("status", "WAITING")),
                        fields=("workspace",),
                        name="one_name_change_waits_at_a_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("legal_name", ""), _negated=True),
                        name="name_changes_have_a_legal_name",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("decided_at__isnull", False),
                                ("decided_by__isnull", False),
                                ("status__in", ["APPROVED", "REJECTED"]),
                            ),
                            models.Q(
                                ("decided_at", None),
                                ("decided_by", None),
                                ("status__in", ["WAITING", "WITHDRAWN"]),
                            ),
                            _connector="OR",
                        ),
                        name="decided_name_changes_name_who",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("decided_by", None),
                            models.Q(
                                ("decided_by", models.F("asked_by")), _negated=True
                            ),
                            _connector="OR",
                        ),
                        name="nobody_decides_their_own_name_change",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status", "REJECTED"), ("reason", ""), _connector="XOR"
                        ),
                        name="a_rejected_name_change_says_why",
                    ),
                ],
            },
        ),
    ]
