import re
from contextlib import suppress
from datetime import timedelta

import pytest
import time_machine
from allauth.core.context import request_context
from allauth.mfa.webauthn.internal import auth as webauthn_auth
from axes.models import AccessAttempt
from django.contrib.auth.hashers import MD5PasswordHasher, get_hasher
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.test import Client, RequestFactory, override_settings
from django.utils.timezone import now

from tests.accounts.visitor import (
    LOGIN,
    RESET,
    SIGN_UP,
    create_user,
    is_logged_in,
    log_in,
    move_login_back,
    path_mailed_to,
)
from tests.world.members import PASSWORD, create_member, invitation_token
from tests.world.processor import processor_seconds
from verification.accounts.passwords import PasswordStrengthValidator
from verification.backoffice.models import AuditEvent
from verification.notifications.models import Notification
from workspaces import members
from workspaces.models import Member, Role, Workspace

ELSEWHERE = "198.51.100.7"
NEW = {"name": "Grace Wambui", "email": "grace@people.test", "password1": PASSWORD}


@pytest.fixture
def client(db) -> Client:
    return Client()


@pytest.mark.parametrize("knows_the_user", [False, True])
def test_passkey_is_asked_for_its_pin_on_each_page(
    client: Client, rf: RequestFactory, knows_the_user: bool
) -> None:
    user = create_user() if knows_the_user else None
    request = rf.get("/")
    request.session = client.session

    with request_context(request):
        options = webauthn_auth.begin_authentication(user)

    assert options["publicKey"]["userVerification"] == "required"
    assert webauthn_auth.STATE_SESSION_KEY in request.session


def sign_up(client: Client) -> str:
    """Sign up; return the path of the link that confirms the address."""
    client.post(SIGN_UP, NEW)
    return path_mailed_to("grace@people.test", "ACCOUNT_CONFIRM")


def test_signing_up_and_confirming_makes_a_workspace_with_its_owner(client):
    link = sign_up(client)
    assert not Workspace.objects.exists()

    client.post(link)

    member = Member.objects.get()
    assert (member.role, member.user.email) == ("OWNER", "grace@people.test")
    assert (member.workspace.name, member.workspace.kind) == (
        "Grace Wambui",
        "INDIVIDUAL",
    )
    assert member.workspace.accounts.count() == 2
    # The first address is no change of it.
    assert not AuditEvent.objects.exists()
    assert not Notification.objects.filter(kind="ACCOUNT_CHANGED").exists()


def test_opening_the_link_alone_confirms_nothing(client):
    link = sign_up(client)

    assert client.get(link).status_code == 200

    assert not Workspace.objects.exists()


def test_login_needs_a_confirmed_address(client):
    link = sign_up(client)
    log_in(client, "grace@people.test")
    assert not is_logged_in(client)

    client.post(link)
    log_in(client, "grace@people.test")
    assert is_logged_in(client)


def test_confirmation_link_works_once(client):
    link = sign_up(client)
    client.post(link)

    assert "no longer works" in client.get(link).content.decode()
    assert client.post(link).status_code in (302, 404)
    assert Workspace.objects.count() == 1


def test_form_changes_nothing_when_its_last_step_fails(client, monkeypatch):
    link = sign_up(client)
    client.raise_request_exception = False
    with monkeypatch.context() as patched:
        patched.delattr("verification.accounts.signals.create_own_workspace")
        assert client.post(link).status_code == 500

    client.post(link)

    assert Member.objects.get().user.email == "grace@people.test"


def test_confirmation_link_expires(client):
    link = sign_up(client)

    with time_machine.travel(now() + timedelta(days=3, minutes=1), tick=False):
        client.post(link)

    assert not Workspace.objects.exists()


def test_sign_up_does_not_reveal_accounts(client):
    create_user()
    there = client.post(SIGN_UP, NEW, follow=True)
    not_there = Client().post(SIGN_UP, {**NEW, "email": "new@people.test"}, follow=True)

    assert there.status_code == not_there.status_code
    assert there.redirect_chain == not_there.redirect_chain
    pages = [_html(there), _html(not_there).replace("new@", "grace@")]
    assert pages[0] == pages[1]
    assert "<strong>grace@people.test</strong>" in pages[0]
    kinds = set(Notification.objects.values_list("kind", flat=True))
    assert kinds == {"ACCOUNT_EXISTS", "ACCOUNT_CONFIRM"}


