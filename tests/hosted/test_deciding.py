import pytest

from tests.hosted.visitor import NAME, words
from verification.consents.models import ConsentRecord

pytestmark = pytest.mark.django_db


def records(visitor):
    found = ConsentRecord.objects.filter(report_id=visitor.report_id)
    return [record.happened for record in found]


def test_a_subject_grants_and_the_report_moves_on(api, ask):
    visitor = ask()
    visitor.enter()

    answer = visitor.grant()

    assert (answer.status_code, answer["Location"]) == (303, visitor.page)
    api.work()
    report = api.report(visitor.report_id)
    assert report["status"] == "READY"
    assert report["consentState"]["status"] == "GRANTED"
    assert "You agreed to the checks" in visitor.text()


def test_the_record_holds_what_was_shown(ask):
    visitor = ask()
    page = words(visitor.enter().content.decode())

    visitor.grant()

    record = ConsentRecord.objects.get()
    assert record.evidence["typedName"] == NAME
    assert record.evidence["confirmedBy"] == "DATE_OF_BIRTH"
    assert record.evidence["address"] == "127.0.0.1"
    assert (record.language, record.notice_version) == ("en", "ke-2026-11c")
    for line in record.evidence["text"].splitlines():
        for part in line.split(": ", 1):
            assert part in page


def test_a_receipt_tells_number_time_hash_and_how_to_withdraw(ask):
    visitor = ask()
    visitor.enter()
    visitor.grant()

    html = visitor.text()

    record = ConsentRecord.objects.get()
    assert record.number in html
    assert bytes(record.notice_sha256).hex() in html
    assert "<svg" in html
    assert f"{visitor.page}withdraw" in html
    pdf = visitor.get("receipt.pdf")
    assert pdf["Content-Type"] == "application/pdf"
    assert pdf.content.startswith(b"%PDF")


def test_declining_needs_nothing_and_takes_a_reason(api, ask):
    visitor = ask()
    visitor.enter()
    assert b"need not say" in visitor.get("decline").content

    visitor.post("decline", reason="I did not apply")

    report = api.report(visitor.report_id)
    assert report["status"] == "FAILED"
    assert report["failure"]["code"] == "CONSENT_DECLINED"
    assert ConsentRecord.objects.get().evidence["reason"] == "I did not apply"
    assert "You did not agree" in visitor.text()


def test_a_consent_is_withdrawn_by_the_same_link(api, ask):
    visitor = ask()
    visitor.enter()
    visitor.grant()
    visitor.enter()

    assert b"Withdraw your consent?" in visitor.get("withdraw").content
    visitor.post("withdraw")

    assert records(visitor) == ["GRANTED", "WITHDRAWN"]
    assert api.report(visitor.report_id)["status"] == "CANCELLED"
    assert "You withdrew your consent" in visitor.text()


@pytest.mark.parametrize("verb", ["grant", "decline", "withdraw"])
def test_a_double_click_is_one_answer(ask, verb):
    visitor = ask()
    visitor.enter()
    form = visitor.form()
    if verb == "withdraw":
        visitor.grant()

    first, second = visitor.post(verb, **form), visitor.post(verb, **form)

    assert first.status_code == second.status_code == 303
    assert len(records(visitor)) == len(set(records(visitor)))
    assert visitor.get().status_code == 200


def test_a_tab_that_stayed_open_cannot_undo_what_the_other_did(ask):
    visitor = ask()
    visitor.enter()
    form = visitor.form()
    visitor.post("decline")

    late = visitor.post("grant", **form)

    assert late["Location"] == visitor.page
    assert records(visitor) == ["DECLINED"]


def test_a_wrong_person_says_so_without_confirming_anything(api, ask):
    visitor = ask()
    visitor.open()

    done = visitor.browser.post(visitor.page + "not-me", follow=True)

    assert "No check is made" in done.content.decode()
    assert ConsentRecord.objects.get().evidence["reason"] == "NOT_ME"
    assert api.report(visitor.report_id)["status"] == "FAILED"


def test_a_report_that_knows_nothing_of_its_subject_asks_at_once(ask):
    visitor = ask(
        subject={"dateOfBirth": None, "idNumber": None, "kraPin": "A123456789Z"},
        checksRequested=["KRA_PIN"],
    )
    visitor.open()

    page = words(visitor.text())

    assert "wants to check your details" in page
    assert "789Z" not in page
    visitor.grant()
    assert ConsentRecord.objects.get().evidence["confirmedBy"] == ""


def test_grant_after_the_report_was_cancelled_changes_nothing(api, ask):
    visitor = ask()
    visitor.enter()
    form = visitor.form()
    api.post(f"/reports/{visitor.report_id}/cancel")

    visitor.post("grant", **form)

    assert records(visitor) == []
    page = visitor.get()
    assert page.status_code == 410
    assert b"has cancelled its request" in page.content
