"""The check finds each change of the audit trail by SQL, whoever made it."""

import json
import shutil
from base64 import b64encode
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from tests.fakes.buckets import FakeBucket
from tests.fakes.buckets import bucket as bucket
from tests.fakes.buckets import in_bucket as in_bucket
from tests.upgrades.story import documents as documents
from tests.world.logs import log_lines as log_lines
from verification.audit_trail import check
from verification.audit_trail.anchors import accept
from verification.audit_trail.models import (
    START,
    AuditSeal,
    TrailState,
    UnsealedEvent,
)
from verification.audit_trail.seals import facts_of, hash_of, read_page, seal_events
from verification.backoffice import audit
from verification.backoffice.models import AuditEvent
from verification.privacy import certificates
from verification.values.clock import now
from verification.values.local_time import utc_text
from workspaces.models import Workspace

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents")]
GRACE = audit.Actor(AuditEvent.Actor.STAFF, "grace", "192.0.2.7")


@pytest.fixture
def events(workspace: Workspace) -> list[AuditEvent]:
    """Return ten sealed events, of which the last has an anchor."""
    recorded = record(workspace, 10)
    seal_events()
    return recorded


def record(workspace: Workspace, number: int) -> list[AuditEvent]:
    return [
        audit.record("workspace.changed", GRACE, workspace, reason=f"Reason {n}")
        for n in range(number)
    ]


def faults() -> list[str]:
    return check.check_everything()[1]


