import io
import json
import re
from datetime import timedelta

import pytest
from django.utils.timezone import now
from pypdf import PdfReader

from monitoring.models import Cadence, PauseReason, RuleStatus, Severity
from tests.console.test_trail import SETTINGS
from tests.notifications.messages import send_due
from tests.world.clients import HOSTED, approve_workspace, company, person
from tests.world.decisions import create_case
from tests.world.deliveries import configure_receiver
from tests.world.members import (
    PASSWORD,
    create_member,
    create_user,
    invitation_token,
)
from tests.world.orders import create_report_with_status
from tests.world.refunds import create_paid_checkout
from tests.world.rules import raise_alert, store_rule
from verification.checks.models import ResultStatus
from verification.consents.models import Consent, ConsentStatus
from verification.consents.subject_decisions import Evidence, decline
from verification.console import workspace as workspace_pages
from verification.console.base import page_number
from verification.console.words import STATES, WORDS
from verification.console.workspace import SettingsForm
from verification.decisions.case_list import Standing
from verification.decisions.models import DecisionStatus
from verification.golive.models import Status as GoLive
from verification.notifications.models import (
    Channel,
    DailyCount,
    NotificationError,
    NotificationStatus,
)
from verification.payments.models import PaymentStatus
from verification.payments.refunds import refund_unfinished_parts
from verification.privacy.models import Correction, CorrectionStatus
from verification.reports.ends import cancel_open_reports
from verification.reports.models import (
    PaymentMode,
    Report,
    ReportStatus,
    RiskLevel,
    SubjectType,
)
from verification.reports.status import record_note
from webhooks.models import Attempt, Configuration, DeliveryStatus
from workspaces import keys, members
from workspaces.models import (
    CLOSED_REASON,
    Account,
    ApiKey,
    Invitation,
    LedgerEntry,
    Member,
    Role,
    Scope,
    Workspace,
)
from workspaces.statements import Month

CODES = {
    "report": ReportStatus,
    "subject": SubjectType,
    "risk": RiskLevel,
    "check": ResultStatus,
    "decision": DecisionStatus,
    "standing": Standing,
    "consent": ConsentStatus,
    "consent-mode": Consent.Mode,
    "payer": PaymentMode,
    "payment": PaymentStatus,
    "correction": [*CorrectionStatus, Correction.ERASED],
    "go-live": ["", *GoLive],
    "channel": Channel,
    "failure": NotificationError,
    "cadence": Cadence,
    "rule": RuleStatus,
    "pause": PauseReason,
    "alert": Severity,
    "ledger": LedgerEntry.Kind,
    "role": Role,
    "delivery": DeliveryStatus,
    "attempt": Attempt.Error,
    "disabled": Configuration.DisabledReason,
    "message": NotificationStatus,
    "scope": Scope,
}
RULES = re.compile(r'<script type="speculationrules">(.*?)</script>')
SHOWN = re.compile(r"vrf_(?:test|live)_[0-9A-Za-z]{38}")


def test_key_is_shown_once_and_works(owner):
    answer = owner.post(
        "keys-create", {"name": "Loans", "scopes": ["reports:read"], "expires": ""}
    )

    (text,) = set(SHOWN.findall(answer.content.decode()))
    key = keys.find(text)
    assert (key.name, key.scopes, key.environment) == (
        "Loans",
        ["reports:read"],
        "sandbox",
    )
    rotated = owner.post("keys-rotate", {"ends": "0"}, key=key.pk)
    (successor,) = set(SHOWN.findall(rotated.content.decode()))
    makers = {key.made_by_user, keys.find(successor).made_by_user}
    assert makers == {owner.member.user_id}
    assert SHOWN.search(owner.page("keys")) is None


def test_key_with_a_last_day_expires(owner):
    day = (now() + timedelta(days=30)).date()
    fields = {"name": "Loans", "scopes": ["reports:read"], "expires": f"{day}"}
    owner.post("keys-create", fields)

    assert ApiKey.objects.get(name="Loans").expires_at.date() == day


