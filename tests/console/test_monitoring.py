"""Monitoring in the console: rules are made and kept there, alerts read in words."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import localtime, now

from monitoring.models import Alert, Rule
from monitoring.pauses import pause_for_staff, resume_for_staff
from tests.world.clients import Api, approve_workspace, person
from tests.world.console import ConsoleVisitor
from tests.world.employer import REFEREE, employment_item
from tests.world.rules import (
    create_rule,
    move_rules_back,
    raise_alert,
    rule_status,
    run_rules,
    store_rule,
)
from tests.world.staff import take_messages
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckDefinition
from verification.console import monitoring as monitoring_pages
from verification.reports.models import Report
from verification.values.local_time import NAIROBI
from workspaces.models import LedgerEntry

QUOTE = re.compile(r'name="quote" value="([^"]+)"')
WANJIKU = {
    "subject_type": "INDIVIDUAL",
    "country": "KE",
    "checks": ["IDENTITY"],
    "consent": "CUSTOMER_ATTESTED",
    "payment_mode": "SELF",
    "subject-fullName": "Wanjiku Kamau",
    "subject-idNumber": "12345678",
    "reference": "LN-1",
    "cadence": "WEEKLY",
}


def attested(days_ago: float = 1) -> dict[str, str]:
    given = localtime(timezone=NAIROBI) - timedelta(days=days_ago)
    return {
        "consent-obtained": "on",
        "consent-obtainedAt": f"{given:%Y-%m-%dT%H:%M}",
        "consent-method": "PAPER_FORM",
        "consent-policyVersion": "2026-01",
    }


class Page:
    """The page of a new rule, filled in."""

    def __init__(self, visitor: ConsoleVisitor) -> None:
        self.visitor, self.fields = visitor, {**WANJIKU, **attested()}
        self.html = ""

    def press(self, step: str, environment: str = "sandbox", **fields: object) -> str:
        """Press a button; return the page, or the messages of the page after it."""
        self.fields |= fields
        found = QUOTE.search(self.html)
        quote = {"quote": unescape(found[1])} if found else {}
        url = self.visitor.url("monitoring-new", environment)
        answer = self.visitor.http.post(url, {**self.fields, "step": step, **quote})
        assert answer.status_code in {200, 303, 403}, answer.status_code
        if answer.status_code == 303:
            return " ".join(take_messages(answer))
        self.html = answer.content.decode()
        return self.html


def test_rule_is_made_for_the_price_of_its_first_run(owner, api: Api):
    page = Page(owner)
    assert "Begin for KES 50.00" in page.press("update")
    assert not Rule.objects.exists()

    assert "Monitoring has begun." in page.press("make")

    made = Rule.objects.get()
    assert (made.cadence, made.reference, made.check_names) == (
        *("WEEKLY", "LN-1"),
        ["IDENTITY"],
    )
    assert made.subject["fullName"] == "Wanjiku Kamau"
    assert made.consent["method"] == "PAPER_FORM"
    assert made.created_by == f"member {owner.member.pk}"
    assert LedgerEntry.objects.get().amount == -50
    assert AuditEvent.objects.get(action="rule.created").object_id == str(made.pk)
    run_rules(api)
    html = owner.page("monitoring-rule", rule=made.pk)
    assert "Every week, next" in html
    assert "Run 1" in html


def test_all_faults_of_a_rule_are_shown_at_once(owner):
    page = Page(owner)

    html = page.press("make", **{"subject-fullName": "..", "subject-idNumber": ""})

    assert "This is not a name" in html
    assert "Fill in “ID number”" in html


def test_rule_that_is_sent_again_is_made_once(owner):
    page = Page(owner)
    page.press("update")
    shown = page.html

    page.press("make")
    page.html = shown
    page.press("make")

    assert Rule.objects.count() == 1
    assert Report.objects.count() == 1


def test_rule_is_not_made_for_another_price(owner):
    page = Page(owner)
    page.press("update")
    CheckDefinition.objects.filter(name="IDENTITY").update(price=60)

    assert "Nothing is ordered yet" in page.press("make")
    assert "Begin for KES 60.00" in page.html
    assert not Rule.objects.exists()


def test_rule_is_not_made_when_the_price_changes_in_between(owner, monkeypatch):
    page = Page(owner)
    page.press("update")
    read_packages = monitoring_pages.named_packages

    def raise_price_and_read(*arguments: Any) -> Any:
        CheckDefinition.objects.filter(name="IDENTITY").update(price=60)
        return read_packages(*arguments)

    monkeypatch.setattr(monitoring_pages, "named_packages", raise_price_and_read)

    assert "Nothing is ordered yet" in page.press("make")
    assert not Rule.objects.exists()
    assert not LedgerEntry.objects.exists()


def test_rule_is_not_made_when_the_workspace_closes_in_between(owner, monkeypatch):
    page = Page(owner)
    page.press("update")

    def close(*arguments: Any) -> None:
        owner.workspace.suspend("Closed")

    monkeypatch.setattr(monitoring_pages, "require_present", close)

    assert "is suspended" in page.press("make")
    assert not Rule.objects.exists()


def test_rule_of_several_checks_is_made_for_the_price_shown(owner, api):
    api.create(person())
    page = Page(owner)
    fields = {"checks": ["IDENTITY", "KRA_PIN"], "subject-kraPin": "A001234567B"}
    assert "Begin for KES 100.00" in page.press("update", **fields)

    assert "Monitoring has begun." in page.press("make")


def test_list_of_rules_counts_unread_alerts_up_to_a_limit(owner):
    with CaptureQueriesContext(connection) as captured:
        owner.page("monitoring")

    sql = [one["sql"] for one in captured if "monitoring_alert" in one["sql"]]
    assert sql
    assert all("LIMIT" in one for one in sql)


FAULTS = [
    ({"consent-obtained": ""}, "the subject: Confirm it, as the checks need a consent"),
    ({"checks": []}, "Checks: Choose at least one"),
    ({"cadence": "HOURLY"}, "How often: "),
]


def test_faults_of_a_rule_are_shown_at_their_fields(owner):
    page = Page(owner)
    right, quoted = page.fields, page.press("update")
    for fields, told in FAULTS:
        page.fields, page.html = right, quoted

        assert told in page.press("make", **fields), fields
        assert not Rule.objects.exists(), fields


def test_report_leads_to_a_rule_that_begins_with_its_details(owner, officer, api):
    report = api.create(person())["id"]
    link = f'href="{owner.url("monitoring-new")}?report={report}"'
    assert link not in owner.page("reports-detail", report=report)
    api.work()

    assert link in owner.page("reports-detail", report=report)
    assert link not in officer.page("reports-detail", report=report)
    page = owner.page("monitoring-new", query={"report": report})
    assert 'value="Wanjiku Kamau"' in page
    assert 'value="IDENTITY" id="id_checks_0" checked' in page

    Report.objects.update(restricted_at=now())
    assert link not in owner.page("reports-detail", report=report)


def test_report_leads_to_the_rule_about_its_subject(owner, api, another_api):
    report = api.create(person())["id"]
    api.work()
    store_rule(another_api)
    store_rule(api, id_number="22222222")
    assert "Monitor the subject" in owner.page("reports-detail", report=report)
    paused, made = store_rule(api), store_rule(api).pk
    paused.status, paused.pause_reason, paused.paused_at = "PAUSED", "BY_CLIENT", now()
    paused.save()

    page = owner.page("reports-detail", report=report)

    assert f'href="{owner.url("monitoring-rule", rule=made)}"' in page
    assert "Monitor the subject" not in page


def test_report_of_a_run_leads_to_its_rule_until_it_is_deleted(owner, api):
    made = create_rule(api)["id"]
    run_rules(api)
    run = Report.objects.get().pk
    link = f'href="{owner.url("monitoring-rule", rule=made)}"'

    page = owner.page("reports-detail", report=run)
    assert link in page
    assert owner.url("monitoring-new") not in page

    api.delete(f"/monitoring/{made}")
    assert link not in owner.page("reports-detail", report=run)


def test_rule_page_opens_when_its_address_names_no_report(owner):
    assert "Monitor a subject" in owner.page("monitoring-new", query={"report": "x"})


def test_rule_needs_money_in_production(owner, live_api):
    approve_workspace(owner.workspace)
    page = Page(owner)

    html = page.press("update", "production")

    assert "The balance does not cover a run." in html
    assert "Begin for" not in html
    assert "Nothing is ordered" in page.press("make", "production")
    assert not Rule.objects.exists()


def test_rule_is_changed(owner, api):
    made = store_rule(api)

    owner.post(
        "monitoring-change",
        {"cadence": "MONTHLY", "reference": "LN-7"},
        rule=made.pk,
    )

    made.refresh_from_db()
    assert (made.cadence, made.reference) == ("MONTHLY", "LN-7")
    assert made.next_run_at > now() + timedelta(days=27)
    assert AuditEvent.objects.get(action="rule.changed").fields == [
        "cadence",
        "reference",
    ]
    html = owner.page("monitoring", query={"search": "LN-7"})
    assert "Every month" in html
    assert "Wanjiku Kamau" in html


def test_rule_is_deleted_after_a_question(owner, api):
    alert = raise_alert(api)
    assert "Delete this rule?" in owner.page("monitoring-delete", rule=alert.rule_id)

    owner.post("monitoring-delete", rule=alert.rule_id)

    assert not Rule.objects.exists()
    assert "risk level changed" in owner.page("monitoring-alert", alert=alert.pk)
    assert AuditEvent.objects.filter(action="rule.deleted").count() == 1


def test_rule_whose_subject_withdrew_resumes_with_a_newer_consent(owner, api):
    made = store_rule(api)
    withdrawn = now() - timedelta(hours=12)
    Rule.objects.update(
        status="PAUSED",
        pause_reason="CONSENT_WITHDRAWN",
        paused_at=withdrawn,
        consent_withdrawn_at=withdrawn,
    )
    assert "The subject withdrew consent." in owner.page(
        "monitoring-resume", rule=made.pk
    )

    shown = {"seen": "CONSENT_WITHDRAWN"}
    old = owner.post("monitoring-resume", {**attested(), **shown}, rule=made.pk)
    assert "<title>Error:" in old.content.decode()
    assert rule_status(made) == ("PAUSED", "CONSENT_WITHDRAWN")
    owner.post("monitoring-resume", {**attested(0.25), **shown}, rule=made.pk)
    assert rule_status(made) == ("ACTIVE", "")


def test_alert_is_told_in_words(owner, api):
    changes = [
        ("riskLevel", "LOW", "HIGH"),
        ("flags", [], [{"code": "NAME_MISMATCH", "severity": "MEDIUM"}]),
        ("details.isActive", True, None),
        ("details.taxObligations", ["VAT"], ["VAT", "PAYE"]),
    ]
    names = ("field", "old", "new")
    told = [
        {"checkName": "KRA_PIN", **dict(zip(names, c, strict=True))} for c in changes
    ]

    alert = raise_alert(api, changes=told)
    html = owner.page("monitoring-alert", alert=alert.pk)

    for name, more in (
        ("monitoring-alerts", {}),
        ("monitoring-rule", {"rule": alert.rule_id}),
    ):
        listed = owner.page(name, **more)
        assert "KRA PIN went from low to high risk" in listed
        assert "and 2 more changes" in listed
        assert "The source has another name" not in listed
    text = re.sub("<svg.*?</svg> |</?(bdi|b)( [^>]*)?>", "", html)
    assert re.findall("<li>(KRA PIN.*?)</li>", text) == [
        "KRA PIN went from low to high risk",
        "KRA PIN: The source has another name for the number.",
        "KRA PIN, changed: Is active, Tax obligations",
    ]
    assert re.findall('role="(?:rowheader|cell)".*?>(.*?)</t', text) == [
        *("Risk", "KRA PIN", "Low", "High"),
        *("Flags", "KRA PIN", "\N{EN DASH}"),
        "The source has another name for the number. (medium)",
        *("Is active", "KRA PIN", "Yes", "\N{EN DASH}"),
        *("Tax obligations", "KRA PIN", "VAT", "VAT; PAYE"),
    ]


def test_alert_says_which_flags_are_gone_and_graver(owner, api):
    low, high = ({"code": "DECEASED", "severity": x} for x in ("LOW", "HIGH"))
    gone = {"code": "NAME_MISMATCH", "severity": "LOW"}
    changes = [
        {"checkName": "IDENTITY", "field": "flags", "old": [gone, low], "new": [high]}
    ]

    html = owner.page("monitoring-alert", alert=raise_alert(api, changes=changes).pk)

    name = "National identity"
    assert f"{name}, no longer: The source has another name for the number." in html
    assert f"{name}, now high: The source records the holder as deceased." in html


def test_alert_writes_amounts_with_separators(owner, api):
    change = {"checkName": "CRB_SCORE", "field": "details.totalBalance"}
    alert = raise_alert(api, changes=[{**change, "old": 1234567.5, "new": 99999999}])

    html = owner.page("monitoring-alert", alert=alert.pk)

    assert "1,234,567.5" in html
    assert "99,999,999" in html


def test_alert_of_a_check_without_answer_names_it(owner, api):
    told = "KRA_PIN could not be done in 3 runs in a row and last completed never."
    alert = raise_alert(api, kind="NO_ANSWER", message=told)

    assert "KRA PIN gave no answer in 3 runs in a row" in owner.page(
        "monitoring-alert", alert=alert.pk
    )


def test_alerts_name_the_person(owner, api):
    alert = raise_alert(api)

    assert "Wanjiku Kamau" in owner.page("monitoring-alerts")
    assert "<h1><bdi>Wanjiku Kamau</bdi></h1>" in owner.page(
        "monitoring-alert", alert=alert.pk
    )


def test_alerts_are_read_one_by_one_and_all_at_once(owner, api):
    first, second = raise_alert(api), raise_alert(api)
    assert "Unread" in owner.page("monitoring-alerts", query={"read": "no"})

    owner.post("monitoring-read", alert=first.pk)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.read, second.read) == (True, False)

    owner.post("monitoring-read-all")
    second.refresh_from_db()
    assert second.read


def test_alert_that_came_after_the_page_stays_unread(officer, api):
    seen = raise_alert(api)
    html = officer.page("monitoring-alerts")
    late = raise_alert(api)

    (until,) = re.findall(r'<button name="until" value="([^"]+)"', html)
    officer.post("monitoring-read-all", {"until": until})

    seen.refresh_from_db()
    late.refresh_from_db()
    assert (seen.read, late.read) == (True, False)


def test_filtered_alerts_are_read_alone_and_the_filter_stays(officer, api):
    other = raise_alert(api, severity="CRITICAL")
    alerts = [raise_alert(api, severity="WARNING") for _ in range(3)]
    query = "?severity=WARNING"
    html = officer.page("monitoring-alerts", query={"severity": "WARNING"})
    shown = officer.url("monitoring-alert", alert=alerts[0].pk) + query
    assert f'href="{shown}"' in html
    one = officer.url("monitoring-read", alert=alerts[0].pk) + query
    page = officer.http.get(shown).content.decode()
    assert f'action="{one}"' in page
    assert f'href="{officer.url("monitoring-alerts")}{query}"' in page
    every = officer.url("monitoring-read-all") + query
    assert f'action="{every}"' in html

    for address in (one, every):
        answer = officer.http.post(address)
        assert answer["Location"] == officer.url("monitoring-alerts") + query

    assert take_messages(answer) == ["2 alerts are marked as read."]
    assert list(Alert.objects.filter(read=False)) == [other]


def test_list_of_read_alerts_marks_none(officer, api):
    raise_alert(api)
    path = officer.url("monitoring-read-all")

    assert path in officer.page("monitoring-alerts", query={"read": "no"})
    assert path not in officer.page("monitoring-alerts", query={"read": "yes"})


def test_rule_is_paused_and_resumed(owner, api):
    rule = raise_alert(api).rule_id

    owner.post("monitoring-pause", rule=rule)
    assert "Your workspace paused it." in owner.page("monitoring-rule", rule=rule)
    link = owner.url("monitoring-rule", rule=rule)
    for status, is_listed in (("PAUSED", True), ("ACTIVE", False)):
        listed = owner.page("monitoring", query={"status": status})
        assert (f'href="{link}"' in listed) is is_listed
    owner.post("monitoring-resume", {"seen": "BY_CLIENT"}, rule=rule)
    assert "Every day, next" in owner.page("monitoring-rule", rule=rule)


def test_resume_says_first_which_run_follows_and_what_it_costs(owner, api):
    rule = store_rule(api)
    Rule.objects.update(status="PAUSED", pause_reason="BY_CLIENT", paused_at=now())
    resume = owner.url("monitoring-resume", rule=rule.pk)

    page = owner.page("monitoring-rule", rule=rule.pk)
    assert f'href="{resume}"' in page
    assert f'action="{resume}"' not in page
    page = owner.page("monitoring-resume", rule=rule.pk)
    next_run = localtime(rule.next_run_at, NAIROBI)
    assert f"The next run begins on {next_run:%-d %b}" in page
    assert "It costs KES 50.00 at today" in page

    a_day = timedelta(days=1)
    at = {"starts_at": now() - 2 * a_day, "next_run_at": now() - a_day}
    Rule.objects.update(**at)
    page = owner.page("monitoring-resume", rule=rule.pk)
    assert "It begins at once and costs KES 50.00." in page
    assert "Resume and run for KES 50.00" in page
    shown = {"price": "KES 50.00"}
    CheckDefinition.objects.update(price=60)
    told = owner.messages_after("monitoring-resume", shown, rule=rule.pk)
    assert told == ["The price has changed, so nothing was done. Look again."]
    assert rule_status(rule) == ("PAUSED", "BY_CLIENT")
    shown = {"price": "KES 60.00", "seen": "BY_CLIENT"}
    owner.post("monitoring-resume", shown, rule=rule.pk)
    run_rules(api)
    charged = LedgerEntry.objects.filter(kind=LedgerEntry.Kind.CHARGE)
    assert [entry.amount for entry in charged] == [-60]


def test_resume_costs_nothing_for_a_referee_who_has_not_answered(owner, api):
    subject = employment_item(refereeEmail=REFEREE)["subject"]
    create_rule(api, "IDENTITY", "EMPLOYER_VERIFICATION", subject=subject)
    run_rules(api)
    rule = Rule.objects.get()
    owner.post("monitoring-pause", rule=rule.pk)
    move_rules_back(timedelta(days=1))

    page = owner.page("monitoring-resume", rule=rule.pk)
    assert "Resume and run for KES 50.00" in page
    shown = {"price": "KES 50.00", "seen": "BY_CLIENT"}
    owner.post("monitoring-resume", shown, rule=rule.pk)
    assert rule_status(rule) == ("ACTIVE", "")


def test_resume_promises_no_run_while_its_only_referee_is_silent(owner, api):
    subject = employment_item(refereeEmail=REFEREE)["subject"]
    create_rule(api, "EMPLOYER_VERIFICATION", subject=subject)
    run_rules(api)
    rule = Rule.objects.get()
    owner.post("monitoring-pause", rule=rule.pk)
    move_rules_back(timedelta(days=1))

    page = owner.page("monitoring-resume", rule=rule.pk)
    assert "once the referee has answered" in page
    assert "Resume and run" not in page


def test_rule_that_staff_paused_is_not_offered_to_members(owner, api):
    rule = store_rule(api)
    Rule.objects.update(status="PAUSED", pause_reason="BY_STAFF", paused_at=now())

    page = owner.page("monitoring-rule", rule=rule.pk)
    assert owner.url("monitoring-resume", rule=rule.pk) not in page


def test_members_end_their_own_pause_of_a_rule_that_staff_paused(owner, api):
    rule = store_rule(api)
    owner.post("monitoring-pause", rule=rule.pk)
    pause_for_staff(rule.pk)
    move_rules_back(timedelta(days=1))

    page = owner.page("monitoring-rule", rule=rule.pk)
    assert owner.url("monitoring-resume", rule=rule.pk) in page
    told = owner.messages_after("monitoring-resume", rule=rule.pk)

    assert told == ["Your own pause has ended. Our staff's pause goes on."]
    assert rule_status(rule) == ("PAUSED", "BY_STAFF")
    page = owner.page("monitoring-rule", rule=rule.pk)
    assert owner.url("monitoring-resume", rule=rule.pk) not in page


def test_rule_does_not_go_on_when_another_reason_pauses_it_than_was_shown(owner, api):
    rule = store_rule(api)
    owner.post("monitoring-pause", rule=rule.pk)
    page = owner.page("monitoring-resume", rule=rule.pk)
    assert '<input type="hidden" name="seen" value="BY_CLIENT">' in page
    pause_for_staff(rule.pk)
    shown = {"seen": "BY_CLIENT"}
    told = owner.messages_after("monitoring-resume", shown, rule=rule.pk)
    assert told == ["It has changed since you looked. Look again."]
    assert rule_status(rule) == ("PAUSED", "BY_STAFF")

    # The button to end one's own pause is on the page.
    resume_for_staff(rule.pk)
    told = owner.messages_after("monitoring-resume", rule=rule.pk)

    assert told == ["It has changed since you looked. Look again."]
    assert rule_status(rule) == ("PAUSED", "BY_CLIENT")


def test_refused_resume_of_a_rule_says_why(owner, live_api):
    rule = store_rule(live_api)
    move_rules_back(timedelta(days=1))
    for reason, told in (
        ("INSUFFICIENT_BALANCE", "The balance does not cover a run"),
        ("CHECK_INACTIVE", "A check of it is not offered any more"),
        ("BY_STAFF", "Staff paused it"),
    ):
        Rule.objects.update(status="PAUSED", pause_reason=reason, paused_at=now())
        CheckDefinition.objects.update(active=reason != "CHECK_INACTIVE")

        (message,) = owner.messages_after(
            "monitoring-resume",
            {"price": "KES 50.00", "seen": reason},
            environment="production",
            rule=rule.pk,
        )
        assert told in message
