import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import time_machine
from django.conf import settings
from django.test import override_settings

from tests.notifications.messages import CONTEXT, LINK, email_message, sms_message
from verification import links
from verification.notifications.models import (
    BILINGUAL,
    CHOSEN_KINDS,
    OWN_DATA_KINDS,
    Kind,
    Language,
    Notification,
)
from verification.notifications.templates import (
    EmailText,
    gsm_length,
    to_gsm,
    write_email,
    write_sms,
)
from workspaces.models import MemberMessage

REFERENCE = {
    "requester": "Acacia Lenders",
    "subjectName": "Wanjiku Kamau",
    "refereeName": "Otieno Odhiambo",
    "employer": "Baobab Traders",
    "link": LINK,
    "expiresAt": "2026-12-05T08:15:30.123456Z",
}
WEBHOOK = {
    "workspace": "Acacia Lenders",
    "environment": "production",
    "url": "https://hooks.acacia.test/",
    "failures": 4,
    "failingSince": "2026-11-20T08:15:30.123456Z",
    "reason": "FAILING",
    "docs": "https://verify.test/api/v1/docs",
}
RECEIPT = {
    "requester": "Acacia Lenders",
    "number": "C-0123-4567-89AB",
    "decision": "GRANTED",
    "link": LINK,
}
PAYMENT = {
    "requester": "Acacia Lenders",
    "number": "P-0123-4567-89AB",
    "amount": "12,500.00",
    "currency": "KES",
    "link": LINK,
    "expiresAt": "2026-12-05T08:15:30.123456Z",
    "ways": ["MPESA", "CARD"],
}
TOP_UP = {**PAYMENT, "workspace": "Acacia Lenders"}
LOW_BALANCE = {
    "workspace": "Acacia Lenders",
    "workspaceId": "01a1fdf7-5903-7576-abdc-61d58c0fa44f",
    "currency": "KES",
    "balance": "-50.00",
    "credit": "500.00",
    "available": "450.00",
    "threshold": "1,000.00",
    "topUpUrl": "",
}
REQUESTS_DUE = {
    "count": 2,
    "overdue": ["D-0123-4567-89AB, Correction, Acacia Lenders: 21 Nov 2026, 11:15 EAT"],
    "due": ["D-1123-4567-89AB, Access: 24 Nov 2026, 11:15 EAT"],
    "url": "https://verify.test/admin/privacy/subjectrequest/?state=open",
}
TROUBLE = {
    "count": 2,
    "lines": ["Payment to review: P-0123-4567-89AB A refund has failed"],
    "more": 1,
    "url": "https://verify.test/admin/",
}
PAUSED = {
    "workspace": "Acacia Lenders",
    "environment": "production",
    "reason": "INSUFFICIENT_BALANCE",
    "count": 12,
    "rules": ["R-0123-4567-89AB: https://verify.test/console/monitoring/1"] * 10,
    "more": 2,
}
LINK_WANTED = {
    "workspace": "Acacia Lenders",
    "reportId": "01a1fdf7-5903-7576-abdc-61d58c0fa44f",
    "reference": "LN-2041",
    "canResend": False,
    "url": "https://verify.test/console/",
}
ACCOUNT = {
    "operator": "Verification reports",
    "url": LINK,
    "resetUrl": LINK,
    "what": "password",
}
INVITATION = {
    "workspace": "Acacia Lenders",
    "by": "Grace Wambui",
    "role": "ADMIN",
    "url": LINK,
    "expiresAt": "2026-12-05T08:15:30.123456Z",
    "operator": "Verification reports",
}
GO_LIVE = {
    "workspace": "Acacia Lenders",
    "company": "Acacia Lenders Limited",
    "operator": "Verification reports",
    "url": LINK,
    "key": "vrf_live_0123456789ABCDEFGHIJKLMNOPQRSTUV35Llxk",
    "reason": "The CR12 is of last year",
}
CORRECTION = {
    **CONTEXT,
    "number": "D-0123-4567-89AB",
    "workspace": "Acacia Lenders",
    "check": "IDENTITY",
    "decision": "CONFIRMED",
    "reason": "The register has the same name",
    "status": "COMPLETED",
    "reportId": "019a5b2c-1d3e-7f40-8a51-6b7c8d9e0f11",
    "reference": "loan-1",
    "url": LINK,
}
CODE = {
    "requester": "Acacia Lenders",
    "operator": "Verification reports",
    "code": "012345",
}
LINE = {"kind": "REPORT_READY", "environment": "production", "count": 3, "url": LINK}
CONTEXTS = {
    Kind.CONSENT_REQUEST: CONTEXT,
    Kind.CONSENT_REMINDER: CONTEXT,
    Kind.CONSENT_LOCKED: CONTEXT,
    Kind.CONSENT_RECEIPT: RECEIPT,
    Kind.REFERENCE_REQUEST: REFERENCE,
    Kind.REFERENCE_REMINDER: REFERENCE,
    Kind.REFERENCE_RECEIPT: {**RECEIPT, "decision": "SUBMITTED"},
    Kind.PAYMENT_REQUEST: PAYMENT,
    Kind.PAYMENT_REMINDER: PAYMENT,
    Kind.PAYMENT_SHORT: PAYMENT,
    Kind.PAYMENT_RECEIPT: PAYMENT,
    Kind.PAYMENT_REFUNDED: PAYMENT,
    Kind.PAYMENT_TROUBLE: TROUBLE,
    Kind.REQUESTS_DUE: REQUESTS_DUE,
    Kind.TOP_UP_RECEIPT: TOP_UP,
    Kind.TOP_UP_REFUNDED: TOP_UP,
    Kind.LOW_BALANCE: LOW_BALANCE,
    Kind.MONITORING_PAUSED: PAUSED,
    Kind.NEW_LINK_WANTED: LINK_WANTED,
    Kind.WEBHOOK_FAILING: WEBHOOK,
    Kind.WEBHOOK_DISABLED: WEBHOOK,
    Kind.MEMBER_NEWS: {
        "workspace": "Acacia Lenders",
        "line": LINE,
        "urls": [LINK],
        "more": 2,
        "choicesUrl": LINK,
    },
    Kind.MEMBER_DIGEST: {
        "workspace": "Acacia Lenders",
        "happenedAt": "2026-12-05T08:15:30.123456Z",
        "lines": [LINE],
        "sandboxLines": [LINE],
        "choicesUrl": LINK,
    },
    Kind.INVITATION: INVITATION,
    Kind.STAFF_INVITATION: {**INVITATION, "name": "Njeri Kamau"},
    Kind.ACCOUNT_CONFIRM: ACCOUNT,
    Kind.ACCOUNT_EXISTS: ACCOUNT,
    Kind.ACCOUNT_RESET: ACCOUNT,
    Kind.ACCOUNT_CHANGED: ACCOUNT,
    Kind.GO_LIVE_KEY: GO_LIVE,
    Kind.GO_LIVE_APPROVED: GO_LIVE,
    Kind.GO_LIVE_REJECTED: GO_LIVE,
    Kind.GO_LIVE_NAME: {**GO_LIVE, "wanted": "Acacia Limited", "isApproved": True},
    Kind.SANDBOX_ADDRESS: CODE,
    Kind.CONSENT_CODE: CODE,
    Kind.ACCESS_CODE: CODE,
    Kind.CORRECTION_RECEIPT: CORRECTION,
    Kind.CORRECTION_ANSWER: CORRECTION,
    Kind.CORRECTION_OPENED: CORRECTION,
    Kind.CORRECTION_RERUN: CORRECTION,
    Kind.ACCESS_LINK: CONTEXT,
    Kind.ADVERSE_NOTICE: {**CONTEXT, "link": f"{LINK}/notice"},
    Kind.REVIEW_ANSWER: {**CONTEXT, "link": f"{LINK}/notice"},
    Kind.MY_DATA: {**CONTEXT, "links": [{"client": "Acacia Lenders", "link": LINK}]},
}
TO_OWNERS = {
    Kind.TOP_UP_RECEIPT,
    Kind.TOP_UP_REFUNDED,
    Kind.PAYMENT_TROUBLE,
    Kind.REQUESTS_DUE,
    Kind.LOW_BALANCE,
    Kind.MONITORING_PAUSED,
    Kind.NEW_LINK_WANTED,
    Kind.WEBHOOK_FAILING,
    Kind.WEBHOOK_DISABLED,
    Kind.MEMBER_NEWS,
    Kind.MEMBER_DIGEST,
    Kind.CORRECTION_OPENED,
    Kind.CORRECTION_RERUN,
}
ACCOUNTS = {k for k in Kind if k.startswith(("ACCOUNT_", "GO_LIVE_"))}
TO_MEMBERS = {Kind.INVITATION, Kind.STAFF_INVITATION, *ACCOUNTS}
# These carry a document.
RECEIPTS = {Kind.CONSENT_RECEIPT, Kind.REFERENCE_RECEIPT, Kind.PAYMENT_RECEIPT}
TO_REFEREES = {Kind.REFERENCE_REQUEST, Kind.REFERENCE_REMINDER}
BY_EMAIL_ALONE = {*TO_OWNERS, *TO_MEMBERS, *TO_REFEREES, *RECEIPTS}
# These are in the language of a page.
CODES = {Kind.SANDBOX_ADDRESS, Kind.CONSENT_CODE, Kind.ACCESS_CODE, Kind.MY_DATA}
BY_SMS = [kind for kind in Kind if kind not in BY_EMAIL_ALONE | CODES]
WITHOUT_DEADLINE = {
    Kind.ACCESS_LINK,
    Kind.CONSENT_LOCKED,
    Kind.PAYMENT_REFUNDED,
    Kind.CORRECTION_ANSWER,
    Kind.ADVERSE_NOTICE,
    Kind.REVIEW_ANSWER,
}
# These hold a code, or nothing to open but the links of a list.
WITHOUT_BUTTON = {
    *(Kind.SANDBOX_ADDRESS, Kind.CONSENT_CODE, Kind.ACCESS_CODE),
    *(Kind.MONITORING_PAUSED, Kind.TOP_UP_RECEIPT, Kind.TOP_UP_REFUNDED),
    *(Kind.MEMBER_DIGEST, Kind.MY_DATA, Kind.LOW_BALANCE),
}
DECISIONS = ["GRANTED", "DECLINED", "WITHDRAWN", "EXPIRED"]

