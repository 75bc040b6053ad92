"""Members decide about reports in the console."""

import re

import pytest

from tests.world.clients import Api, company, create_lender, erase, person
from tests.world.console import ConsoleVisitor
from tests.world.decisions import (
    ADVERSE,
    DECLINE,
    create_ready_report,
    decide,
    deciding_api,
    demand_second,
)
from tests.world.notices import wait
from verification.backoffice.models import AuditEvent
from verification.decisions.models import (
    Decision,
    ReasonCode,
    SecondMemberRule,
)
from workspaces.models import Workspace

ASKED = {"status": "DECLINED", "codes": ["ADVERSE_CREDIT"], "note": "In arrears"}
# The findings about ADVERSE speak for these.
SUGGESTED = ["CREDIT_SCORE_TOO_LOW", "RECORDED_AS_DECEASED", "TAX_PIN_MISMATCH"]
# The form of the page about the consequences
SEEN = {"confirmed": "on"}
FIELDS = {**ASKED, **SEEN}
# The reports have no address.
UNREACHED = (
    "The decision counts now. No message reaches the person: hand the notice over."
)


@pytest.fixture(scope="module")
def report(module_transaction: None) -> str:
    """A report that is ready, which the tests of this module share."""
    return create_ready_report(Api(create_lender(), "sandbox"))


@pytest.fixture
def workspace(report: str, db: None) -> Workspace:
    return Workspace.objects.get()


def post(visitor: ConsoleVisitor, report: str, **changes) -> list[str]:
    fields = {**FIELDS, **changes}
    return visitor.messages_after("reports-decide", fields, report=report)


def actions() -> list[str]:
    events = AuditEvent.objects.filter(action__contains="decision").order_by("id")
    return list(events.values_list("action", flat=True))


def test_member_declines_with_a_reason_and_a_note(owner, api: Api, report):
    owner.member.user.first_name = "Wambui"
    owner.member.user.save()

    assert post(owner, report) == [UNREACHED]

    html = owner.page("reports-detail", report=report)
    assert "Adverse information at a credit bureau" in html
    assert "In arrears" in html
    assert "counts now" in html
    shown = api.report(report)["decision"]
    assert (shown["madeBy"], shown["madeByName"]) == ("MEMBER", "Wambui")
    assert actions() == ["decision.made"]


def test_report_opens_after_the_log_in_of_a_decision_sent_late(owner, report):
    page, form = owner.url("reports-detail", report=report), "reports-decide"
    owner.http.logout()
    for sent_from, after in ((page, page), ("", owner.url(form, report=report))):
        headers = {"Referer": f"http://testserver{sent_from}"} if sent_from else {}
        answer = owner.http.post(owner.url(form, report=report), ASKED, headers=headers)
        assert answer["Location"] == f"/accounts/login/?next={after}"

    owner.http.force_login(owner.member.user)

    assert owner.get(form, report=report)["Location"] == page
    assert owner.get("queue-next")["Location"] == owner.url("dashboard")


@pytest.mark.parametrize(
    ("second", "days", "not_on_bureau", "says"),
    [
        (False, None, "", ["gets a notice with these reasons", "counts at once"]),
        (True, 1, "", ["a second member confirms it", "counts 1 working day after"]),
        (False, 5, "Forged", ["The person gets no notice", "counts at once"]),
    ],
)
def test_decline_asks_first_and_says_what_follows(
    owner, api: Api, report, second, days, not_on_bureau, says
):
    if second:
        demand_second(api)
    if days:
        wait(days, api)
    fields = {**ASKED, "codes": ["OWN_CRITERIA"], "not_on_bureau": not_on_bureau}

    html = owner.post("reports-decide", fields, report=report).content.decode()

    assert not Decision.objects.exists()
    assert "Other criteria of ours that are not met" in html
    for sentence in says:
        assert sentence in html
    fields = re.findall(r'type="\w+" name="(\w+)" value="([^"]*)"', html)
    asked = dict(one for one in fields if one[0] != "csrfmiddlewaretoken")
    owner.messages_after("reports-decide", asked, report=report)
    made = Decision.objects.get()
    assert (made.status, made.codes) == ("DECLINED", ["OWN_CRITERIA"])
    assert (made.note, made.not_on_bureau or "") == ("In arrears", not_on_bureau)


@pytest.mark.parametrize("further", [[], ["OWN_CRITERIA"]])
def test_decline_by_a_credit_score_alone_warns(owner, report, further):
    fields = {**ASKED, "codes": ["CREDIT_SCORE_TOO_LOW", *further]}

    html = owner.post("reports-decide", fields, report=report).content.decode()

    assert "What follows" in html
    assert ("because of a credit score alone" in html) is (not further)


def boxes(html: str) -> dict[str, str]:
    """Return the words beside the reasons, by their codes, in the page's order."""
    labels = re.findall(
        r'name="codes" value="(\w+)".*?<span>(.*?)</span></label>', html
    )
    return {code: re.sub(r"<[^>]*>", " ", words) for code, words in labels}


