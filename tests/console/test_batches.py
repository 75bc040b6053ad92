"""Members order many reports by a file, all rows or none, once for each file."""

import io
import re
from datetime import datetime, timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.utils.timezone import localtime, now
from openpyxl import Workbook, load_workbook

from tests.batches.files import csv_file, xlsx_file
from tests.console.test_orders import DIGEST, attested, choice
from tests.world.clients import Api, approve_workspace, person
from tests.world.console import ConsoleVisitor
from tests.world.corrections import dispute
from tests.world.decisions import (
    decide,
    deciding_api,
    open_new_cases,
    set_service_level,
)
from tests.world.members import create_member
from tests.world.orders import count_rows
from tests.world.packages import create_package
from tests.world.staff import take_messages
from tests.world.threads import run_at_once
from verification.backoffice.models import AuditEvent
from verification.batches.cells import Sheet
from verification.batches.models import Batch, Upload, purge_uploads
from verification.batches.spreadsheet import WORKBOOKS, read_sheet
from verification.checks.models import CheckDefinition
from verification.consents.models import Consent
from verification.console.batches import (
    Judged,
    OpenUpload,
    judge,
    place_batch,
    store_upload,
)
from verification.console.order_form import query_of
from verification.console.order_inputs import Choice
from verification.files import inspection
from verification.files.inspection import NEWCOMERS
from verification.notifications.models import Block, Notification
from verification.notifications.recipients import block
from verification.reports.models import Report
from verification.values.local_time import NAIROBI
from workspaces import members
from workspaces.models import Account, Client, LedgerEntry, Role

CONTACTS = ["E-mail address", "Phone number"]
HEADINGS = ["Full name", "ID number", "Your reference"]
PEOPLE = [
    ["Wanjiku Kamau", "12345678", "LN-1"],
    ["Otieno Odhiambo", "23456789", "LN-2"],
    ["Amina Said", "34567890", "LN-3"],
]
COMMON = {"purpose": "Loan application", "reuse": "on"}


class Sender:
    """A member who sends a file and goes on from page to page."""

    def __init__(self, visitor: ConsoleVisitor, chosen=None, environment="sandbox"):
        self.visitor, self.environment = visitor, environment
        self.query = query_of(chosen or choice())
        self.url = f"{visitor.url('reports-batch-new', environment)}?{self.query}"
        self.page = ""
        self._answer: Any = None

    def send(self, content: bytes, name: str = "people.csv", **fields: str) -> str:
        """Send a file; return the page that it leads to."""
        self.upload(content, name, **fields)
        return self.html

    def press(self, step: str, **ticks: str) -> str:
        """Press a button of the quote; return the page, or what it says of an order."""
        self.do(step, **ticks)
        if self.status == 303 and step in {"order", "draft", "discard"}:
            return " ".join(take_messages(self._answer))
        return self.html

    def upload(self, content: bytes, name: str = "people.csv", **fields: str) -> None:
        """Send a file, and open no page after it."""
        file = SimpleUploadedFile(name, content)
        fields = {**COMMON, **attested(), **fields}
        self._answer = self.visitor.http.post(self.url, {"file": file, **fields})
        self.page = self._answer.get("Location", self.url)

    def do(self, step: str, **ticks: str) -> None:
        """Press a button of the quote, and open no page after it."""
        if step in {"order", "draft"} and (found := DIGEST.search(self.html)):
            ticks = {"digest": found[1], **ticks}
        self._answer = self.visitor.http.post(self.page, {"step": step, **ticks})

    def order(self, content: bytes, name: str = "people.csv", **fields: str) -> None:
        self.upload(content, name, **fields)
        self.do("order")

    @property
    def html(self) -> str:
        """The present page, which is opened only now."""
        if self._answer.status_code == 303:
            self._answer = self.visitor.http.get(self._answer["Location"])
        return unescape(self._answer.content.decode())

    @property
    def status(self) -> int:
        return self._answer.status_code


@pytest.fixture
def sender(admin: ConsoleVisitor) -> Sender:
    """An administrator who orders IDENTITY with consents on paper."""
    return Sender(admin)


def people(*rows: list[str], headings: list[str] = HEADINGS) -> bytes:
    return csv_file(headings, *(rows or PEOPLE))


def saved(workbook: Workbook) -> bytes:
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()


def faults(html: str) -> list[str]:
    """Return the faults of the summary on top of the page."""
    (summary,) = re.findall(r'role="alert".*?</ul>', html, re.DOTALL)
    found = re.findall(r"<li>(?:<a[^>]*>)?(.*?)(?:</a>)?</li>", summary)
    return [text.strip() for text in found]


def keep_file(
    client: Client, content: bytes, name: str, chosen: Choice | None
) -> tuple[Upload, Judged]:
    sheet, common = read_sheet(name, content), {**COMMON, **attested()}
    upload = store_upload(client, name, sheet, chosen or choice(), common)
    return upload, judge(client, OpenUpload.of(upload))


def judge_file(
    api: Api, content: bytes, name: str = "people.csv", chosen: Choice | None = None
) -> Judged:
    """Judge the rows of a file by the verbs of the pages, which show the result."""
    client = Client(api.workspace, api.account, "tests")
    return keep_file(client, content, name, chosen)[1]


