"""Staff: invitations, promotions, deactivation, and removal of second factors."""

from datetime import timedelta

import pytest
import time_machine
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.test import Client
from django.utils.timezone import now

from tests.accounts.visitor import (
    ADMIN,
    create_user,
    is_logged_in,
    log_in,
    path_mailed_to,
    sign_up,
)
from tests.world.members import PASSWORD as OLD
from tests.world.members import create_member
from tests.world.staff import (
    admin_url,
    change_url,
    dialog_url,
    give_factor,
    list_url,
    press_button,
    read_page,
    take_messages,
)
from tests.world.staff import log_in as log_in_staff
from tests.world.threads import SECONDS, run_at_once, start_and_block, uncommitted
from verification.accounts import colleagues
from verification.accounts.models import (
    Colleague,
    StaffInvitation,
    StaffRequest,
)
from verification.backoffice.approvals import NOT_SECOND_PERSON
from verification.backoffice.models import AuditEvent
from verification.backoffice.roles import SUPERUSER, is_superuser, write_roles
from verification.backoffice.widgets import NOT_OFFERED
from verification.development.local_pages import STAFF, make_person
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from workspaces.create import create_workspace
from workspaces.logins import TAKEN
from workspaces.models import Member

pytestmark = pytest.mark.django_db
NEW = "njeri.kamau@office.test"
PASSWORD = "nine loud purple hippos"


def role(name: str = "Finance") -> Group:
    return Group.objects.get(name=name)


def add(client: Client, email: str = NEW, *roles: str):
    data = {"email": email, "first_name": "Njeri Kamau"}
    data["groups"] = [role(name).pk for name in roles or ["Finance"]]
    return client.post(admin_url(Colleague, "add"), data)


def invited(email: str = NEW) -> Colleague:
    """Add a colleague as the page does, but do not let the colleague join."""
    by = User.objects.filter(username="admin").first() or another_superuser("admin")
    return colleagues.add(email, "Njeri Kamau", [role()], by=by)


def save(client: Client, user: User, *roles: str, name: str = "Njeri Kamau"):
    data = {"first_name": name, "groups": [role(r).pk for r in roles]}
    return client.post(change_url(colleague(user)), data)


def colleague(user: User) -> Colleague:
    return Colleague.objects.get(pk=user.pk)


def another_superuser(name: str = "wangari") -> User:
    return create_user(name, is_staff=True, is_superuser=True)


def link_of(email: str = NEW) -> str:
    return path_mailed_to(email, "STAFF_INVITATION")


def join(path: str, password: str = PASSWORD) -> Client:
    client = Client()
    client.post(path, {"password1": password, "password2": password})
    return client


def second_superuser(name: str = "otieno") -> Client:
    client = Client()
    log_in_staff(client, another_superuser(name))
    return client


def candidate() -> User:
    """Create a colleague with a password and a second factor."""
    grace = create_user(is_staff=True)
    give_factor(grace)
    return grace


def audited_actions() -> list[str]:
    return list(AuditEvent.objects.order_by("id").values_list("action", flat=True))


@pytest.mark.django_db
def test_superuser_without_a_password_adds_a_colleague():
    """The staff of `make run` have none."""
    client = Client()
    log_in_staff(client, make_person(STAFF, name="Demo staff", username="admin"))

    assert "an invitation goes to" in take_messages(add(client))[0]
    assert Colleague.objects.filter(email=NEW).exists()


def test_new_colleague_gets_a_link_and_no_password(superuser):
    assert 'name="email"' in read_page(superuser, admin_url(Colleague, "add"))

    answer = add(superuser)

    assert "an invitation goes to" in take_messages(answer)[0]
    njeri = Colleague.objects.get(email=NEW)
    assert (njeri.username, njeri.get_full_name()) == ("njeri.kamau", "Njeri Kamau")
    assert njeri.is_staff
    assert not njeri.is_superuser
    assert not njeri.has_usable_password()
    assert list(njeri.groups.all()) == [role()]
    assert link_of().startswith("/accounts/join/")
    assert audited_actions() == ["user.created"]


def test_all_superusers_get_a_mail_about_a_new_colleague(superuser):
    others = {another_superuser("wangari").email, "admin@example.com"}

    add(superuser)

    told = Notification.objects.filter(kind="ACCOUNT_CHANGED")
    assert {one.recipient for one in told} == others
    text = write_email(told[0]).text
    assert f"added Njeri Kamau ({NEW})" in text
    assert "System → Staff" in text


