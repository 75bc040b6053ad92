import re

import pytest
from django.utils.timezone import now

from tests.documents.test_consent_receipts import pdf_text
from tests.world.orders import EMPLOYMENT, PAYER
from tests.world.payments import end_checkout, open_page
from tests.world.subject import NAME, visible_text
from verification.checks.models import CheckResult
from verification.consents.models import Consent, ConsentRecord
from verification.hosted import consent
from verification.notifications.models import Block
from verification.notifications.recipients import block
from verification.privacy.models import Origin
from verification.privacy.objections import object_to_use

pytestmark = pytest.mark.django_db


def records(visitor):
    found = ConsentRecord.objects.filter(report_id=visitor.report_id)
    return [record.decision for record in found]


def test_grant_advances_the_report_and_gives_a_receipt(api, ask):
    visitor = ask()
    visitor.prove()

    answer = visitor.grant()

    assert (answer.status_code, answer["Location"]) == (303, visitor.page)
    api.work()
    report = api.report(visitor.report_id)
    assert report["status"] == "READY"
    assert report["consentState"]["status"] == "GRANTED"
    html = visitor.text()
    assert "You agreed to the checks" in html
    record = ConsentRecord.objects.get()
    assert record.number in html
    assert bytes(record.notice_sha256).hex() in html
    assert "<svg" in html
    assert f'class="button other" href="{visitor.page}withdraw"' in html
    pdf = visitor.get("receipt.pdf")
    assert pdf["Content-Type"] == "application/pdf"
    assert pdf.content.startswith(b"%PDF")


def test_record_holds_the_shown_notice(ask):
    visitor = ask()
    page = visible_text(visitor.enter().content.decode())

    visitor.grant()

    record = ConsentRecord.objects.get()
    assert record.evidence["typedName"] == NAME
    assert record.evidence["confirmedBy"] == "DATE_OF_BIRTH"
    assert record.evidence["address"] == "127.0.0.1"
    assert (record.language, record.notice_version) == ("en", "ke-2026-11g")
    for line in record.evidence["text"].splitlines():
        for part in line.split(": ", 1):
            assert part in page


def test_reason_to_decline_is_optional(api, ask):
    visitor = ask()
    visitor.prove()
    assert b"need not say" in visitor.get("decline").content

    visitor.post("decline", reason="I did not apply")

    report = api.report(visitor.report_id)
    assert report["status"] == "FAILED"
    assert report["failure"]["code"] == "CONSENT_DECLINED"
    assert ConsentRecord.objects.get().evidence["reason"] == "I did not apply"
    assert "You did not agree" in visitor.text()


def test_consent_is_withdrawn_by_the_same_link(api, ask):
    visitor = granted(ask)

    assert b"Withdraw your consent?" in visitor.get("withdraw").content
    visitor.post("withdraw")

    assert records(visitor) == ["GRANTED", "WITHDRAWN"]
    assert api.report(visitor.report_id)["status"] == "CANCELLED"
    assert "You withdrew your consent" in visitor.text()


def test_double_click_is_one_decision(ask):
    visitor = ask()
    visitor.prove()
    form = visitor.form()
    for verb, decisions in (
        ("grant", ["GRANTED"]),
        ("withdraw", ["GRANTED", "WITHDRAWN"]),
    ):
        statuses = [visitor.post(verb, **form).status_code for _ in range(2)]

        assert statuses == [303, 303]
        assert records(visitor) == decisions
    assert visitor.get().status_code == 200


def test_old_tab_cannot_undo_a_decision(ask):
    visitor = ask()
    visitor.prove()
    form = visitor.form()
    visitor.post("decline")

    late = visitor.post("grant", **form)

    assert late["Location"] == visitor.page
    assert records(visitor) == ["DECLINED"]
    page = visitor.text()
    assert "See the details about you" in page
    assert "See what was found" not in page


def test_wrong_person_declines_without_a_challenge(api, ask):
    visitor = ask()
    visitor.open()

    done = visitor.browser.post(visitor.page + "not-me", follow=True)

    assert "No check is made" in done.content.decode()
    assert ConsentRecord.objects.get().evidence["reason"] == "NOT_ME"
    assert api.report(visitor.report_id)["status"] == "FAILED"


def test_report_without_details_asks_at_once(ask):
    visitor = ask(
        subject={"dateOfBirth": None, "idNumber": None, **EMPLOYMENT},
        checksRequested=["EMPLOYER_VERIFICATION"],
    )
    visitor.open()

    page = visible_text(visitor.text())

    assert "wants to check your details" in page
    assert "Amina" not in page
    visitor.grant()
    assert ConsentRecord.objects.get().evidence["confirmedBy"] == "NO_CHALLENGE"


