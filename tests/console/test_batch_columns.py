"""Files as people make them: titles, other headings, totals, faulty rows."""

import re

import pytest

from tests.batches.files import csv_file, xlsx_file
from tests.console.test_batches import (
    PEOPLE,
    Sender,
    faults,
    found_faults,
    judge_file,
    order_file,
    people,
    subjects,
)
from tests.console.test_orders import DIGEST, attested, choice
from tests.world.clients import approve_workspace
from tests.world.console import ConsoleVisitor
from verification.batches.models import Batch, ColumnMapping, Upload
from verification.batches.spreadsheet import read_sheet
from verification.checks.models import CheckDefinition
from verification.console.batch_sheet import Columns, guess_columns
from verification.console.batches import Judged
from verification.console.order_inputs import Offer
from verification.reports.models import Report
from workspaces.models import Client, LedgerEntry

# As the branch of a lender sends it
BRANCH_FILE = """Baraka Credit;;;;;
Loan applications, November 2026;;;;;

S/No;Name;National ID No.;Mobile;Loan No.;Amount
1;Wanjiku Kamau;12345678.0;712345678;LN-1;20000
2;Otieno Odhiambo;23 456 789;0722 345 678;LN-2;15000
;;;;;
Total;;;;;35000
Prepared by: Jane Wanjiru;;;;;
"""
UNKNOWN = ["Mtu", "Kipande", "Size"]
SIZES = [[*row[:2], "42"] for row in PEOPLE]


@pytest.fixture
def sender(admin: ConsoleVisitor) -> Sender:
    return Sender(admin)


def confirm_columns(sender: Sender, *names: str) -> None:
    """Confirm the mapping page with these inputs, column by column."""
    sender.do("columns", **{f"column-{n}": x for n, x in enumerate(names)})


def guesses(page: str) -> list[str]:
    """Return the input that is chosen for each column of the mapping page."""
    selects = re.findall(r'<select name="column-\d+".*?</select>', page, re.DOTALL)
    return [
        found[1] if (found := re.search(r'value="([^"]*)" selected', one)) else ""
        for one in selects
    ]


def read_names(judged: Judged) -> list[str]:
    return [subject["fullName"] for subject in subjects(judged)]


def names() -> list[str]:
    return [report.subject_name for report in Report.objects.order_by("id")]


def test_file_of_a_branch_is_ordered_without_a_mapping(sender):
    page = sender.send(BRANCH_FILE.encode())

    assert "2 rows" in page
    plain = re.sub("<.*?>", "", page)
    assert "S/No, Amount · Change the columns" in plain
    assert "8 (Total 35000), 9 (Prepared by: Jane Wanjiru)" in plain
    sender.do("order")
    reports = Report.objects.order_by("id")
    assert [r.subject["idNumber"] for r in reports] == ["12345678", "23456789"]
    assert [r.subject["phone"] for r in reports] == ["+254712345678", "+254722345678"]
    assert [r.reference for r in reports] == ["LN-1", "LN-2"]
    assert Batch.objects.get().row_numbers == [5, 6]


KNOWN = [
    ["full NAME", "id_number", "REFERENCE"],
    ["subject.fullName", "subject-idNumber", "reference"],
    ["fullName", "idNumber", "Your reference (optional)"],
    ["Jina kamili", "Nambari ya kitambulisho", "Your reference"],
    ["Jina la mteja", "Namba ya kitambulisho", "Namba ya mkopo"],
    ["APPLICANT", "ID/Passport No.", "Account Number"],
    ["Names", "ID NO", "Ref"],
]


def test_headings_are_known_in_other_words_and_in_any_order(api):
    client = Client(api.workspace, api.account, "")
    offer = Offer.to(client)
    for headings in KNOWN:
        rows = [[text[::-1] for text in row[::-1]] for row in PEOPLE]
        sheet = read_sheet("a.csv", people(*rows, headings=headings[::-1]))

        found = guess_columns(client, sheet, choice(), offer)

        names = ["reference", "subject-idNumber", "subject-fullName"]
        assert found == Columns(dict(enumerate(names))), headings


def test_parts_of_a_name_make_the_name(api):
    headings = ["First name", "Other names", "Surname", "ID number"]
    content = csv_file(headings, ["Wanjiku", "", "Kamau", "12345678"])

    assert read_names(judge_file(api, content)) == ["Wanjiku Kamau"]