def order_file(
    visitor: ConsoleVisitor,
    content: bytes,
    chosen: Choice | None = None,
    environment: str = "sandbox",
    *,
    draft: bool = False,
) -> Batch:
    """Order the rows of a file by the verbs of the pages."""
    account = visitor.workspace.accounts.get(environment=environment)
    client = Client(visitor.workspace, account, f"member {visitor.member.pk}")
    upload, judged = keep_file(client, content, "people.csv", chosen)
    assert judged.quote
    digest = judged.quote.digest
    place_batch(client, upload, judged, draft=draft, digest=digest, also=lambda _: None)
    return Batch.objects.get(pk=upload.pk)


def found_faults(judged: Judged) -> list[str]:
    """Return the faults as the summary of the page names them."""
    assert not judged.general
    return [f"Row {one.row}, {one.label}: {one.text}" for one in judged.faults]


def subjects(judged: Judged) -> list[dict[str, Any]]:
    """Return the subjects of a file without faults, as they are ordered."""
    assert judged.quote
    return [order.subject.members for order in judged.quote.orders]


def test_rows_are_quoted_and_then_ordered_together(sender):
    quote = sender.send(people())
    assert "3 rows without errors" in quote
    assert "reports for KES 150.00" in quote
    assert not Report.objects.exists()

    page = sender.press("order")

    assert "Reports ordered: 3." in page
    batch, reports = Batch.objects.get(), Report.objects.in_bulk()
    assert (batch.name, batch.row_numbers) == ("people.csv", [2, 3, 4])
    assert not batch.draft
    made = [reports[pk] for pk in batch.report_ids]
    assert [r.subject["idNumber"] for r in made] == [row[1] for row in PEOPLE]
    assert [r.reference for r in made] == ["LN-1", "LN-2", "LN-3"]
    assert {r.purpose for r in made} == {"Loan application"}
    assert {c.attestation["method"] for c in Consent.objects.all()} == {"PAPER_FORM"}
    assert sum(LedgerEntry.objects.values_list("amount", flat=True)) == Decimal(-150)
    assert AuditEvent.objects.get(action="batch.ordered").object_id == str(batch.pk)
    assert not Upload.objects.exists()


TEMPLATES = [
    (
        choice(),
        [
            *["Full name", "ID number", "Date of birth", *CONTACTS],
            *["Your reference", "When it was given", "How it was given"],
            "Version of the text that they agreed to",
            *["Where you keep the proof", "Purpose"],
        ],
    ),
    (
        choice("KRA_PIN", consent="", subject_type="COMPANY"),
        ["Registered name", "KRA PIN", *CONTACTS, "Your reference", "Purpose"],
    ),
    (
        choice(consent="", payment_mode="THIRD_PARTY"),
        [
            *["Full name", "ID number", "Date of birth", *CONTACTS],
            *["Your reference", "Name of the payer", "E-mail address of the payer"],
            *["Phone number of the payer", "Purpose"],
        ],
    ),
]


def template(visitor: ConsoleVisitor, chosen: Choice, format: str) -> bytes:
    url = visitor.url("reports-batch-template", format=format)
    content: bytes = visitor.http.get(f"{url}?{query_of(chosen)}").content
    return content


def test_template_has_what_the_choice_needs(admin):
    for chosen, headings in TEMPLATES:
        content = template(admin, chosen, "csv") + csv_file(["x"])
        found = [cell.text for cell in read_sheet("a.csv", content).header.cells]
        assert found == headings

    workbook = load_workbook(io.BytesIO(template(admin, chosen, "xlsx")))
    assert [cell.value for cell in workbook.active[1]] == headings


def test_choice_is_kept_while_it_is_changed(admin):
    sender = Sender(admin, choice(consent="SERVICE_HOSTED", payment_mode="CANDIDATE"))
    page = unescape(admin.http.get(sender.url).content.decode())
    (address,) = re.findall(r'<a href="([^"]*)">Other checks, consent or payer', page)

    page = admin.http.get(admin.url("reports-batch-new") + address).content.decode()

    chosen = re.findall(r'value="(\w+)"[^>]* checked', page)
    assert {*chosen} >= {"IDENTITY", "SERVICE_HOSTED", "CANDIDATE"}
    assert "There is a problem" not in page


def test_filled_template_is_ordered_in_kiswahili(sender):
    url = sender.visitor.url("reports-batch-template", format="csv")
    answer = sender.visitor.http.get(f"{url}?{sender.query}&lang=sw")
    width = answer.content.decode().count(",")
    row = ["Wanjiku Kamau", "12345678", *[""] * (width - 1)]

    assert 'value="order"' in sender.send(answer.content + csv_file(row))


def test_faults_are_shown_by_row_and_column_with_the_rows(sender):
    rows = [
        PEOPLE[0],
        ["Otieno Odhiambo", "", "LN-2"],
        ["", "34567890", "L" * 101],
    ]

    page = sender.send(people(*rows))

    assert "<title>Error: [Sandbox]" in page
    assert faults(page) == [
        "Row 3, ID number: Fill this in",
        "Row 4, Full name: Fill this in",
        "Row 4, Your reference: Use at most 100 characters",
    ]
    assert '<a href="#cell-3-1">' in page
    assert 'id="cell-3-1"' in page
    assert "2 rows of 3 have errors" in page
    assert "Otieno Odhiambo" in page
    assert "Wanjiku Kamau" not in page
    assert 'value="order"' not in page
    assert "2 rows of 3 have errors" in sender.press("order")
    assert not Report.objects.exists()