def test_reasons_that_the_findings_suggest_come_first(owner, api: Api):
    report = create_ready_report(api, ADVERSE)

    html = owner.page("reports-detail", report=report)

    before = html.partition("more reasons")[0]
    assert list(boxes(before)) == SUGGESTED
    # The subject is a person.
    assert not {"COMPANY_NOT_ACTIVE", "COMPANY_DETAILS_MISMATCH"} & set(boxes(html))
    assert (
        "Contradicts the result of National identity"
        in (boxes(html)["IDENTITY_NOT_FOUND"])
    )


def test_reasons_of_a_company_fit_it(owner, api: Api):
    report = api.create(company())["id"]
    api.work()

    offered = set(boxes(owner.page("reports-detail", report=report)))

    assert {"COMPANY_NOT_ACTIVE", "OWN_CRITERIA"} <= offered
    assert not {"IDENTITY_MISMATCH", "EMPLOYER_NOT_CONFIRMED"} & offered


def test_decline_without_a_reason_asks_with_those_that_the_findings_suggest(
    owner, api: Api
):
    report = create_ready_report(api, ADVERSE)
    fields = {"status": "DECLINED"}

    html = owner.post("reports-decide", fields, report=report).content.decode()

    assert re.findall(r'name="codes" value="(\w+)" checked', html) == SUGGESTED
    unticked = {**fields, "confirmed": "on"}
    html = owner.post("reports-decide", unticked, report=report).content.decode()
    assert "<title>Error:" in html
    assert "Choose at least one reason for a decline" in html
    assert not Decision.objects.exists()


CHANNELS = [
    (
        {"email": "wanjiku@example.com", "phone": "+254712345678"},
        "by e-mail and by SMS.",
    ),
    ({"email": "wanjiku@example.com"}, "their rights, by e-mail."),
    ({}, "so you hand the notice over"),
]


def test_decline_says_by_which_channels_the_notice_goes(owner, api: Api):
    made = api.create(*[person(**address) for address, _says in CHANNELS])
    api.work()

    for one, (_address, says) in zip(made, CHANNELS, strict=True):
        answer = owner.post("reports-decide", ASKED, report=one["id"])
        assert says in " ".join(answer.content.decode().split())


def test_reason_that_contradicts_a_result_is_refused(owner, report):
    fields = {**FIELDS, "codes": ["IDENTITY_NOT_FOUND"]}

    html = owner.post("reports-decide", fields, report=report).content.decode()

    assert "Contradicts the result of National identity" in html
    assert not Decision.objects.exists()


def test_form_without_a_choice_says_so(owner, report):
    html = owner.post("reports-decide", {}, report=report).content.decode()

    assert "Choose “Your decision”" in html


def test_second_member_confirms_on_the_page(owner, admin, api: Api, report):
    demand_second(api)
    proposed = ["It is proposed. It counts once another member confirms it."]
    assert post(admin, report) == proposed
    mine = admin.page("reports-detail", report=report)
    assert "another member has to confirm it" in mine
    assert "Confirm the decision" not in mine
    assert "Confirm the decision" in owner.page("reports-detail", report=report)

    where = {"decision": Decision.objects.get().pk}
    same = admin.messages_after("reports-confirm", **where)
    assert same == ["Another member, with another e-mail address, has to confirm it."]
    assert owner.messages_after("reports-confirm", SEEN, **where) == [UNREACHED]
    decided = owner.page("reports-detail", report=report)
    decided = re.sub(r"<[^>]*>", "", decided.partition('id="decision"')[2])
    maker, second = (one.member.user.email for one in (admin, owner))
    assert re.search(f"ago · {maker}Confirmed: .* ago · {second}", decided)

    assert api.report(report)["decision"]["status"] == "DECLINED"
    assert owner.messages_after("reports-refuse", **where) == [
        "Nothing was done: somebody confirmed, refused or withdrew it meanwhile."
    ]
    assert actions() == ["decision.proposed", "decision.confirmed"]


def test_second_member_reads_what_follows_before_confirming_a_decline(
    owner, admin, api: Api, report
):
    demand_second(api)
    wait(5, api)
    post(admin, report)
    where = {"decision": Decision.objects.get().pk}

    html = owner.post("reports-confirm", **where).content.decode()

    assert Decision.objects.get().state == "PENDING"
    assert "What follows" in html
    assert "gets a notice with these reasons" in html
    assert "counts 5 working days after the person has got the notice" in html
    assert "Adverse information at a credit bureau" in html
    assert "a second member confirms it" not in html
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', html))
    owner.messages_after("reports-confirm", fields, **where)
    assert Decision.objects.get().state == "WAITING"


def test_second_member_confirms_an_approval_with_one_click(owner, admin, api, report):
    demand_second(api, score_to=100)
    post(admin, report, status="APPROVED", codes=[])

    said = owner.messages_after("reports-confirm", decision=Decision.objects.get().pk)

    assert said == ["The decision counts now. No other case is left for you."]


