from datetime import timedelta

import pytest
from django.db import transaction
from django.utils.timezone import now

from tests.world.threads import start_and_block, uncommitted
from workspaces import keys
from workspaces.members import WorkspaceSuspended
from workspaces.models import ApiKey, Environment, Scope, Workspace, default_scopes

VECTORS = {
    "vrf_test_0123456789ABCDEFGHIJKLMNOPQRSTUV0SEUbx": (
        "0a79d8dea9a5c96c99dc39288ce97b9d2958b45f21cc7c105421f12b1a29730e"
    ),
    "vrf_live_0123456789ABCDEFGHIJKLMNOPQRSTUV35Llxk": (
        "76e341872880a3e4bbd19bf87124f4ff88ebf8a02e11d19c35e976c2e5398f84"
    ),
    "vrf_live_000000000000000000000000000000001Xggdr": (
        "8f5fbd7fb8834f703206f5b5057114dd660f3dd07873834466170287133992f5"
    ),
}
TEXT = next(iter(VECTORS))


@pytest.fixture
def issue(workspace: Workspace):
    def issue(**changes):
        return keys.issue(
            workspace, **{"environment": "sandbox", "name": "shop", **changes}
        )

    return issue


@pytest.fixture
def clock(time_machine):
    time_machine.move_to(now())
    return time_machine


def test_published_keys_are_well_formed_and_digested():
    for text, digest in VECTORS.items():
        assert keys.is_well_formed(text)
        assert keys.digest(text).hex() == digest


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT[:-1],
        TEXT + "0",
        TEXT + "\n",
        " " + TEXT,
        TEXT.replace("A", "B"),
        TEXT.replace("test", "live"),
        TEXT.replace("test", "TEST"),
        TEXT[:-1] + "X",
        TEXT[:-1] + "٣",
        "é" * len(TEXT),
        "Bearer " + TEXT,
        # Longer, with a checksum that is right.
        "vrf_test_0123456789ABCDEFGHIJKLMNOPQRSTUV0SEUbx4X19Cw",
    ],
)
def test_anything_else_is_refused_without_the_database(
    text, db, django_assert_num_queries
):
    with django_assert_num_queries(0):
        assert not keys.is_well_formed(text)
        assert keys.find(text) is None


def test_only_a_digest_of_the_key_is_kept(issue):
    key, text = issue()

    row = ApiKey.objects.filter(pk=key.pk).values().get()
    assert row["digest"] == keys.digest(text)
    assert (row["first_characters"], row["last_characters"]) == (text[:12], text[-4:])
    assert text not in map(str, row.values())


def test_key_tells_its_environment(issue):
    assert issue()[1].startswith("vrf_test_")
    assert issue(environment="production", force=True)[1].startswith("vrf_live_")


def test_key_has_all_scopes_but_erasing_by_default(issue):
    assert set(issue()[0].scopes) == {*Scope.values} - {
        "subjects:erase",
        "decisions:write",
        "audit:read",
    }
    assert issue(scopes=["subjects:erase"])[0].scopes == ["subjects:erase"]
    assert issue(scopes=["reports:read"])[0].scopes == ["reports:read"]
    assert issue(scopes=[])[0].scopes == []


@pytest.mark.parametrize(
    "wrong", [{"scopes": ["reports:delete"]}, {"environment": "staging"}]
)
def test_key_of_unknown_scope_or_environment_is_refused(issue, wrong):
    with pytest.raises(ValueError, match="is not a valid"):
        issue(**wrong)

    assert not ApiKey.objects.exists()


def test_production_key_needs_approval(issue, workspace):
    with pytest.raises(keys.NotApproved, match="Acacia Lenders is not approved"):
        issue(environment="production")

    workspace.go_live = Workspace.GoLive.APPROVED
    assert issue(environment="production")


def test_members_get_no_key_of_a_workspace_that_closes_meanwhile(issue, workspace):
    key, _text = issue()
    Workspace.objects.get(pk=workspace.pk).suspend("Closed")

    with pytest.raises(WorkspaceSuspended):
        issue(made_by=1)
    with pytest.raises(WorkspaceSuspended):
        keys.rotate(key, old_ends_at=now(), made_by=1)