def test_file_that_was_put_right_takes_the_place_of_the_wrong_one(sender, owner):
    page = sender.send(people(PEOPLE[0], ["Otieno Odhiambo", "", "LN-2"]))
    wrong = Upload.objects.get().pk
    (again,) = re.findall(rf'href="([^"]*again={wrong})"', page)
    form = sender.visitor.http.get(again).content.decode()
    assert "Loan application" in form
    assert 'value="2026-01"' in form
    assert 'value="2026-01"' not in owner.http.get(again).content.decode()

    sender.url = again
    sender.upload(people())
    assert not Upload.objects.filter(pk=wrong).exists()

    assert "Reports ordered: 3." in sender.press("order")


def test_many_faulty_rows_are_counted_and_the_first_are_shown(sender):
    page = sender.send(people(*[["P Q", "", "L" * 101]] * 27))

    assert "27 rows of 27 have errors" in page
    assert len(faults(page)) == 12
    assert page.count('aria-invalid="true"') == 50
    assert "2 more rows have errors." in page
    assert 'value="skip"' not in page


def test_cell_that_two_checks_need_is_listed_once(api):
    chosen = choice("IDENTITY", "CRB_SCORE")

    judged = judge_file(api, people(["P Q", "", ""]), chosen=chosen)

    assert found_faults(judged) == ["Row 2, ID number: Fill this in"]


def test_what_all_rows_lack_is_said_once_and_leads_to_its_form(sender):
    lacking = {"purpose": "", "consent-obtained": ""}
    assert "Purpose (optional)" not in sender.visitor.http.get(sender.url).text

    page = sender.send(people(), **lacking)

    assert re.search(r'<li><a href="[^"]*again=[^"]*">Purpose: Fill this in', page)
    # All cells are right, so the page has no link to them.
    assert "The order has errors" in page
    assert "Correct the cells" not in page
    assert faults(page) == [
        "Purpose: Fill this in",
        "You have the consent of the subject: Confirm it, as the checks need a consent",
    ]


WRONG_CELLS = [
    ("ID number", '="0123"', "This is a formula. Put its value here"),
    ("ID number", "2.54712E+11", "The spreadsheet has rounded this number."),
    ("ID number", "3123456O", "Enter the number as on the ID card."),
    ("ID number", "312345.61", "Enter the number as on the ID card."),
    ("ID number", "27 03 1990", "Enter the number as on the ID card."),
    ("Date of birth", "13/31/1990", "Write the day as 1990-12-31"),
    ("Date of birth", "31/02/1990", "The month has no such day"),
    ("Date of birth", "2999-01-01", "Choose a past day"),
    ("Date of birth", "01/01/1899", "Choose a past day"),
    ("When it was given", "yesterday", "Write the time as"),
    ("When it was given", "2999-01-01", "Choose a time in the past"),
    ("How it was given", "By pigeon", "Choose one from the list"),
    ("obtained", "maybe", "Write yes or no"),
    ("obtained", "no", "Confirm it, as the checks need a consent"),
]


def test_wrong_cell_is_refused_and_says_why(api):
    headings = ["Full name", *dict.fromkeys(column for column, *_ in WRONG_CELLS)]
    rows = []
    for number, (column, text, _fault) in enumerate(WRONG_CELLS):
        right = {"Full name": "Wanjiku Kamau", "ID number": f"{22345670 + number}"}
        row = {**right, column: text}
        rows.append([row.get(name, "") for name in headings])

    found = found_faults(judge_file(api, csv_file(headings, *rows)))

    expected = [(f"Row {n}, ", fault) for n, (*_, fault) in enumerate(WRONG_CELLS, 2)]
    for said, (row_number, fault) in zip(found, expected, strict=True):
        assert said.startswith(row_number)
        assert fault in said


def test_wrong_cell_of_a_workbook_is_refused(api):
    wrong = {
        "=1+1": "This is a formula",
        1234567890123456: "The spreadsheet has rounded this number",
        now().replace(tzinfo=None): "The spreadsheet changed this to a date",
        123.456: "Enter the number as on the ID card.",
    }
    rows = [["Wanjiku Kamau", value] for value in wrong]
    content = xlsx_file(["Full name", "ID number"], *rows)

    found = found_faults(judge_file(api, content, "people.xlsx"))

    for said, fault in zip(found, wrong.values(), strict=True):
        assert f", ID number: {fault}" in said


def test_cells_are_read_as_people_write_them(api):
    headings = ["Full name", "ID number", "Date of birth"]
    headings += ["When it was given", "How it was given", "Use earlier results"]
    headings[-1] = "reuse"
    given = localtime(timezone=NAIROBI) - timedelta(days=2)
    row = ["W. Kamau", "12345678", "31/12/1990", f"{given:%d/%m/%Y}", "By e-mail", "No"]

    judged = judge_file(api, csv_file(headings, row))

    assert not judged.is_faulty
    (item,) = judged.items
    assert item["subject"]["dateOfBirth"] == "1990-12-31"
    assert item["reuse"] is False
    assert item["consent"]["method"] == "EMAIL"
    obtained = localtime(datetime.fromisoformat(item["consent"]["obtainedAt"]), NAIROBI)
    assert (obtained.date(), obtained.hour) == (given.date(), 0)