pytestmark = pytest.mark.usefixtures("no_attachments")


def written(kind: Kind, language: str = "en", **fields: Any) -> Notification:
    context = {**CONTEXTS[kind], **fields.pop("context", {})}
    want = email_message(kind=kind, language=language, context=context)
    return Notification(
        id=UUID(int=1),
        kind=want.kind,
        channel=fields.pop("channel", want.channel),
        recipient=want.recipient,
        context=want.context,
        language=want.language,
        sandbox=fields.pop("sandbox", False),
    )


def by_sms(kind: Kind, language: str = "en", **fields: Any) -> str:
    return write_sms(written(kind, language, channel=sms_message().channel, **fields))


Letters = dict[tuple[Kind, str], EmailText]


@pytest.fixture(scope="module")
def letters() -> Letters:
    """Write an e-mail of each kind in each language."""
    operator = {"OPERATOR_NAME": "Uhakika", "OPERATOR_CONTACT": "0800 111 222"}
    with override_settings(**operator), pytest.MonkeyPatch.context() as patch:
        patch.setattr("verification.notifications.templates.ATTACHMENTS", {})
        return {
            (kind, language): write_email(written(kind, language))
            for kind in Kind
            for language in Language.values
        }


def test_every_email_is_written_in_both_languages(letters: Letters):
    for (kind, _), letter in letters.items():
        assert 5 < len(letter.subject) < 100, kind
        for word in ("{", "}", "None", "&#", "\n\n\n"):
            assert word not in letter.subject + letter.text, kind
    for kind in Kind:
        assert letters[kind, "en"].subject != letters[kind, "sw"].subject, kind


