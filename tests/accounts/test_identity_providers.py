"""Logins by a provider of OpenID Connect, which may lie, be away or send nobody."""

import json
import re
import time
from contextlib import suppress
from html import unescape
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
import requests
from allauth.account.models import EmailAddress, EmailConfirmationHMAC
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import Client, RequestFactory
from django.urls import reverse

from tests.accounts.visitor import (
    ADMIN,
    code_of,
    create_user,
    is_logged_in,
    log_in,
    sign_up,
)
from tests.fakes.identity_provider import (
    CLIENT,
    SECRET,
    FakeIdentity,
    make_key,
    make_provider,
)
from tests.world.members import PASSWORD, create_member, invitation_token
from tests.world.staff import give_factor
from tests.world.threads import SECONDS, run_at_once, start_and_block
from verification.accounts import provider_grants
from verification.accounts.openid import read_claims
from verification.accounts.provider_grants import LoginRefused, follow_address
from verification.backoffice.models import AuditEvent
from verification.backoffice.roles import ROLES, SUPERUSER
from verification.settings.identity_providers import (
    IdentityProvider,
    read_providers,
)
from workspaces import members
from workspaces.create import create_workspace
from workspaces.logins import AddressChangeRefused, change_address
from workspaces.members import lock_workspace
from workspaces.models import Member, Role, Workspace

BEGIN = "/accounts/login/bank/"
EMAIL = "grace@bank.test"
GROUPS = {"admins": "ADMIN", "officers": "OFFICER", "owners": "OWNER"}
STAFF = {"support": ["Operations", "Reviewer"]}
# More groups than Entra ID puts into a token
OVERAGE = {"_claim_names": {"groups": "src1"}, "groups": None}


@pytest.fixture
def workspace(db) -> Workspace:
    return create_workspace(name="Bank", owner_email="owner@bank.test")


@pytest.fixture
def bank(settings, workspace):
    """A provider of the bank, whose Grace is an administrator."""
    with FakeIdentity() as fake:
        fake.people["p1"] = {
            "email": EMAIL,
            "email_verified": True,
            "name": "Grace Wambui",
            "groups": ["admins", "everybody"],
        }
        fake.settings, fake.setting = settings, {"private": True, "staff_roles": {}}
        configure(fake, workspace=workspace.pk, roles=GROUPS)
        yield fake


def configure(bank: FakeIdentity, **given) -> None:
    bank.setting |= given
    provider = make_provider(issuer=bank.url, **bank.setting)
    bank.settings.IDENTITY_PROVIDERS = {"bank": provider}


def go_to_provider(client: Client, after: str = "") -> str:
    """Press the button; return the address of the provider's page."""
    page = client.post(BEGIN, {"next": after} if after else {})
    assert page.status_code == 200, page.content.decode()
    url = re.search(r'content="0;url=([^"]+)"', page.content.decode())[1]
    return unescape(url)


def come_back(url: str) -> str:
    """Log in at the provider; return the path to which it sends the browser."""
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(url, allow_redirects=False, timeout=10)
    parts = urlsplit(answer.headers["Location"])
    return f"{parts.path}?{parts.query}"


def enter(client: Client | None = None, after: str = ""):
    """Log in by the provider; return the browser and the last answer."""
    client = client or Client()
    return client, client.get(come_back(go_to_provider(client, after)))


def refusal(answer) -> str:
    """Return why the login is refused."""
    page = answer.content.decode()
    return next(
        r for r, text in provider_grants.REFUSALS.items() if str(text) in unescape(page)
    )


def actions() -> list[str]:
    return list(AuditEvent.objects.order_by("id").values_list("action", flat=True))


