"""The commands of `docs/client/monitoring.md` work, and it explains all coded words."""

import re

from django.conf import settings

from monitoring.models import PauseReason, Severity
from monitoring.pauses import NOTIFIED_REASONS
from tests.docs.guides import create_test_key, run_command
from tests.world.service import Service
from tests.world.waiting import until

PAGE = (settings.BASE_DIR / "docs" / "client" / "monitoring.md").read_text()
COMMANDS = re.findall(r"^```sh\n(curl .*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_commands_of_the_page_work(service: Service):
    create, read, skip = COMMANDS
    key = create_test_key(service)

    made = run_command(create, service, KEY=key)
    assert (made["status"], made["cadence"]) == ("ACTIVE", "MONTHLY")
    _until_it_has_changed(service, made["id"])
    (alert,) = run_command(read, service, KEY=key)["content"]
    assert alert["monitoringId"] == made["id"]
    skipped = run_command(skip, service, KEY=key, RULE_ID=made["id"])
    assert skipped["done"]["name"] == "MONITORING_RUN"


def test_page_explains_severities_and_pause_reasons():
    for name in (*Severity.values, *PauseReason.values):
        assert f"| `{name}` |" in PAGE
    assert "The first four e-mail the owner" in PAGE
    notified = re.findall(r"^\| `([A-Z_]+)` \|", PAGE, re.MULTILINE)[3:7]
    assert set(notified) == NOTIFIED_REASONS


def _until_it_has_changed(service: Service, rule_id: str) -> None:
    """Its month is over: a second run is made, and compared with the first."""
    compared = "SELECT count(compared_at) FROM monitoring_run WHERE rule_id = %s"
    with service.connect() as db:
        for runs in (1, 2):
            until(
                lambda runs=runs: db.execute(compared, [rule_id]).fetchone() == (runs,),
                lambda: service.log()[-3000:],
            )
            if runs == 1:
                db.execute(
                    "UPDATE monitoring_rule SET next_run_at = now() - interval '1 min',"
                    " starts_at = starts_at - interval '40 days' WHERE id = %s",
                    [rule_id],
                )
                db.execute(
                    "INSERT INTO jobs_job (function, arguments)"
                    " VALUES ('monitoring.runs.launch_due_runs', '[]')"
                )