def test_invalid_key_form_creates_no_key(owner):
    for wrong in (
        *[{"name": ""}, {"scopes": []}, {"scopes": ["admin"]}],
        {"expires": "2020-01-01"},
    ):
        fields = {"name": "Loans", "scopes": ["reports:read"], **wrong}
        html = owner.post("keys-create", fields).content.decode()

        assert "<title>Error:" in html, wrong
    assert not ApiKey.objects.filter(name="Loans").exists()


def test_key_works_from_the_networks_that_a_member_names(owner, api, live_api):
    for used, environment, typed, status in [
        (live_api, "production", "198.51.100.7", 403),
        (api, "sandbox", "198.51.100.7\n::ffff:127.0.0.0/104", 200),
        (api, "sandbox", "198.51.100.7", 403),
        (api, "sandbox", "0.0.0.0/0", 403),
        (api, "sandbox", "", 200),
    ]:
        fields = {"networks": typed}
        owner.post("keys-networks", fields, environment, key=used.key.pk)
        assert used.get("/me").status_code == status, typed


def test_production_key_is_made_once_the_company_is_approved(owner):
    fields = {"name": "Loans", "scopes": ["reports:read"]}
    create = owner.url("keys-create", "production")

    for answer in (owner.http.get(create), owner.http.post(create, fields)):
        assert answer.status_code == 403
        assert f'href="{owner.url("golive", "production")}"' in answer.content.decode()
    assert create not in owner.page("keys", "production")
    assert not ApiKey.objects.filter(environment="production").exists()
    approve_workspace(owner.workspace)
    assert create in owner.page("keys", "production")
    page = owner.http.post(create, fields).content.decode()
    key = keys.find(SHOWN.search(page)[0])
    assert (key.environment, key.scopes) == ("production", ["reports:read"])
    assert key.made_by_user == owner.member.user_id


def test_rotated_production_key_keeps_its_settings(owner, live_api):
    answer = owner.post("keys-rotate", {"ends": "1"}, "production", key=live_api.key.pk)

    (text,) = set(SHOWN.findall(answer.content.decode()))
    assert keys.find(text).environment == "production"


def test_key_that_works_comes_before_newer_ones_that_ended(owner, api):
    ended, _ = keys.issue(api.workspace, environment="sandbox", name="Newer")
    keys.revoke(ended)

    html = owner.page("keys")

    assert html.index(str(api.key)) < html.index(str(ended))


def test_old_key_works_until_the_chosen_time(owner, api):
    owner.post("keys-rotate", {"ends": "24"}, key=api.key.pk)

    api.key.refresh_from_db()
    assert api.key.is_usable
    assert timedelta(hours=23) < api.key.revoked_at - now() < timedelta(hours=25)
    # A key is rotated only once.
    assert owner.url("keys-rotate", key=api.key.pk) not in owner.page("keys")
    owner.post("keys-rotate", {"ends": "168"}, key=api.key.pk)
    assert ApiKey.objects.count() == 2


def test_members_make_a_limited_number_of_keys(owner, api, live_api, monkeypatch):
    monkeypatch.setattr(keys, "MAX_KEYS", 2)
    fields = {"name": "Loans", "scopes": ["reports:read"], "expires": ""}
    refused = ["There are 50 keys that work. Revoke one first."]
    owner.post("keys-create", fields)

    assert owner.messages_after("keys-create", fields) == refused
    assert (
        owner.messages_after("keys-rotate", {"ends": "24"}, key=api.key.pk) == refused
    )
    assert owner.post("keys-rotate", {"ends": "0"}, key=api.key.pk).status_code == 200
    assert ApiKey.objects.filter(environment="sandbox").count() == 3


def test_removal_of_a_member_names_the_working_keys_that_they_made(owner, admin, api):
    remove = {"name": "members-remove", "member": admin.member.pk}
    assert "go on working" not in owner.page(**remove)
    for name in ("Ended", "Loans"):
        admin.post("keys-create", {"name": name, "scopes": ["reports:read"]})
    keys.revoke(ApiKey.objects.get(name="Ended"))

    def listed():
        page = owner.page(**remove)
        return re.findall(r"<li>.*?</li>", page.partition("go on working")[2])

    (item,) = listed()
    assert f'href="{owner.url("keys")}"' in item
    assert "Loans" in item
    # Staff issue the first key of production, and send it to an owner.
    admin.member.role = Role.OWNER
    admin.member.save()
    assert [str(api.key) in item for item in listed()] == [True, False]