class Counting(MD5PasswordHasher):
    """Count the password hashes, which take most of the time of a sign-up."""

    made = 0

    def encode(self, password: str, salt: str) -> str:
        Counting.made += 1
        encoded: str = super().encode(password, salt)
        return encoded


def test_sign_up_refuses_a_name_with_a_trick(client):
    for name in ("Win money at evil.example", "Grace\N{RIGHT-TO-LEFT MARK}"):
        assert "Use " in _html(client.post(SIGN_UP, {**NEW, "name": name})), name
    assert not User.objects.exists()


def test_sign_up_takes_as_long_for_an_existing_account(client, settings):
    settings.PASSWORD_HASHERS = [f"{__name__}.Counting"]
    counts = []
    for _ in range(2):
        Counting.made = 0
        Client().post(SIGN_UP, NEW)
        counts.append(Counting.made)

    assert counts == [1, 1]


@pytest.mark.parametrize(
    ("form", "typed", "kind", "most"),
    [
        (SIGN_UP, NEW, "ACCOUNT_EXISTS", 10),
        (RESET, {"email": NEW["email"]}, "ACCOUNT_RESET", 5),
    ],
)
@pytest.mark.usefixtures("new_minute")
def test_stranger_floods_no_mailbox(client, form, typed, kind, most):
    client.post(SIGN_UP, NEW)
    for number in range(most + 2):
        # Each process has an own cache, in which allauth counts.
        cache.clear()
        client.post(form, typed, REMOTE_ADDR=f"192.0.2.{number}")

    assert Notification.objects.filter(kind=kind).count() == most


def test_password_reset_does_not_reveal_accounts(client):
    create_user()
    there = client.post(RESET, {"email": "grace@people.test"}, follow=True)
    not_there = Client().post(RESET, {"email": "new@people.test"}, follow=True)

    assert there.redirect_chain == not_there.redirect_chain
    assert there.content == not_there.content
    assert [n.recipient for n in Notification.objects.all()] == ["grace@people.test"]


def test_new_address_is_nobodys_before_it_is_confirmed(client):
    otieno = create_user("otieno")
    otieno.emailaddress_set.create(email=NEW["email"], verified=False)

    client.post(RESET, {"email": NEW["email"]})
    assert not Notification.objects.exists()

    client.post(SIGN_UP, NEW)
    client.post(path_mailed_to(NEW["email"], "ACCOUNT_CONFIRM").partition("?")[0])
    log_in(client, NEW["email"], NEW["password1"])
    assert client.session["_auth_user_id"] != str(otieno.pk)


def test_wrong_password_and_unknown_address_look_the_same(client):
    create_user()
    wrong = log_in(client, "grace@people.test", "not the password")
    unknown = log_in(Client(), "nobody@people.test", "not the password")

    told = "E-mail address or password is not right"
    assert told in wrong.content.decode()
    assert told in unknown.content.decode()


def new_password(client: Client, link: str, password: str):
    form = client.get(link, follow=True).request["PATH_INFO"]
    return client.post(form, {"password1": password, "password2": password})


def reset_link(client: Client) -> str:
    client.post(RESET, {"email": "grace@people.test"})
    return path_mailed_to("grace@people.test", "ACCOUNT_RESET")


def test_password_link_works_once(client):
    create_user()
    link = reset_link(client)

    new_password(client, link, "eight loud elephants")

    again = new_password(Client(), link, "nine quick antelopes")
    assert "no longer works" in again.content.decode()
    assert User.objects.get().check_password("eight loud elephants")


def test_password_link_expires(client):
    create_user()
    link = reset_link(client)

    with time_machine.travel(now() + timedelta(hours=1, minutes=1), tick=False):
        new_password(Client(), link, "eight loud elephants")

    assert User.objects.get().check_password(PASSWORD)


@override_settings(ALLOWED_HOSTS=["*"])
def test_links_ignore_the_host_header(client, settings):
    create_user()
    client.post(RESET, {"email": "grace@people.test"}, headers={"host": "evil.test"})

    url = Notification.objects.get().context["url"]
    assert url.startswith(settings.BASE_URL)


def test_staff_need_a_longer_password(client):
    member, staff = create_user("otieno"), create_user(is_staff=True)
    validate_password("x7k2m9q4w1zv", member)
    validate_password("x7k2m9q4w1zv8tn", staff)
    with pytest.raises(ValidationError):
        validate_password("x7k2m9q4w1z", member)

    new_password(client, reset_link(client), "x7k2m9q4w1zv8t")

    staff.refresh_from_db()
    assert staff.check_password(PASSWORD)