def test_grant_after_the_report_was_cancelled_changes_nothing(api, ask):
    visitor = ask()
    visitor.prove()
    form = visitor.form()
    api.post(f"/reports/{visitor.report_id}/cancel")

    visitor.post("grant", **form)

    assert records(visitor) == []
    page = visitor.get()
    assert page.status_code == 410
    # The client, staff, an erasure or the end of retention may have cancelled it.
    assert b"has ended. Nothing was checked." in page.content
    # Nothing was checked, so that nothing was found.
    assert b"See the details about you" in page.content
    assert b"See what was found" not in page.content


BORN_2013 = {"day": "27", "month": "3", "year": "2013"}


def test_minor_cannot_grant(api, ask_minor):
    visitor = ask_minor()
    visitor.open()
    visitor.confirm(**BORN_2013)

    page = visible_text(visitor.text())

    assert "You are under 18" in page
    assert "A parent or guardian decides with Acacia Lenders" in page
    visitor.post("grant", name=NAME, agreed="on", shown="")
    assert records(visitor) == []
    assert Consent.objects.get().status == "PENDING"


def test_minor_declines_and_the_client_reads_why(api, ask_minor):
    visitor = ask_minor()
    visitor.open()
    visitor.confirm(**BORN_2013)
    visitor.get(lang="sw")
    shown = visible_text(visitor.text())

    visitor.post("under-age")

    report = api.report(visitor.report_id)
    assert report["status"] == "FAILED"
    assert report["consentState"]["reason"] == "UNDER_AGE"
    record = ConsentRecord.objects.get()
    assert record.evidence["text"] in shown
    assert record.evidence["confirmedBy"] == "DATE_OF_BIRTH"
    assert "Mzazi au mlezi ndiye huamua" in visitor.text()
    assert visitor.get("receipt.pdf").status_code == 200


def test_adult_cannot_decline_as_a_minor(ask):
    visitor = ask()
    visitor.prove()

    visitor.post("under-age")

    assert records(visitor) == []


def test_other_name_is_refused_without_naming_the_subject(ask):
    visitor = ask(
        subject={"dateOfBirth": None, "idNumber": None, **EMPLOYMENT},
        checksRequested=["EMPLOYER_VERIFICATION"],
    )
    visitor.open()

    visitor.grant(name="xx")

    page = visitor.text()
    assert "Type your name as on your ID" in page
    assert 'href="#id_name"' in page
    assert "Kamau" not in page
    assert records(visitor) == []
    assert Consent.objects.get().wrong_answers == 0
    visitor.grant(name="Kamau Wanjiku")
    assert records(visitor) == ["GRANTED"]


def test_signatures_of_one_link_are_limited(ask, new_minute, monkeypatch):
    monkeypatch.setattr(consent, "SIGNATURES_PER_MINUTE", 2)
    visitor = ask()
    visitor.prove()
    form = {**visitor.form(), "name": "xx"}

    statuses = [visitor.post("grant", **form).status_code for _ in range(3)]

    assert statuses == [303, 303, 429]


def test_signer_of_a_company_types_name_and_position(api, ask_company):
    visitor = ask_company()
    visitor.open()
    visitor.confirm(answer="PVT-12345")
    form = visitor.form()
    assert (
        "the name you type, your position if you decide for a company"
        in visible_text(visitor.text())
    )

    for wrong in ({}, {"position": "Director", "name": "Achieng"}):
        visitor.post("grant", **form | wrong)
        assert "<title>Error: " in visitor.text()
        assert records(visitor) == []
    visitor.post("grant", **form | {"name": "Achieng Ouma", "position": "Director"})

    evidence = ConsentRecord.objects.get().evidence
    assert evidence["typedName"] == "Achieng Ouma"
    assert evidence["position"] == "Director"
    assert evidence["confirmedBy"] == "REGISTRATION_NUMBER"
    page = visible_text(visitor.text())
    assert "Signed by Achieng Ouma" in page
    assert "Position Director" in page


def granted(ask, **members):
    visitor = ask(**members)
    visitor.agree()
    visitor.prove()
    return visitor


def test_page_of_a_grant_shows_the_status_of_checks(api, ask):
    visitor = granted(ask)
    assert "They have begun" in visible_text(visitor.text())

    api.work()

    page = visible_text(visitor.text())
    assert "They are done, and Acacia Lenders has the results" in page
    assert "begun" not in page
    assert "Acacia Lenders gets the results" not in page