def test_phone_number_is_known_as_spreadsheets_write_it(api):
    headings = ["Full name", "ID number", "Phone number"]
    phones = ["712345678", "0712 345 678", "+254712345678", "'+254712345678"]
    phones += ["254712345678.0", "'0712345678", "712,345,678", "0712\u200b345678"]
    phones += ["0712-34-5678", "0712 34 5678"]

    rows = [["A B", f"{20000000 + n}", phone] for n, phone in enumerate(phones)]
    judged = judge_file(api, csv_file(headings, *rows))

    read = [subject["phone"] for subject in subjects(judged)]
    assert read == ["+254712345678"] * len(phones)


def test_damaged_number_is_put_right_and_shown(sender):
    damaged = [
        *["31234561.0", "'31234562", "31,234,563", "31,234,564.00", "31 234 565"],
        *["31-234-566", "3123\u200b4567"],
    ]
    rows = [["Wanjiku Kamau", number] for number in damaged]
    page = sender.send(csv_file(["Full name", "ID number"], *rows, separator=";"))

    assert "We corrected them: compare them." in page
    shown = re.findall(r"<td>ID number</td><td>(.*?)</td><td>(.*?)</td>", page)
    right = [f"3123456{number}" for number in range(1, 8)]
    assert [[re.sub("<.*?>", "", text) for text in pair] for pair in shown] == [
        [number.replace("\u200b", "\ufffd"), one]
        for number, one in zip(damaged, right, strict=True)
    ]
    sender.do("order")
    reports = Report.objects.order_by("id")
    assert [report.subject["idNumber"] for report in reports] == right


def test_zeros_that_the_length_shows_are_put_back(api):
    content = xlsx_file(["Full name", "ID number"], ["Ada Obi", 1234567890])

    judged = judge_file(api, content, "x.xlsx", choice(country="NG"))

    assert subjects(judged)[0]["idNumber"] == "01234567890"


@pytest.mark.parametrize("inspector", [NEWCOMERS, WORKBOOKS])
def test_workbook_is_refused_while_the_machine_is_busy(sender, inspector, monkeypatch):
    if inspector is WORKBOOKS:
        approve_workspace(sender.visitor.workspace)
    with inspector.machine_lock():
        monkeypatch.setattr(inspection, "WAIT_SECONDS", 0)
        sender.upload(xlsx_file(HEADINGS, *PEOPLE), "people.xlsx")

    assert sender.status == 503


def test_number_that_may_have_lost_zeros_is_pointed_out(sender):
    content = xlsx_file(["Full name", "ID number"], ["A B", 1234567], ["C D", 12345678])

    page = sender.send(content, "people.xlsx")

    assert "ID number has few digits in these rows: 2." in page
    assert 'value="order"' in page


def test_same_rows_are_ordered_again_if_the_member_confirms_it(sender, owner):
    batch = order_file(sender.visitor, people())
    Report.objects.filter(pk=batch.report_ids[0]).update(
        status="CANCELLED", completed_at=now()
    )

    # Another member, another name, another format and other checks
    again = Sender(owner, choice("KRA_PIN"))
    page = again.send(xlsx_file(HEADINGS, *PEOPLE), "other.xlsx")

    (before,) = re.findall(
        r"The same rows were ordered before:.*?</ul>", page, re.DOTALL
    )
    for said in ["people.csv", sender.visitor.member.user.email, "National identity"]:
        assert said in before
    assert re.search(r"3 reports\s+\(cancelled: 1\)", before)
    assert '<a href="#price">Nothing was ordered. Read' in again.press("order")
    assert "Nothing was ordered. Read" in again.press("draft", again="2")
    assert Report.objects.count() == 3
    again.do("order", again="1")
    assert Report.objects.filter(checks_requested=["KRA_PIN"]).count() == 3
    third = Sender(owner, choice("KRA_PIN")).send(people())
    assert 'name="again" value="2"' in third


def test_other_rows_environment_or_workspace_make_another_order(
    sender, admin, stranger, live_api
):
    order_file(admin, people())

    approve_workspace(admin.workspace)
    live = Sender(admin, None, "production")
    for other in (Sender(stranger), live):
        assert "3 rows without" in other.send(people())
        assert 'name="again"' not in other.html
    assert 'name="again"' not in sender.send(people(PEOPLE[0]))


def test_other_sheets_of_a_workbook_are_said_and_hidden_ones_are_not_read(sender):
    workbook = Workbook()
    hidden, shown, more = workbook.active, *map(workbook.create_sheet, ["P", "More"])
    workbook.create_sheet("Empty")
    hidden.title, hidden.sheet_state = "Secret", "hidden"
    for sheet, rows in [(hidden, PEOPLE), (shown, PEOPLE[:1]), (more, PEOPLE)]:
        for row in [HEADINGS, *rows]:
            sheet.append(row)

    page = sender.send(saved(workbook), "people.xlsx")

    assert "1 row without errors" in page
    (warning,) = re.findall(r"We have read only the sheet .*?</p>", page, re.DOTALL)
    assert [n in warning for n in ["P", "Secret", "More", "Empty"]] == [
        *[True, True, True, False]
    ]


