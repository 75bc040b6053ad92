import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, OuterRef, Subquery


def fill(apps, schema_editor):
    """Fill the columns of notices that a version between releases has made."""
    notice = apps.get_model("decisions", "AdverseNotice")
    report = apps.get_model("reports", "Report").objects.filter(pk=OuterRef("report"))
    notice.objects.update(
        workspace=Subquery(report.values("workspace")),
        environment=Subquery(report.values("environment")),
    )
    undelivered = notice.objects.filter(state="UNDELIVERED")
    undelivered.update(undelivered_at=F("created_at"))


# The table is new since the last release.
EMPTY = "The table is empty when a released version is upgraded."


class Migration(migrations.Migration):
    allowed = {"runs-python": EMPTY, "adding-foreign-key-constraint": EMPTY}
    dependencies = [
        ("decisions", "0007_notice_triggers"),
        ("workspaces", "0011_brand"),
    ]

    operations = [
        migrations.AddField(
            model_name="adversenotice",
            name="workspace",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="notices",
                to="workspaces.workspace",
            ),
        ),
        migrations.AddField(
            model_name="adversenotice",
            name="environment",
            field=models.CharField(
                choices=[("sandbox", "Sandbox"), ("production", "Production")],
                max_length=10,
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="adversenotice",
            name="undelivered_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