EASY = [
    ("iloveyou12345", "like a password that was stolen elsewhere"),
    ("p@ssw0rd1234", "like a password that was stolen elsewhere"),
    ("drowssap1234", "like a password that was stolen elsewhere"),
    ("zxcvfdsaqwer", "Keys next to each other"),
    ("jumbajumbajumba", "Repetitions"),
    ("456789012345", "Rows such as abc or 123"),
    ("25.12.1990 1", "Dates are guessed first"),
    ("Safaricom@123", "names that belong to you or to this service"),
    ("grace@people.test", "names that belong to you or to this service"),
    ("kilonzi-kilonzi1", "names that belong to you or to this service"),
    ("baobab-traders", "names that belong to you or to this service"),
    # Names only.
    ("gracekilonzi", "names that belong to you or to this service"),
    ("safaricommpesa", "names that belong to you or to this service"),
]


def test_easily_guessed_password_is_refused(workspace):
    workspace.name = "Baobab Traders"
    workspace.save()
    grace = create_user(first_name="Grace Kilonzi")
    Member.objects.create(workspace=workspace, user=grace, role=Role.OWNER)

    for password, why in EASY:
        with pytest.raises(ValidationError) as refused:
            validate_password(password, grace)
        assert why in " ".join(refused.value.messages), password


@pytest.mark.slow
def test_long_password_is_checked_quickly(db):
    def judge() -> None:
        with suppress(ValidationError):
            PasswordStrengthValidator().validate("@4({<369|!17$50+%2" * 4)

    assert processor_seconds(judge) < 1


def test_password_may_have_any_characters(client):
    create_user()

    new_password(client, reset_link(client), "830715294716")

    assert User.objects.get().check_password("830715294716")


def test_sign_up_refuses_the_own_name_as_password(client):
    sent = {**NEW, "name": "Achieng Kilonzi", "password1": "achieng-kilonzi"}

    answer = client.post(SIGN_UP, sent)

    assert "names that belong to you" in answer.content.decode()
    assert not User.objects.exists()


def test_passwords_are_hashed_with_argon2(settings):
    from verification import settings as ours

    settings.PASSWORD_HASHERS = ours.PASSWORD_HASHERS

    assert get_hasher().algorithm == "argon2"


def test_login_does_not_redirect_to_other_sites(db):
    create_user()
    for elsewhere in (
        *["https://evil.test/", "//evil.test/", "/\\evil.test"],
        "javascript:alert(1)",
    ):
        fields = {"next": elsewhere}
        answer = log_in(Client(), "grace@people.test", fields=fields)

        assert answer["Location"] == "/console/", elsewhere


def test_forms_without_a_csrf_token_are_refused(db):
    create_user()
    client = Client(enforce_csrf_checks=True)

    for path in (LOGIN, SIGN_UP, RESET):
        assert client.post(path, {}).status_code == 403


def guess(client: Client, times: int, **more) -> int:
    for _ in range(times):
        answer = log_in(client, "grace@people.test", "not the password", **more)
    return answer.status_code


def test_five_wrong_passwords_lock_the_account_for_one_address(client):
    create_user()

    assert guess(client, 5) == 429
    locked = log_in(client, "grace@people.test")
    assert (locked.status_code, is_logged_in(client)) == (429, False)
    assert "Try again in 15 minutes." in locked.content.decode()

    # The owner is somewhere else, and is not kept out.
    owner = Client(REMOTE_ADDR=ELSEWHERE)
    log_in(owner, "grace@people.test")
    assert is_logged_in(owner)
    # Nor is somebody else at the same address.
    create_user("otieno")
    log_in(client, "otieno@people.test")
    assert is_logged_in(client)


def test_ipv6_network_counts_as_one_address(client):
    create_user()
    network = [f"2001:db8:0:1::{number:x}" for number in range(1, 7)]
    answers = [
        log_in(Client(REMOTE_ADDR=address), "grace@people.test", "not the password")
        for address in network
    ]

    assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2
    owner = Client(REMOTE_ADDR="2001:db8:0:2::1")
    log_in(owner, "grace@people.test")
    assert is_logged_in(owner)