def test_hidden_rows_are_ordered_only_if_the_member_confirms_it(sender):
    workbook = Workbook()
    for row in [HEADINGS, *PEOPLE]:
        workbook.active.append(row)
    workbook.active.row_dimensions[3].hidden = True

    page = sender.send(saved(workbook), "people.xlsx")

    assert "These rows are hidden in the file: 3. They are part of the order:" in page
    assert "Nothing was ordered. Read" in sender.press("order")
    assert not Report.objects.exists()
    sender.do("order", hidden="on")
    assert Report.objects.count() == 3


def test_text_that_is_not_sure_is_a_fault_of_its_cell(api):
    content = csv_file(["Full name", "ID number"], ["Bj\u00f6rk", "1"])

    judged = judge_file(api, content.decode().encode("mac_roman"))

    (found,) = found_faults(judged)

    assert found.startswith("Row 2, Full name: We cannot read this text reliably")


@pytest.mark.django_db(transaction=True)
def test_same_file_sent_by_two_at_once_is_ordered_once(sender, owner):
    senders = [sender, Sender(owner)]
    for one in senders:
        one.send(people())

    def press(number: int) -> int:
        try:
            senders[number].press("order")
            return senders[number].status
        finally:
            connection.close()

    assert set(run_at_once(2, press)) == {200, 303}
    assert Report.objects.count() == 3
    assert Batch.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_double_click_orders_once(sender):
    sender.upload(people())
    fields = {"step": "order", "digest": DIGEST.search(sender.html)[1]}

    def click(_number: int) -> int:
        try:
            return sender.visitor.http.post(sender.page, fields).status_code
        finally:
            connection.close()

    assert set(run_at_once(2, click)) <= {303, 404}
    assert Report.objects.count() == 3


def test_button_pressed_again_leads_to_the_batch(sender):
    sender.order(people())

    assert "it was ordered once, and this is it" in sender.press("order")
    assert Report.objects.count() == 3


def test_changed_price_is_shown_before_anything_is_ordered(sender):
    sender.send(people())
    CheckDefinition.objects.filter(name="IDENTITY").update(price=60)
    before = count_rows()

    page = sender.press("order")

    assert "the rows or their price changed" in page
    assert "reports for KES 180.00" in page
    assert count_rows() == before
    assert "Reports ordered: 3." in sender.press("order")


def test_reused_results_are_counted(sender, api: Api):
    order_file(sender.visitor, people(PEOPLE[0]))
    api.work()

    page = sender.send(people())

    assert "reports for KES 100.00" in page
    assert "Earlier results that are still fresh are used again" in page


def test_earlier_report_is_pointed_out_by_row_and_name(sender):
    order_file(sender.visitor, people(PEOPLE[1]))
    made = Report.objects.get()

    page = sender.send(people())

    assert re.search(
        rf'Row 3 · <a href="[^"]*{made.pk}"[^>]*><bdi>Otieno Odhiambo', page
    )


def test_check_that_was_withdrawn_since_the_quote_orders_nothing(sender):
    sender.send(people())
    CheckDefinition.objects.filter(name="IDENTITY").update(active=False)

    assert "A chosen check is not offered any more" in sender.press("order")
    assert not Report.objects.exists()


def test_rows_without_consent_are_saved_as_drafts(admin):
    sender = Sender(admin, choice(consent=""))

    quote = sender.send(people())
    assert 'value="order"' not in quote
    assert "Drafts saved: 3." in sender.press("draft")

    assert set(Report.objects.values_list("status", flat=True)) == {"DRAFT"}
    assert Batch.objects.get().draft
    assert AuditEvent.objects.filter(action="batch.drafted").count() == 1


def test_drafts_of_a_file_are_launched_together(sender, api: Api):
    batch = order_file(sender.visitor, people(), draft=True)
    waiting = Report.objects.get(pk=batch.report_ids[1])
    waiting.consent.delete()
    page = sender.visitor.page("reports-batch", batch=batch.pk)
    launch = {"name": "reports-batch-launch", "batch": batch.pk}
    assert sender.visitor.url(**launch) in page

    page = sender.visitor.page(**launch)
    assert "2 drafts can be launched now." in page
    assert "Launch all for KES 100.00" in page
    assert re.search(r">3</a></th><td>The draft names no consent yet", page)
    fields = {"digest": DIGEST.search(page)[1]}

    said = sender.visitor.messages_after(fields=fields, **launch)
    assert said == ["Drafts launched: 2. Rows that stay drafts: 1."]
    assert sender.visitor.post(fields=fields, **launch).status_code == 200

    statuses = dict(Report.objects.values_list("pk", "status"))
    assert [statuses[pk] for pk in batch.report_ids] == ["RUNNING", "DRAFT", "RUNNING"]
    assert sum(LedgerEntry.objects.values_list("amount", flat=True)) == Decimal(-100)
    assert AuditEvent.objects.filter(action="batch.launched").count() == 1
    api.work()
    assert Report.objects.filter(status="READY").count() == 2


def test_drafts_are_not_launched_for_another_price_or_another_set(sender):
    batch = order_file(sender.visitor, people(), draft=True)
    launch = {"name": "reports-batch-launch", "batch": batch.pk}
    digest = DIGEST.search(sender.visitor.page(**launch))[1]
    CheckDefinition.objects.filter(name="IDENTITY").update(price=60)

    answer = sender.visitor.post(fields={"digest": digest}, **launch)

    assert "their price changed" in answer.content.decode()
    digest = DIGEST.search(answer.content.decode())[1]
    Report.objects.filter(pk=batch.report_ids[0]).update(
        status="CANCELLED", completed_at=now()
    )
    answer = sender.visitor.post(fields={"digest": digest}, **launch)
    assert "Launch all for KES 120.00" in answer.content.decode()
    assert not LedgerEntry.objects.exists()
    assert not Report.objects.filter(status="RUNNING").exists()