def test_keys_page_marks_the_working_keys_of_a_member_who_left(owner, admin):
    for name in ("Ended", "Loans"):
        admin.post("keys-create", {"name": name, "scopes": ["reports:read"]})
    owner.post("keys-create", {"name": "Mine", "scopes": ["reports:read"]})
    keys.revoke(ApiKey.objects.get(name="Ended"))

    admin.post("members-leave")

    rows = owner.page("keys").split("<tr>")
    assert ["Loans" in row for row in rows if "Its maker left" in row] == [True]


def test_revoked_key_is_refused_at_once(owner, api, live_api):
    other, _ = keys.issue(api.workspace, environment="sandbox", name="Other")
    warning = "No other key works here"
    assert warning not in owner.page("keys-revoke", key=api.key.pk)
    keys.revoke(other)
    assert warning in owner.page("keys-revoke", key=api.key.pk)
    assert api.get("/reports").status_code == 200

    owner.post("keys-revoke", key=api.key.pk)
    assert api.get("/reports").status_code == 401


def test_lists_show_initials_if_the_workspace_chooses_so(owner, api):
    made = api.create(person(), company())
    raise_alert(api)
    create_case(api)
    chosen = SETTINGS | {"names_in_lists": "INITIALS"}
    assert owner.messages_after("settings", chosen) == ["Saved."]

    for page in ("dashboard", "queue", "monitoring", "monitoring-alerts"):
        assert "Wanjiku" not in owner.page(page)
    reports = owner.page("reports")
    assert "Wanjiku" not in reports
    assert "W. K." in reports
    assert "Baobab Traders Limited" in reports
    assert "Wanjiku Kamau" in owner.page("reports-detail", report=made[0]["id"])


def test_lists_show_names_to_the_lowest_roles(officer, viewer, api):
    api.create(person())
    store_rule(api)

    for visitor in (officer, viewer):
        assert "Wanjiku Kamau" in visitor.page("reports")
    assert "Wanjiku Kamau" in viewer.page("monitoring")


def test_word_of_a_state_has_the_same_ground_on_all_pages():
    grounds: dict[str, str] = {}
    for state in (one for states in STATES.values() for one in states.values()):
        words = str(state.words)
        assert grounds.setdefault(words, state.ground) == state.ground, words


@pytest.mark.parametrize("topic", WORDS)
def test_each_code_has_words(topic):
    assert set(WORDS[topic]) == set(CODES[topic])


def test_page_has_words_and_no_codes(owner, api):
    made = create_report_with_status(api, "PENDING_CONSENT")
    for page, language, said in (
        ("reports", "en", "Waiting for consent"),
        ("reports-detail", "sw", "Inasubiri ridhaa"),
    ):
        more = {"report": made} if page == "reports-detail" else {}
        html = owner.page(page, query={"lang": language}, **more)

        assert f"{said}</span>" in html
        assert re.findall(r">[^<]*\b[A-Z]+_[A-Z]+\b", html) == []


def test_timeline_names_members_of_the_workspace(owner, api):
    report = Report.objects.get(pk=api.create(person())["id"])
    here = create_member(owner.workspace, "OFFICER", "amina")
    left = create_member(owner.workspace, "OFFICER", "baraka")
    for member in (here, left):
        record_note(report, "decided", f"member {member.pk}", now())
    actor = f"member {left.pk}"
    members.remove(owner.member, left)

    html = owner.page("reports-detail", report=report.pk)

    timeline = html.partition("Timeline</h2>")[2]
    assert here.user.email in timeline
    assert f"member {here.pk}" not in timeline
    assert actor in timeline