def test_new_member_joins_with_the_role_of_their_groups(bank, workspace):
    client, answer = enter(after="/accounts/security/")

    assert answer["Location"] == "/accounts/security/"
    assert is_logged_in(client)
    user = User.objects.get(email=EMAIL)
    assert (user.first_name, user.has_usable_password()) == ("Grace Wambui", False)
    assert EmailAddress.objects.get(user=user).verified
    assert Member.objects.get(user=user, workspace=workspace).role == "ADMIN"
    assert SocialAccount.objects.get(user=user).extra_data == {}
    assert actions() == [
        "user.created-by-provider",
        "member.added",
        "user.logged-in-by-provider",
    ]


def test_role_follows_the_groups_and_access_ends_without_one(bank, workspace):
    first, _ = enter()
    bank.people["p1"]["groups"] = "officers"
    enter()
    assert Member.objects.get(workspace=workspace).role == "OFFICER"

    bank.people["p1"]["groups"] = []
    client, answer = enter()

    assert (answer.status_code, refusal(answer)) == (403, "groups")
    assert not is_logged_in(client)
    assert not is_logged_in(first)
    assert not workspace.members.exists()
    assert actions()[-2:] == ["member.removed", "user.provider-login-refused"]


def test_provider_of_no_workspace_grants_nothing_and_is_found(bank, workspace):
    assert provider_grants.check_workspaces(databases=["default"]) == []
    configure(bank, workspace=uuid4())

    (found,) = provider_grants.check_workspaces(databases=["default"])
    client, answer = enter()

    assert "bank the workspace" in found.msg
    assert (answer.status_code, refusal(answer)) == (403, "groups")
    assert not is_logged_in(client)


def test_last_owner_stays_one_and_cannot_log_in(bank, workspace):
    bank.people["p1"]["groups"] = ["owners"]
    enter()
    bank.people["p1"]["groups"] = []

    client, answer = enter()

    assert refusal(answer) == "groups"
    assert not is_logged_in(client)
    assert workspace.members.get().role == "OWNER"


LIES = [
    ({"aud": "another"}, "token"),
    ({"aud": [CLIENT, "another"]}, "token"),
    ({"azp": "another"}, "token"),
    ({"iss": "https://another.test"}, "token"),
    ({"nonce": "of another login"}, "token"),
    ({"nonce": None}, "token"),
    ({"exp": 1_700_000_000}, "token"),
    ({"exp": None}, "token"),
    ({"iat": time.time() + 9e9}, "token"),
    ({"sub": None}, "token"),
    ({"email_verified": False}, "address"),
    ({"groups": ["Admins", 7]}, "groups"),
]


def test_lie_of_the_provider_is_refused(bank):
    for change, reason in LIES:
        bank.id_token = change

        client, answer = enter()

        assert (answer.status_code, refusal(answer)) == (403, reason), change
        assert not is_logged_in(client)
    assert not User.objects.exists()


PERSON = {"iss": "https://id.bank.test", "sub": "p1", "email": EMAIL}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"email_verified": None}, "address"),
        ({"email_verified": "false"}, "address"),
        ({"email_verified": [True]}, "address"),
        ({"email": [EMAIL]}, "address"),
        ({"email": "grace@x@bank.test"}, "address"),
        ({"email": f"{'g' * 250}@bank.test"}, "address"),
        ({"email": "grace@elsewhere.test"}, "domain"),
        ({"email": "grace@sub.bank.test"}, "domain"),
        ({"groups": None, "hasgroups": True}, "many-groups"),
        ({"groups": None, **OVERAGE}, "many-groups"),
    ],
)
def test_claims_that_do_not_count_are_refused(settings, change, reason):
    provider = make_provider()
    settings.IDENTITY_PROVIDERS = {"bank": provider}
    given = {"email_verified": True, **PERSON, **change}

    with pytest.raises(LoginRefused) as refused:
        read_claims(provider, given, {})

    assert refused.value.reason == reason


@pytest.mark.parametrize("groups", [{"admins": 1}, 7, None])
def test_groups_of_another_form_are_none(settings, groups):
    provider = make_provider(email_verified_claim="xms_edov")
    settings.IDENTITY_PROVIDERS = {"bank": provider}

    claims = read_claims(provider, {**PERSON, "xms_edov": "1", "groups": groups}, {})

    assert (claims.email, claims.groups, claims.name) == (EMAIL, (), "")