def test_invitation_sets_the_password_and_leads_to_the_factor():
    invited()
    path = link_of()
    assert NEW in Client().get(path).content.decode()

    client = join(path)

    assert is_logged_in(client)
    assert client.get("/admin/")["Location"].startswith("/accounts/totp/activate/")
    # The new password counts as typed.
    assert client.get("/accounts/totp/activate/").status_code == 200
    assert EmailAddress.objects.get(email=NEW).verified
    assert "user.joined" in audited_actions()


def test_weak_password_of_a_colleague_is_refused():
    njeri = invited()
    for password in ("nine hippos", "njeri.kamau@office.test"):
        assert not is_logged_in(join(link_of(), password)), password

        njeri.refresh_from_db()
        assert not njeri.has_usable_password(), password


def test_link_works_once():
    invited()
    path = link_of()
    join(path)

    assert not is_logged_in(join(path, "another nine purple hippos"))
    assert Client().get(path).status_code == 404
    assert Colleague.objects.get(email=NEW).check_password(PASSWORD)


@pytest.mark.django_db(transaction=True)
def test_new_invitation_waits_for_the_colleague_who_accepts(transactional_db):
    njeri, by = invited(), User.objects.get(username="admin")
    token = link_of().rstrip("/").rpartition("/")[2]

    with transaction.atomic():
        user = colleagues.find_invited(token)
        assert user
        again = start_and_block(lambda: colleagues.invite(njeri, by=by))
        colleagues.accept_invitation(user, PASSWORD)

    with pytest.raises(colleagues.StaffChangeRefused):
        again.result(SECONDS)
    assert not StaffInvitation.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_invitation_used_twice_at_once_works_once(transactional_db):
    colleagues.add(NEW, "Njeri", [], by=another_superuser())
    path = link_of()

    joined = run_at_once(4, lambda n: is_logged_in(join(path, f"{PASSWORD} {n}")))

    assert sorted(joined) == [False, False, False, True]


def test_invitation_expires_after_a_week_or_with_the_next_one(superuser):
    njeri = invited()
    first = link_of()
    with time_machine.travel(now() + timedelta(days=7, seconds=1)):
        assert Client().get(first).status_code == 404

    assert press_button(superuser, "invite_again", njeri) == ["An invitation is sent."]

    assert Client().get(first).status_code == 404
    assert is_logged_in(join(link_of()))
    assert press_button(superuser, "invite_again", njeri) == [NOT_OFFERED]


def test_invitation_ends_when_a_password_is_set():
    njeri = invited()
    njeri.set_password(PASSWORD)
    njeri.save()

    assert Client().get(link_of()).status_code == 404


def test_opening_an_invitation_changes_nothing():
    invited()
    before = User.objects.filter(email=NEW).values().get()

    Client().get(link_of())

    assert User.objects.filter(email=NEW).values().get() == before


def test_taken_address_of_a_colleague_is_refused(superuser):
    create_user("grace")

    answer = add(superuser, "GRACE@people.test")

    assert "Somebody has this address already" in answer.content.decode()
    assert Notification.objects.count() == 0


@pytest.mark.parametrize("is_new", [True, False])
def test_stranger_who_signs_up_does_not_keep_an_address_from_staff(superuser, is_new):
    typed = {"name": "Njeri", "email": NEW, "password1": PASSWORD}
    Client().post("/accounts/signup/", typed)
    EmailAddress.objects.create(user=create_user("stranger"), email=NEW)

    if is_new:
        add(superuser)
    else:
        njeri = invited("njerri@office.test")
        press_button(superuser, "change_email", njeri, email=NEW, reason="Misspelt")

    Client().post(link_of(), dict.fromkeys(("password1", "password2"), PASSWORD))
    assert User.objects.get(email=NEW).is_staff
    assert EmailAddress.objects.get(email=NEW).verified


@pytest.mark.django_db(transaction=True)
def test_staff_give_nobody_an_address_that_is_confirmed_meanwhile(superuser):
    njeri, second = invited("njerri@office.test"), second_superuser()
    confirm = sign_up(NEW)

    def change() -> list[str]:
        return press_button(second, "change_email", njeri, email=NEW, reason="Misspelt")

    with uncommitted(confirm):
        adding = start_and_block(lambda: add(superuser))
        changing = start_and_block(change)

    assert TAKEN in adding.result(SECONDS).content.decode()
    assert changing.result(SECONDS) == [TAKEN]
    assert not User.objects.get(email=NEW).is_staff