def test_unknown_columns_are_guessed_and_confirmed(sender):
    price = DIGEST.search(sender.send(people()))[1]
    page = sender.send(people(*SIZES, headings=UNKNOWN))

    assert guesses(page) == ["subject-fullName", "subject-idNumber", ""]
    assert "Check the columns" in sender.press("order", digest=price)
    assert not Report.objects.exists()
    confirm_columns(sender, "subject-fullName", "subject-idNumber", "reference")
    sender.do("order")
    assert [r.reference for r in Report.objects.all()] == ["42"] * 3


def test_mapping_is_remembered_for_the_same_headings(sender, owner, stranger):
    sender.upload(people(*SIZES, headings=UNKNOWN))
    confirm_columns(sender, "subject-fullName", "subject-idNumber", "")
    again = [row[::-1] for row in SIZES]

    other = Sender(owner).send(people(*again, headings=UNKNOWN[::-1]), "b.csv")

    assert 'value="order"' in other
    assert guesses(Sender(stranger).send(people(*SIZES, headings=UNKNOWN)))
    headings = [*UNKNOWN[:2], "Colour"]
    assert guesses(Sender(owner).send(people(*SIZES, headings=headings)))


def test_order_is_refused_when_a_colleague_changed_the_mapping(sender, owner):
    sender.upload(people(*SIZES, headings=UNKNOWN))
    confirm_columns(sender, "subject-fullName", "subject-idNumber", "")
    assert 'value="order"' in sender.send(people(SIZES[0], headings=UNKNOWN), "b.csv")
    colleague = Sender(owner)
    colleague.upload(people(SIZES[1], headings=UNKNOWN), "c.csv")
    confirm_columns(colleague, "subject-fullName", "subject-idNumber", "reference")

    assert "Look again" in sender.press("order")
    assert not Report.objects.exists()
    sender.do("order")
    assert Report.objects.get().reference == "42"


def test_mapping_of_the_sandbox_is_not_that_of_production(admin, live_api):
    approve_workspace(admin.workspace)
    sandbox = Sender(admin)
    sandbox.upload(people(*SIZES, headings=UNKNOWN))
    confirm_columns(sandbox, "subject-fullName", "subject-idNumber", "")

    assert guesses(
        Sender(admin, None, "production").send(people(*SIZES, headings=UNKNOWN))
    )


def test_file_without_headings_loses_no_row_and_is_not_remembered(sender):
    page = sender.send(people(*[row[:2] for row in PEOPLE[1:]], headings=PEOPLE[0][:2]))

    assert guesses(page) == ["subject-fullName", "subject-idNumber"]
    confirm_columns(sender, "subject-fullName", "subject-idNumber")
    sender.do("order")
    assert names() == [row[0] for row in PEOPLE]
    assert not ColumnMapping.objects.exists()


@pytest.mark.parametrize(
    ("headings", "is_told"), [(["Wanjiku Kamau"], True), (["Jina"], False)]
)
def test_member_is_told_that_a_name_is_read_as_headings(sender, headings, is_told):
    page = sender.send(people(["Achieng Otieno"], headings=headings))

    assert ("Row 1 is read as headings" in page) is is_told


def test_mapping_that_cannot_be_ordered_is_refused(sender):
    sender.upload(people(*SIZES, headings=UNKNOWN))

    for chosen, says in [
        (["subject-fullName", "", ""], "ID number is needed: choose its column"),
        (
            ["subject-idNumber", "subject-idNumber", ""],
            "You chose this for another column",
        ),
        (["subject-fullName", "subject-idNumber", "x"], "Choose one from the list"),
    ]:
        confirm_columns(sender, *chosen)
        assert says in sender.html
    assert not ColumnMapping.objects.exists()


def test_column_that_the_order_needs_is_asked_for(sender):
    page = sender.send(people(*[row[::2] for row in PEOPLE], headings=["Name", "Ref"]))

    assert "ID number is needed: choose its column" in page


def test_known_column_can_be_changed(sender):
    sender.upload(people())

    page = sender.visitor.http.get(f"{sender.page}?columns=1").content.decode()

    assert guesses(page) == ["subject-fullName", "subject-idNumber", "reference"]
    confirm_columns(sender, "subject-fullName", "subject-idNumber", "")
    sender.do("order")
    assert set(Report.objects.values_list("reference", flat=True)) == {None}