def test_report_is_in_the_language_of_the_page(owner, api):
    made = api.create(person(idNumber="90000003"))["id"]
    api.work()

    html = owner.page("reports-detail", query={"lang": "sw"}, report=made)

    assert "Chanzo kinaonyesha kuwa mwenye nambari amefariki." in html
    assert "Kwenye chanzo" in html
    assert "records the holder" not in html
    rows = re.findall(r"<dt>(.*?)</dt><dd>(?:<bdi>)?(.*?)(?:</bdi>)?</dd>", html)
    assert ("Jina kamili", "Wanjiku Kamau") in rows
    assert "Mtu · Kenya" in html
    answer = owner.get("reports-pdf", query={"lang": "sw"}, report=made)
    assert "attachment" in answer["Content-Disposition"]
    assert answer["Cache-Control"] == "no-store"
    (first, *_) = PdfReader(io.BytesIO(answer.content)).pages
    text = " ".join(first.extract_text().split())
    for said in ("Ripoti ya uhakiki", "Hatari kubwa", "Kitambulisho cha taifa"):
        assert said in text


FILTERS = [
    ({"search": "wanjiku", "subject_type": "INDIVIDUAL", "last": "2999-01-01"}, True),
    ({"search": "Otieno"}, False),
    ({"subject_type": "COMPANY"}, False),
    ({"first": "2999-01-01"}, False),
    ({"last": "2020-01-01"}, False),
]


def test_reports_are_filtered_and_paged(owner, api, rf):
    made = api.create(person())["id"]
    for query, finds in FILTERS:
        assert (made in owner.page("reports", query=query)) is finds, query
    for wrong in ("-1", "x" * 50, "9" * 50):
        assert page_number(rf.get("/", {"page": wrong})) == 0, wrong


def test_wrong_filters_show_errors(owner):
    for query in (
        *[{"status": "X"}, {"first": "x"}, {"search": "\0"}, {"search": "x" * 999}],
    ):
        assert "<title>Error:" in owner.page("reports", query=query), query


def test_report_shows_why_its_subject_declined(owner, api):
    made = api.create({**person(), "consent": HOSTED})["id"]
    consent = Consent.objects.get(report=made)
    decline(consent.pk, 1, Evidence(), "I did not <b>apply")

    html = owner.page("reports-detail", report=made)
    assert "I did not &lt;b&gt;apply" in html


@pytest.mark.django_db(transaction=True)
def test_balance_shows_entries_and_offers_statements(owner, api):
    api.create(person())
    month = str(Month.of(now()))

    page = owner.page("money")
    for words in ("Wanjiku Kamau", "Charge", "National identity", "-50.00"):
        assert words in page
    answer = owner.get("money-csv", month=month)
    # Thousands of entries must not keep a thread from other requests.
    assert answer.is_long
    assert b"".join(answer.streaming_content).count(b"CHARGE") == 3
    pdf = b"".join(owner.get("money-pdf", month=month).streaming_content)
    assert pdf.startswith(b"%PDF")


@pytest.mark.usefixtures("new_minute")
def test_statements_are_limited_by_the_minute(owner, monkeypatch):
    monkeypatch.setattr(workspace_pages, "EXPORTS_PER_MINUTE", 1)

    statuses = [owner.get("money-csv", month="x").status_code for _ in range(2)]

    assert statuses == [404, 429]


def test_statement_of_an_invalid_month_is_not_found(owner):
    for month in ("2026-13", "x", "2999-01"):
        assert owner.get("money-csv", month=month).status_code == 404, month


def test_top_up_link_shows_when_a_provider_takes_money(owner, settings):
    by_letter = "write to Verification reports (help@operator.test)"
    for provider, leads in (("", False), ("paystack", True)):
        settings.PAYMENT_PROVIDER = provider

        page = owner.page("money", "production")
        assert ("/t/" in page) is leads
        assert (by_letter in page) is not leads


def test_top_up_is_for_members_who_manage_money_that_runs_out(
    owner, viewer, api, settings
):
    settings.PAYMENT_PROVIDER = "paystack"

    assert "/t/" not in viewer.page("money", "production")
    assert "/t/" not in owner.page("money")
    Account.objects.filter(pk=api.account.pk).update(ceiling=0)
    assert "/t/" in owner.page("money")