def test_equal_user_names_get_a_number():
    for host in ("office", "elsewhere"):
        invited(f"njeri@{host}.test")

    names = Colleague.objects.filter(email__startswith="njeri")
    assert sorted(names.values_list("username", flat=True)) == ["njeri", "njeri-2"]


def test_list_of_staff_shows_only_staff(superuser, workspace):
    invited()
    give_factor(another_superuser())
    create_member(workspace, "OWNER", "otieno")

    html = read_page(superuser, list_url(Colleague))

    for shown in ("Njeri Kamau", NEW, "Finance", "invited until", "wangari"):
        assert shown in html
    assert "otieno" not in html
    # A URL must not find people: logs and browsers store URLs.
    assert NEW not in read_page(superuser, list_url(Colleague), q="njeri.kamau")


def test_list_of_staff_costs_constant_queries(superuser, django_assert_max_num_queries):
    for number in range(6):
        njeri = invited(f"njeri{number}@office.test")
        njeri.groups.add(role("Reviewer"))

    with django_assert_max_num_queries(9):
        read_page(superuser, list_url(Colleague))


def test_promotion_takes_two_superusers(superuser):
    grace, second = candidate(), second_superuser()
    grace.groups.add(role())
    row = colleague(grace)

    asks = press_button(superuser, "promote", row, reason="Leads operations")
    again = press_button(superuser, "promote", row, reason="Leads operations")

    assert asks == ["It is asked for. Another superuser has to agree within a day."]
    assert again == [NOT_SECOND_PERSON]
    assert not is_superuser(User.objects.get(pk=grace.pk))
    dialog = read_page(second, dialog_url("promote", row))
    assert "admin: Leads operations" in dialog
    assert grace.email in dialog

    agrees = press_button(second, "promote", row, reason="We met")

    assert agrees == ["The colleague is a superuser now."]
    grace = User.objects.get(pk=grace.pk)
    assert grace.is_superuser
    assert {one.name for one in grace.groups.all()} == {"Finance", SUPERUSER}
    assert not StaffRequest.objects.exists()
    events = AuditEvent.objects.filter(object_id=str(grace.pk)).order_by("id")
    assert [(e.action, e.reason) for e in events] == [
        ("user.promotion-asked", "Leads operations"),
        ("user.promoted", "We met"),
    ]


def test_promotion_ends_sessions_which_a_provider_may_have_opened(admin_user):
    grace, otieno, client = candidate(), another_superuser("otieno"), Client()
    log_in_staff(client, grace)

    colleagues.promote(grace, by=admin_user, reason="Leads operations")
    assert is_logged_in(client)
    colleagues.promote(grace, by=otieno, reason="We met")

    assert not is_logged_in(client)


def test_promotion_mails_the_colleague_and_all_superusers(admin_user):
    grace, otieno = candidate(), another_superuser("otieno")
    recipients = {admin_user.email, grace.email, otieno.email}

    colleagues.promote(grace, by=admin_user, reason="Leads operations")
    asked = account_mails()
    with pytest.raises(colleagues.StaffChangeRefused):
        colleagues.promote(grace, by=admin_user, reason="Leads operations")
    assert len(account_mails()) == len(asked)
    colleagues.promote(grace, by=otieno, reason="We met")
    made = account_mails()[len(asked) :]

    assert {letter.recipient for letter in asked} == recipients
    assert {letter.recipient for letter in made} == recipients
    assert len(asked) == len(made) == len(recipients)
    for letter in asked:
        mail = write_email(letter)
        assert mail.subject == "admin asks to make grace a superuser"
        assert "admin asked on " in mail.text
        assert "(grace@people.test) a superuser" in mail.text
        assert "do not agree" in mail.text
        assert "new password" not in mail.text
    for letter in made:
        letter.language = "sw"
        mail = write_email(letter)
        assert mail.subject == "grace sasa ni msimamizi mkuu"
        assert "otieno alikubali tarehe " in mail.text
        assert "Kama hukutarajia hili" in mail.text


def account_mails() -> list[Notification]:
    return list(Notification.objects.filter(kind="ACCOUNT_CHANGED").order_by("id"))


BY_TWO = pytest.mark.parametrize(
    "ask",
    [colleagues.promote, colleagues.remove_factor],
    ids=lambda verb: verb.__name__,
)