def test_row_without_a_plausible_person_is_a_fault(api):
    rows = [
        ["Total", "200", ""],
        ["34567891", "34567891", ""],
        ["KES 20,000", "34567892", ""],
        ["Checked: yes", "34567893", ""],
        ["", "", "LN-4"],
    ]

    found = found_faults(judge_file(api, people(*PEOPLE, *rows)))

    assert {text[:34] for text in found} >= {
        *[f"Row {n}, Full name: This is not a name"[:34] for n in (5, 6, 7, 8)],
        "Row 9, Full name: Fill this in",
    }


def test_total_is_not_ordered_by_a_check_that_needs_a_name_alone(api):
    CheckDefinition.objects.update(active=True)
    content = csv_file(["Name", "Amount"], ["W. Kamau", "200"], ["Total", "200"])

    judged = judge_file(api, content, chosen=choice("AML_SCREENING"))

    assert read_names(judged) == ["W. Kamau"]


def test_total_in_the_column_of_id_numbers_is_left_out(api):
    lines = ["S/No;Name;National ID No.;Amount", "1;Wanjiku Kamau;12345678;200"]

    judged = judge_file(api, "\n".join([*lines, ";;Total;200"]).encode())

    assert read_names(judged) == ["Wanjiku Kamau"]


def test_number_in_a_name_that_stands_alone_is_a_fault(api):
    CheckDefinition.objects.update(active=True)
    content = csv_file(["Name", "Amount"], ["W. Kamau", "2"], ["Page 1 of 3"])

    judged = judge_file(api, content, chosen=choice("AML_SCREENING"))

    assert found_faults(judged) == [
        "Row 3, Full name: This is not a name. Write the name, or leave the row out"
    ]


def test_heading_that_is_repeated_between_rows_is_left_out(api):
    rows = [PEOPLE[0], ["Full name", "ID number", "Your reference"], PEOPLE[1]]

    assert read_names(judge_file(api, people(*rows))) == [PEOPLE[0][0], PEOPLE[1][0]]


FAULTY = [PEOPLE[0], ["Otieno Odhiambo", "", "LN-2"], ["Amina Said", "3456", "L" * 101]]


def test_cells_are_mended_in_place(sender):
    sender.upload(people(*FAULTY))

    page = sender.press("mend", **{"cell-3-1": " 23456789 ", "cell-4-2": "LN\0-3"})

    assert 'value="order"' in page
    sender.do("order")
    reports = Report.objects.order_by("id")
    assert [r.subject["idNumber"] for r in reports] == ["12345678", "23456789", "3456"]
    assert [r.reference for r in reports] == ["LN-1", "LN-2", "LN-3"]


def test_mended_cell_may_be_wrong_again_and_an_unchanged_one_stays_wrong(sender):
    sender.upload(people(PEOPLE[0], ["Otieno", "=1+1", "LN-2"], ["Amina", "x", "LN-3"]))

    page = sender.press(
        "mend", **{"cell-3-1": "=1+1", "cell-4-1": "y", "cell-9-9": "z"}
    )

    assert [text[:20] for text in faults(page)] == [
        "Row 3, ID number: Th",
        "Row 4, ID number: En",
    ]
    assert 'value="y"' in page


def test_faulty_rows_are_skipped_and_wait_for_another_order(sender):
    page = sender.send(people(*FAULTY, PEOPLE[2]), "loans.csv")
    assert "Skip 2 rows and continue with 2" in page

    page = sender.press("skip")
    assert "3, 4 · They wait under Files ordered" in page
    assert "Order 2 reports for KES 100.00" in page
    page = sender.press("order")

    assert "Rows with errors that wait under Files ordered: 2." in page
    assert Batch.objects.get().row_numbers == [2, 5]
    assert LedgerEntry.objects.count() == 2
    rest = Upload.objects.get()
    sender.page = sender.visitor.url("reports-batch", batch=rest.pk)
    sender.do("mend", **{"cell-3-1": "23456789", "cell-4-2": "LN-3"})
    sender.do("order")
    assert sorted(n for b in Batch.objects.all() for n in b.row_numbers) == [2, 3, 4, 5]
    assert not Upload.objects.exists()


def test_row_is_left_out_by_a_tick(sender):
    sender.upload(people(*FAULTY))

    sender.do("mend", ignore="4", **{"cell-3-1": "23456789"})
    sender.do("order")

    assert Batch.objects.get().row_numbers == [2, 3]
    assert not Upload.objects.exists()


