"""Decisions are on the PDF, and among what the subject sees about themselves."""

from typing import Any

import pytest
from django.db import connection

from tests.hosted.test_subject_data import found_for, visible_text
from tests.reports.test_document import page_texts
from tests.world.clients import Api, erase
from tests.world.decisions import (
    Officer,
    create_ready_report,
    decide,
    demand_second,
)
from verification.decisions.models import Decision
from verification.documents.report import _decision
from verification.privacy.personal_data import TABLES
from verification.reports.models import Report

NOTE = "Only for colleagues"


def test_pdf_shows_outcome_and_reasons_without_the_note(deciding_api: Api):
    report_id = create_ready_report(deciding_api)
    decide(deciding_api, report_id, note=NOTE)

    text = " ".join(page_texts(deciding_api, report_id))
    assert "Declined" in text
    assert "Adverse information at a credit bureau" in text
    assert "Acacia Lenders: a program" in text
    assert NOTE not in text


def test_pdf_shows_no_proposal(api: Api, officer: Officer, second: Officer):
    demand_second(api)
    report_id = create_ready_report(api)
    proposal = officer.decide(report_id)
    assert _decision(Report.objects.get()) == {"status": "none", "at": ""}

    second.confirm(proposal)

    assert "a member; confirmed by a member" in " ".join(page_texts(api, report_id))


@pytest.fixture
def decided(deciding_api: Api, ask: Any) -> Any:
    """Return the subject's visit to a report that was reviewed, then declined."""
    visitor = found_for(deciding_api, ask)
    report_id = str(Report.objects.get().pk)
    first = decide(deciding_api, report_id, {"status": "REVIEW"})
    decide(deciding_api, report_id, note=NOTE, replaces=first["id"])
    return visitor


def test_subject_sees_decisions_and_reasons_without_the_note(decided: Any):
    text = visible_text(decided.text())

    assert "A person looks at it" in text
    assert "Declined" in text
    assert "a program decided" in text
    assert "Reasons: Adverse information at a credit bureau" in text
    assert NOTE not in text
    text = visible_text(decided.get(lang="sw").content.decode())
    assert "Taarifa mbaya katika ofisi ya mikopo" in text


def test_json_for_programs_has_the_decisions(decided: Any):
    (report,) = decided.get("my-data.json").json()["reports"]

    review, decline = report["decisions"]
    assert (review["status"], review["isPresent"]) == ("REVIEW", False)
    assert (decline["status"], decline["isPresent"]) == ("DECLINED", True)
    assert (decline["madeBy"], decline["isConfirmedByPerson"]) == ("API_KEY", False)
    assert [reason["code"] for reason in decline["reasons"]] == ["ADVERSE_CREDIT"]
    assert NOTE not in str(report)


def test_subject_sees_no_proposal(api: Api, officer: Officer, ask: Any):
    visitor = found_for(api, ask)
    demand_second(api)
    officer.decide(Report.objects.get().pk)

    assert "Declined" not in visible_text(visitor.text())
    (report,) = visitor.get("my-data.json").json()["reports"]
    assert report["decisions"] == []


def test_erasure_takes_reasons_and_note_and_leaves_the_outcome(deciding_api: Api):
    report_id = create_ready_report(deciding_api)
    decide(deciding_api, report_id, note=NOTE)

    erase(deciding_api, report_id)

    decision = Decision.objects.get()
    assert (decision.codes, decision.content) == (None, None)
    shown = deciding_api.report(report_id)["decision"]
    assert (shown["status"], shown["reasonCodes"], shown["note"]) == (
        "DECLINED",
        [],
        None,
    )
    with connection.cursor() as cursor:
        (table,) = (one for one in TABLES if one.model is Decision)
        cursor.execute(table.statement, {"reports": [decision.report_id]})
        assert cursor.rowcount == 0, "erasing again changes nothing"