@BY_TWO
def test_request_ends_when_the_address_changes_by_hand(admin_user, ask):
    """The request names the address, so a change on or outside the pages ends it."""
    grace, otieno = candidate(), another_superuser("otieno")
    ask(grace, by=admin_user, reason="She called me")
    User.objects.filter(pk=grace.pk).update(email=NEW)

    assert not ask(grace, by=otieno, reason="She called me")

    grace.refresh_from_db()
    assert not is_superuser(grace)
    assert Authenticator.objects.filter(user=grace).exists()


def test_dialog_names_no_request_that_has_ended(superuser, admin_user):
    grace = candidate()
    colleagues.promote(grace, by=admin_user, reason="She called me")
    url = dialog_url("promote", colleague(grace))
    assert "nobody yet" not in read_page(superuser, url)

    User.objects.filter(pk=grace.pk).update(email=NEW)

    assert "nobody yet" in read_page(superuser, url)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("ask", "ends", "message"),
    [
        (colleagues.promote, "by", "You are no longer a superuser."),
        (colleagues.promote, "user", "They are deactivated."),
        (colleagues.promote, "factor", "They have to join"),
        (colleagues.remove_factor, "by", "You are no longer a superuser."),
        (colleagues.remove_factor, "factor", "They have no second factor"),
    ],
)
def test_approval_checks_both_people_again(transactional_db, ask, ends, message):
    ann, otieno = another_superuser("ann"), another_superuser("otieno")
    grace = candidate()
    ask(grace, by=ann, reason="She called me")

    with transaction.atomic():
        colleagues.lock_superusers()
        agrees = start_and_block(lambda: ask(grace, by=otieno, reason="We met"))
        if ends == "by":
            User.objects.filter(username="otieno").update(is_superuser=False)
        elif ends == "user":
            colleagues.deactivate(grace, by=ann)
        else:
            Authenticator.objects.filter(user=grace).delete()
    with pytest.raises(colleagues.StaffChangeRefused, match=message):
        agrees.result()

    grace.refresh_from_db()
    assert not is_superuser(grace)
    assert (ends == "factor") != Authenticator.objects.filter(user=grace).exists()


def test_superuser_alone_makes_no_superuser(superuser):
    """The forms of new colleagues, colleagues and roles refuse it."""
    grace = candidate()

    assert "not one of the available" in add(superuser, NEW, SUPERUSER).content.decode()
    save(superuser, grace, "Finance", SUPERUSER)
    for name, given in ((SUPERUSER, "Everything"), ("Finance", SUPERUSER)):
        superuser.post(change_url(role(name)), {"name": given})
    press_button(superuser, "promote", colleague(grace), reason="Leads operations")

    assert not User.objects.filter(email=NEW).exists()
    assert not is_superuser(User.objects.get(pk=grace.pk))
    assert {role(name).name for name in (SUPERUSER, "Finance")} == {
        SUPERUSER,
        "Finance",
    }


def test_promotion_needs_a_colleague_who_joined_with_a_factor(admin_user):
    for user in (invited(), create_user("wangari", is_staff=True)):
        with pytest.raises(colleagues.StaffChangeRefused, match="have to join and set"):
            colleagues.promote(user, by=admin_user, reason="Leads operations")

    assert not StaffRequest.objects.exists()


def test_reactivated_superuser_loses_the_role(superuser, admin_user):
    wangari = another_superuser()
    give_factor(wangari)
    wangari.groups.set([role(), role(SUPERUSER)])

    colleagues.deactivate(wangari, by=admin_user)
    dialog = read_page(superuser, dialog_url("reactivate", colleague(wangari)))
    assert "all roles but Superuser" in dialog
    colleagues.reactivate(User.objects.get(pk=wangari.pk), by=admin_user)

    wangari = User.objects.get(pk=wangari.pk)
    assert not is_superuser(wangari)
    assert list(wangari.groups.all()) == [role()]


def test_address_stays_while_a_colleague_has_no_factor(superuser):
    """The owner of the new mailbox could set a password, and then a factor."""
    grace, ann = create_user(is_staff=True), another_superuser("ann")
    log_in(Client(), grace.email)

    for user in (grace, ann):
        row = colleague(user)
        press_button(superuser, "change_email", row, email=NEW, reason="Moved")
        assert colleague(user).email == user.email

    html = read_page(superuser, change_url(row))
    assert "so only the operator changes their address." in html
    assert dialog_url("change_email", row) not in html


