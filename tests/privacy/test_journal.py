"""The journal: a restored backup brings nobody back."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.core.management import CommandError, call_command
from django.db import transaction
from django.utils.timezone import now

from monitoring.models import Rule
from tests.fakes.buckets import FakeBucket
from tests.fakes.buckets import bucket as bucket
from tests.fakes.buckets import in_bucket as in_bucket
from tests.files.samples import pdf
from tests.world.clients import (
    ATTESTED,
    HOSTED,
    Api,
    erase,
    person,
    request_erasure,
)
from tests.world.corrections import (
    MISTYPED,
    create_wrong_report,
    dispute,
)
from tests.world.rules import create_rule, rule_status, store_rule
from tests.world.subject import EVIDENCE
from verification.backups.archive import (
    BackupError,
    copy_documents,
    restore_documents,
)
from verification.checks.models import CheckResult
from verification.consents.models import Consent, ConsentRecord
from verification.consents.subject_decisions import grant
from verification.db.encryption import KeyedUUIDField
from verification.files.storage import store
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.jobs.worker import MAX_ATTEMPTS
from verification.privacy import erasure as erasures
from verification.privacy import journal
from verification.privacy.corrections import withdraw
from verification.privacy.erasure import erase_person, sweep_erasures
from verification.privacy.holds import hold, release
from verification.privacy.models import (
    Erasure,
    SubjectRequest,
)
from verification.privacy.objections import write_objection
from verification.privacy.replay import replay_unknown
from verification.privacy.retention import erase_expired_reports
from verification.privacy.withdrawals import withdraw as withdraw_consent
from verification.privacy.withdrawals import write_withdrawal
from verification.reports.models import Report
from verification.values.local_time import utc_text
from workspaces.models import Workspace


@contextmanager
def restored() -> Iterator[None]:
    """Bring the database back to the state at the beginning; files stay."""
    before = transaction.savepoint()
    yield
    transaction.savepoint_rollback(before)


def replay() -> str:
    out = io.StringIO()
    call_command("replay_erasures", stdout=out)
    return out.getvalue()


def write_stops() -> None:
    """Run the jobs that wait to write files of withdrawals and objections."""
    for write in (write_withdrawal, write_objection):
        for job in Job.objects.filter(function__endswith=f".{write.__name__}"):
            write(*job.arguments)


def files(documents: Path) -> list[Path]:
    return sorted((documents / "erasures").rglob("*.json"))


@pytest.fixture
def ended(api: Api) -> str:
    made = api.create(person())
    api.work()
    return made["id"]


NAMELESS_FACTS = {
    "environment",
    "erasure",
    "key",
    "foundAt",
    "further",
    "origin",
    "reports",
    "request",
    "requestedAt",
    "rules",
    "searchedBy",
    "subject",
    "workspace",
}


def test_restored_person_is_erased_again(api: Api, ended: str, documents: Path):
    create_rule(api, "IDENTITY")
    api.work()
    with restored():
        erasure = erase(api, ended)
    assert api.report(ended)["subject"] is not None
    (file,) = files(documents)
    assert json.loads(file.read_text()).keys() == NAMELESS_FACTS
    assert "Wanjiku" not in file.read_text()

    assert replay() == "1 files of the journal replayed.\n"

    assert api.report(ended)["erasedAt"] is not None
    assert not Report.objects.filter(erased_at=None).exists()
    assert not Rule.objects.exists()
    # The certificate can be read again, under its number.
    again = Erasure.objects.get()
    assert (again.pk, again.number) == (erasure.pk, erasure.number)
    assert again.certificate
    assert replay() == "0 files of the journal replayed.\n"


def test_replay_erases_findings_about_others_by_every_number(api: Api):
    """The second number of the erased person was typed for Wanjiku."""
    pin = "A123456789B"
    wrong = create_wrong_report(api)
    name = found_in(wrong)["fullName"]
    by_pin = {**person(fullName=name, idNumber=None, kraPin=pin)}
    both = {**person(fullName=name, idNumber=MISTYPED, kraPin=pin)}
    made, _ = (
        api.create({**one, "checksRequested": ["KRA_PIN"]})["id"]
        for one in (by_pin, both)
    )
    with restored():
        certified = json.loads(erase(api, made).certificate)
        assert found_in(wrong) == {"nameMatch": "NO_MATCH"}
    assert found_in(wrong)["fullName"] == name

    replay()

    assert found_in(wrong) == {"nameMatch": "NO_MATCH"}
    assert api.report(wrong)["erasedAt"] is None
    assert (
        json.loads(Erasure.objects.get().certificate)["searchedBy"]
        == (certified["searchedBy"])
    )


def found_in(report_id: str) -> dict[str, Any]:
    finding = CheckResult.objects.get(report=report_id).finding
    return finding["details"] if finding else {}


def test_reports_ordered_since_the_erasure_stay(api: Api, ended: str):
    with restored():
        erase(api, ended)
    later = api.create(person())["id"]

    # The job does it without the operator.
    replay_unknown()
    Erasure.objects.update(sweep_at=now())
    sweep_erasures()

    assert api.report(later)["erasedAt"] is None
    assert api.report(ended)["erasedAt"] is not None


def test_person_is_found_after_a_change_of_the_lookup_key(
    api: Api, ended: str, documents: Path
):
    create_rule(api, "IDENTITY")
    with restored():
        erase(api, ended)
    (file,) = files(documents)
    entry = json.loads(file.read_bytes())
    file.write_text(json.dumps({**entry, "subject": entry["workspace"]}))

    replay()

    assert api.report(ended)["erasedAt"] is not None
    assert not Rule.objects.exists()


def test_retention_is_replayed_whatever_kept_the_report_in_the_backup(
    api: Api, ended: str, workspace: Workspace
):
    """Held, disputed, not yet ended, or with more days: the journal names the ids."""
    reports = [ended, *(create_wrong_report(api) for _ in range(2))]
    reports.append(api.create({**person(), "reuse": False})["id"])
    create_rule(api, "IDENTITY")
    held = hold(UUID(ended), "A court asks", now() + timedelta(9), by="staff grace")
    correction = dispute(reports[1])
    with restored():
        release(held.pk, by="staff grace")
        withdraw(correction.pk)
        api.work()
        workspace.change_retention(365, 30)
        Report.objects.update(completed_at=now() - timedelta(days=40))
        api.post(f"/monitoring/{Rule.objects.get().pk}/pause")
        Rule.objects.update(paused_at=now() - timedelta(days=40))
        erase_expired_reports()
        assert not Report.objects.filter(erased_at=None).exists()
        assert not Rule.objects.exists()
    workspace.refresh_from_db()
    assert workspace.sandbox_retention_days == 365

    replay()

    workspace.refresh_from_db()
    assert workspace.sandbox_retention_days == 30
    assert not Report.objects.filter(pk__in=reports, erased_at=None).exists()
    assert api.report(reports[-1])["status"] == "CANCELLED"
    assert not Rule.objects.exists()


def test_journal_of_version_1_0_0_is_replayed(
    api: Api, ended: str, workspace: Workspace, documents: Path
):
    Report.objects.update(completed_at=now() - timedelta(days=40))
    scope = {
        "workspace": str(workspace.pk),
        "environment": "sandbox",
        "before": (now() - timedelta(30)).isoformat(),
        "madeBefore": None,
        "days": 30,
    }
    run = {"retention": str(uuid4()), "at": now().isoformat(), "scopes": [scope]}
    (documents / "erasures" / "2026-10").mkdir(parents=True)
    file = documents / "erasures" / "2026-10" / f"retention-{run['retention']}.json"
    file.write_text(json.dumps(run))

    assert replay() == "1 files of the journal replayed.\n"

    assert api.report(ended)["erasedAt"] is not None
    workspace.refresh_from_db()
    assert workspace.sandbox_retention_days == 30
    assert replay() == "0 files of the journal replayed.\n"


def test_known_run_of_the_retention_is_not_replayed(
    api: Api, ended: str, workspace: Workspace
):
    Report.objects.update(completed_at=now() - timedelta(days=400))
    erase_expired_reports()
    workspace.sandbox_retention_days = 90
    workspace.save()

    replay()

    workspace.refresh_from_db()
    assert workspace.sandbox_retention_days == 90


def test_run_that_erases_nothing_writes_no_file(api: Api, ended: str, documents: Path):
    erase_expired_reports()

    assert files(documents) == []


def test_file_is_written_before_the_first_row_is_erased(
    api: Api, ended: str, documents: Path, monkeypatch: pytest.MonkeyPatch
):
    made = request_erasure(api, ended)

    def fail(erasure: Erasure) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(journal, "write_erasure", fail)
    with pytest.raises(OSError, match="full"):
        erase_person(made["id"])
    assert api.report(ended)["erasedAt"] is None
    monkeypatch.undo()
    monkeypatch.setattr(erasures, "delete_rules", fail)
    with pytest.raises(OSError, match="full"):
        erase_person(made["id"])

    assert api.report(ended)["erasedAt"] is None
    (file,) = files(documents)
    assert json.loads(file.read_bytes())["reports"] == [ended]


def test_withdrawal_since_the_backup_is_repeated(api: Api, documents: Path):
    item = {**person(), "checksRequested": ["IDENTITY"], "consent": HOSTED}
    consent = Consent.objects.get(report=api.create(item)["id"])
    grant(consent.pk, consent.generation, EVIDENCE)
    rule = store_rule(api, "IDENTITY")
    before = api.report(str(consent.report_id))["status"]
    with restored():
        withdraw_consent(consent.pk, consent.generation, EVIDENCE, "Wanjiku's reason")
        write_stops()
        # This database knows it.
        assert replay() == "0 files of the journal replayed.\n"
    assert (before, rule_status(rule)) == ("RUNNING", ("ACTIVE", ""))
    (file,) = files(documents)
    assert "Wanjiku" not in file.read_text()

    assert replay() == "1 files of the journal replayed.\n"

    assert api.report(str(consent.report_id))["status"] == "CANCELLED"
    assert rule_status(rule) == ("PAUSED", "CONSENT_WITHDRAWN")
    record = ConsentRecord.objects.get(decision="WITHDRAWN")
    assert record.evidence["staff"] == "journal"
    assert "after a restore" in record.evidence["reason"]
    write_stops()
    assert replay() == "0 files of the journal replayed.\n"
    assert len(files(documents)) == 1


def test_withdrawal_of_a_younger_report_pauses_older_rules(api: Api):
    rule = store_rule(api, "IDENTITY")
    with restored():
        item = {**person(), "checksRequested": ["IDENTITY"], "consent": HOSTED}
        consent = Consent.objects.get(report=api.create(item)["id"])
        grant(consent.pk, consent.generation, EVIDENCE)
        withdraw_consent(consent.pk, consent.generation, EVIDENCE, "")
        write_stops()
    assert rule_status(rule) == ("ACTIVE", "")

    replay()

    assert rule_status(rule) == ("PAUSED", "CONSENT_WITHDRAWN")
    assert not ConsentRecord.objects.exists()


def test_objection_since_the_backup_is_repeated(api: Api, ended: str, documents: Path):
    rule = store_rule(api, "IDENTITY")
    with restored():
        later = api.create(person())["id"]
        assert api.post(f"/reports/{later}/objection").status_code == 200
        number = SubjectRequest.objects.get().number
        write_stops()
        assert replay() == "0 files of the journal replayed.\n"
    assert api.report(ended)["restrictedAt"] is None
    assert "Wanjiku" not in files(documents)[0].read_text()

    assert replay() == "1 files of the journal replayed.\n"

    assert api.report(ended)["restrictedAt"] is not None
    assert rule_status(rule) == ("PAUSED", "OBJECTION")
    request = SubjectRequest.objects.get()
    assert (request.number, request.outcome) == (number, "DONE")
    # An order needs a consent that was obtained after the objection.
    attested = {**person(), "consent": ATTESTED}
    assert api.post("/reports", {"reports": [attested]}).status_code == 400
    write_stops()
    assert replay() == "0 files of the journal replayed.\n"
    assert len(files(documents)) == 1


@pytest.mark.usefixtures("documents")
@pytest.mark.parametrize("is_newer", [False, True])
def test_objection_keeps_its_person_when_the_lookup_key_changes(
    api: Api, ended: str, settings: Any, *, is_newer: bool
):
    former, further = settings.LOOKUP_KEY, b"n" * 32
    rule = store_rule(api, "IDENTITY")
    with restored():
        settings.LOOKUP_KEY = (*former, further) if is_newer else former
        api.post(f"/reports/{ended}/objection")
        write_stops()
        written = SubjectRequest.objects.get().subject_id
    if is_newer:
        # The backup is restored with the key that it had.
        settings.LOOKUP_KEY = former
        replay()
        assert api.report(ended)["restrictedAt"] is not None
        # The subject consents anew.
        consent = {**ATTESTED, "obtainedAt": utc_text(now())}
        api.post(f"/monitoring/{rule.pk}/resume", {"consent": consent})
        replay()
        assert rule_status(rule) == ("ACTIVE", "")
        # As `rehash` does.
        SubjectRequest.objects.update(subject_id=uuid4())
    settings.LOOKUP_KEY = (*former, further)

    replay()

    since = [] if is_newer else [further]
    rehashed = KeyedUUIDField.rehashed(written, since)
    assert SubjectRequest.objects.get().subject_id == rehashed
    assert replay() == "0 files of the journal replayed.\n"


@pytest.mark.usefixtures("documents")
def test_unwritten_file_is_tried_again_when_its_job_was_given_up(api: Api, ended: str):
    api.post(f"/reports/{ended}/objection")
    writing = Job.objects.filter(function=JobName.WRITE_OBJECTION)
    writing.update(attempts=MAX_ATTEMPTS, gave_up_at=now())

    replay_unknown()

    assert writing.get(gave_up_at=None, due_at__lte=now()).attempts == 0


def test_entry_of_a_younger_workspace_is_left_out(
    api: Api, ended: str, documents: Path
):
    with restored():
        erase(api, ended)
    (file,) = files(documents)
    entry = json.loads(file.read_bytes())
    entry["workspace"] = entry["erasure"]
    file.write_text(json.dumps(entry))

    assert replay() == "1 files of the journal replayed.\n"
    assert replay() == "0 files of the journal replayed.\n"


def test_unreadable_file_fails_the_command_and_not_the_others(
    api: Api, ended: str, documents: Path
):
    with restored():
        erase(api, ended)
    (documents / "erasures" / "2026-01").mkdir()
    folder = documents / "erasures" / "2026-01"
    (folder / "retention-1.json").write_text('{"ret')
    (folder / "notes.json").write_text("")

    with pytest.raises(CommandError, match="2 files failed"):
        replay()

    assert api.report(ended)["erasedAt"] is not None


def test_journal_in_a_bucket_is_replayed(
    api: Api, ended: str, in_bucket: FakeBucket
) -> None:
    with restored():
        erasure = erase(api, ended)
    (path,) = in_bucket.objects
    assert path == f"/kyb/erasures/{erasure.created_at:%Y-%m}/{erasure.pk}.json"

    assert replay() == "1 files of the journal replayed.\n"

    assert api.report(ended)["subject"] is None
    assert replay() == "0 files of the journal replayed.\n"

    in_bucket.refuses_all = True
    with pytest.raises(
        CommandError, match=r"The journal is away: ClientError \(403\)\."
    ):
        replay()


def test_backup_takes_documents_and_journal_out_of_a_bucket(
    db: None, in_bucket: FakeBucket, tmp_path: Path
) -> None:
    stored = store(pdf())
    storages["documents"].save("erasures/2026-11/new.json", ContentFile(b"{}"))

    copy_documents(storages["documents"], tmp_path / "copy")

    copied = {
        f"/kyb/{file.relative_to(tmp_path / 'copy')}": file.read_bytes()
        for file in (tmp_path / "copy").rglob("*")
        if file.is_file()
    }
    assert copied == in_bucket.objects
    assert f"/kyb/{stored.name}" in copied
    assert len(copied) == 2

    in_bucket.refuses_all = True
    away = r"The documents are away: ClientError \(403\)\."
    with pytest.raises(BackupError, match=away):
        copy_documents(storages["documents"], tmp_path / "copy")
    with pytest.raises(BackupError, match=away):
        restore_documents(tmp_path / "copy", storages["documents"])


def test_restore_puts_documents_into_a_bucket_and_keeps_newer_ones(
    in_bucket: FakeBucket, tmp_path: Path
) -> None:
    for name in ("erasures/2026-11/old.json", "documents/sealed"):
        (tmp_path / "copy" / name).parent.mkdir(parents=True)
        (tmp_path / "copy" / name).write_bytes(b"of the backup")
    in_bucket.objects["/kyb/documents/sealed"] = b"newer"

    restore_documents(tmp_path / "copy", storages["documents"])

    assert in_bucket.objects == {
        "/kyb/erasures/2026-11/old.json": b"of the backup",
        "/kyb/documents/sealed": b"newer",
    }