def test_draft_that_was_free_waits_for_an_edit(admin):
    CheckDefinition.objects.filter(name="IDENTITY").update(price=0)
    batch = order_file(admin, people(), choice(payment_mode="CANDIDATE"), draft=True)
    CheckDefinition.objects.filter(name="IDENTITY").update(price=50)

    page = admin.page("reports-batch-launch", batch=batch.pk)

    assert "0 drafts can be launched now." in page
    told = "It is not paid. If the payer got money back or has no link, edit the draft."
    assert page.count(told) == 3


def test_balance_that_does_not_cover_all_drafts_launches_none(admin, live_api):
    approve_workspace(admin.workspace)
    batch = order_file(admin, people(), None, "production", draft=True)
    launch = {
        "name": "reports-batch-launch",
        "environment": "production",
        "batch": batch.pk,
    }
    page = admin.page(**launch)
    assert "The balance does not cover it." in page

    answer = admin.post(fields={"digest": DIGEST.search(page)[1]}, **launch)

    assert "The balance does not cover it." in answer.content.decode()
    assert Report.objects.filter(status="DRAFT").count() == 3


@pytest.mark.django_db(transaction=True)
def test_double_click_launches_drafts_once(sender):
    batch = order_file(sender.visitor, people(), draft=True)
    launch = {"name": "reports-batch-launch", "batch": batch.pk}
    fields = {"digest": DIGEST.search(sender.visitor.page(**launch))[1]}

    def click(_number: int) -> int:
        try:
            return sender.visitor.post(fields=fields, **launch).status_code
        finally:
            connection.close()

    assert set(run_at_once(2, click)) <= {200, 303}
    assert sum(LedgerEntry.objects.values_list("amount", flat=True)) == Decimal(-150)


def test_subjects_are_asked_by_link_and_those_without_address_are_named(admin):
    sender = Sender(admin, choice(consent="SERVICE_HOSTED"))
    headings = ["Full name", "ID number", "E-mail address"]
    rows = [["Wanjiku Kamau", "12345678", "w@kamau.test"], ["A B", "23456789", ""]]

    assert "hand over their links yourself: 3." in sender.send(
        csv_file(headings, *rows)
    )
    sender.do("order")

    assert set(Report.objects.values_list("status", flat=True)) == {"PENDING_CONSENT"}


def test_payer_of_all_rows_is_typed_once(admin):
    chosen = choice(payment_mode="THIRD_PARTY")
    payer = {"payer-name": "Kilele Insurance", "payer-email": "pay@kilele.test"}

    sender = Sender(admin, chosen)
    assert "The payer of each row" in sender.send(people(), **payer)
    sender.do("order")

    assert set(Report.objects.values_list("status", flat=True)) == {"PENDING_PAYMENT"}
    assert not LedgerEntry.objects.exists()


def test_package_is_ordered_at_its_own_price(admin):
    package = create_package(price=Decimal("120.00"))
    sender = Sender(admin, choice(package=package.name))

    assert "reports for KES 360.00" in sender.send(people())
    sender.do("order")

    assert set(Report.objects.values_list("package", flat=True)) == {package.name}


def test_companies_are_ordered(admin):
    chosen = choice("BUSINESS_VERIFICATION", subject_type="COMPANY")
    sender = Sender(admin, chosen)
    headings = ["Registered name", "Registration number"]

    sender.order(csv_file(headings, ["Baobab Traders Limited", "PVT-12345"]))

    assert Report.objects.get().status == "RUNNING"


def test_balance_that_does_not_cover_all_rows_orders_none(admin, live_api):
    approve_workspace(admin.workspace)
    account = live_api.account
    account.credit_limit = 100
    account.save()
    sender = Sender(admin, None, "production")

    quote = sender.send(people())
    assert "The balance does not cover it" in quote
    assert 'value="order"' not in quote
    assert "Nothing is ordered" in sender.press("order")
    assert not Report.objects.exists()

    assert "Drafts saved: 3." in sender.press("draft")
    assert Report.objects.filter(environment="production").count() == 3


def test_role_taken_while_the_order_is_under_way_orders_nothing(
    sender, owner, monkeypatch
):
    sender.upload(people())
    carry_out = "verification.console.orders.create_reports"
    from verification.console import orders

    create = orders.create_reports

    def take_role_and_create(*arguments: Any) -> Any:
        members.change_role(owner.member, sender.visitor.member, Role.VIEWER)
        return create(*arguments)

    monkeypatch.setattr(carry_out, take_role_and_create)
    sender.do("order")

    assert sender.status == 403
    assert not Report.objects.exists()


def test_rows_are_seen_by_the_member_who_has_sent_them_alone(sender, owner, stranger):
    sender.upload(people())
    pk = Upload.objects.get().pk

    for other in (owner, stranger):
        assert other.get("reports-batch", batch=pk).status_code == 404
    assert "people.csv" in sender.visitor.page("reports-batches")
    assert "people.csv" not in owner.page("reports-batches")