def test_form_takes_the_superuser_role_away(superuser):
    wangari = another_superuser()

    assert save(superuser, wangari, "Finance").status_code == 302

    assert not is_superuser(User.objects.get(pk=wangari.pk))
    assert audited_actions() == ["user.changed"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["demote", "deactivate"])
def test_stale_form_does_not_restore_an_ended_access(transactional_db, end):
    write_roles()
    ann, wangari = another_superuser("ann"), another_superuser()
    client = Client()
    log_in_staff(client, ann)

    with transaction.atomic():
        colleagues.lock_superusers()
        saving = start_and_block(lambda: save(client, wangari, SUPERUSER))
        if end == "demote":
            colleagues.set_roles(wangari, [role()])
        else:
            colleagues.deactivate(wangari, by=ann)
    saving.result()

    wangari.refresh_from_db()
    if end == "demote":
        assert not is_superuser(wangari)
        assert list(wangari.groups.all()) == [role()]
    else:
        assert not wangari.is_active
        assert not wangari.has_usable_password()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("form", ["change", "reset"])
def test_password_chosen_meanwhile_does_not_restore_an_ended_access(form):
    ann, wangari = another_superuser("ann"), another_superuser()
    client, typed = Client(), dict.fromkeys(("password1", "password2"), PASSWORD)
    if form == "change":
        log_in_staff(client, wangari)
        page, typed = "/accounts/password/change/", typed | {"oldpassword": OLD}
    else:
        client.post("/accounts/password/reset/", {"email": wangari.email})
        link = path_mailed_to(wangari.email, "ACCOUNT_RESET")
        page = client.get(link, follow=True).request["PATH_INFO"]

    with transaction.atomic():
        colleagues.lock_superusers()
        saving = start_and_block(lambda: client.post(page, typed))
        colleagues.deactivate(wangari, by=ann)
    saving.result()

    wangari.refresh_from_db()
    assert not wangari.is_active
    assert not wangari.has_usable_password()


@pytest.mark.django_db(transaction=True)
def test_form_of_a_demoted_superuser_saves_nothing(transactional_db):
    write_roles()
    ann, grace = another_superuser("ann"), create_user(is_staff=True)
    another_superuser()
    client = Client()
    log_in_staff(client, ann)

    with transaction.atomic():
        colleagues.lock_superusers()
        # The form waits for this row in any case.
        User.objects.select_for_update(no_key=True).get(pk=grace.pk)
        saving = start_and_block(lambda: save(client, grace, "Finance"))
        colleagues.set_roles(ann, [role()])
    assert saving.result().status_code == 403

    assert not grace.groups.exists()


def test_superusers_cannot_remove_their_own_access(superuser, admin_user):
    another_superuser()

    answer = save(superuser, admin_user, "Finance")

    assert "You cannot end your own access" in answer.content.decode()
    url = dialog_url("deactivate", colleague(admin_user))
    assert superuser.get(url).status_code == 403
    press_button(superuser, "deactivate", colleague(admin_user), reason="Leaves")
    admin_user.refresh_from_db()
    assert admin_user.is_active
    assert is_superuser(admin_user)


def test_superuser_by_flag_can_be_renamed(superuser, admin_user):
    """`createsuperuser` sets the flag and no role, but the form shows the role."""
    assert save(superuser, admin_user, SUPERUSER, name="Ann").status_code == 302

    admin_user.refresh_from_db()
    assert (admin_user.get_full_name(), admin_user.is_superuser) == ("Ann", True)


@pytest.mark.django_db(transaction=True)
def test_two_superusers_who_deactivate_each_other_leave_one(transactional_db):
    people = [another_superuser("wangari"), another_superuser("otieno")]

    def end(number: int) -> None:
        colleagues.deactivate(people[number], by=people[1 - number])

    answers = run_at_once(2, end)

    assert colleagues.superusers().count() == 1
    assert (
        sum(isinstance(answer, colleagues.StaffChangeRefused) for answer in answers)
        == 1
    )


def test_session_by_a_provider_does_not_come_back_with_the_colleague(admin_user):
    wangari = another_superuser()
    user = create_user("njeri", is_staff=True)
    user.set_unusable_password()
    user.save()
    client = Client()
    client.force_login(user)

    colleagues.deactivate(user, by=wangari)
    colleagues.reactivate(user, by=wangari)

    assert not user.sessions.exists()
    assert not is_logged_in(client)


