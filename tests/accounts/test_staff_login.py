from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import generate_totp_secret
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils.timezone import now

from tests.accounts.test_devices import mails_about
from tests.accounts.visitor import (
    ADMIN,
    RESET,
    code_of,
    create_user,
    is_logged_in,
    log_in,
    move_login_back,
    path_mailed_to,
)
from tests.world import staff as world_staff
from tests.world.members import PASSWORD
from tests.world.staff import superuser as superuser
from verification.accounts.adapters import SecondFactorAdapter
from verification.accounts.forms import use_code
from verification.accounts.models import WrongCodes
from verification.backoffice.models import AuditEvent

EMAIL = "grace@people.test"
NEW_PASSWORD = "eleven calm yellow otters"


@pytest.fixture
def staff(db):
    return create_user(is_staff=True, is_superuser=True)


def log_in_with_password(client: Client) -> Client:
    log_in(client, EMAIL)
    return client


def test_admin_redirects_visitors_to_the_login(db):
    answer = Client().get("/admin/reports/report/")

    assert answer["Location"] == "/accounts/login/?next=%2Fadmin%2Freports%2Freport%2F"


@pytest.mark.parametrize("method", ["get", "post"])
def test_login_of_the_admin_redirects_to_ours(db, method):
    answer = getattr(Client(), method)("/admin/login/?next=//evil.test/")

    assert answer["Location"] == "/accounts/login/?next=%2Fadmin%2F"


def test_admin_opens_from_its_networks_alone(superuser, settings):
    settings.ADMIN_NETWORKS = ["192.0.2.0/24"]

    assert superuser.get("/admin/", REMOTE_ADDR="192.0.2.7").status_code == 200
    for path in ("/admin/", "/admin/login/", "/admin/reports/report/"):
        refused = superuser.get(path, REMOTE_ADDR="198.51.100.7")
        assert refused.status_code == 403
        assert "198.51.100.7" in refused.content.decode()
        assert "192.0.2" not in refused.content.decode()
    assert superuser.get("/livez", REMOTE_ADDR="198.51.100.7").status_code == 200


def test_members_do_not_find_the_admin(db):
    create_user()

    assert log_in_with_password(Client()).get(ADMIN).status_code == 404


def test_staff_need_a_second_factor(staff):
    client = log_in_with_password(Client())

    assert client.get(ADMIN)["Location"].startswith("/accounts/totp/activate/")


def test_login_asks_for_a_code_when_a_factor_is_set_up(staff):
    secret = world_staff.give_factor(staff)
    client = log_in_with_password(Client())
    assert not is_logged_in(client)

    client.post("/accounts/code/", {"code": "000000"})
    assert not is_logged_in(client)

    client.post("/accounts/code/", {"code": code_of(secret)})
    assert client.get(ADMIN).status_code == 200


def test_code_works_once_in_all_processes(staff):
    code = code_of(world_staff.give_factor(staff))
    clients = [log_in_with_password(Client()) for _ in range(2)]
    for client in clients:
        # Clear allauth's cache, which each process has for itself.
        cache.clear()
        client.post("/accounts/code/", {"code": code})

    assert [is_logged_in(client) for client in clients] == [True, False]


@pytest.mark.django_db(transaction=True)
def test_used_code_works_on_no_other_form(time_machine):
    """The set-up, the login and a confirmation each need another code."""
    time_machine.move_to(datetime(2026, 11, 20, 12, 0, 31, tzinfo=UTC), tick=False)
    create_user(is_staff=True)
    client = log_in_with_password(Client())
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    secret = client.get("/accounts/totp/activate/").context["form"].secret
    setting_up = {"code": code_of(secret)}
    assert client.post("/accounts/totp/activate/", setting_up).status_code == 302

    def enters(code: str) -> bool:
        cache.clear()
        another = log_in_with_password(Client())
        another.post("/accounts/code/", {"code": code})
        return is_logged_in(another)

    def confirms(code: str) -> bool:
        cache.clear()
        answer = client.post("/accounts/code/again/", {"code": code, "next": "/"})
        return answer.status_code == 302

    used = code_of(secret)
    spaced = f"{used[:3]} {used[3:]}"
    assert [enters(used), confirms(used), enters(spaced)] == [False, False, False]
    time_machine.shift(timedelta(seconds=30))
    assert [confirms(code_of(secret)), enters(code_of(secret))] == [True, False]
    time_machine.shift(timedelta(minutes=1))
    assert [enters(code_of(secret)), confirms(code_of(secret))] == [True, False]


def test_code_sent_twice_at_once_works_once(db):
    """The code's period ends between the two requests."""
    secret = generate_totp_secret()
    edge = datetime(2026, 11, 20, 12, 0, 59, 999_000, tzinfo=UTC)
    with time_machine.travel(edge, tick=False):
        code = code_of(secret)
        use_code(secret, code)
    later = time_machine.travel(edge + timedelta(seconds=1), tick=False)
    with later, pytest.raises(ValidationError):
        use_code(secret, code)


def test_login_of_staff_is_recorded(staff):
    log_in_with_password(Client())

    event = AuditEvent.objects.get()
    assert (event.action, event.actor) == ("user.logged-in", "grace")


