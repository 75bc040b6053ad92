"""The audit trail records the actions of members."""

from tests.world.clients import person
from tests.world.deliveries import configure_receiver
from tests.world.members import PASSWORD, create_user, invitation_token
from tests.world.rules import raise_alert
from verification.backoffice.models import AuditEvent
from webhooks.models import Delivery
from workspaces.models import Invitation, Member

KEY = {"name": "Loans", "scopes": ["reports:read"]}
SETTINGS = {
    "name": "Acacia",
    "contact": "owner@people.test",
    "retention_days": "90",
    "sandbox_retention_days": "365",
    "names_in_lists": "FULL",
    "low_balance_at": "",
}
WEBHOOK = {"url": "https://hooks.example.com/", "secret": "s" * 16}


def actions() -> list[str]:
    return list(AuditEvent.objects.order_by("id").values_list("action", flat=True))


def test_audit_event_names_member_workspace_and_request(owner):
    answer = owner.post("settings", SETTINGS)

    event = AuditEvent.objects.get()
    assert (event.actor_kind, event.actor) == ("MEMBER", owner.member.user.username)
    assert event.workspace_id == owner.workspace.pk
    assert event.action == "workspace.changed"
    assert sorted(event.fields) == [
        "contact",
        "low_balance_at",
        "name",
        "retention_days",
    ]
    assert event.request_id == answer["X-Request-Id"]


def test_personal_data_that_members_open_is_recorded_and_lists_are_not(owner, api):
    report = api.create(person())["id"]
    alert = raise_alert(api)

    for name, more in {
        "reports": {},
        "monitoring": {},
        "reports-detail": {"report": report},
        "reports-pdf": {"report": report},
        "monitoring-rule": {"rule": alert.rule_id},
        "monitoring-alert": {"alert": alert.pk},
    }.items():
        assert owner.get(name, **more).status_code == 200

    assert actions() == [
        "report.opened",
        "report.pdf-downloaded",
        "rule.opened",
        "alert.opened",
    ]


def test_actions_on_keys_are_recorded(owner, api):
    owner.post("keys-create", KEY)
    for _ in range(2):
        owner.post("keys-networks", {"networks": "192.0.2.1"}, key=api.key.pk)
    owner.post("keys-rotate", {"ends": "0"}, key=api.key.pk)
    for _ in range(2):
        owner.post("keys-revoke", key=owner.workspace.api_keys.latest("id").pk)

    assert actions() == [
        "api-key.created",
        "api-key.changed",
        "api-key.rotated",
        "api-key.created",
        "api-key.revoked",
    ]


def test_actions_on_members_are_recorded(owner, viewer):
    for name in ("new", "other"):
        owner.post("members", {"email": f"{name}@people.test", "role": "VIEWER"})
    owner.post("members-withdraw", invitation=Invitation.objects.latest("id").pk)
    viewer.http.force_login(create_user("new"))
    viewer.http.post(f"/console/invitations/{invitation_token('new@people.test')}")
    new = Member.objects.latest("id").pk
    owner.post("members-role", {"role": "ADMIN"}, member=new)
    owner.post("members-leave")
    viewer.post("members-leave")
    owner.post("members-remove", member=viewer.member.pk)

    assert actions() == [
        "invitation.sent",
        "invitation.sent",
        "invitation.withdrawn",
        "invitation.accepted",
        "member.role-changed",
        # Without the refused attempts to remove the last owner.
        "member.left",
        "member.removed",
    ]


def test_actions_on_rules_webhooks_and_workspace_are_recorded(owner, api):
    rule = raise_alert(api).rule_id
    for name in ("monitoring-pause", "monitoring-resume"):
        for _ in range(2):
            owner.post(name, {"seen": "BY_CLIENT"}, rule=rule)
    owner.post("webhooks-configure", WEBHOOK)
    owner.post("webhooks-remove")
    configure_receiver(api.workspace)
    api.create(person())
    owner.post("webhooks-redeliver", delivery=Delivery.objects.order_by("pk")[0].pk)
    owner.post("settings-close", {"password": PASSWORD})

    assert actions() == [
        "rule.paused",
        "rule.resumed",
        "configuration.changed",
        "configuration.removed",
        "configuration.changed",
        "delivery.redelivered",
        "workspace.closed",
    ]


def test_refused_action_is_not_recorded(owner, viewer):
    for name in ("keys-create", "settings", "webhooks-configure"):
        owner.post(name, {"name": ""})
        viewer.post(name, {**KEY, **SETTINGS, **WEBHOOK})

    assert actions() == []