def test_deactivated_colleague_is_logged_out_and_can_return(superuser):
    wangari = create_user("wangari", is_staff=True)
    client = Client()
    log_in_staff(client, wangari)
    assert client.get(ADMIN).status_code == 200

    press_button(superuser, "deactivate", colleague(wangari))
    assert client.get(ADMIN).status_code == 200
    message = press_button(superuser, "deactivate", colleague(wangari), reason="Leaves")
    assert message == ["The access is ended."]

    assert client.get(ADMIN).status_code == 302
    assert "deactivated" in read_page(superuser, list_url(Colleague))
    message = press_button(
        superuser, "reactivate", colleague(wangari), reason="Is back"
    )
    assert message == ["An invitation is sent."]
    assert client.get(ADMIN).status_code == 302
    again = join(link_of(wangari.email))
    assert not is_logged_in(again)
    assert again.get("/accounts/code/").status_code == 200
    trail = AuditEvent.objects.filter(object_id=str(wangari.pk)).order_by("id")
    assert list(trail.values_list("action", "reason")) == [
        ("user.deactivated", "Leaves"),
        ("user.reactivated", "Is back"),
        ("user.joined", ""),
    ]


def test_deactivation_names_workspaces_without_another_owner(superuser, workspace):
    wangari = create_user("wangari", is_staff=True)
    shared = create_workspace(name="Shared", owner_email="o@o.test")
    for place in (workspace, shared):
        Member.objects.create(workspace=place, user=wangari, role="OWNER")
    create_member(shared, "OWNER")

    (message,) = press_button(
        superuser, "deactivate", colleague(wangari), reason="Leaves"
    )

    assert f"Without an owner now: {workspace.name}. " in message


@pytest.mark.parametrize("is_staff", [True, False])
def test_session_of_a_deactivated_user_stays_ended(workspace, is_staff):
    """A trigger voids the password, so deactivation in SQL counts, too."""
    grace = create_user(is_staff=is_staff)
    Member.objects.create(workspace=workspace, user=grace, role="OWNER")
    client = Client()
    log_in_staff(client, grace)
    assert client.get("/console/", follow=True).status_code == 200
    before = client.session["_auth_user_hash"]

    User.objects.filter(pk=grace.pk).update(is_active=False)
    User.objects.filter(pk=grace.pk).update(is_active=True)

    assert client.get("/console/")["Location"].startswith("/accounts/login/")
    grace.refresh_from_db()
    assert not grace.has_usable_password()
    assert grace.get_session_auth_hash() != before


def test_deactivation_ends_the_invitation(admin_user):
    njeri, path = invited(), link_of()

    colleagues.deactivate(njeri, by=admin_user)
    assert Client().get(path).status_code == 404
    assert not StaffInvitation.objects.exists()
    colleagues.reactivate(njeri, by=admin_user)

    assert is_logged_in(join(link_of()))


def test_permission_over_users_alone_changes_no_staff(admin_user):
    grace = create_user("grace", is_staff=True)
    grace.user_permissions.set(Permission.objects.all())
    client = Client()
    log_in_staff(client, grace)

    assert "Superuser" not in read_page(client, change_url(colleague(grace)))
    assert client.get(admin_url(Colleague, "add")).status_code == 403
    assert save(client, grace, SUPERUSER).status_code == 403
    for button in ("deactivate", "change_email", "promote", "remove_factor"):
        url = dialog_url(button, colleague(admin_user))
        assert client.get(url).status_code == 403


def test_only_superusers_change_staff_among_members_and_roles(workspace, admin_user):
    grace = create_user("grace", is_staff=True)
    grace.user_permissions.set(Permission.objects.all())
    client = Client()
    log_in_staff(client, grace)
    row = Member.objects.create(workspace=workspace, user=admin_user, role="OWNER")
    role = Group.objects.get(name="Superuser")

    for button in ("change_email", "remove_factor"):
        assert client.get(dialog_url(button, row)).status_code == 403
    client.post(change_url(role), {"name": "Another"})
    assert Group.objects.filter(pk=role.pk, name="Superuser").exists()


