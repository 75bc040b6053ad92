import pytest

from tests.world.clients import Api, company
from tests.world.orders import count_rows, fault_codes
from verification.checks.models import CheckResult
from verification.jobs.models import Job
from workspaces.models import LedgerEntry

DRAFT, LAUNCHED = {**company(), "draft": True}, {**company(), "draft": False}


@pytest.mark.parametrize(
    ("top", "item", "status"),
    [
        ({}, company(), "RUNNING"),
        ({"draft": False}, company(), "RUNNING"),
        ({"draft": True}, company(), "DRAFT"),
        ({}, DRAFT, "DRAFT"),
        ({"draft": True}, LAUNCHED, "RUNNING"),
        ({"draft": False}, DRAFT, "DRAFT"),
        ({"draft": True}, {**company(), "draft": None}, "DRAFT"),
    ],
)
def test_draft_flag_of_the_item_wins(api, top, item, status):
    assert api.create(item, **top)["status"] == status


def test_draft_flag_at_the_top_is_the_default(api: Api):
    reports = api.create(company(), LAUNCHED, DRAFT, draft=True)

    assert [one["status"] for one in reports] == ["DRAFT", "RUNNING", "DRAFT"]


def test_misspelt_draft_flag_is_refused(api: Api):
    before = count_rows()
    for misspelt in ["Draft", "drafts", "isDraft", "draft "]:
        assert (
            fault_codes(api, company(), **{misspelt: True}).popitem()[1]
            == "unknown-member"
        )
        assert (
            fault_codes(api, {**company(), misspelt: True}).popitem()[1]
            == "unknown-member"
        )
        in_subject = company(**{misspelt: True})
        assert fault_codes(api, in_subject).popitem()[1] == "unknown-member", misspelt
        assert count_rows() == before, misspelt


def test_draft_runs_and_bills_nothing(api: Api):
    created = api.create(company(), draft=True)
    jobs = Job.objects.count()

    api.work()

    report = api.report(created["id"])
    assert (report["status"], jobs) == ("DRAFT", 0)
    assert [r["status"] for r in report["checkResults"]] == ["PENDING"]
    assert CheckResult.objects.get().next_attempt_at is None
    assert not LedgerEntry.objects.exists()


def test_draft_obeys_the_rules_of_a_report(api: Api):
    nameless = {**company(fullName=None, registrationNumber=None), "purpose": " "}

    assert fault_codes(api, nameless, draft=True) == fault_codes(api, nameless)