def test_grant_leads_a_paying_subject_to_the_payment(api, ask):
    visitor = granted(ask, paymentMode="CANDIDATE")
    state = api.report(visitor.report_id)["paymentState"]

    html = visitor.text()

    assert "They begin when you have paid KES 250.00" in visible_text(html).replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert f'class="button" href="{state["paymentUrl"]}"' in html
    # After a part the page asks for the rest.
    end_checkout(open_page(api.report(visitor.report_id)), pays=100)
    page = visible_text(visitor.text()).replace("\N{NO-BREAK SPACE}", " ")
    assert "They begin when you have paid KES 150.00" in page
    assert "Pay KES 150.00" in page


@pytest.mark.parametrize("draft", [False, True])
def test_grant_links_to_no_payment_of_a_third_party(api, ask, draft):
    visitor = granted(ask, paymentMode="THIRD_PARTY", payer=PAYER, draft=draft)

    html = visitor.text()

    assert "/p/" not in html
    waits = "Somebody else was asked to pay" in html
    assert waits is not draft


def test_grant_names_the_client_for_an_unreachable_payer(ask):
    visitor = granted(ask, paymentMode="THIRD_PARTY", payer=PAYER)
    address = [("EMAIL", PAYER["email"])]
    block(visitor.consent.report.workspace_id, address, Block.Reason.UNWANTED)

    page = visible_text(visitor.text())

    assert "was asked to pay" not in page
    assert "Somebody else has to pay, and Acacia Lenders has the link." in page


@pytest.mark.parametrize("draft", [False, True])
def test_page_says_that_the_subject_ended_the_checks_by_an_objection(ask, draft):
    visitor = granted(ask, draft=draft)
    object_to_use(visitor.report_id, Origin.SUBJECT, requested_by="subject")

    page = visible_text(visitor.text())

    assert "You objected. Checks that had not started are not made." in page
    assert "has ended" not in page
    assert "gets the results" not in page


def test_pages_of_a_withdrawal_tell_what_was_made(api, ask):
    visitor = granted(ask)
    assert "Then no check is made" in visible_text(visitor.text("withdraw"))
    api.work()
    assert "All checks were made. Withdrawing does not undo" in visible_text(
        visitor.text("withdraw")
    )

    visitor.post("withdraw")

    page = visible_text(visitor.text())
    assert "All checks had been made before" in page
    assert "not started" not in page
    receipt = pdf_text(visitor.get("receipt.pdf").content)
    assert "All checks had been made before; what was found" in receipt
    assert "not started" not in receipt
    assert "not run" not in receipt
    changes = api.get(f"/reports/{visitor.report_id}/events").json()["events"]
    assert changes[-1]["trigger"] == "consent withdrawn"


def test_withdrawal_before_any_check_says_so(ask):
    visitor = granted(ask)
    # They wait for their source, which was not asked yet.
    CheckResult.objects.update(status="RUNNING")

    visitor.post("withdraw")

    html = visitor.text()
    assert check_states(html) == {False: ["Not done"] * 3}
    page = visible_text(html)
    assert "Acacia Lenders sees that you withdrew. No check was made." in page
    assert ConsentRecord.objects.last().evidence["made"] == "none"


def test_withdrawal_after_a_failed_check_does_not_say_that_none_was_made(ask):
    visitor = granted(ask)
    asked = CheckResult.objects.filter(report_id=visitor.report_id).first()
    asked.status, asked.failure_code = "FAILED", "SOURCE_UNAVAILABLE"
    asked.started_at = asked.completed_at = now()
    asked.next_attempt_at = None
    asked.save()
    assert "Then no check is made" not in visible_text(visitor.text("withdraw"))

    visitor.post("withdraw")

    some = "Checks that had not started are not made"
    assert some in visible_text(visitor.text())
    assert some in pdf_text(visitor.get("receipt.pdf").content)


def test_only_checks_that_were_made_have_a_tick(ask):
    visitor = granted(ask)
    results = CheckResult.objects.filter(report_id=visitor.report_id)
    assert check_states(visitor.text()) == {False: ["Waiting"] * results.count()}

    first = results.first()
    results.exclude(pk=first.pk).update(
        status="CANCELLED", next_attempt_at=None, completed_at=now()
    )
    results.filter(pk=first.pk).update(
        status="COMPLETED", next_attempt_at=None, completed_at=now()
    )

    assert check_states(visitor.text()) == {
        True: ["Done"],
        False: ["Not done"] * (results.count() - 1),
    }


def check_states(html):
    """Return the states of the checks on the page: with a tick, and without one."""
    states = {}
    found = r'<br><small class="state( good)?">([^<]+)</small>'
    for tick, state in re.findall(found, html):
        states.setdefault(bool(tick), []).append(state)
    return states