def test_token_without_the_signature_of_the_provider_is_refused(bank):
    keys = {"RS256": make_key("second"), "HS256": "s" * 64, "none": None}
    for bank.algorithm, bank.key_for_tokens in keys.items():
        assert refusal(enter()[1]) == "token", bank.algorithm


def test_provider_may_change_its_key(bank):
    enter()
    bank.rotate_key()

    assert is_logged_in(enter()[0])


def test_groups_that_are_left_out_come_from_userinfo(bank):
    bank.userinfo = {}
    bank.id_token = OVERAGE
    assert is_logged_in(enter()[0])

    bank.userinfo = {"groups": None}
    assert refusal(enter()[1]) == "many-groups"


def test_two_hundred_groups_are_read(bank):
    bank.people["p1"]["groups"] = [f"g{n}" for n in range(200)] + ["admins"]

    assert is_logged_in(enter()[0])


def test_userinfo_of_another_or_unverified_person_is_refused(bank):
    for bank.userinfo in ({"sub": "p2"}, {"email_verified": None}):
        assert refusal(enter()[1]) in {"token", "address"}


def test_discovery_document_of_another_is_refused(bank):
    for bank.discovery in (
        {"issuer": "https://another.test"},
        {"token_endpoint": None},
        {"jwks_uri": "file:///etc/passwd"},
    ):
        page = Client().post(BEGIN)

        assert (page.status_code, refusal(page)) == (403, "token"), bank.discovery


def test_provider_that_is_out_of_order_is_named(bank):
    bank.userinfo = {}
    bank.faults.status, bank.faults.path = 503, "configuration"
    page = Client().post(BEGIN)
    assert (page.status_code, refusal(page)) == (503, "away")

    for path in ("jwks", "userinfo"):
        client = Client()
        bank.faults.status = None
        url = come_back(go_to_provider(client))
        bank.faults.status, bank.faults.path = 503, path
        page = client.get(url)
        assert (page.status_code, refusal(page)) == (503, "away"), path


def test_silent_provider_is_not_waited_for(bank, monkeypatch):
    monkeypatch.setattr(provider_grants, "CALL_SECONDS", 0.2)
    bank.faults.slow = 0.6

    page = Client().post(BEGIN)

    assert (page.status_code, refusal(page)) == (503, "away")


def test_provider_on_a_private_network_needs_the_setting(bank):
    configure(bank, private=False)

    page = Client().post(BEGIN)

    assert (page.status_code, refusal(page)) == (503, "away")
    assert bank.requests == []


def test_provider_does_not_reach_the_private_host_of_another(bank, settings):
    with FakeIdentity() as other:
        private = make_provider(id="other", issuer=other.url, private=True)
        settings.IDENTITY_PROVIDERS |= {"other": private}
        bank.discovery["jwks_uri"] = f"{other.url}/jwks"

        _, page = enter()

    assert (page.status_code, refusal(page)) == (503, "away")
    assert other.requests == []


def test_answer_counts_once_and_in_the_browser_that_began(bank):
    client = Client()
    url = come_back(go_to_provider(client))

    assert refusal(Client().get(url)) == "ended"
    client.get(url)
    assert is_logged_in(client)
    assert refusal(client.get(url)) == "ended"


def test_visitor_who_cancels_is_told(bank):
    client = Client()
    state = parse_qs(urlsplit(go_to_provider(client)).query)["state"][0]

    page = client.get(f"{BEGIN}callback/?error=access_denied&state={state}")

    assert refusal(page) == "cancelled"