def test_test_subjects_are_for_the_sandbox(owner):
    page = owner.page("sandbox")
    assert "90000000" in page
    assert "A reference from referee@sandbox.test waits" in page
    assert owner.get("sandbox", "production").status_code == 404


def test_members_are_invited_and_accept_by_the_link(owner):
    owner.post("members", {"email": "new@people.test", "role": "ADMIN"})
    token = invitation_token("new@people.test")
    new = create_user("new")
    path = f"/console/invitations/{token}"

    owner.http.force_login(new)
    owner.http.get(path)
    assert not Member.objects.filter(user=new).exists()

    owner.http.post(path)
    assert Member.objects.get(user=new).role == "ADMIN"
    over = owner.http.get(path)
    assert over.status_code == 410
    assert 'href="/console/">Log in' in over.content.decode()


def test_members_page_says_why_an_invitation_was_not_sent(owner, settings):
    settings.MESSAGES_OF_NEWCOMERS_PER_DAY = 0
    owner.post("members", {"email": "new@people.test", "role": "ADMIN"})
    send_due()

    assert "Not sent: workspaces that are not live sent" in owner.page("members")


def test_name_with_a_trick_is_refused_until_it_is_reviewed(owner):
    for name in (
        *["Win at evil.example", "evil dot com"],
        "Acacia\N{RIGHT-TO-LEFT OVERRIDE}",
    ):
        answer = owner.post("settings", {**GENERAL, "name": name})

        assert "Use " in answer.content.decode(), name
    owner.workspace.refresh_from_db()
    assert owner.workspace.name == "Acacia Lenders"


def test_somebody_else_cannot_accept_an_invitation(owner, stranger):
    members.invite(owner.member, "new@people.test", Role.OWNER)
    path = f"/console/invitations/{invitation_token('new@people.test')}"

    html = stranger.http.post(path).content.decode()

    assert "another e-mail address" in html
    assert not owner.workspace.members.filter(user=stranger.member.user).exists()


def test_unknown_used_and_withdrawn_invitations_look_alike(owner):
    members.invite(owner.member, "new@people.test", Role.VIEWER)
    path = f"/console/invitations/{invitation_token('new@people.test')}"
    owner.post("members-withdraw", invitation=Invitation.objects.get().pk)

    again = owner.messages_after(
        "members-withdraw", invitation=Invitation.objects.get().pk
    )
    assert again[-1] == "The invitation was used or withdrawn, or has expired."
    withdrawn = owner.http.get(path)
    unknown = owner.http.get("/console/invitations/unknown")
    assert (withdrawn.status_code, unknown.status_code) == (410, 410)


def test_administrator_cannot_create_owners_by_tampering(owner, admin, viewer):
    for role in ("OWNER", ""):
        admin.post("members", {"email": "new@people.test", "role": role})
        admin.post("members-role", {"role": role}, member=viewer.member.pk)
        admin.post("members-role", {"role": role}, member=admin.member.pk)
    admin.post("members-role", {"role": "VIEWER"}, member=owner.member.pk)
    admin.post("members-remove", member=owner.member.pk)

    roles = owner.workspace.members.values_list("user__username", "role")
    assert dict(roles) == {"owner": "OWNER", "admin": "ADMIN", "viewer": "VIEWER"}
    assert not Invitation.objects.exists()


def test_last_owner_stays(owner):
    told = ["Make another member an owner first: a workspace keeps one."]
    me = owner.member.pk

    assert owner.messages_after("members-role", {"role": "VIEWER"}, member=me) == told
    assert owner.messages_after("members-remove", member=me) == told
    assert owner.messages_after("members-leave") == told
    assert owner.url("members-leave") not in owner.page("members")


def test_member_leaves_and_may_open_a_workspace_of_their_own(owner, viewer):
    assert viewer.url("members-leave") in viewer.page("members")
    viewer.post("members-leave")
    assert viewer.get("dashboard").status_code == 404

    viewer.http.post("/console/new")
    viewer.http.post("/console/new")
    member = Member.objects.get(user=viewer.member.user)
    assert (member.role, member.workspace.kind) == ("OWNER", "INDIVIDUAL")