@pytest.mark.parametrize("environment", Environment.values)
def test_key_is_found_with_workspace_and_account_in_one_statement(
    issue, workspace, environment, django_assert_num_queries
):
    key, text = issue(environment=environment, force=True)

    with django_assert_num_queries(1):
        found = keys.find(text)
        assert found == key
        assert found.scopes == default_scopes()
        assert found.workspace.name == "Acacia Lenders"
        assert found.account.environment == environment
        assert found.account.workspace == workspace
        assert found.account.balance == 0
    assert found.workspace.owner_email == "owner@acacia.test"


def test_found_key_can_be_saved(issue):
    _, text = issue()
    found = keys.find(text)

    found.name = "warehouse"
    found.save()

    assert keys.find(text).name == "warehouse"


def test_unknown_revoked_and_expired_keys_look_alike(issue):
    revoked, revoked_text = issue()
    keys.revoke(revoked)
    _, expired_text = issue(expires_at=now() - timedelta(seconds=1))

    assert keys.find(TEXT) is None
    assert keys.find(revoked_text) is None
    assert keys.find(expired_text) is None


def test_key_works_until_its_end(issue, clock):
    _, text = issue(expires_at=now() + timedelta(hours=1))
    assert keys.find(text)

    clock.shift(timedelta(minutes=61))
    assert keys.find(text) is None


def test_replaced_key_is_revoked_once(issue):
    key, text = issue()
    keys.rotate(key, old_ends_at=now() + timedelta(hours=1), made_by=None)

    assert keys.revoke(key)
    assert keys.find(text) is None
    assert not keys.revoke(key)


def test_use_is_recorded_once_a_minute(issue, django_assert_num_queries, clock):
    _, text = issue()
    key = keys.find(text)
    assert keys.record_use(key, "192.0.2.1")
    seen = key.last_used_at

    with django_assert_num_queries(0):
        assert not keys.record_use(key, "192.0.2.1")

    clock.shift(timedelta(seconds=61))
    assert keys.record_use(key, "192.0.2.1")
    assert keys.find(text).last_used_at > seen


def test_one_of_two_concurrent_requests_records_the_use(issue):
    _, text = issue()
    one, other = keys.find(text), keys.find(text)

    assert keys.record_use(one, "192.0.2.1")
    assert not keys.record_use(other, "192.0.2.1")


def test_successor_has_the_same_rights_and_both_keys_work(issue, clock):
    old, old_text = issue(
        scopes=["reports:read"], expires_at=now() + timedelta(days=30)
    )
    old.creates_per_minute = 7
    old.save()

    new, new_text = keys.rotate(
        old, old_ends_at=now() + timedelta(hours=24), made_by=None
    )

    assert (new.scopes, new.name) == (["reports:read"], "shop")
    assert keys.find(new_text).creates_per_minute == 7
    assert new.expires_at - new.created_at >= timedelta(days=29, hours=23)
    assert keys.find(old_text)
    clock.shift(timedelta(hours=24, minutes=1))
    assert keys.find(old_text) is None
    assert keys.find(new_text)


@pytest.mark.django_db(transaction=True)
def test_rotation_holds_no_key_while_its_workspace_closes(issue, workspace):
    key, _ = issue()

    with uncommitted(lambda: workspace.suspend("Closed")):
        rotation = start_and_block(
            lambda: keys.rotate(key, old_ends_at=now(), made_by=1)
        )
        with transaction.atomic():
            ApiKey.objects.select_for_update(nowait=True).get(pk=key.pk)

    assert isinstance(rotation.exception(), WorkspaceSuspended)


def test_old_key_ends_at_the_given_time(issue):
    old, old_text = issue()

    keys.rotate(old, old_ends_at=now(), made_by=None)

    assert keys.find(old_text) is None


def test_ended_or_replaced_key_gets_no_successor(issue):
    revoked, _ = issue()
    keys.revoke(revoked)
    expired, _ = issue(expires_at=now() - timedelta(seconds=1))
    followed, _ = issue()
    keys.rotate(followed, old_ends_at=now() + timedelta(days=1), made_by=None)

    for key in (revoked, expired, followed):
        with pytest.raises(keys.KeyHasEnded):
            keys.rotate(key, old_ends_at=now(), made_by=None)
    assert ApiKey.objects.count() == 4