def test_file_that_was_mended_is_known_again(sender):
    sender.upload(people(*FAULTY))
    sender.do("skip")
    sender.do("order")
    Upload.objects.all().delete()

    sender.upload(people(*FAULTY), "copy.csv")

    assert "The same rows were ordered before" in sender.press("skip")


def test_order_of_faulty_rows_alone_is_refused_and_takes_them_back(sender):
    sender.upload(people(*FAULTY[1:]))
    sender.do("skip")

    page = sender.press("order")

    assert "No row is left to order" in page
    assert not Report.objects.exists()
    assert "2 rows of 2 have errors" in sender.press("back")


def test_same_person_twice_is_found_beside_other_faults(api):
    judged = judge_file(api, people(PEOPLE[0], PEOPLE[0], ["Otieno", "", ""]))

    assert found_faults(judged) == [
        "Row 3, ID number: The same as in row 2",
        "Row 4, ID number: Fill this in",
    ]


def test_same_name_alone_twice_is_found(api):
    CheckDefinition.objects.filter(name="AML_SCREENING").update(active=True)
    rows = [["Wanjiku Kamau", "0712 345 678"], *[["Wanjiku Kamau", ""]] * 2]

    content = people(*rows, headings=["Full name", "Phone"])

    judged = judge_file(api, content, chosen=choice("AML_SCREENING"))

    assert found_faults(judged) == ["Row 4, Full name: The same as in row 3"]


def test_name_alone_of_an_earlier_file_is_pointed_out(admin):
    CheckDefinition.objects.filter(name="AML_SCREENING").update(active=True)
    chosen = choice("AML_SCREENING")
    headings = ["Name", "Your reference"]
    order_file(admin, csv_file(headings, ["Wanjiku Kamau", "1"]), chosen)

    page = Sender(admin, chosen).send(
        csv_file(headings, ["Otieno", "2"], ["Wanjiku Kamau", "3"])
    )

    earlier = Report.objects.get().pk
    assert f'Row 3 · <a href="{admin.url("reports-detail", report=earlier)}"' in page


def test_rows_of_a_colleague_are_not_mended(sender, owner):
    sender.upload(people(*FAULTY))

    for step in ("columns", "mend", "skip", "back"):
        assert owner.http.post(sender.page, {"step": step}).status_code == 404


def test_days_are_read_as_spreadsheets_and_people_write_them(api):
    headings = ["Name", "ID No", "DOB"]
    days = [33238, "31-Dec-1990", "31 Desemba 1990", "19901231"]
    rows = [[f"A {n} B", 20000000 + n, day] for n, day in enumerate(days)]

    judged = judge_file(api, xlsx_file(headings, *rows), "people.xlsx")

    assert {one["dateOfBirth"] for one in subjects(judged)} == {"1990-12-31"}
    # The page asks to compare those that a person may read otherwise.
    assert judged.repairs


def test_long_and_arabic_names_are_ordered(api):
    long = "Wanjiku " + "K" * 192
    content = csv_file(["Name", "ID"], [long, "12345678"], ["محمد علي", "23456789"])

    assert read_names(judge_file(api, content)) == [long, "محمد علي"]


def test_merged_cells_of_a_title_and_of_group_headings_are_skipped(api):
    rows = [
        *[["Loans of November", None, None], [None, None, None]],
        *[["Applicant", None, "Loan"], ["Name", "ID No", "Amount"]],
        ["W. Kamau", 12345678, 200],
    ]

    judged = judge_file(api, xlsx_file(*rows), "people.xlsx")

    assert read_names(judged) == ["W. Kamau"]


def test_titles_and_totals_are_no_rows_beyond_the_most(sender, monkeypatch):
    monkeypatch.setattr("verification.console.batches.MAX_ROWS", 2)
    rows = [[f"P {n}", f"{20000000 + n}"] for n in range(3)]
    lines = [["Title"], ["Name", "ID"], *rows[:2], ["Total", ""]]

    assert 'value="order"' in sender.send(csv_file(*lines))
    assert "500 rows" in sender.send(csv_file(["Name", "ID"], *rows))


def test_rows_are_kept_when_other_details_are_typed(sender):
    sender.upload(people(*FAULTY), purpose="")
    sender.do("mend", **{"cell-3-1": "23456789", "cell-4-2": "LN-3"})
    sender.url += f"&again={Upload.objects.get().pk}"

    fields = {"purpose": "Loan application", **attested()}
    answer = sender.visitor.http.post(sender.url, fields, follow=True)

    assert 'value="order"' in answer.content.decode()
    assert Upload.objects.count() == 1