def test_batch_is_seen_by_members_of_its_workspace_and_environment(
    admin, viewer, stranger
):
    pk = order_file(admin, people()).pk

    assert "people.csv" in viewer.page("reports-batches")
    page = viewer.page("reports-batch", batch=pk)
    assert "Wanjiku Kamau" in page
    assert viewer.get("reports-batch", "production", batch=pk).status_code == 404
    assert "people.csv" not in stranger.page("reports-batches")


def test_progress_counts_reports_by_state(sender, api: Api):
    set_service_level(api)
    sender.order(people())
    page = sender.html
    assert "0 of 3 reports have ended." in page
    assert 'hx-trigger="every 15s"' in page
    url = sender.visitor.url("reports-batch", batch=Batch.objects.get().pk)
    (seen,) = re.findall(r'"X-Refresh": "([^"]+)"', page)
    headers = {"X-Refresh": seen}
    assert sender.visitor.http.get(url, headers=headers).status_code == 204

    api.work()
    open_new_cases()

    assert sender.visitor.http.get(url, headers=headers).status_code == 200
    page = sender.visitor.page("reports-batch", batch=Batch.objects.get().pk)
    assert "3 of 3 reports have ended." in page
    assert "hx-trigger" not in page.split("<main")[1]
    assert page.count("Needs a decision") == 3
    assert re.search(r"Ready</span> <b>3</b>", page)
    assert "Under correction" not in page

    dispute(str(Batch.objects.get().report_ids[0]))

    page = sender.visitor.page("reports-batch", batch=Batch.objects.get().pk)
    assert page.count("Under correction") == 1


def test_results_have_name_state_decision_and_checks_of_each_row(admin, api):
    batch = order_file(admin, people(*PEOPLE[:2], ["C D", "45678901", "'=1+1"]))
    api.work()
    decide(deciding_api(api), str(batch.report_ids[0]), status="APPROVED")
    Report.objects.filter(pk=batch.report_ids[2]).update(subject_name="=1+1")

    def results(format: str) -> tuple[bytes, Sheet]:
        more = {"batch": batch.pk, "format": format}
        answer = admin.get("reports-batch-results", **more)
        assert f'.{format}"' in answer["Content-Disposition"]
        return answer.content, read_sheet(f"a.{format}", answer.content)

    content, sheet = results("csv")
    assert [cell.text for cell in sheet.header.cells[7:]] == [
        *["Decision", "Remark"],
        *["National identity: Status", "National identity: Risk"],
    ]
    found = [[line.at(n).text for n in range(11)] for line in sheet.rows]
    report = Report.objects.get(pk=batch.report_ids[0])
    assert found[0] == [
        *["2", "Wanjiku Kamau", str(report.pk), "LN-1", "READY"],
        *[str(report.risk_score), report.risk_level, "APPROVED", ""],
        *["COMPLETED", report.results.get().risk_level],
    ]
    assert [row[2] for row in found] == [str(pk) for pk in batch.report_ids]
    assert [found[2][n] for n in (1, 3, 7)] == ["=1+1", "=1+1", ""]
    assert b"\n4,'=1+1," in content
    assert AuditEvent.objects.filter(action="batch.results-downloaded").exists()
    of_workbook = results("xlsx")[1].rows
    assert [[line.at(n).text for n in range(11)] for line in of_workbook] == found

    Report.objects.filter(pk=batch.report_ids[0]).update(restricted_at=now())
    dispute(batch.report_ids[1])

    assert [line.at(8).text for line in results("csv")[1].rows][:2] == [
        *["The subject objected", "Under correction"]
    ]


def hosted_batch(
    admin: ConsoleVisitor, *addresses: str, environment: str = "sandbox"
) -> Batch:
    """Order by a file whose subjects are asked at these addresses, a day ago."""
    rows = [[f"A {n}", f"{20000000 + n}", to] for n, to in enumerate(addresses)]
    content = csv_file(["Full name", "ID number", "E-mail address"], *rows)
    chosen = choice(consent="SERVICE_HOSTED")
    batch = order_file(admin, content, chosen, environment)
    Consent.objects.update(link_made_at=now() - timedelta(hours=25))
    return batch


def remind(visitor: ConsoleVisitor, batch: Batch, environment: str = "sandbox") -> str:
    """Remind the subjects of a batch; return what the page says then."""
    name = "reports-batch-remind"
    return " ".join(visitor.messages_after(name, None, environment, batch=batch.pk))


def test_all_who_have_not_answered_are_reminded_once_a_day(admin):
    addresses = ["a@people.test", "b@people.test", "c@people.test", ""]
    batch = hosted_batch(admin, *addresses)
    answered, asked, renewed, unreached = batch.report_ids
    Consent.objects.filter(report=answered).update(status="GRANTED")
    Consent.objects.filter(report=renewed).update(link_made_at=now())
    page = admin.page("reports-batch", batch=batch.pk)
    assert "3 subjects have not answered" in page
    assert "2 of them got no link" in page

    said = remind(admin, batch)

    assert "New links being sent: 1." in said
    assert "a link or a reminder from the last day: 1." in said
    assert "no address that we can use: 1." in said
    generations = dict(Consent.objects.values_list("report", "generation"))
    assert [generations[pk] for pk in batch.report_ids] == [1, 2, 1, 1]
    assert Notification.objects.filter(report_id=asked).count() == 2
    assert AuditEvent.objects.filter(action="report.consent-resent").count() == 1
    assert "New links being sent: 0." in remind(admin, batch)
    Consent.objects.update(link_made_at=now())
    page = admin.page("reports-batch", batch=batch.pk)
    assert "Each has a link or a reminder from the last day." in page
    assert unreached != asked