def test_member_without_a_workspace_of_their_own_is_offered_one(owner, viewer):
    def is_offered(visitor):
        page = visitor.http.get("/console/?all").content.decode()
        return "Create a workspace" in page

    assert is_offered(viewer)
    assert not is_offered(owner)
    owner.workspace.suspend("Unpaid")
    assert not is_offered(owner)
    owner.workspace.resume()
    owner.post("settings-close", {"password": PASSWORD})
    assert is_offered(owner)
    page = owner.http.post("/console/new")["Location"]
    new = Workspace.objects.exclude(pk=owner.workspace.pk).get()
    assert str(new.pk) in page
    assert not is_offered(owner)


def test_user_opens_one_workspace_a_day(owner):
    """Else the invitations of each would use up the limit of all newcomers."""
    owner.post("settings-close", {"password": PASSWORD})
    owner.http.post("/console/new")
    new = Workspace.objects.exclude(pk=owner.workspace.pk)
    new.get().suspend(CLOSED_REASON)

    page = owner.http.post("/console/new", follow=True).content.decode()

    assert "You can create one workspace a day. Create the next tomorrow." in page
    assert new.count() == 1
    DailyCount.objects.all().delete()
    owner.http.post("/console/new")
    assert new.count() == 2


def test_member_of_several_workspaces_chooses_one(owner, another_api):
    Member.objects.create(
        workspace=another_api.workspace, user=owner.member.user, role=Role.VIEWER
    )
    html = owner.http.get("/console/").content.decode()

    assert "Acacia Lenders" in html
    assert "Baobab Bank" in html


def test_settings_are_saved(owner):
    fields = {
        "name": "Acacia Ltd",
        "contact": "Privacy@acacia.test, +254 712 345678",
        "retention_days": "90",
        "sandbox_retention_days": "365",
        "names_in_lists": "FULL",
        "low_balance_at": "2500",
    }
    assert "is down to (KES)" in owner.page("settings")
    assert owner.messages_after("settings", fields) == ["Saved."]

    workspace = Workspace.objects.get()
    assert (workspace.name, workspace.retention_days) == ("Acacia Ltd", 90)
    assert workspace.contact == "Privacy@acacia.test, +254712345678"
    assert workspace.accounts.get(environment="production").low_balance_at == 2500


GENERAL = {
    "name": "A",
    "contact": "a@acacia.test",
    "retention_days": "90",
    "sandbox_retention_days": "365",
    "names_in_lists": "FULL",
    "low_balance_at": "",
}
INVALID_SETTINGS = [
    {"name": " "},
    {"name": "x" * 201},
    {"contact": ""},
    {"contact": "ask us"},
    {"contact": "a@acacia.test, b@acacia.test"},
    {"contact": "0712 345678"},
    {"retention_days": "6"},
    {"retention_days": "3651"},
    {"retention_days": ""},
    {"sandbox_retention_days": "0"},
    {"sandbox_retention_days": "3651"},
    {"retention_days": "9" * 30},
    {"low_balance_at": "-1"},
    {"low_balance_at": "NaN"},
    {"names_in_lists": "HIDDEN"},
]


def test_invalid_settings_show_errors(owner):
    assert SettingsForm(GENERAL).is_valid()
    for wrong in INVALID_SETTINGS:
        assert not SettingsForm({**GENERAL, **wrong}).is_valid(), wrong

    assert "<title>Error:" in owner.post("settings", GENERAL | wrong).content.decode()
    assert Workspace.objects.get().name == "Acacia Lenders"


def test_form_changes_only_the_fields_that_it_shows(owner):
    owner.post("settings", {**GENERAL, "go_live": "APPROVED", "kind": "X"})

    workspace = Workspace.objects.get()
    assert (workspace.name, workspace.go_live, workspace.kind) == (
        "A",
        "NONE",
        "BUSINESS",
    )


def test_closing_needs_the_password(owner):
    html = owner.post("settings-close", {"password": "wrong"}).content.decode()

    assert "The password is not right" in html
    assert not Workspace.objects.get().is_suspended