def test_older_session_needs_a_code_after_the_set_up(staff):
    client = log_in_with_password(Client())
    secret = world_staff.give_factor(staff)

    assert client.get(ADMIN)["Location"].startswith("/accounts/code/again/")

    answer = client.post(
        "/accounts/code/again/", {"code": code_of(secret), "next": ADMIN}
    )
    assert answer["Location"] == ADMIN
    assert client.get(ADMIN).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_new_factor_opens_the_admin_after_recovery_codes(staff):
    client = log_in_with_password(Client())
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    page = client.get("/accounts/totp/activate/")
    assert "<svg" in page.content.decode()

    form = {"code": code_of(page.context["form"].secret)}
    answer = client.post("/accounts/totp/activate/", form)

    again = client.post("/accounts/totp/activate/", form)
    assert again["Location"] == answer["Location"]
    codes = client.get(answer["Location"]).context["unused_codes"]
    assert len(codes) == 10
    assert client.get(ADMIN).status_code == 200


def test_recovery_code_works_once(staff):
    secret = world_staff.give_factor(staff)
    client = Client()
    client.force_login(staff)
    client.post("/accounts/code/again/", {"code": code_of(secret)})
    client.post("/accounts/recovery-codes/generate/")
    codes = client.get("/accounts/recovery-codes/").context["unused_codes"]

    for number, opens in ((1, True), (2, False)):
        again = log_in_with_password(Client())
        again.post("/accounts/code/", {"code": codes[0]})
        assert is_logged_in(again) is opens, number


def guess_codes(client: Client, times: int) -> None:
    for number in range(times):
        client.post("/accounts/code/", {"code": f"00000{number}"})


def test_codes_wait_longer_after_each_wrong_one(staff, time_machine):
    time_machine.move_to(now(), tick=False)
    right = code_of(world_staff.give_factor(staff))
    client = log_in_with_password(Client())
    guess_codes(client, 5)

    for count, wait in ((5, 1), (6, 2), (10, 32), (11, 60), (99, 60)):
        for minutes, code, told in (
            (wait - 1, right, "Try again in 1 min"),
            (wait, "000000", "is not right"),
        ):
            last_at = now() - timedelta(minutes=minutes)
            WrongCodes.objects.update(count=count, last_at=last_at)
            answer = client.post("/accounts/code/", {"code": code})
            assert told in answer.content.decode(), (count, minutes)
            assert not is_logged_in(client)
        assert WrongCodes.objects.get().count == count + 1
    # They are one series.
    assert len(mails_about("codes-refused")) == 1


def test_wrong_codes_do_not_slow_the_owners_browser(staff, time_machine):
    time_machine.move_to(now(), tick=False)
    secret = world_staff.give_factor(staff)
    home = log_in_with_password(Client())
    home.post("/accounts/code/", {"code": code_of(secret)})
    home.post("/accounts/logout/")
    guess_codes(log_in_with_password(Client(REMOTE_ADDR="203.0.113.9")), 1)
    WrongCodes.objects.update(count=6)
    time_machine.shift(timedelta(seconds=30))

    log_in_with_password(home).post("/accounts/code/", {"code": code_of(secret)})

    assert is_logged_in(home)


def test_new_password_ends_the_wait_for_a_code(staff):
    secret = world_staff.give_factor(staff)
    guess_codes(log_in_with_password(Client()), 1)
    WrongCodes.objects.update(count=5)
    client = Client()
    client.post(RESET, {"email": EMAIL})
    form = client.get(path_mailed_to(EMAIL, "ACCOUNT_RESET"))["Location"]
    client.post(form, dict.fromkeys(("password1", "password2"), NEW_PASSWORD))
    another = Client()
    log_in(another, EMAIL, NEW_PASSWORD)
    another.post("/accounts/code/", {"code": code_of(secret)})

    assert is_logged_in(another)


def test_removed_factor_opens_nothing(staff):
    client = Client()
    world_staff.log_in(client, staff)
    assert client.get(ADMIN).status_code == 200

    staff.authenticator_set.all().delete()

    assert client.get(ADMIN).status_code == 302


@pytest.mark.parametrize(("minutes", "lives"), [(14, True), (16, False)])
def test_idle_session_of_staff_ends(staff, minutes, lives):
    client = Client()
    world_staff.log_in(client, staff)

    with time_machine.travel(now() + timedelta(minutes=minutes), tick=False):
        assert (client.get(ADMIN).status_code == 200) is lives


def test_session_of_staff_ends_after_eight_hours(staff):
    client = Client()
    world_staff.log_in(client, staff)
    move_login_back(client, timedelta(hours=7, minutes=55))

    # It is in use all the time.
    for minutes, status in ((2, 200), (4, 200), (6, 302)):
        with time_machine.travel(now() + timedelta(minutes=minutes), tick=False):
            assert client.get(ADMIN).status_code == status


def test_admin_pages_are_not_cached(superuser):
    assert superuser.get("/admin/")["Cache-Control"] == "no-store"


def test_secrets_of_factors_are_sealed(staff):
    secret = world_staff.give_factor(staff)
    row = Authenticator.objects.get()

    assert secret not in repr(row.data)
    assert SecondFactorAdapter().decrypt(row.data["secret"]) == secret