@pytest.mark.parametrize("language", [*Language.values, BILINGUAL])
def test_sms_of_two_parts_names_requester_operator_and_block(
    language: str, settings: Any
):
    settings.BASE_URL = "https://verify.acacia-lenders.co.ke"
    context = {"requester": "Acacia Lenders", "undone": True}
    context["expiresAt"] = "2026-12-15T08:15:30.123456Z"
    words = {"en": "Block", "sw": "Izuie", BILINGUAL: "Block/Izuie"}
    block = f"{words[language]}: {links.block_url(UUID(int=1))} "
    for kind in BY_SMS:
        text = by_sms(kind, language, context=context)

        assert gsm_length(text) <= 306, kind
        for said in ("Acacia Lenders", "Verification reports", LINK):
            assert text.count(said) == 1, (kind, said)
        # No block stops what people asked for themselves.
        assert (block in text) is (kind not in OWN_DATA_KINDS), kind


@pytest.mark.parametrize(
    ("at", "day"),
    [
        ("2026-12-01T08:00Z", "12 Dec"),
        # The link ends within the hour.
        ("2026-12-12T21:05Z", "13 Dec"),
    ],
)
@pytest.mark.parametrize("kind", [Kind.CONSENT_REQUEST, Kind.PAYMENT_REMINDER])
def test_sms_names_the_last_whole_day_of_its_link(kind: Kind, at: str, day: str):
    half_past_midnight_in_nairobi = "2026-12-12T21:30:00.000000Z"
    context = {"requester": "KCB", "expiresAt": half_past_midnight_in_nairobi}

    with time_machine.travel(datetime.fromisoformat(at), tick=False):
        text = by_sms(kind, "en", context=context)

    assert f"by {day}:" in text