def test_visitor_chooses_no_parameter_of_the_request(bank, settings):
    client = Client()
    query = "process=connect&scope=admin&auth_params=redirect_uri%3Dhttps://thief.test"
    page = client.post(f"{BEGIN}?{query}", {"next": "https://thief.test/"})
    url = unescape(re.search(r'0;url=([^"]+)"', page.content.decode())[1])

    sent = parse_qs(urlsplit(url).query)

    assert set(sent["scope"][0].split()) == {"openid", "profile", "email"}
    assert sent["redirect_uri"] == [f"{settings.BASE_URL}{BEGIN}callback/"]
    assert sent["code_challenge_method"] == ["S256"]
    assert client.get(come_back(url))["Location"] == "/console/"


def test_login_needs_the_form_of_our_page(bank):
    assert Client(enforce_csrf_checks=True).post(BEGIN).status_code == 403
    assert Client().get(f"{BEGIN}?next=/console/")["Location"] == (
        "/accounts/login/?next=%2Fconsole%2F"
    )
    assert Client().post("/accounts/login/nobody/").status_code == 404


@pytest.mark.parametrize("is_verified", [True, False])
def test_account_with_the_address_is_linked_and_loses_its_password(bank, is_verified):
    user = create_person_of_the_bank("grace")
    EmailAddress.objects.update(verified=is_verified)

    client, _ = enter()

    assert client.session["_auth_user_id"] == str(user.pk)
    user.refresh_from_db()
    assert not user.has_usable_password()


def test_account_that_only_asked_for_the_address_is_not_linked(bank):
    thief = create_user("thief")
    EmailAddress.objects.create(user=thief, email=EMAIL)

    client, _ = enter()

    assert client.session["_auth_user_id"] != str(thief.pk)
    assert User.objects.get(email=EMAIL).memberships.exists()
    assert list(thief.emailaddress_set.values_list("email", flat=True)) == [thief.email]


def test_account_of_a_stranger_is_not_linked_in_place_of_the_confirmed_one(bank):
    stranger = User.objects.create_user("stranger", EMAIL, PASSWORD)
    EmailAddress.objects.create(user=stranger, email=EMAIL)
    person = create_person_of_the_bank("grace")

    client, _ = enter()

    assert client.session["_auth_user_id"] == str(person.pk)
    assert not SocialAccount.objects.filter(user=stranger).exists()


def test_account_follows_the_person_to_an_address_that_a_stranger_asked_for(bank):
    enter()
    bank.people["p1"]["email"] = new = "grace.mwangi@bank.test"
    EmailAddress.objects.create(user=create_user("stranger"), email=new)

    enter()

    assert SocialAccount.objects.get().user.email == new


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_login_first", [True, False])
@pytest.mark.parametrize("by_staff", [True, False])
def test_login_from_a_new_address_waits_for_its_change(bank, by_staff, is_login_first):
    configure(bank, passwords=True)
    client, _ = enter()
    grace, new = User.objects.get(), "grace.mwangi@bank.test"
    waiting = EmailAddress.objects.create(user=grace, email=new)
    link = reverse("account_confirm_email", args=[EmailConfirmationHMAC(waiting).key])
    provider, request = settings.IDENTITY_PROVIDERS["bank"], RequestFactory().get("/")

    def log_in_again():
        follow_address(request, User.objects.get(), provider, new)

    def change():
        return change_address(grace.pk, new) if by_staff else client.post(link)

    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get()
        both = [log_in_again, change] if is_login_first else [change, log_in_again]
        running = [start_and_block(each) for each in both]

    for each in running:
        with suppress(AddressChangeRefused):
            each.result(SECONDS)
    assert User.objects.get().email == new


def test_address_that_passed_to_another_person_opens_no_account(bank):
    enter()
    bank.person, bank.people["p2"] = "p2", bank.people["p1"]

    assert refusal(enter()[1]) == "another"


def test_provider_of_a_workspace_opens_no_account_of_others(bank):
    for fields, reason in (
        ({"is_staff": True, "is_superuser": True}, "superuser"),
        ({"is_staff": True}, "domain"),
        ({"is_active": False}, "closed"),
    ):
        user = User.objects.create_user("grace", EMAIL, PASSWORD, **fields)

        client, answer = enter()

        assert refusal(answer) == reason
        assert not is_logged_in(client)
        user.delete()
    assert not SocialAccount.objects.exists()
    assert not Member.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["new", "linked", "moved"])
