from tests.world.clients import Api, company
from tests.world.orders import count_rows, fault_codes
from verification.checks.models import CheckResult
from verification.jobs.models import Job
from workspaces.models import LedgerEntry

DRAFT, LAUNCHED = {**company(), "draft": True}, {**company(), "draft": False}


def test_draft_flag_of_the_item_wins(api: Api):
    null = {**company(), "draft": None}
    for top, statuses in [
        ({}, "RUNNING DRAFT RUNNING RUNNING"),
        ({"draft": False}, "RUNNING DRAFT RUNNING RUNNING"),
        ({"draft": True}, "DRAFT DRAFT RUNNING DRAFT"),
    ]:
        made = api.create(company(), DRAFT, LAUNCHED, null, **top)
        assert [one["status"] for one in made] == statuses.split(), top


def test_misspelt_draft_flag_is_refused(api: Api):
    before = count_rows()
    for misspelt in ["Draft", "drafts", "isDraft", "draft "]:
        item, in_subject = {**company(), misspelt: True}, company(**{misspelt: True})
        codes = fault_codes(api, item, in_subject, **{misspelt: True})
        assert list(codes.values()) == ["unknown-member"] * 3, misspelt
    assert count_rows() == before


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
