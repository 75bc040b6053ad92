import pytest
from django.test import Client
from django.utils.timezone import now

from tests.world.clients import Api, erase, person
from tests.world.orders import create_report_with_status
from verification import links
from verification.reports.models import Report


@pytest.fixture
def report(api: Api) -> Report:
    made = api.create(person(fullName="Wanjiku Kamau"))
    api.work()
    return Report.objects.get(pk=made["id"])


def path_of(report: Report) -> str:
    return "/" + links.genuine_url(report.pk).split("/", 3)[3]


def test_page_confirms_a_genuine_report(report: Report, client: Client):
    answer = client.get(path_of(report))
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "This report is genuine" in page
    assert "Acacia Lenders" in page
    assert "National identity: completed" in page
    assert answer["Cache-Control"] == "no-store"


def test_page_shows_neither_name_nor_number(report: Report, client: Client):
    page = client.get(path_of(report)).content.decode()
    assert "W•••• K••••" in page
    assert "Wanjiku" not in page
    assert "12345678" not in page


def test_page_shows_no_erased_subject(report: Report, client: Client):
    Report.objects.update(subject=None)
    assert "W••••" not in client.get(path_of(report)).content.decode()


def test_code_opens_one_report_only(report: Report, client: Client):
    other = links.genuine_url(report.workspace_id).rsplit("/", 1)[1]
    answer = client.get(path_of(report).rsplit("/", 1)[0] + "/" + other)
    assert answer.status_code == 404
    assert "We do not know this report" in answer.content.decode()


def test_pages_are_in_kiswahili(report: Report, client: Client):
    page = client.get(path_of(report) + "?lang=sw").content.decode()
    assert "Ripoti hii ni halisi" in page


def test_page_of_an_erased_report_gives_no_result_to_compare(
    api: Api, report: Report, client: Client
):
    erase(api, str(report.pk))
    page = client.get(path_of(report)).content.decode()
    assert "Overall result" not in page
    assert "Not scored" not in page
    assert "Details and result are erased here" in page


def test_page_of_a_cancelled_report_says_that_it_ended(api: Api, client: Client):
    made = create_report_with_status(api, "CANCELLED")
    page = client.get(path_of(Report.objects.get(pk=made))).content.decode()
    assert "Ended at" in page
    assert "Completed at" not in page


def test_page_warns_when_the_subject_objected(report: Report, client: Client):
    warning = "The person objected. Do not use this report for anything else."
    assert warning not in client.get(path_of(report)).content.decode()
    Report.objects.update(restricted_at=now())
    assert warning in client.get(path_of(report)).content.decode()