@pytest.mark.parametrize("language", Language.values)
@pytest.mark.parametrize("sandbox", [True, False])
@pytest.mark.parametrize("name", ["KCB", "Savings and Credit Co-operative " * 6])
def test_every_sms_fits_into_two_parts_with_its_link(
    language: str, sandbox: bool, name: str, settings: Any
):
    settings.OPERATOR_NAME = name
    for kind in BY_SMS:
        text = by_sms(kind, language, context={"requester": name}, sandbox=sandbox)

        assert gsm_length(text) <= 306, kind
        assert LINK in text, kind
        assert to_gsm(text) == text, kind
        assert text.startswith("SANDBOX") is sandbox, kind
        assert name[:10] in text, kind


@pytest.mark.parametrize("language", [*Language.values, BILINGUAL])
@pytest.mark.parametrize("news", ["isDecidedAnew", "isTakenBack"])
def test_sms_about_a_former_notice_fits_into_two_parts(
    language: str, news: str, settings: Any
):
    settings.BASE_URL = "https://verify.acacia-lenders.co.ke"
    context = {"requester": "Acacia Lenders", news: True}
    text = by_sms(Kind.REVIEW_ANSWER, language, context=context)

    assert gsm_length(text) <= 306
    assert to_gsm(text) == text
    words = {
        "en": {"isDecidedAnew": "made a new decision", "isTakenBack": "was taken back"},
        "sw": {"isDecidedAnew": "imeamua upya", "isTakenBack": "umeondolewa"},
    }
    assert words["sw" if language == "sw" else "en"][news] in text


@pytest.mark.parametrize("language", Language.values)
def test_request_names_requester_purpose_link_and_expiry(language: str):
    letter = write_email(written(Kind.CONSENT_REQUEST, language))

    month = {"en": "December", "sw": "Disemba"}[language]
    for said in ("Acacia Lenders", "Loan application", LINK, f"5 {month} 2026, 11:15"):
        assert said in letter.text
    assert "M-Pesa" in letter.text


def test_every_email_names_the_operator_and_the_contact(letters: Letters):
    for kind, letter in letters.items():
        assert "\n--\nUhakika (0800 111 222)" in letter.text, kind


def test_failing_receiver_is_not_promised_ten_attempts_when_it_is_blocked():
    letter = write_email(written(Kind.WEBHOOK_FAILING))

    assert "up to ten times over three days, but only once" in letter.text


def test_sandbox_email_says_so_in_its_subject():
    letter = write_email(written(Kind.CONSENT_REQUEST, sandbox=True))
    assert letter.subject.startswith("[SANDBOX] ")


@pytest.mark.parametrize("language", Language.values)
@pytest.mark.parametrize("count", [1, 7])
def test_each_kind_of_news_has_words_of_its_own(language: str, count: int):
    subjects = [
        write_email(
            written(
                Kind.MEMBER_NEWS,
                language,
                context={"line": {**LINE, "kind": kind, "count": count}},
            )
        ).subject
        for kind in MemberMessage.values
    ]

    assert len(set(subjects)) == len(subjects)


@pytest.mark.parametrize("kind", sorted(CHOSEN_KINDS))
@pytest.mark.parametrize("language", Language.values)
def test_message_that_members_choose_leads_to_the_choice(kind: Kind, language: str):
    url = "https://verify.test/console/choices"
    letter = write_email(written(kind, language, context={"choicesUrl": url}))
    assert letter.text.endswith(f"{url}\n")


@pytest.mark.parametrize("decision", DECISIONS)
def test_receipt_names_the_decision(decision: str):
    letter = write_email(written(Kind.CONSENT_RECEIPT, context={"decision": decision}))
    assert (LINK in letter.text) is (decision == "GRANTED")
    assert "C-0123-4567-89AB" in letter.subject


