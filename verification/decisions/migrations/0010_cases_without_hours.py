from django.db import migrations, models

RAN = """EXISTS (
    SELECT FROM checks_checkresult c
    WHERE c.report_id = r.id AND c.revision = 0 AND c.status IN ('COMPLETED', 'FAILED')
)"""
# Nobody can decide about a report of which no check was run.
CLOSE_UNDECIDABLE = f"""
UPDATE decisions_case d SET closed_at = now(), assignee_id = NULL
FROM reports_report r
WHERE r.id = d.report_id AND d.closed_at IS NULL AND r.completed_at IS NOT NULL
    AND NOT {RAN}
"""  # noqa: S608
# What waits for a person entered the queue in workspaces with hours only.
FILL = f"""
INSERT INTO decisions_case AS o (report_id, workspace_id, environment, package,
    risk_level, cause, due_at, opened_at)
SELECT r.id, r.workspace_id, r.environment, r.package, r.risk_level,
    CASE WHEN last.state = 'PENDING' THEN 'PROPOSED' ELSE 'REVIEW' END,
    now() + make_interval(hours => w.decision_hours), now()
FROM (
    SELECT DISTINCT ON (report_id) report_id, state, status
    FROM decisions_decision WHERE state <> 'REFUSED'
    ORDER BY report_id, number DESC
) last
JOIN reports_report r ON r.id = last.report_id
JOIN workspaces_workspace w ON w.id = r.workspace_id
WHERE (last.state IN ('PENDING', 'WITHDRAWN')
        OR (last.state = 'FINAL' AND last.status = 'REVIEW'))
    AND r.status IN ('READY', 'PARTIAL', 'FAILED') AND r.completed_at IS NOT NULL
    AND r.restricted_at IS NULL AND r.erased_at IS NULL AND {RAN}
ON CONFLICT (report_id) DO UPDATE SET cause = excluded.cause, due_at = excluded.due_at,
    opened_at = excluded.opened_at, closed_at = NULL
WHERE o.closed_at IS NOT NULL
"""  # noqa: S608

# The tables are new since the last release.
EMPTY = "The tables are empty when a released version is upgraded."


class Migration(migrations.Migration):
    allowed = {"no-definition": EMPTY, "ban-drop-not-null": EMPTY}
    dependencies = [
        ("decisions", "0009_index_of_notices_to_hand_over"),
        ("checks", "0001_squashed_1_0_0"),
    ]

    operations = [
        migrations.AlterField(
            model_name="case",
            name="due_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.RunSQL([CLOSE_UNDECIDABLE, FILL], migrations.RunSQL.noop),
    ]