def test_nobody_is_reminded_in_production_without_an_address_that_takes_mail(
    admin, live_api
):
    approve_workspace(admin.workspace)
    Account.objects.update(credit_limit=1000)
    batch = hosted_batch(admin, "a@people.test", environment="production")
    block(admin.workspace.pk, [("EMAIL", "a@people.test")], Block.Reason.UNKNOWN)

    said = remind(admin, batch, "production")

    assert "no address that we can use: 1." in said
    assert Consent.objects.get().generation == 1


def test_rows_of_an_upload_are_deleted_by_its_member_or_after_a_day(sender):
    sender.upload(people())
    assert "The rows of the file are deleted" in sender.press("discard")
    assert not Upload.objects.exists()

    sender.upload(people())
    purge_uploads()
    assert Upload.objects.count() == 1
    Upload.objects.update(created_at=now() - timedelta(hours=25))
    purge_uploads()
    assert not Upload.objects.exists()


def test_member_has_twenty_uploads_at_most(sender, monkeypatch):
    monkeypatch.setattr("verification.console.batches.MAX_UPLOADS", 2)
    for name in ("a.csv", "b.csv", "c.csv"):
        sender.upload(people(), name)

    names = {upload.content["name"] for upload in Upload.objects.all()}
    assert names == {"b.csv", "c.csv"}


def test_batch_is_read_page_by_page(admin, monkeypatch):
    monkeypatch.setattr("verification.console.batch_pages.PAGE_SIZE", 2)
    pk = order_file(admin, people()).pk

    first = admin.page("reports-batch", batch=pk)
    last = admin.page("reports-batch", batch=pk, query={"page": "1"})
    assert "1\N{EN DASH}2 of 3" in first
    assert "LN-3" not in first
    assert "LN-3" in last


def test_page_of_a_report_leads_to_its_file(admin, api: Api):
    batch = order_file(admin, people(*PEOPLE[:2]))
    alone = api.create(person())["id"]

    page = admin.page("reports-detail", report=batch.report_ids[1])
    assert f'href="{admin.url("reports-batch", batch=batch.pk)}"' in page
    assert "people.csv" in page
    page = admin.page("reports-detail", report=alone)
    assert "/batches/" not in page


def test_pages_have_no_personal_data_in_addresses(sender):
    pages = [sender.send(people())]
    sender.do("order")

    for page in [*pages, sender.html]:
        for address in re.findall(r'(?:href|action)="([^"]*)"', page):
            assert "Wanjiku" not in address
            assert "12345678" not in address
            assert "people" not in address


UNREADABLE = [
    ("a.pdf", b"%PDF-1.7", "This file is neither CSV nor XLSX"),
    ("a.csv", b"Full name\n", "no row below its headings"),
    ("a.csv", b'Full name\n"A\n', "A quoted text does not end, near line 2."),
    ("a.csv", b"a" * (10 * 1024 * 1024 + 1), "larger than 10 MB"),
]


def test_file_that_cannot_be_read_is_refused_at_its_field(sender):
    for name, content, says in UNREADABLE:
        page = sender.send(content, name)

        assert says in page
        assert '<a href="#id_file">' in page
        assert "Loan application" in page
    assert not Upload.objects.exists()


def test_file_of_20_mb_is_refused_before_it_is_read(sender):
    page = sender.send(b"a" * (20 * 1024 * 1024))

    assert sender.status == 413
    assert "A file may have up to 10 MB" in page


@pytest.mark.usefixtures("new_minute")
def test_too_many_uploads_a_minute_are_refused(sender, monkeypatch):
    monkeypatch.setattr("verification.console.batch_pages.UPLOADS_PER_MINUTE", 1)
    sender.upload(people())

    sender.upload(people())

    assert sender.status == 429


def test_member_who_has_left_is_not_named(owner):
    other = ConsoleVisitor(create_member(owner.workspace, "ADMIN", "leaver"))
    pk = order_file(other, people()).pk
    address = other.member.user.email
    assert address in owner.page("reports-batch", batch=pk)

    members.remove(owner.member, other.member)

    assert address not in owner.page("reports-batch", batch=pk)


def test_reminders_beyond_the_time_of_a_request_are_left_for_the_next(
    admin, monkeypatch
):
    batch = hosted_batch(admin, "a@people.test", "b@people.test")
    monkeypatch.setattr("verification.console.batch_pages.MAX_SECONDS", 0)

    said = remind(admin, batch)

    assert "New links being sent: 0." in said
    assert "send again to go on: 2." in said


@pytest.mark.usefixtures("new_minute")
def test_reminders_have_a_rate_of_their_own(admin, monkeypatch):
    monkeypatch.setattr("verification.console.batch_pages.REMINDERS_PER_MINUTE", 1)
    batch = hosted_batch(admin, "a@people.test")
    url = admin.url("reports-batch-remind", batch=batch.pk)

    assert admin.http.post(url).status_code == 303
    assert admin.http.post(url).status_code == 429