@pytest.mark.parametrize("is_staff", [True, False])
def test_address_changed_by_staff_has_to_be_confirmed(workspace, superuser, is_staff):
    grace = create_user(is_staff=is_staff)
    row = (
        colleague(grace)
        if is_staff
        else Member.objects.create(workspace=workspace, user=grace, role="OWNER")
    )
    fields = {"email": NEW.upper(), "reason": "Asked for it by telephone"}

    assert press_button(superuser, "change_email", row, **fields) == [
        "The address is changed."
    ]

    address = EmailAddress.objects.get(user=grace)
    assert (address.email, address.verified) == (NEW, False)
    for email in (grace.email, NEW):
        client = Client()
        log_in(client, email)
        assert not is_logged_in(client)
    assert audited_actions() == ["user.email-changed"]


def test_staff_cannot_set_a_taken_or_empty_address(workspace, superuser):
    grace = create_member(workspace, "OWNER", "grace")
    create_user("otieno")

    for email in ("OTIENO@people.test", "", "x"):
        press_button(superuser, "change_email", grace, email=email, reason="She asked")

        grace.user.refresh_from_db()
        assert grace.user.email == "grace@people.test", email


def test_new_address_gets_a_new_invitation(superuser):
    njeri = invited("njerri@office.test")
    path = link_of(njeri.email)

    press_button(superuser, "change_email", njeri, email=NEW, reason="Misspelt")

    assert Client().get(path).status_code == 404
    assert is_logged_in(join(link_of(NEW)))


def test_removal_of_a_members_factor_is_recorded(workspace, superuser):
    grace = create_member(workspace, "OWNER", "grace")
    assert superuser.get(dialog_url("remove_factor", grace)).status_code == 403
    give_factor(grace.user)

    press_button(superuser, "remove_factor", grace, reason="Lost the phone")

    assert not Authenticator.objects.filter(user=grace.user).exists()
    event = AuditEvent.objects.get()
    assert (event.action, event.object_id, event.reason) == (
        "user.factor-removed",
        str(grace.user.pk),
        "Lost the phone",
    )


def test_factor_of_a_colleague_is_removed_by_two_superusers(superuser):
    grace = candidate()
    row = colleague(grace)
    second = second_superuser()

    asks = press_button(superuser, "remove_factor", row, reason="Lost the phone")
    again = press_button(superuser, "remove_factor", row, reason="Lost the phone")

    assert asks == ["It is asked for. Another superuser has to agree within a day."]
    assert again == [NOT_SECOND_PERSON]
    assert Authenticator.objects.filter(user=grace).exists()
    dialog = second.get(dialog_url("remove_factor", row)).content.decode()
    assert "admin: Lost the phone" in dialog

    agrees = press_button(second, "remove_factor", row, reason="She showed her ID")

    assert agrees == ["The second factor is removed."]
    assert not Authenticator.objects.filter(user=grace).exists()
    assert not StaffRequest.objects.exists()
    events = AuditEvent.objects.filter(object_id=str(grace.pk)).order_by("id")
    assert [(e.action, e.reason) for e in events] == [
        ("user.factor-removal-asked", "Lost the phone"),
        ("user.factor-removed", "She showed her ID"),
    ]
    letters = Notification.objects.filter(kind="ACCOUNT_CHANGED").order_by("id")
    assert [(one.recipient, one.context["what"]) for one in letters] == [
        (grace.email, "factor-asked"),
        (grace.email, "factor-off"),
    ]


def test_request_to_remove_a_factor_ends_after_a_day(admin_user):
    grace, otieno = candidate(), another_superuser("otieno")
    colleagues.remove_factor(grace, by=admin_user, reason="Lost the phone")
    StaffRequest.objects.update(created_at=now() - timedelta(days=1, seconds=1))

    assert not colleagues.remove_factor(grace, by=otieno, reason="Lost the phone")

    assert Authenticator.objects.filter(user=grace).exists()
    assert StaffRequest.objects.get().requested_by == "otieno"


def test_request_of_a_deactivated_superuser_ends(admin_user):
    grace, otieno = candidate(), another_superuser("otieno")
    colleagues.remove_factor(grace, by=admin_user, reason="Lost the phone")
    User.objects.filter(pk=admin_user.pk).update(is_active=False)

    assert not colleagues.remove_factor(grace, by=otieno, reason="Lost the phone")

    assert Authenticator.objects.filter(user=grace).exists()


def test_factor_of_staff_is_not_removed_among_the_members(workspace, superuser):
    grace = candidate()
    row = Member.objects.create(workspace=workspace, user=grace, role="OWNER")

    assert superuser.get(dialog_url("remove_factor", row)).status_code == 403