@contextmanager
def superuser() -> Any:
    """Yield a cursor for which no trigger runs."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield cursor
        cursor.execute("SET LOCAL session_replication_role = origin")


def test_events_are_sealed_once_in_order(events, workspace):
    record(workspace, 3)
    seal_events()
    seal_events()

    seals = AuditSeal.objects.order_by("number")
    assert [s.number for s in seals] == list(range(1, 14))
    assert {s.event_id for s in seals} == {e.pk for e in AuditEvent.objects.all()}
    assert not UnsealedEvent.objects.exists()
    assert faults() == []


def test_events_of_before_the_trigger_are_sealed(workspace):
    with superuser():
        record(workspace, 5)
    assert not UnsealedEvent.objects.exists()

    seal_events()

    assert AuditSeal.objects.count() == 5
    assert faults() == []


CHANGES = [
    ("UPDATE backoffice_auditevent SET actor = 'eve' WHERE id = %s", "what was"),
    ("UPDATE backoffice_auditevent SET reason = '' WHERE id = %s", "what was"),
    ("UPDATE backoffice_auditevent SET address = NULL WHERE id = %s", "what was"),
    (
        "UPDATE backoffice_auditevent SET address = (SELECT address FROM "
        "backoffice_auditevent ORDER BY id LIMIT 1) WHERE id = %s",
        "has an address",
    ),
    ("DELETE FROM backoffice_auditevent WHERE id = %s", "is missing"),
    ("DELETE FROM audit_trail_auditseal WHERE event_id = %s", "are missing"),
    ("UPDATE audit_trail_auditseal SET hash = '' WHERE event_id = %s", "what was"),
    (
        "UPDATE audit_trail_auditseal SET number = CASE number WHEN 5 THEN -1 "
        "ELSE 5 END WHERE number IN (5, 6) AND %s IS NOT NULL",
        "are missing",
    ),
]


def test_change_by_sql_is_found(events):
    for statement, fault in CHANGES:
        with transaction.atomic():
            with superuser() as cursor:
                cursor.execute(statement, [events[4].pk])
            assert any(fault in found for found in faults()), statement
            transaction.set_rollback(True)
    assert faults() == []


def test_added_event_without_a_seal_is_found(events, workspace):
    with superuser():
        (forged,) = record(workspace, 1)

    (fault,) = faults()
    assert fault.startswith(f"Event {forged.pk} has no seal: ")


def test_chain_that_was_computed_anew_differs_from_the_anchor(events):
    with superuser() as cursor:
        cursor.execute("UPDATE backoffice_auditevent SET reason = 'Nothing'")
        cursor.execute("DELETE FROM audit_trail_auditseal")
        cursor.execute("DELETE FROM audit_trail_trailstate")
    seal_events()

    assert any("Events up to 10 are not those of" in found for found in faults())


def test_end_that_was_cut_off_is_found_until_a_restore_is_accepted(events, workspace):
    with superuser() as cursor:
        cursor.execute("DELETE FROM audit_trail_auditseal WHERE number > 7")
        cursor.execute(
            "DELETE FROM backoffice_auditevent WHERE id > %s", [events[6].pk]
        )
    assert any("Event 10 is missing" in found for found in faults())

    # The service has gone on before somebody declares the restore.
    record(workspace, 5)
    seal_events()
    assert any("Events up to 10 are not those of" in found for found in faults())
    assert accept("Restored the backup of the night")[0] == 9
    record(workspace, 1)
    seal_events()
    assert faults() == []


def test_folder_of_anchors_that_is_gone_is_said_until_accepted(
    events, workspace, documents: Path
):
    shutil.rmtree(documents)
    seal_events()
    gone = f"The anchor of event 10 ({AuditSeal.objects.last().hash.hex()}) is gone."
    assert faults() == [gone]
    # The next anchor names the one before it.
    record(workspace, 1)
    seal_events()
    assert faults() == [gone]
    assert accept("The disk of the folder failed")[0] == 11
    assert faults() == []

    shutil.rmtree(documents)
    documents.write_text("A file where the folder was")
    away = "NotADirectoryError (Not a directory)"
    assert faults() == [f"The folder of anchors cannot be read: {away}."]


def test_anchor_of_another_key_is_found(events, documents: Path):
    (file,) = documents.glob("audit/*/*.json")
    file.write_text(file.read_text().replace('number\\":10', 'number\\":11'))
    found = faults()
    assert found[0].endswith("is not signed by this service.")

    file.write_text("{}")
    assert faults()[0].endswith("cannot be read.")


def test_anchors_of_a_key_that_is_not_trusted_are_found(events, capsys):
    key = certificates.published_keys()[0].pk
    call_command("audit_trail", "verify", "--key", key)
    assert f"Anchors signed by the key {key}: 1" in capsys.readouterr().out

    with pytest.raises(CommandError, match="faults"):
        call_command("audit_trail", "verify", "--key", "that of the safe")


def test_new_key_is_a_fault_until_accepted(events, workspace, settings):
    former = certificates.published_keys()[0].pk
    settings.SIGNING_KEY = bytes(range(32))
    (fault,) = faults()
    assert f"the key {former}, which has signed " in fault

    accept("New SIGNING_KEY")
    record(workspace, 1)
    seal_events()
    assert faults() == []

    settings.SIGNING_KEY = bytes(range(1, 33))
    assert len(faults()) == 2


def test_lines_of_the_log_store_are_compared(events, tmp_path, capsys):
    seals = AuditSeal.objects.order_by("number")
    lines = [
        {"number": s.number, "hash": bytes(s.hash).hex(), "at": utc_text(now())}
        for s in seals
    ]
    file = tmp_path / "lines"
    file.write_text("Restarted\n" + "\n".join(map(json.dumps, lines)))
    call_command("audit_trail", "verify", "--anchors", str(file))

    lines[4]["hash"] = lines[3]["hash"]
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(CommandError, match="1 faults"):
        call_command("audit_trail", "verify", "--anchors", str(file))
    wrong = f"Events up to 5 are not those of the line of {lines[4]['at']}: "
    assert wrong in capsys.readouterr().out

    file.write_text('{}\n{"type": "audit-restore"}')
    with pytest.raises(CommandError, match="no anchors"):
        call_command("audit_trail", "verify", "--anchors", str(file))

    file.unlink()
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        call_command("audit_trail", "verify", "--anchors", str(file))


def test_fault_that_only_the_log_store_shows_can_be_explained(
    events, tmp_path: Path, capsys
):
    at, file = utc_text(now()), tmp_path / "lines"
    line = json.dumps({"number": 5, "hash": "", "at": at})
    file.write_text(line)
    hashed = AuditSeal.objects.get(number=5).hash.hex()
    text = f"Events up to 5 are not those of the line of {at}: {hashed}."
    with pytest.raises(CommandError, match="finds no such fault"):
        explain(text)

    explain(text, "--anchors", str(file))

    # A longer file has the line at another place.
    file.write_text(f"Restarted\n{line}")
    call_command("audit_trail", "verify", "--anchors", str(file))
    assert f"by hand): {text}" in capsys.readouterr().out
    with superuser() as cursor:
        cursor.execute("UPDATE audit_trail_auditseal SET hash = 'x' WHERE number = 5")
    with pytest.raises(CommandError, match="faults"):
        call_command("audit_trail", "verify", "--anchors", str(file))
    assert text.replace(hashed, b"x".hex()) in capsys.readouterr().out


@pytest.mark.parametrize(("hours", "files"), [(0.5, 1), (2, 2)])
def test_anchors_are_written_hourly_whatever_the_database_says(
    events, workspace, documents: Path, hours, files
):
    with superuser() as cursor:
        cursor.execute("UPDATE audit_trail_trailstate SET anchored_number = 999")
    record(workspace, 1)
    with time_machine.travel(now() + timedelta(hours=hours)):
        seal_events()
        assert faults() == ["The anchor of event 999 (which is missing) is gone."]

    assert len(list(documents.glob("audit/*/*.json"))) == files


@pytest.mark.parametrize("added", [0, 1])
def test_anchor_whose_run_died_before_noting_it_is_missed(
    events, workspace, documents: Path, added
):
    TrailState.objects.update(anchored_number=0)
    record(workspace, added)
    seal_events()
    assert faults() == []

    (file,) = documents.glob("audit/*/*.json")
    file.unlink()

    hashed = bytes(AuditSeal.objects.get(number=10).hash).hex()
    assert faults() == [f"The anchor of event 10 ({hashed}) is gone."]


def test_anchor_that_is_late_is_said(events, workspace):
    record(workspace, 2)
    seal_events()
    assert faults() == []

    with time_machine.travel(now() + timedelta(hours=4)):
        assert faults() == ["Event 11 and those behind it have no anchor."]


def test_anchor_of_the_future_is_said_and_followed(events, workspace, documents: Path):
    record(workspace, 1)
    with time_machine.travel(now() + timedelta(days=2)):
        seal_events()
    record(workspace, 1)
    seal_events()

    files = sorted(documents.glob("audit/*/*.json"))
    assert len(files) == 3
    assert faults() == [
        f"The anchor {files[-1].relative_to(documents / 'audit')} is of the future."
    ]


def test_event_that_is_dated_long_before_its_neighbours_is_found(events, workspace):
    old = now() - timedelta(days=300)
    with time_machine.travel(old):
        (forged,) = record(workspace, 1)
    record(workspace, 1)
    seal_events()

    (fault,) = faults()
    assert fault.startswith(
        f"Event 11 ({forged.pk}) is dated {utc_text(forged.created_at)}, hours before"
    )


def test_check_of_the_night_goes_on_where_it_was(events, monkeypatch):
    monkeypatch.setattr(check, "BATCH_SIZE", 4)
    monkeypatch.setattr(check, "JOB_SECONDS", 0)
    with superuser() as cursor:
        cursor.execute(
            "DELETE FROM backoffice_auditevent WHERE id = %s", [events[1].pk]
        )
    check.check_nightly()
    monkeypatch.setattr(check, "JOB_SECONDS", 60)
    check.continue_check()

    state = TrailState.objects.get()
    assert (state.check_number, state.faults) == (None, 1)
    assert state.check_found == [f"Event 2 ({events[1].pk}) is missing."]


@pytest.mark.parametrize("job", [check.check_nightly, check.continue_check])
def test_check_that_was_moved_past_events_begins_again(events, job):
    with superuser() as cursor:
        cursor.execute("UPDATE audit_trail_trailstate SET check_number = 999")
        cursor.execute(
            "DELETE FROM backoffice_auditevent WHERE id = %s", [events[1].pk]
        )

    job()

    found = TrailState.objects.get().check_found
    assert f"Event 2 ({events[1].pk}) is missing." in found


def test_outcome_of_a_check_is_logged_with_the_last_seal(events, log_lines):
    check.check_nightly()

    last = AuditSeal.objects.last()
    (line,) = [line for line in log_lines() if line["message"] == "audit trail checked"]
    assert (line["number"], line["hash"]) == (10, bytes(last.hash).hex())
    assert line["faults"] == 0


def change(event: AuditEvent, **values: Any) -> None:
    """Change an event as a superuser of the database."""
    with superuser():
        AuditEvent.objects.filter(pk=event.pk).update(**values)


def explain(*texts: str) -> None:
    call_command("audit_trail", "explain", *texts, "--reason", "Grace did it by hand")


def shown_faults() -> int:
    """Return what the check of the night shows to Prometheus."""
    check.check_nightly()
    return TrailState.objects.get().faults


def test_explained_fault_ends_the_alert_and_is_listed(events, capsys, log_lines):
    change(events[4], actor="eve")
    with superuser():
        AuditEvent.objects.filter(pk=events[6].pk).delete()
    texts = faults()
    assert len(texts) == 2
    explain(texts[0])
    assert TrailState.objects.get().faults == 1
    explain(texts[1])

    assert TrailState.objects.get().faults == shown_faults() == 0
    call_command("audit_trail", "verify")
    out = capsys.readouterr().out
    for text in texts:
        assert f"Explained on {now():%Y-%m-%d} (Grace did it by hand): {text}" in out
    assert "is whole, but for 2 explained faults: 10 events" in out
    *_, last = AuditEvent.objects.order_by("id")
    assert last.action == "audit-trail.explained"
    assert last.reason == f"{texts[1]} Grace did it by hand"
    *_, line = [x for x in log_lines() if x.get("type") == "audit-explanation"]
    assert line["fault"] == texts[1]
    assert certificates.is_signed(
        json.dumps(
            {name: line[name] for name in ("at", "fault", "reason", "type")},
            separators=(",", ":"),
        ).encode(),
        bytes.fromhex(line["signature"]),
        certificates.published_keys()[0].pem,
    )


ACTOR = "UPDATE backoffice_auditevent SET actor = '{}' WHERE id = %s"
ADDRESS = "UPDATE backoffice_auditevent SET address = '{}' WHERE id = %s"
NO_EVENT = "DELETE FROM backoffice_auditevent WHERE id = %s"
NO_SEAL = "DELETE FROM audit_trail_auditseal WHERE event_id = %s"
CHANGES_OF_EXPLAINED_EVENTS = [
    (ACTOR.format("eve"), ACTOR.format("mallory")),
    (ACTOR.format("eve"), ADDRESS.format("x")),
    (ADDRESS.format("x"), ADDRESS.format("y")),
    (NO_EVENT, "UPDATE audit_trail_auditseal SET hash = '' WHERE event_id = %s"),
    (NO_SEAL, ACTOR.format("eve")),
    (NO_SEAL, NO_EVENT),
    (
        NO_SEAL,
        "UPDATE backoffice_auditevent SET actor = 'eve' WHERE id <> %s "
        "AND id IN (SELECT event_id FROM audit_trail_auditseal WHERE number = 6)",
    ),
]


def test_another_change_of_explained_events_is_another_fault(events, documents: Path):
    for statement, again in CHANGES_OF_EXPLAINED_EVENTS:
        with transaction.atomic():
            with superuser() as cursor:
                cursor.execute(statement, [events[4].pk])
            explain(*faults())
            assert shown_faults() == 0, statement
            with superuser() as cursor:
                cursor.execute(again, [events[4].pk])
            assert shown_faults() > 0, (statement, again)
            transaction.set_rollback(True)
        for file in documents.glob("audit/*/*-declared.json"):
            file.unlink()


def test_change_of_another_event_is_another_fault(events):
    change(events[4], actor="eve")
    explain(*faults())
    change(events[5], actor="eve")
    (fault,) = faults()
    assert fault.startswith(f"Event 6 ({events[5].pk}) is not what was sealed: ")


def test_explained_anchors_name_their_events(events, documents: Path):
    shutil.rmtree(documents)
    explain(*faults())
    assert shown_faults() == 0

    with superuser() as cursor:
        cursor.execute("UPDATE audit_trail_auditseal SET hash = '' WHERE number = 10")
    assert any("The anchor of event 10 () is gone." in fault for fault in faults())


def test_many_explained_faults_hide_no_other(events, monkeypatch):
    monkeypatch.setattr(check, "MAX_SHOWN", 2)
    monkeypatch.setattr(check, "BATCH_SIZE", 4)
    for event in events[:4]:
        change(event, actor="eve")
    explain(*faults())
    change(events[8], actor="eve")

    assert shown_faults() == 1
    assert "Event 9 " in TrailState.objects.get().check_found[0]


def test_database_and_unsigned_files_explain_nothing(events, documents: Path):
    change(events[4], actor="eve")
    (text,) = faults()
    audit.record("audit-trail.explained", audit.SERVICE, events[4], reason=text)
    write = {"check_found": [], "faults": 0}
    TrailState.objects.update(**write)
    assert faults() == [text]

    # The signature of another file, and a key that the service has not accepted
    explain(text)
    (file,) = documents.glob("audit/*/*-declared.json")
    signed = json.loads(file.read_text())
    file.write_text(json.dumps(signed | {"anchor": signed["anchor"] + " "}))
    assert text in faults()
    file.write_text(json.dumps(signed))
    assert faults() == []
    (anchor,) = set(documents.glob("audit/*/*.json")) - {file}
    file.write_text(anchor.read_text())
    assert faults()[:1] == [text]
    assert faults()[1].endswith("-declared.json cannot be read.")


def test_explanation_counts_under_a_new_key_once_that_is_accepted(events, settings):
    change(events[4], actor="eve")
    (text,) = faults()
    explain(text)
    settings.SIGNING_KEY = bytes(range(32))
    assert text in faults()

    accept("New SIGNING_KEY")
    assert faults() == []


def test_only_a_fault_that_is_found_and_over_can_be_explained(events, workspace):
    change(events[4], actor="eve")
    (text,) = faults()
    with pytest.raises(CommandError, match="finds no such fault"):
        explain(text, text.replace("Event 5", "Event 6"))
    with pytest.raises(CommandError, match="reason is empty"):
        call_command("audit_trail", "explain", text, "--reason", " ")
    assert faults() == [text]

    record(workspace, 1)
    with time_machine.travel(now() + timedelta(hours=4)):
        *_, waiting = faults()
        with pytest.raises(CommandError, match="ends when it is fixed"):
            explain(waiting)


def test_anchor_that_cannot_be_read_must_be_mended(events, documents: Path):
    (anchor,) = documents.glob("audit/*/*.json")
    text = anchor.read_text()
    anchor.unlink()
    anchor.symlink_to("gone")
    (fault,) = faults()
    assert fault.startswith("The folder of anchors cannot be read: ")
    with pytest.raises(CommandError, match="Fix this first: The folder of anchors"):
        explain(fault)

    anchor.unlink()
    anchor.write_text(text)
    assert faults() == []


def test_explained_key_is_explained_at_night(
    events, workspace, documents: Path, settings, monkeypatch
):
    monkeypatch.setattr(check, "NIGHTLY_ANCHORS", 2)
    record(workspace, 1)
    with time_machine.travel(now() + timedelta(hours=2)):
        seal_events()
        settings.SIGNING_KEY = bytes(range(32))
        explain(*faults())
        seal_events()
        assert faults() == []
        assert shown_faults() == 0


def test_line_of_the_log_explains_nothing_as_a_file(events, documents: Path, log_lines):
    change(events[4], actor="eve")
    (text,) = faults()
    explain(text)
    (file,) = documents.glob("audit/*/*-declared.json")
    entry = json.loads(file.read_text())
    *_, line = [x for x in log_lines() if x.get("type") == "audit-explanation"]
    signature = bytes.fromhex(line["signature"])
    facts = {name: line[name] for name in ("at", "fault", "reason", "type")}
    entry["anchor"] = json.dumps(facts, separators=(",", ":"))
    entry["signature"] = b64encode(signature).decode()
    file.write_text(json.dumps(entry))

    assert faults() == [text]


def test_explanation_is_no_anchor(events, workspace, documents: Path):
    change(events[4], actor="eve")
    explain(*faults())
    with time_machine.travel(now() + timedelta(hours=2)):
        seal_events()
        assert len(list(documents.glob("audit/*/*.json"))) == 3
        assert faults() == []


def test_folder_that_is_full_or_away_stops_an_explanation(events, documents: Path):
    change(events[4], actor="eve")
    (text,) = faults()
    shutil.rmtree(documents)
    (documents / "audit").mkdir(parents=True)
    (documents / "audit" / f"{now():%Y-%m}").write_text("A file where the folder was")
    with pytest.raises(CommandError, match=r"away or full: FileExistsError"):
        explain(text)
    shutil.rmtree(documents)
    documents.write_text("A file where the folder was")
    away = r"NotADirectoryError \(Not a directory\)\."
    with pytest.raises(CommandError, match=away):
        explain(text)


def test_commands_say_that_the_bucket_of_anchors_is_away(
    in_bucket: FakeBucket, events, tmp_path: Path, capsys
):
    change(events[4], actor="eve")
    *_, text = faults()
    in_bucket.refuses_all = True
    first = r"Fix this first: The folder of anchors .*: ClientError \(403\)\."
    with pytest.raises(CommandError, match=first):
        explain(text)
    assert not AuditEvent.objects.filter(action="audit-trail.explained").exists()
    with pytest.raises(CommandError, match=r"away or full: ClientError \(403\)\."):
        call_command("audit_trail", "accept", "--reason", "A restore")

    file = tmp_path / "lines"
    facts = {"number": 10, "hash": "", "at": utc_text(now())}
    file.write_text(json.dumps(facts))
    with pytest.raises(CommandError, match="has 2 faults"):
        call_command("audit_trail", "verify", "--anchors", str(file))
    out = capsys.readouterr().out
    assert "The folder of anchors cannot be read: ClientError (403)." in out


def test_log_says_why_an_anchor_was_not_written(workspace, documents: Path, log_lines):
    documents.write_text("A file where the folder is")
    record(workspace, 1)
    seal_events()

    messages = [line["message"] for line in log_lines()]
    why = "NotADirectoryError (Not a directory)"
    assert f"an anchor was not written: {why}" in messages


def test_check_of_the_night_reads_the_newest_anchors(
    events, workspace, documents: Path, monkeypatch
):
    monkeypatch.setattr(check, "NIGHTLY_ANCHORS", 2)
    for hours in (2, 4, 6):
        record(workspace, 1)
        with time_machine.travel(now() + timedelta(hours=hours)):
            seal_events()
    oldest, second, *_, newest = sorted(documents.glob("audit/*/*.json"))
    with time_machine.travel(now() + timedelta(hours=6)):
        second.unlink()
        assert shown_faults() == 0
        assert faults()[0].startswith("The anchor of event 11 ")

        # It finds a chain that was computed anew from an event of before them.
        change(events[0], actor="eve")
        previous = START
        with superuser() as cursor:
            for number, _, event_id, event in list(read_page(0, 100)):
                previous = hash_of(previous, facts_of(number, event_id, event))
                cursor.execute(
                    "UPDATE audit_trail_auditseal SET hash = %s WHERE number = %s",
                    [previous, number],
                )
        assert shown_faults() == 2

        # Copies of an old anchor do not take the place of the newest.
        for name in "12":
            (newest.parent / f"999{name}.json").write_text(oldest.read_text())
        assert shown_faults() == 4
        found = TrailState.objects.get().check_found
        assert sum(fault.endswith(".json cannot be read.") for fault in found) == 2