def test_tabs_at_once_log_in_or_say_to_begin_again(bank, kind):
    if kind == "linked":
        create_person_of_the_bank("grace")
    if kind == "moved":
        enter()
        bank.people["p1"]["email"] = "grace.mwangi@bank.test"
    # The client of the tests would raise the exceptions of the other threads.
    tabs = [Client(raise_request_exception=False) for _ in range(2)]
    paths = [come_back(go_to_provider(tab)) for tab in tabs]

    answers = run_at_once(2, lambda n: tabs[n].get(paths[n]), connected=True)

    statuses = {answer.status_code for answer in answers}
    assert statuses <= ({302} if kind == "moved" else {302, 403})
    assert any(map(is_logged_in, tabs))
    assert SocialAccount.objects.count() == User.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("change", "reason"),
    [({"is_superuser": True}, "superuser"), ({"is_active": False}, "closed")],
)
def test_login_counts_a_change_of_staff_that_it_waits_for(bank, change, reason):
    configure(bank, workspace=None, roles={}, staff_roles=STAFF)
    bank.people["p1"]["groups"] = ["support"]
    enter()
    back = Client()
    path = come_back(go_to_provider(back))

    with transaction.atomic():
        people = User.objects.select_for_update(no_key=True)
        user = people.get(email=EMAIL)
        entering = start_and_block(lambda: back.get(path))
        people.filter(pk=user.pk).update(**change)

    assert refusal(entering.result()) == reason
    assert not is_logged_in(back)
    assert User.objects.filter(pk=user.pk, **change).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("has_signed_up", [True, False])
def test_login_beside_an_accepted_invitation_opens_one_account(
    bank, workspace, has_signed_up
):
    configure(bank, passwords=True)
    members.invite(create_member(workspace, "OWNER"), EMAIL, Role.OFFICER)
    page = f"/console/invitations/{invitation_token(EMAIL)}"
    if has_signed_up:
        sign_up(EMAIL)
    tabs = [Client(raise_request_exception=False) for _ in range(2)]
    path = come_back(go_to_provider(tabs[1]))
    fields = {"name": "Grace", "password1": PASSWORD}

    with transaction.atomic():
        lock_workspace(workspace.pk)
        joining = start_and_block(lambda: tabs[0].post(page, fields))
        entering = start_and_block(lambda: tabs[1].get(path))

    assert joining.result(SECONDS).status_code == 302
    assert refusal(entering.result(SECONDS)) == "ended"
    assert User.objects.filter(email=EMAIL).count() == 1
    assert is_logged_in(tabs[0])


def create_person_of_the_bank(name: str, **fields) -> User:
    user = User.objects.create_user(name, f"{name}@bank.test", PASSWORD, **fields)
    EmailAddress.objects.create(user=user, email=user.email, verified=True)
    return user


def test_password_logs_in_superusers_alone(bank):
    create_person_of_the_bank("otieno")
    create_person_of_the_bank("njeri", is_staff=True, is_superuser=True)
    member, superuser = Client(), Client()

    page = log_in(member, "otieno@bank.test")
    log_in(superuser, "njeri@bank.test")

    assert (page.status_code, refusal(page)) == (403, "password")
    assert not is_logged_in(member)
    assert is_logged_in(superuser)
    configure(bank, passwords=True)
    log_in(member, "otieno@bank.test")
    assert is_logged_in(member)


def test_password_of_one_provider_logs_in_nobody_of_another(bank, settings):
    configure(bank, passwords=True)
    enter()
    other = make_provider(id="other", domains=["other.test"])
    settings.IDENTITY_PROVIDERS = {**settings.IDENTITY_PROVIDERS, "other": other}
    user = User.objects.get()
    user.email = "grace@other.test"
    user.set_password(PASSWORD)
    user.save()
    EmailAddress.objects.update(email=user.email)

    page = log_in(Client(), user.email)

    assert (page.status_code, refusal(page)) == (403, "password")


