import pytest
from django.test import Client

from tests.world.clients import Api, person
from verification import links
from verification.reports.models import Report


@pytest.fixture
def report(api: Api) -> Report:
    made = api.create(person(fullName="Wanjiku Kamau"))
    api.work()
    return Report.objects.get(pk=made["id"])


def path_of(report: Report) -> str:
    return "/" + links.genuine_url(report.pk).split("/", 3)[3]


def test_who_was_handed_a_report_sees_that_it_is_ours(report: Report, client: Client):
    answer = client.get(path_of(report))
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "This report is genuine" in page
    assert "Acacia Lenders" in page
    assert "National identity: completed" in page
    assert answer["Cache-Control"] == "no-store"


def test_the_page_tells_no_name_and_no_number(report: Report, client: Client):
    page = client.get(path_of(report)).content.decode()
    assert "W•••• K••••" in page
    assert "Wanjiku" not in page
    assert "12345678" not in page


def test_an_erased_subject_is_not_on_it(report: Report, client: Client):
    Report.objects.update(subject=None)
    assert "W••••" not in client.get(path_of(report)).content.decode()


def test_a_code_is_of_one_report_alone(report: Report, client: Client):
    other = links.genuine_url(report.workspace_id).rsplit("/", 1)[1]
    answer = client.get(path_of(report).rsplit("/", 1)[0] + "/" + other)
    assert answer.status_code == 404
    assert "We do not know this report" in answer.content.decode()


def test_it_speaks_kiswahili(report: Report, client: Client):
    page = client.get(path_of(report) + "?lang=sw").content.decode()
    assert "Ripoti hii ni halisi" in page