def test_lock_ends_after_its_time(client):
    create_user()
    guess(client, 5)

    with time_machine.travel(now() + timedelta(minutes=15, seconds=5), tick=False):
        log_in(client, "grace@people.test")
        assert is_logged_in(client)


def test_lock_ignores_a_forged_client_address(client):
    create_user()
    for number in range(5):
        guess(client, 1, headers={"x-forwarded-for": f"203.0.113.{number}"})

    assert log_in(client, "grace@people.test").status_code == 429


def test_typed_account_is_stored_nowhere(client):
    create_user()
    guess(client, 1)

    row = repr(AccessAttempt.objects.values().get())
    assert "people.test" not in row
    assert "not the password" not in row


@pytest.mark.parametrize(("minutes", "lives"), [(119, True), (121, False)])
def test_idle_session_ends(client, minutes, lives):
    create_user()
    log_in(client, "grace@people.test")

    with time_machine.travel(now() + timedelta(minutes=minutes), tick=False):
        assert (client.get("/console/").status_code == 200) is lives


def test_page_that_refreshes_itself_keeps_no_session_alive(client):
    create_user()
    log_in(client, "grace@people.test")
    start = now()

    with time_machine.travel(start + timedelta(minutes=119), tick=False):
        client.get("/console/", headers={"X-Refresh": "on"})
        assert is_logged_in(client)
    with time_machine.travel(start + timedelta(minutes=121), tick=False):
        client.get("/console/")
        assert not is_logged_in(client)


def test_busy_session_ends_after_a_day(client):
    create_user()
    log_in(client, "grace@people.test")
    move_login_back(client, timedelta(hours=23, minutes=55))

    for minutes, lives in ((2, True), (4, True), (6, False)):
        with time_machine.travel(now() + timedelta(minutes=minutes), tick=False):
            client.get("/console/")
            assert is_logged_in(client) is lives


def test_account_pages_are_not_cached_and_run_no_script(client):
    paths = [LOGIN, SIGN_UP, RESET, "/accounts/confirm-email/"]
    for path, language in [*((path, "sw") for path in paths), (LOGIN, "en")]:
        answer = client.get(path, {"lang": language})

        assert answer["Cache-Control"] == "no-store"
        assert "script-src" not in answer["Content-Security-Policy"]
        assert "default-src 'none'" in answer["Content-Security-Policy"]
        html = answer.content.decode()
        assert f'<html lang="{language}"' in html, path
        assert "<script" not in html


def test_mails_are_queued_and_not_sent_in_the_request(client, mailoutbox):
    sign_up(client)

    assert mailoutbox == []
    assert Notification.objects.get().status == "PENDING"


@pytest.mark.usefixtures("new_minute")
def test_rate_limit_counts_each_form_separately(client):
    for number in range(2):
        log_in(client, f"nobody{number}@people.test", "not the password")

    sign_ups = [client.post("/accounts/signup/", {}).status_code for _ in range(11)]
    assert sign_ups == [200] * 10 + [429]


def test_invited_person_with_an_account_returns_to_the_invitation(client, workspace):
    create_user()
    members.invite(create_member(workspace, "OWNER"), "grace@people.test", Role.VIEWER)
    page = f"/console/invitations/{invitation_token('grace@people.test')}"

    client.post(SIGN_UP, {**NEW, "next": page})

    link = path_mailed_to("grace@people.test", "ACCOUNT_EXISTS")
    fields = _hidden(_html(client.get(link)))
    assert log_in(client, "grace@people.test", fields=fields)["Location"] == page


def test_next_ignores_other_sites(client):
    client.post(SIGN_UP, {**NEW, "next": "https://evil.test/"})
    link = path_mailed_to("grace@people.test", "ACCOUNT_CONFIRM")

    assert "evil" not in link
    answer = client.post(f"{link}?next=https://evil.test/")
    assert answer["Location"] == "/accounts/login/?next=%2Fconsole%2F"


def _html(answer) -> str:
    assert answer.status_code == 200
    return answer.content.decode()


def _hidden(html: str) -> dict[str, str]:
    """Return the hidden field `next` as form data."""
    return dict(re.findall(r'<input type="hidden" name="(next)" value="([^"]+)"', html))


def test_account_without_a_password_gets_a_link_to_choose_one(client):
    user = create_user()
    user.set_unusable_password()
    user.save()
    client.force_login(user, "allauth.account.auth_backends.AuthenticationBackend")

    answer = client.get("/accounts/password/change/")

    assert answer["Location"] == RESET