def test_nobody_signs_up_with_an_address_of_the_provider(bank):
    new = {"name": "Grace", "email": "new@BANK.test", "password1": PASSWORD}

    Client().post("/accounts/signup/", new)

    assert not User.objects.exists()


def test_login_page_offers_the_provider(bank):
    button = b'action="/accounts/login/bank/"'
    assert button in Client().get("/accounts/login/").content

    configure(bank, hidden=True)

    assert button not in Client().get("/accounts/login/").content
    assert button in log_in(Client(), "otieno@bank.test", "wrong").content


def test_account_page_leaves_address_and_password_to_the_provider(bank):
    client, _ = enter()

    page = client.get("/accounts/security/").content.decode()

    assert "You log in with <bdi>Bank of Nyeri</bdi>" in page
    assert "/accounts/password/change/" not in page
    assert client.get("/accounts/password/change/").status_code == 404
    assert client.get("/accounts/email/").status_code == 404


def test_user_without_password_sets_up_a_factor_and_ends_sessions(bank):
    client, _ = enter()

    assert client.get("/accounts/totp/activate/").status_code == 200
    assert client.post("/accounts/sessions/").status_code == 302


def test_own_second_factor_is_asked_where_the_provider_asks_none(bank):
    configure(bank, second_factor_amr=["otp"], second_factor_acr=["gold"])
    enter()
    secret = give_factor(User.objects.get())
    bank.id_token = {"amr": ["pwd"], "acr": "silver"}

    client, answer = enter()

    assert answer["Location"] == "/accounts/code/"
    assert not is_logged_in(client)
    client.post("/accounts/code/", {"code": code_of(secret)})
    assert is_logged_in(client)


def test_staff_enter_the_admin_with_the_second_factor_of_the_provider(bank):
    configure(
        bank, workspace=None, roles={}, staff_roles=STAFF, second_factor_amr=["otp"]
    )
    bank.people["p1"]["groups"] = ["support"]

    client, _ = enter()
    assert client.get(ADMIN)["Location"].startswith("/accounts/totp/activate/")
    bank.id_token = {"amr": ["pwd", "otp"]}
    client, _ = enter()

    assert client.get(ADMIN).status_code == 200
    user = User.objects.get()
    assert (user.username, user.is_superuser) == ("grace", False)
    assert {role.name for role in user.groups.all()} == {"Operations", "Reviewer"}

    bank.people["p1"]["groups"] = []
    assert refusal(enter()[1]) == "groups"
    user.refresh_from_db()
    assert (user.is_staff, user.groups.count()) == (False, 0)
    assert not is_logged_in(client)


def test_logout_goes_on_at_the_provider(bank, settings):
    client, _ = enter()

    page = client.post("/accounts/logout/").content.decode()

    url = unescape(re.search(r'0;url=([^"]+)"', page)[1])
    assert url.startswith(
        f"{bank.url}/logout?client_id={CLIENT}&post_logout_redirect_uri="
    )
    assert not is_logged_in(client)


def end_sessions(bank, **changes):
    """Post a logout token, as the provider does without the browser."""
    token = bank.make_logout_token(changes)
    client = Client(enforce_csrf_checks=True)
    return client.post(f"{BEGIN}logout/", {"logout_token": token})


def test_logout_at_the_provider_ends_all_sessions_of_the_person_alone(bank):
    first, _ = enter()
    second, _ = enter()
    bank.person = "p2"
    bank.people["p2"] = bank.people["p1"] | {"email": "amos@bank.test"}
    other, _ = enter()

    answer = end_sessions(bank, sub="p1")

    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    logged_in = [is_logged_in(client) for client in (first, second, other)]
    assert logged_in == [False, False, True]
    assert actions()[-1] == "user.logged-out-by-provider"
    assert end_sessions(bank, sub="unknown here").status_code == 200


