import io
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.core import mail
from pypdf import PdfReader

from tests.world.clients import HOSTED, Api, person
from tests.world.threads import run_at_once
from verification.consents.models import ConsentRecord
from verification.documents.receipts import consent_receipt_pdf
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.reports.models import Report
from workspaces.models import Workspace

NUMBER = "C-4567-89AB-CDEF"
TEXT = "Acacia Lenders asks you.\n\nIt would check:\n- your identity\n- your credit"
EVIDENCE = {
    "text": TEXT,
    "checks": ["IDENTITY", "CRB_SCORE"],
    "purpose": "Loan application",
    "typedName": "Wanjiku Kamau",
    "confirmedBy": "DATE_OF_BIRTH",
    "address": "197.248.1.2",
    "userAgent": "Mozilla/5.0 (Linux; Android 10)",
    "reason": "",
    "requester": "Acacia Lenders",
}


REQUESTER = Workspace(name="Acacia Lenders", contact="privacy@acacia.test")


def build_record(evidence: Any = EVIDENCE, **fields: Any) -> ConsentRecord:
    return ConsentRecord(
        **{
            "id": UUID("01234567-89ab-7def-8123-456789abcdef"),
            "report": Report(id=UUID(int=5), workspace=REQUESTER),
            "consent_id": UUID(int=6),
            "decision": "GRANTED",
            "generation": 1,
            "language": "en",
            "notice_version": "2026-11",
            "notice_sha256": b"\xab" * 32,
            "evidence": evidence,
            "digest": b"",
            "created_at": datetime(2026, 11, 21, 8, 15, 30, tzinfo=UTC),
            **fields,
        }
    )


def pdf_text(pdf: bytes) -> str:
    pages = PdfReader(io.BytesIO(pdf)).pages
    return "\n".join(page.extract_text() for page in pages)


def receipt_text(evidence: Any = EVIDENCE, **fields: Any) -> str:
    return pdf_text(consent_receipt_pdf(build_record(evidence, **fields)))


def test_receipt_has_the_notice_and_the_decision():
    text = receipt_text()

    for line in [
        NUMBER,
        "You gave your consent.",
        "21 November 2026, 11:15:30 EAT",
        "Loan application",
        "Your identity, Your credit score",
        "Wanjiku Kamau",
        "You entered your date of birth.",
        "2026-11",
        "ab" * 32,
        "choose to withdraw",
        *filter(None, TEXT.splitlines()),
    ]:
        assert line in text


def test_receipt_names_the_report_by_its_number():
    record = build_record()

    text = pdf_text(consent_receipt_pdf(record))

    assert record.report.number in text
    assert str(record.report_id) not in text


def test_receipt_in_kiswahili():
    text = receipt_text(language="sw", decision="WITHDRAWN")

    for line in ["Risiti ya ridhaa", "21 Novemba 2026", "Umeondoa ridhaa yako."]:
        assert line in text


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("all", "All checks had been made before; what was found stays"),
        ("some", "Checks that had not started are not made; what was found before"),
        ("none", "No check was made."),
    ],
)
def test_receipt_of_a_withdrawal_names_completed_checks(made: str, told: str):
    text = receipt_text({**EVIDENCE, "made": made}, decision="WITHDRAWN")

    assert told in " ".join(text.split())


def test_receipt_names_checks_as_the_page_did():
    evidence = {**EVIDENCE, "checks": ["CRB_FULL", "NEW_CHECK"]}

    text = receipt_text(evidence, language="sw", notice_version="ke-2026-11")

    assert "Ripoti yako kamili ya mikopo, NEW_CHECK" in text
    assert "CRB_FULL" not in text


@pytest.mark.parametrize("decision", ConsentRecord.Decision.values)
@pytest.mark.parametrize("language", ["en", "sw"])
def test_every_decision_has_a_receipt(decision: str, language: str):
    assert NUMBER in receipt_text(decision=decision, language=language)


MARKUP = [
    '#eval("1")',
    "*x* _y_ `z`",
    "#set page(fill: red)",
    "<label> @ref $x^2$",
    "= A heading",
    r"\u{41} \ // comment",
    '"quoted" {"a": 1}',
]


def test_receipt_shows_typed_markup_as_text():
    evidence = {"typedName": " ".join(MARKUP), "text": "\n".join(MARKUP)}
    text = " ".join(receipt_text({**EVIDENCE, **evidence}).split())
    for typed in MARKUP:
        assert text.count(typed) == 2, typed


def test_receipt_of_an_erased_record_says_so():
    text = receipt_text(evidence=None)

    assert NUMBER in text
    assert "ab" * 32 in text
    assert "were erased" in text
    assert "Wanjiku" not in text


def test_receipt_omits_missing_members():
    text = receipt_text(evidence={"text": TEXT}, notice_sha256=None, notice_version="")

    assert "It would check:" in text
    assert "SHA-256" not in text
    assert "Purpose" not in text


@pytest.mark.parametrize(
    ("confirmed_by", "told"),
    [
        ("", "You opened the link."),
        ("NO_CHALLENGE", "You were asked nothing, because the request has neither"),
        ("KRA_PIN", "You entered the whole KRA PIN."),
        ("REGISTRATION_NUMBER", "You entered the registration number of the company"),
    ],
)
def test_receipt_says_how_the_subject_was_confirmed(confirmed_by: str, told: str):
    text = receipt_text({**EVIDENCE, "confirmedBy": confirmed_by})
    assert told in " ".join(text.split())


