import io
import re

from pypdf import PdfReader

from tests.world.clients import HOSTED, Api, company, person
from verification.reports.models import Report


def pages(api: Api, report_id: str) -> list[str]:
    """The text of each page, a space where a line ends."""
    answer = api.get(f"/reports/{report_id}/pdf")
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == "application/pdf"
    reader = PdfReader(io.BytesIO(answer.content))
    return [" ".join(page.extract_text().split()) for page in reader.pages]


def test_a_report_is_a_document_of_two_pages(api: Api):
    made = api.create({**person(idNumber="90000003"), "reference": "loan-4711"})
    api.work()
    first, second = pages(api, made["id"])
    assert "Wanjiku Kamau" in first
    assert "High risk" in first
    assert "DECEASED" in first
    assert "Test data." in first
    assert "loan-4711" in first + second
    assert "Check that this report is genuine" in second


def test_numbers_that_others_could_use_are_not_whole_in_it(api: Api):
    made = api.create(person(idNumber="12345678"))
    api.work()
    text = " ".join(pages(api, made["id"]))
    assert "12345678" not in text
    assert "••••5678" in text


def test_the_same_report_gives_the_same_bytes(api: Api):
    made = api.create(company())
    api.work()
    path = f"/reports/{made['id']}/pdf"
    assert api.get(path).content == api.get(path).content


def test_what_is_not_complete_is_not_called_clean(api: Api):
    made = api.create({**person(), "consent": HOSTED})
    text = " ".join(pages(api, made["id"]))
    assert "Not completed yet" in text
    assert "0 of 3" in text
    assert "No score" in text
    assert "Low risk" not in text


def test_a_name_is_text_and_never_markup(api: Api):
    made = api.create(person(fullName="#set text(red) *Bold* $x$ <a>"))
    api.work()
    assert "#set text(red) *Bold* $x$ <a>" in pages(api, made["id"])[0]


def test_an_erased_subject_is_not_in_it(api: Api):
    made = api.create(person(fullName="Wanjiku Kamau"))
    api.work()
    Report.objects.update(subject=None, subject_name="Erased")
    text = " ".join(pages(api, made["id"]))
    assert "The subject's details were erased." in text


def test_another_workspaces_document_is_not_found(api: Api, another_api: Api):
    made = api.create(person())
    assert another_api.get(f"/reports/{made['id']}/pdf").status_code == 404


def test_long_names_go_on_in_the_next_line(api: Api):
    api.workspace.name = "Q" * 200
    api.workspace.save()
    made = api.create(person(fullName="W" * 200))
    api.work()

    first = pages(api, made["id"])[0]

    for letter in "QW":
        lines = re.findall(f"{letter}+", first)
        assert sum(map(len, lines)) >= 200
        assert max(map(len, lines)) < 60
