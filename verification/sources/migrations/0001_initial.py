import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

import verification.db.encryption


class Migration(migrations.Migration):
    initial = True

    dependencies = [("checks", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Source",
            fields=[
                (
                    "name",
                    models.CharField(max_length=40, primary_key=True, serialize=False),
                ),
                ("failures_in_row", models.PositiveIntegerField(db_default=0)),
                ("resting_until", models.DateTimeField(null=True)),
                ("rests", models.PositiveSmallIntegerField(db_default=0)),
                ("probed_at", models.DateTimeField(null=True)),
                ("answered_at", models.DateTimeField(null=True)),
                ("free_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Minute",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("source", models.CharField(max_length=40)),
                ("minute", models.DateTimeField()),
                ("answered", models.PositiveIntegerField(db_default=0)),
                ("refused", models.PositiveIntegerField(db_default=0)),
                ("unavailable", models.PositiveIntegerField(db_default=0)),
                (
                    "took",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveIntegerField(), size=None
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("source", "minute"),
                        name="a_source_has_each_minute_once",
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Call",
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
                ("attempt", models.PositiveSmallIntegerField()),
                ("tries", models.PositiveSmallIntegerField()),
                ("source", models.CharField(max_length=40)),
                ("reference", models.CharField(max_length=64)),
                ("passed_over", models.JSONField(default=list)),
                (
                    "begun_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now()
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "end",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "under way"),
                            ("ANSWERED", "answered"),
                            ("NOT_YET", "took it, no answer yet"),
                            ("UNAVAILABLE", "did not answer"),
                            ("REFUSED", "refused"),
                            ("NOT_ASKED", "nobody could be asked"),
                            ("LOST", "no end was recorded; asked again"),
                            ("IN_DOUBT", "no end was recorded; in doubt"),
                        ],
                        db_default="",
                        max_length=11,
                    ),
                ),
                ("why", models.CharField(blank=True, db_default="", max_length=40)),
                (
                    "may_be_charged",
                    models.BooleanField(db_default=False, default=False),
                ),
                ("job", models.CharField(blank=True, db_default="", max_length=64)),
                ("called_back_at", models.DateTimeField(null=True)),
                ("answer", verification.db.encryption.EncryptedJSONField(null=True)),
                ("settled_at", models.DateTimeField(null=True)),
                ("was_paid", models.BooleanField(null=True)),
                (
                    "result",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="calls",
                        to="checks.checkresult",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["result", "id"], name="calls_of_a_check"),
                    models.Index(
                        condition=models.Q(("end", "")),
                        fields=["source", "begun_at"],
                        name="calls_open",
                    ),
                    models.Index(
                        condition=models.Q(("end", "IN_DOUBT"), ("settled_at", None)),
                        fields=["id"],
                        name="calls_in_doubt",
                    ),
                    models.Index(fields=["reference"], name="calls_by_reference"),
                    models.Index(
                        condition=models.Q(("answer__isnull", False)),
                        fields=["called_back_at"],
                        name="calls_with_an_answer",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("end", "")),
                        fields=("result",),
                        name="a_check_has_one_call_under_way",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("end", ""), ("ended_at", None)),
                            models.Q(
                                models.Q(("end", ""), _negated=True),
                                ("ended_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="call_ended_at_iff_ended",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("settled_at", None), ("was_paid", None)),
                            models.Q(
                                ("end", "IN_DOUBT"),
                                ("settled_at__isnull", False),
                                ("was_paid__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="only_doubts_are_settled",
                    ),
                ],
            },
        ),
    ]