@pytest.mark.parametrize("language", [*Language.values, BILINGUAL])
@pytest.mark.parametrize(
    "kind", [Kind.PAYMENT_REQUEST, Kind.PAYMENT_REMINDER, Kind.PAYMENT_SHORT]
)
def test_payment_request_names_the_amount_and_asks_no_pin(kind: Kind, language: str):
    for text in (write_email(written(kind, language)).text, by_sms(kind, language)):
        for said in ("KES 12,500.00", "PIN", LINK):
            assert said in text
        # M-Pesa asks for it on the payer's phone.
        assert not re.search("No PIN needed|PIN haihitajiki", text)


def test_typed_text_is_plain_text_on_one_line():
    name = "A & <b>B</b> {{ link }}\r\nBcc: eve@evil.test\u202e"
    letter = write_email(written(Kind.CONSENT_REQUEST, context={"requester": name}))

    shown = "A & <b>B</b> {{ link }} Bcc: eve@evil.test"
    assert letter.subject == f"{shown} asks for your consent"
    assert f"{shown} would like" in letter.text


def test_characters_outside_gsm_are_replaced():
    assert to_gsm("Wanjikũ – “ñ” ‘é’ 中") == "Wanjiku - \"ñ\" 'é' ?"  # noqa: RUF001
    assert gsm_length("[a]€") == 7


def test_email_is_in_both_languages_by_default():
    for kind in Kind:
        english, kiswahili = (write_email(written(kind, o)) for o in Language.values)
        letter = write_email(written(kind, BILINGUAL, sandbox=True))

        subjects = f"[SANDBOX] {english.subject} / {kiswahili.subject}"
        assert letter.subject == subjects, kind
        assert letter.text.startswith("Kiswahili hapa chini.\n\nHello"), kind
        first = letter.text.index(english.text.strip())
        assert first < letter.text.index(kiswahili.text), kind


@pytest.mark.parametrize("name", ["KCB", "Savings and Credit Co-operative " * 6])
def test_sms_is_in_both_languages_by_default(name: str, settings: Any):
    settings.BASE_URL = "https://verify.acacia-lenders.co.ke"
    for kind in BY_SMS:
        with time_machine.travel(datetime(2026, 12, 1, tzinfo=UTC)):
            text = by_sms(kind, BILINGUAL, context={"requester": name}, sandbox=True)

        assert gsm_length(text) <= 306, kind
        assert text.count(LINK) == 1, kind
        assert to_gsm(text) == text, kind
        assert name[:10] in text, kind
        if kind not in WITHOUT_DEADLINE:
            day = 5 if kind == Kind.CORRECTION_RECEIPT else 4
            assert re.search(f"(nswer|Pay) by {day} Dec: ", text), kind
            assert f"hadi {day} Dis." in text, kind


@pytest.mark.parametrize("language", [*Language.values, BILINGUAL])
def test_receipt_of_a_correction_does_not_ask_for_an_answer(language: str):
    text = by_sms(Kind.CORRECTION_RECEIPT, language)

    assert not re.search("Answer by|Jibu hadi", text)


def test_every_template_belongs_to_a_kind():
    names = {
        path.name for path in (settings.BASE_DIR / "templates/notifications").iterdir()
    }
    wanted_names = {
        f"{kind.lower()}.{channel}.{language}.txt"
        for channel, kinds in {"email": list(Kind), "sms": [*BY_SMS, *CODES]}.items()
        for kind in kinds
        for language in [
            *Language.values,
            *(["both"] if channel == "sms" and kind not in CODES else []),
        ]
    }
    footers = {f"footer.email.{language}.txt" for language in Language.values} | {
        f"footer.sms.{language}.txt" for language in [*Language.values, "both"]
    }
    parts = {f"member_line.{language}.txt" for language in Language.values}
    html = {"layout.html", "blocks.html", "line.html"}
    assert names == wanted_names | footers | parts | html


@pytest.mark.parametrize("language", Language.values)
def test_code_for_sandbox_messages_fits_into_two_parts(language: str):
    name = "Savings and Credit Co-operative " * 6
    text = by_sms(Kind.SANDBOX_ADDRESS, language, context={"requester": name})

    assert gsm_length(text) <= 306
    assert "012345" in text
    assert "/b/" in text
    assert "Savings" in text