NO_LOGOUTS = [
    {"aud": "another"},
    {"iss": "https://another.test"},
    {"sub": None, "sid": "session 1"},
    {"events": None},
    {"events": {"http://schemas.openid.net/event/another": {}}},
    {"nonce": "of an ID token"},
    {"iat": int(time.time()) - 9_000},
    {"iat": str(int(time.time()) - 9_000)},
    {"exp": 1_700_000_000},
]


def test_logout_token_that_does_not_count_ends_nothing(bank):
    client, _ = enter()
    for change in NO_LOGOUTS:
        answer = end_sessions(bank, **change)

        assert answer.status_code == 400, change
        assert answer.json() == {"error": "invalid_request"}
    assert is_logged_in(client)


def test_logout_token_needs_the_signature_and_the_keys_of_the_provider(bank):
    client, _ = enter()
    bank.key_for_tokens = make_key("second")
    assert end_sessions(bank).status_code == 400
    assert Client().post(f"{BEGIN}logout/").status_code == 400
    assert is_logged_in(client)


@pytest.mark.parametrize(("status", "expected"), [(None, 200), (503, 503)])
def test_many_logout_tokens_fetch_the_keys_once(bank, status, expected):
    bank.faults.status, bank.faults.path = status, "jwks"
    post = Client().post

    for _ in range(3):
        assert post(f"{BEGIN}logout/", {"logout_token": "x"}).status_code >= 400
        assert end_sessions(bank).status_code == expected

    paths = [request.path.rpartition("/")[2] for request in bank.requests]
    assert paths == ["openid-configuration", "jwks"]


SETTING = {
    "id": "bank",
    "name": "Bank",
    "issuer": "https://id.bank.test",
    "client_id": CLIENT,
    "domains": ["Bank.test"],
    "staff_roles": STAFF,
}


def test_setting_names_providers_and_the_environment_their_secrets(monkeypatch):
    monkeypatch.setenv("IDENTITY_SECRET_BANK", SECRET)

    provider = read_providers(json.dumps([SETTING]))["bank"]

    assert (provider.secret, provider.domains) == (SECRET, ["bank.test"])
    assert SECRET not in repr(provider)


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("{", "must be a JSON list"),
        ([SETTING, SETTING], "names the id bank twice"),
        ([SETTING, {**SETTING, "id": "b"}], "names the domain bank.test twice"),
        ([{**SETTING, "secret": "s"}], "IDENTITY_SECRET_"),
        ([{**SETTING, "issuer": "http://id.bank.test"}], "bank.issuer"),
        ([{**SETTING, "issuer": "https://id.bank.test:99999"}], "bank.issuer"),
        ([{**SETTING, "issuer": "https://id.bank .test"}], "bank.issuer"),
        ([{**SETTING, "domains": []}], "bank.domains"),
        *(
            ([{**SETTING, "domains": [domain]}], "bank.domains.0: must be the part")
            for domain in ("*.bank.test", ".bank.test", "bank.test.", "a@bank.test")
        ),
        ([{**SETTING, "scopes": ["profile"]}], "bank.scopes: must have openid"),
        ([{**SETTING, "roles": {"g": "ADMIN"}}], "both workspace and roles"),
        ([{**SETTING, "staff_roles": {"g": [SUPERUSER]}}], "bank.staff_roles.g.0"),
        ([{**SETTING, "staff_roles": {}}], "needs roles or staff_roles"),
        ([{**SETTING, "colour": "red"}], "bank.colour"),
    ],
)
def test_wrong_setting_is_refused(setting, what):
    text = setting if isinstance(setting, str) else json.dumps(setting)

    with pytest.raises(ImproperlyConfigured, match=re.escape(what)):
        read_providers(text)


def test_setting_knows_the_roles_of_staff():
    annotation = str(IdentityProvider.model_fields["staff_roles"].annotation)

    assert re.findall(r"'([\w ]+)'", annotation) == list(ROLES)