def test_double_click_decides_and_confirms_once(owner, admin, api: Api, report):
    demand_second(api)
    once = ["You sent this before. It was done once."]

    post(admin, report)
    assert post(admin, report) == once
    where = {"decision": Decision.objects.get().pk}
    owner.messages_after("reports-confirm", SEEN, **where)
    assert owner.messages_after("reports-confirm", SEEN, **where) == once

    other = post(owner, report, note="Another note")
    assert other[0].startswith("Nothing was done")
    assert actions() == ["decision.proposed", "decision.confirmed"]


def test_member_answers_what_a_key_proposes(owner, api: Api, report):
    demand_second(api)
    key = deciding_api(api)
    made = decide(key, report)
    assert f"the key “{key.key.name}”" in owner.page("reports-detail", report=report)

    done = owner.messages_after("reports-refuse", decision=made["id"])

    assert done == ["The proposal is refused."]
    assert Decision.objects.get().state == "REFUSED"


def test_member_who_has_not_read_the_newest_decision_is_told(owner, admin, report):
    post(admin, report)

    assert post(owner, report, status="APPROVED") == [
        "Nothing was done: somebody decided meanwhile. Read their decision first."
    ]
    page = owner.page("reports-detail", report=report)
    present = re.search(r'name="replaces" value="([^"]+)"', page)
    assert present is not None
    done = post(owner, report, status="APPROVED", replaces=present[1])
    assert done == ["The decision counts now."]
    assert "replaced by a later one" in owner.page("reports-detail", report=report)


def test_member_who_replaces_a_decline_that_was_taken_back_is_told(
    owner, admin, api: Api, report
):
    wait(5, api)
    post(admin, report)
    made = Decision.objects.get()
    admin.messages_after("reports-withdraw", decision=made.pk)

    assert post(owner, report, status="APPROVED", replaces=made.pk) == [
        "Nothing was done: somebody confirmed, refused or withdrew it meanwhile."
    ]


def test_viewer_reads_decisions_and_has_no_form(viewer, api: Api, report):
    decide(deciding_api(api), report, DECLINE, note="Seen by viewers")

    html = viewer.page("reports-detail", report=report)

    assert "Seen by viewers" in html
    assert "reports-decide" not in html
    assert 'name="replaces"' not in html


def test_page_says_why_a_report_cannot_be_decided(owner, api: Api, report):
    erase(api, report)

    html = owner.page("reports-detail", report=report)

    assert "The personal data of the report was erased." in html
    assert post(owner, report) == ["The personal data of the report was erased."]


def test_reason_that_was_deactivated_is_not_offered(owner, report):
    owner.page("reports-detail", report=report)
    ReasonCode.objects.filter(code="ADVERSE_CREDIT").update(active=False)

    html = owner.page("reports-detail", report=report)
    assert "ADVERSE_CREDIT" not in html
    html = owner.post("reports-decide", FIELDS, report=report).content.decode()
    assert "Choose reasons that are offered here" in html


def test_owner_says_when_a_second_member_confirms(owner, api: Api):
    fields = {"declines": "on", "score_from": "70", "score_to": ""}

    assert owner.messages_after("settings-decisions", fields) == ["Saved."]

    rule = SecondMemberRule.objects.get()
    assert (rule.declines, rule.score_from, rule.score_to) == (True, 70, None)
    assert "Only one member may decide here" in owner.page("settings-decisions")
    event = AuditEvent.objects.get(action="decision-settings.changed")
    assert sorted(event.fields) == ["declines", "score_from"]
    assert event.workspace_id == api.workspace.pk


def test_score_beyond_100_is_refused(owner):
    html = owner.post("settings-decisions", {"score_from": "101"}).content.decode()

    assert "Enter a score from 0 to 100, or nothing" in html
    assert not SecondMemberRule.objects.exists()


def test_owner_adds_rewords_and_deactivates_reasons(owner, report):
    words = {"text": "Rent in arrears", "text_sw": "Kodi haijalipwa"}
    added = {"code": "RENT_IN_ARREARS", **words}
    assert owner.messages_after("settings-reason-add", added) == ["Saved."]
    post(owner, report, codes=["RENT_IN_ARREARS"])

    reason = ReasonCode.objects.get(code="RENT_IN_ARREARS")
    changed = {"text": "Rent not paid", "text_sw": "Kodi bado"}
    owner.post("settings-reason", changed, reason=reason.pk)

    reason.refresh_from_db()
    assert (reason.text, reason.active) == ("Rent not paid", False)
    assert "Rent in arrears" in owner.page("reports-detail", report=report)
    assert "Not offered" in owner.page("settings-decisions")


def test_code_that_is_taken_or_malformed_is_refused(owner):
    before = ReasonCode.objects.count()
    for code in ["ADVERSE_CREDIT", "rent", "R", "9_LIVES", "A" * 41]:
        fields = {"code": code, "text": "One", "text_sw": "Moja"}

        html = owner.post("settings-reason-add", fields).content.decode()

        assert "<title>Error:" in html, code
    assert ReasonCode.objects.count() == before