def test_receipt_of_a_company_names_the_position():
    assert "Company secretary" in receipt_text(
        {**EVIDENCE, "position": "Company secretary"}
    )


def test_receipt_words_the_reason_code():
    text = receipt_text({**EVIDENCE, "reason": "UNDER_AGE"}, decision="DECLINED")
    assert "a parent or guardian decides" in text
    assert "UNDER_AGE" not in text
    # A reason that the subject typed is no code.
    assert "steps" in receipt_text({**EVIDENCE, "reason": "steps"}, decision="DECLINED")


def test_equal_records_give_equal_bytes():
    made = {consent_receipt_pdf(build_record()) for _ in range(2)}
    assert len(made) == 1
    assert made != {consent_receipt_pdf(build_record(decision="DECLINED"))}


@pytest.mark.django_db(transaction=True)
def test_concurrent_receipts_are_not_mixed_up():
    names = [f"Subject {n}" for n in range(4)]
    texts = run_at_once(4, lambda n: receipt_text({**EVIDENCE, "typedName": names[n]}))
    for name, text in zip(names, texts, strict=True):
        assert name in text


def test_receipt_is_tagged_for_screen_readers():
    reader = PdfReader(io.BytesIO(consent_receipt_pdf(build_record(language="sw"))))

    root = reader.root_object
    assert root["/MarkInfo"]["/Marked"]
    assert root["/Lang"] == "sw"
    assert b"pdfuaid:part" in root["/Metadata"].get_object().get_data()
    assert NUMBER in reader.metadata.title
    assert reader.metadata.creation_date.date() == build_record().created_at.date()


def test_receipt_is_made_when_no_font_has_a_letter():
    assert NUMBER in receipt_text({**EVIDENCE, "typedName": "\U00020000 🫠 \0"})


NAMES = [
    "Wanjikũ wa Kamaũ Ŋgũgĩ",
    "Анна Ќурчатова",
    "Ελένη Παπαδοπούλου",
    "محمد بن علي",
    "אברהם כהן",
    "አበበ ቢቂላ",
    "राम कुमार शर्मा",
    "ਗੁਰਪ੍ਰੀਤ ਸਿੰਘ",
    "রবীন্দ্রনাথ ঠাকুর",
    "தமிழ் செல்வி",
    "සුනිල් ශ්\u200dරී",
    "မောင်မောင်",
    "བཀྲ་ཤིས",
    "สมชาย ใจดี",
    "ქეთევან",
    "Արամ",
    "王小明 田中さくら 김철수",
    "𞤀𞤣𞤤𞤢𞤥 ⵜⵉⴼⵉⵏⴰⵖ",
    "😀 👍🏽 🎉 🇰🇪",
]


def test_receipt_draws_every_script():
    names = "\n".join(NAMES)
    pdf = consent_receipt_pdf(build_record({**EVIDENCE, "text": names}))

    # PDF/UA forbids letters that the fonts lack.
    assert b"pdfuaid" in pdf
    drawn = set(pdf_text(pdf))
    for name in NAMES:
        assert set(name.split()[0]) <= drawn, name


def test_receipt_wraps_a_long_word():
    words = ["W" * 200, "Bartholomew-" * 16, "እ" * 200]
    text = receipt_text({**EVIDENCE, "typedName": " ".join(words)})

    drawn = text.replace("\n", "")
    assert all(word in drawn for word in words)
    assert max(map(len, text.splitlines())) < 110


def test_long_receipt_has_several_pages():
    lines = [f"Line {n}" for n in range(200)]
    pdf = consent_receipt_pdf(build_record({**EVIDENCE, "text": "\n".join(lines)}))

    assert len(PdfReader(io.BytesIO(pdf)).pages) > 2
    assert lines[-1] in pdf_text(pdf)


def test_receipt_is_attached_to_its_email(api: Api):
    report = api.create({**person(), "consent": HOSTED})
    kept = build_record(report_id=UUID(report["id"]), language="sw")
    kept.save(force_insert=True)
    context = {
        "requester": "Acacia Lenders",
        "number": kept.number,
        "decision": kept.decision,
        "link": "https://verify.test/c/x",
        "recordId": str(kept.pk),
    }
    notify(
        OutgoingMessage(
            Kind.CONSENT_RECEIPT,
            Channel.EMAIL,
            f"receipt:{kept.pk}",
            "wanjiku@subject.test",
            context,
            "sw",
        )
    )
    send_due_notifications()

    (message,) = mail.outbox
    ((name, pdf, kind),) = message.attachments
    assert (name, kind) == (f"{NUMBER}.pdf", "application/pdf")
    assert pdf == consent_receipt_pdf(kept)


def test_receipt_says_where_a_person_sees_their_data(settings: Any):
    settings.BASE_URL = "https://verify.example.com"
    person_report = Report(
        id=UUID(int=5), workspace=REQUESTER, subject_type="INDIVIDUAL"
    )
    company_report = Report(id=UUID(int=5), workspace=REQUESTER, subject_type="COMPANY")

    text = pdf_text(consent_receipt_pdf(build_record(report=person_report)))
    other = pdf_text(consent_receipt_pdf(build_record(report=company_report)))

    assert "https://verify.example.com/my-data" in text
    assert "my-data" not in other
