"""Members write, try and switch on the policy of their workspace."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.http import QueryDict
from django.utils.http import urlencode

from tests.console.test_decisions import UNREACHED
from tests.world.clients import Api, approve_workspace
from tests.world.console import ConsoleVisitor
from tests.world.decisions import (
    ADVERSE,
    APPROVE,
    create_ready_report,
    decide,
    deciding_api,
    demand_second,
)
from tests.world.packages import create_package
from tests.world.policies import (
    APPROVE_LOW,
    DECLINE_HIGH,
    condition,
    draft_policy,
    rule,
    run_policy,
    switch_on,
)
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckDefinition, CheckPackage
from verification.console.policy import PolicyRuleForm
from verification.console.policy_words import Names, sentence_of
from verification.decisions import policies
from verification.decisions.models import PolicyVersion
from verification.decisions.policies import digest_of
from verification.decisions.rules import read_rules

DECLINE = {
    "fact_1": "CRB_SCORE.creditScore",
    "comparison_1": "BELOW",
    "value_1": "400",
    "then": "DECLINED",
    "codes": ["CREDIT_SCORE_TOO_LOW"],
}


@pytest.fixture
def draft(api: Api) -> PolicyVersion:
    return draft_policy(api, APPROVE_LOW, DECLINE_HIGH)


def add(visitor: ConsoleVisitor, draft: PolicyVersion, **fields: Any) -> Any:
    sent = {**DECLINE, "seen": digest_of(draft), **fields}
    return visitor.post("policy-rule-add", sent, version=draft.pk)


def sentences(visitor: ConsoleVisitor, draft: PolicyVersion) -> list[str]:
    html = visitor.page("policy-version", version=draft.pk)
    found = re.findall(r'<p>(If .*?)</p>\s*<p class="row">(.*?)</p>', html, re.DOTALL)
    return [
        " ".join(re.sub(r"<[^>]*>", "", f"{when} {then}").split())
        for when, then in found
    ]


def test_owner_writes_the_first_rules_and_switches_them_on(owner):
    assert "No version is switched on" in owner.page("policy")
    owner.post("policy-open")
    draft = PolicyVersion.objects.get()

    assert add(owner, draft).status_code == 303
    assert sentences(owner, draft) == [
        "If the credit score of CRB score is below 400 then Declined "
        "Credit score below the required one"
    ]
    draft.refresh_from_db()
    form = {"mode": "DECIDE", "seen": digest_of(draft)}
    (said,) = owner.messages_after("policy-activate", form, version=draft.pk)

    assert said.startswith("The version is switched on.")
    draft.refresh_from_db()
    assert (draft.state, draft.mode) == ("ACTIVE", "DECIDE")
    assert "Version 1 is switched on" in owner.page("policy")
    actions = AuditEvent.objects.filter(action__startswith="policy.")
    assert set(actions.values_list("action", flat=True)) == {
        "policy.drafted",
        "policy.edited",
        "policy.activated",
    }


def test_policy_takes_no_rule_beyond_the_most(owner, monkeypatch):
    monkeypatch.setattr("verification.console.policy.MAX_RULES", 1)
    owner.post("policy-open")
    draft = PolicyVersion.objects.get()
    add(owner, draft)
    draft.refresh_from_db()

    assert add(owner, draft).status_code == 404


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (APPROVE_LOW, "If the risk score of the report is below 30, approve."),
        (
            rule(
                "REVIEW",
                condition("package", "IS_NOT", "loan"),
                condition("flag", "IS", "DECEASED", "IDENTITY"),
            ),
            "If the package is not Loan applicant and National identity has the flag "
            "“The source records the holder as deceased”, a person reviews the report.",
        ),
        (
            rule("REVIEW", condition("state", "IS", "FAILED", "KRA_PIN")),
            "If KRA PIN failed, a person reviews the report.",
        ),
        (
            rule("REVIEW", condition("level", "IS", "HIGH", "KRA_PIN")),
            "If the risk level of KRA PIN is High, a person reviews the report.",
        ),
    ],
)
def test_rule_is_one_sentence(made, sentence):
    (read,) = read_rules([made])
    checks = {"KRA_PIN": "KRA PIN", "IDENTITY": "National identity"}

    assert sentence_of(read, Names(checks, {"loan": "Loan applicant"})) == sentence


ADVICE = "must not refuse credit because of a credit score alone"
LOW_SCORE = condition("creditScore", "BELOW", 400, "CRB_FULL")


@pytest.mark.parametrize(
    ("then", "conditions", "warns"),
    [
        ("DECLINED", [LOW_SCORE, condition("package", "IS", "loan")], True),
        ("DECLINED", [condition("level", "IS", "HIGH", "CRB_SCORE")], True),
        ("DECLINED", [condition("flag", "IS", "LOW_CREDIT_SCORE")], True),
        ("DECLINED", [LOW_SCORE, condition("score", "AT_LEAST", 70)], False),
        ("DECLINED", [condition("state", "IS", "FAILED", "CRB_SCORE")], False),
        ("REVIEW", [LOW_SCORE], False),
    ],
)
def test_policy_warns_of_a_decline_by_a_credit_score_alone(
    owner, api: Api, then, conditions, warns
):
    codes = ["OWN_CRITERIA"] if then == "DECLINED" else []
    made = draft_policy(api, rule(then, *conditions, codes=codes))

    assert (ADVICE in owner.page("policy-version", version=made.pk)) is warns


FAULTS = [
    ({"value_1": "many"}, "Enter a number from 0 to"),
    ({"value_1": "-1"}, "Enter a number from 0 to"),
    ({"value_1": "nan"}, "Enter a number from 0 to"),
    ({"comparison_1": "IS"}, "Choose “is at least” or “is below”"),
    ({"fact_1": "score", "value_1": "101"}, "Enter a number from 0 to 100"),
    ({"fact_1": "level", "comparison_1": "BELOW"}, "Choose “is” or “is not”"),
    (
        {"fact_1": "level", "comparison_1": "IS", "value_1": "AWFUL"},
        "Choose a value",
    ),
    (
        {"fact_1": "package", "comparison_1": "IS", "value_1": "loan"},
        "There is nothing to choose from",
    ),
    ({"fact_1": "", "value_1": ""}, "Choose at least one condition"),
    ({"fact_1": "NO_SUCH.score"}, "Select a valid choice"),
    ({"codes": []}, "Choose at least one reason for a decline"),
    ({"codes": ["NO_SUCH"]}, "Choose reasons that are offered here"),
]


def test_rule_with_a_fault_shows_the_form_again(owner, draft):
    workspace = owner.workspace
    known, names = policies.known_to(workspace), Names.of(workspace)
    choices = {"codes": [("CREDIT_SCORE_TOO_LOW", "Low")]}
    for fields, error in FAULTS:
        typed = QueryDict(urlencode({**DECLINE, **fields}, doseq=True))
        form = PolicyRuleForm(
            typed, known=known, names=names, given={}, choices=choices
        )
        assert error in str(form.errors), fields

    answer = add(owner, draft, then="", codes=["NO_SUCH"])
    html = answer.content.decode()
    assert answer.status_code == 200
    assert "<title>Error:" in html
    assert "Choose “Then”" in html
    assert error in html


def test_five_conditions_are_kept_and_shown_again(owner, api: Api, draft):
    create_package(workspace=api.workspace)
    facts = {
        "1": ("score", "BELOW", "50"),
        "2": ("package", "IS", "loan"),
        "3": ("flag", "IS_NOT", "DECEASED"),
        "4": ("IDENTITY.state", "IS", "COMPLETED"),
        "5": ("CRB_SCORE.creditScore", "AT_LEAST", "1,000.5"),
    }
    fields = {
        f"{name}_{n}": value
        for n, values in facts.items()
        for name, value in zip(("fact", "comparison", "value"), values, strict=True)
    }
    add(owner, draft, **fields)

    package = CheckPackage.objects.get(name="loan").display_name
    assert sentences(owner, draft)[-1] == (
        f"If the risk score of the report is below 50 and the package is {package} "
        "and no check has the flag The source records the holder as deceased and "
        "National identity was completed and the credit score of CRB score is at least "
        "1000.5 then Declined Credit score below the required one"
    )
    html = owner.page("policy-rule", version=draft.pk, number=3)
    assert "<details open>" in html
    assert 'value="1000.5"' in html


def test_rules_are_moved_and_removed(owner, draft):
    where = {"version": draft.pk, "number": 2}
    first, second = sentences(owner, draft)

    seen = {"seen": digest_of(draft)}
    assert owner.messages_after("policy-rule-up", seen, **where) == ["Saved."]
    assert sentences(owner, draft) == [second, first]
    draft.refresh_from_db()
    seen = {"seen": digest_of(draft)}
    assert owner.messages_after("policy-rule-remove", seen, **where) == ["Saved."]
    assert sentences(owner, draft) == [second]


def test_change_of_a_draft_that_another_member_changed_is_refused(owner, draft):
    stale = {"seen": digest_of(draft)}
    add(owner, draft)

    refused = {"policy-rule-remove": {"number": 1}, "policy-discard": {}}
    for name, where in refused.items():
        said = owner.messages_after(name, stale, version=draft.pk, **where)[-1]
        assert "somebody changed the draft meanwhile" in said, name
    assert len(sentences(owner, draft)) == 3


def test_draft_shows_what_would_change(owner, api: Api):
    key = deciding_api(api)
    declined = create_ready_report(api)
    decide(key, declined)
    decide(key, create_ready_report(api, "12345679"), APPROVE)
    create_ready_report(api, ADVERSE)
    proposed = create_ready_report(api, ADVERSE)
    demand_second(api)
    decide(key, proposed)
    draft = draft_policy(api, APPROVE_LOW, DECLINE_HIGH)

    html = owner.page("policy-version", version=draft.pk)

    assert "Dry run: 1 of the last 4 reports would end differently" in html
    assert re.findall(r"matched \d of 4 reports", html) == [
        "matched 2 of 4 reports",
        "matched 2 of 4 reports",
    ]
    assert "when findings contradict a reason" in html
    table = html.partition("Decided so far")[2].partition("</table>")[0]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table)
    assert {name: re.findall(r"(\d+)</td>", cells) for name, cells in rows} == {
        "Approved": ["1", "0", "0"],
        "Declined": ["1", "0", "0"],
        "Not final yet": ["0", "1", "0"],
        "Nobody decided": ["0", "1", "0"],
    }
    assert re.findall(r'class="number other">(\d+)', table) == ["1"]
    differing = html.partition("Reports that would end differently")[2]
    assert re.findall(r"reports/([0-9a-f-]+)", differing) == [declined]


OFFERS = [
    ("score", ["is at least", "is below"], None),
    ("level", ["is", "is not"], ["Choose", "Low", "Medium", "High"]),
    (
        "BUSINESS_VERIFICATION.flag",
        ["is", "is not"],
        [
            "Choose",
            "The business register does not list it as active",
            "The business register has no such number",
            "The source gives no name that could be compared",
            "The source has another name for the number",
        ],
    ),
    (
        "IDENTITY.state",
        ["is", "is not"],
        ["Choose", "completed", "failed", "not part of the report"],
    ),
]


def offered(html: str, name: str) -> list[str] | None:
    found = re.search(f'<select name="{name}".*?</select>', html, re.DOTALL)
    return re.findall(r">([^<]+)</option>", found[0]) if found else None


def test_condition_offers_what_fits(owner, draft):
    workspace = owner.workspace
    known, names = policies.known_to(workspace), Names.of(workspace)
    for fact, comparisons, values in OFFERS:
        given = {"fact_1": fact}
        form = PolicyRuleForm(None, known=known, names=names, given=given, choices={})
        html = "".join(str(form[name]) for name in form.fields if name[-2:] == "_1")
        assert offered(html, "comparison_1") == comparisons, fact
        assert offered(html, "value_1") == values, fact

    # The page asks at once for what fits.
    sent = {"fact_1": fact, "step": "update", "then": "DECLINED"}
    html = owner.post("policy-rule-add", sent, version=draft.pk).content.decode()
    assert "<title>Error:" not in html
    assert offered(html, "value_1") == values
    assert re.search(r'value="DECLINED"[^>]* checked', html)
    assert 'name="comparison_2"' not in html


def test_broken_draft_says_what_is_gone_and_cannot_be_switched_on(owner, draft):
    add(owner, draft)
    CheckDefinition.objects.filter(name="CRB_SCORE").update(active=False)

    html = owner.page("policy-version", version=draft.pk)
    assert "Rule 3: the check CRB score is not offered." in html
    assert "Switch version 1 on" not in html
    draft.refresh_from_db()
    form = {"mode": "DECIDE", "seen": digest_of(draft)}
    (said,) = owner.messages_after("policy-activate", form, version=draft.pk)
    assert said == "Nothing was done: a rule names something that no longer exists."


def test_broken_version_is_told_to_members_and_on_the_report(owner, viewer, api: Api):
    rules = rule("REVIEW", condition("creditScore", "BELOW", 400, "CRB_SCORE"))
    switch_on(api, rules, APPROVE_LOW)
    report = create_ready_report(api)
    CheckDefinition.objects.filter(name="CRB_SCORE").update(active=False)
    run_policy()

    assert "It is broken, so a person reviews each report" in viewer.page("policy")
    assert "Your policy is broken" in owner.page("dashboard")
    html = owner.page("reports-detail", report=report)
    assert "named something that no longer exists" in html

    CheckDefinition.objects.filter(name="CRB_SCORE").update(active=True)
    assert "Your policy is broken" not in viewer.page("dashboard")


def test_page_of_a_report_says_why_the_policy_decided(owner, api: Api):
    switch_on(api, APPROVE_LOW, DECLINE_HIGH)
    report = create_ready_report(api, ADVERSE)
    run_policy()

    html = owner.page("reports-detail", report=report)

    assert "Version 1 of the policy" in html
    assert "No person has looked at it." in html
    assert (
        "If the risk score of the report is at least 70, decline: Other criteria of "
        "ours that are not met."
    ) in html


def test_member_reads_what_follows_of_a_decline_that_a_policy_proposes(owner, api: Api):
    switch_on(api, DECLINE_HIGH, mode="PROPOSE")
    report = create_ready_report(api, ADVERSE)
    run_policy()

    proposed = api.report(report)["proposedDecision"]["id"]
    html = owner.post("reports-confirm", decision=proposed).content.decode()
    assert "What follows" in html
    assert api.report(report)["proposedDecision"]["id"] == proposed
    seen = {"confirmed": "on"}
    said = owner.messages_after("reports-confirm", seen, decision=proposed)
    assert said == [UNREACHED]
    html = owner.page("reports-detail", report=report)
    assert "No person has looked at it." not in html


def test_policy_is_switched_off_once_after_a_question(owner, api: Api):
    version = switch_on(api, APPROVE_LOW)
    assert owner.get("policy-rule-add", version=version.pk).status_code == 404
    assert owner.url("policy-off", version=version.pk) in owner.page("policy")
    html = owner.page("policy-off", version=version.pk)
    assert "Switch the policy off?" in html
    version.refresh_from_db()
    assert version.state == "ACTIVE"

    said = [owner.messages_after("policy-off", version=version.pk) for _ in range(2)]
    assert said == [
        ["The policy is switched off."],
        ["Nothing was done: the version is not active any more."],
    ]


def test_draft_is_deleted_and_another_made_of_a_former_version(owner, api: Api, draft):
    seen = re.findall(
        'name="seen" value="(.*?)"', owner.page("policy-version", version=draft.pk)
    )
    owner.messages_after("policy-discard", {"seen": seen[-1]}, version=draft.pk)
    assert not PolicyVersion.objects.exists()
    version = switch_on(api, APPROVE_LOW)

    owner.post("policy-open", {"base": version.pk})
    assert PolicyVersion.objects.get(state="DRAFT").rules == version.rules
    assert owner.messages_after("policy-open") == ["There is a draft already."]


def test_policy_of_the_sandbox_is_copied_to_production(owner, api: Api):
    approve_workspace(owner.workspace)
    version = switch_on(api, APPROVE_LOW)
    copied = f'name="base" value="{version.pk}"'
    assert copied in owner.page("policy", "production")

    owner.post("policy-open", {"base": version.pk}, "production")

    draft = PolicyVersion.objects.get(environment="production")
    assert (draft.number, draft.state, draft.rules) == (1, "DRAFT", version.rules)
    assert copied not in owner.page("policy", "production")


def test_rule_of_no_number_is_not_found(owner, draft):
    assert owner.get("policy-rule", version=draft.pk, number=3).status_code == 404
    assert owner.get("policy-rule", version=draft.pk, number=0).status_code == 404


def test_sentences_are_kiswahili(owner, draft):
    html = owner.page("policy-version", query={"lang": "sw"}, version=draft.pk)

    assert "Ikiwa alama ya hatari ya ripoti ni chini ya <q>30</q>" in html
    assert "Imekubaliwa" in html