def test_owner_without_a_password_closes_by_the_button(owner):
    """Members who log in by an identity provider have none."""
    user = Member.objects.get().user
    user.set_unusable_password()
    user.save()
    owner.http.force_login(user)

    owner.post("settings-close", {})

    assert Workspace.objects.get().is_suspended


@pytest.mark.usefixtures("new_minute")
def test_password_cannot_be_guessed_by_closing(owner):
    for _ in range(5):
        owner.post("settings-close", {"password": "wrong"})

    owner.post("settings-close", {"password": PASSWORD})
    assert not Workspace.objects.get().is_suspended


def test_closed_workspace_stops_and_keeps_its_data(owner, api):
    configure_receiver(api.workspace)
    Configuration.objects.update(failures_in_row=3, failing_since=now())
    rule = raise_alert(api).rule_id
    made = api.create(person())["id"]
    api.work()
    checkout = create_paid_checkout(api, reuse=False)
    owner.post("members", {"email": "new@people.test", "role": "ADMIN"})

    owner.post("settings-close", {"password": PASSWORD})
    cancel_open_reports()

    workspace = Workspace.objects.get()
    assert workspace.suspension_reason == CLOSED_REASON
    assert not ApiKey.objects.filter(revoked_at=None).exists()
    receiver = Configuration.objects.get()
    # Its failures would be an open task of staff for good.
    assert (receiver.enabled, receiver.failures_in_row) == (False, 0)
    assert Invitation.objects.get().revoked_at
    assert "Your workspace paused it." in owner.page("monitoring-rule", rule=rule)
    assert made in owner.page("reports-detail", report=made)
    # The payer of a report that nobody finishes gets the money back.
    refund_unfinished_parts()
    checkout.refresh_from_db()
    assert checkout.refunded == checkout.paid_amount


# List -> what it says while it is empty, and the pages to which it leads
EMPTY = {
    "reports": (
        "No report has been ordered yet.",
        ["reports-batch-new", "reports-new"],
    ),
    "reports-batches": ("No file has been ordered yet.", ["reports-batch-new"]),
    "monitoring": ("There is no rule yet.", ["monitoring-new"]),
    "figures": ("", ["reports-new"]),
    "webhooks": ("", ["webhooks-configure"]),
    "settings-packages": ("", ["settings-packages-create"]),
    "mailbox": ("", ["reports-new"]),
    "queue": ("No report needs a decision.", None),
    "monitoring-alerts": ("There is no alert yet.", None),
}


def test_empty_list_leads_members_who_may_to_its_first_row(owner, viewer):
    link = re.compile(r'<a [^>]*href="([^"]+)')
    for name, (words, ways) in EMPTY.items():
        page = owner.page(name)
        assert words in page, name
        if ways is None:
            continue
        assert link.findall(empty_part(page)) == [owner.url(w) for w in ways], name
        if name != "mailbox":
            assert link.findall(empty_part(viewer.page(name))) == [], name
        if name in {"reports", "reports-batches", "monitoring", "figures"}:
            # Nothing may run there before the workspace is live.
            live = owner.page(name, "production")
            assert link.findall(empty_part(live)) == [], name


def test_empty_list_tells_nothing_yet_from_nothing_found(owner):
    assert EMPTY["reports"][0] in owner.page("reports", query={"lang": "en"})
    page = owner.page("reports", query={"status": "READY"})
    assert "Nothing matches these filters." in page


def test_policy_without_a_version_begins_with_the_form_of_its_head(owner, viewer):
    assert '<form method="post" id="open"' in owner.page("policy")
    assert '<button form="open">' in empty_part(owner.page("policy"))
    assert "<button" not in empty_part(viewer.page("policy"))


def empty_part(html: str) -> str:
    return html.partition('<div class="empty">')[2].partition("</div>")[0]


def test_browser_fetches_pages_of_the_navigation_early(owner):
    """The table of roles sees that opening them records nothing."""
    (rules,) = RULES.findall(owner.page("dashboard"))
    (rule,) = json.loads(rules)["prefetch"]
    assert rule["where"] == {"selector_matches": ".side a, .tabs a"}
