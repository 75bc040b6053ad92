from decimal import Decimal

import pytest
from django.core import mail
from django.db import IntegrityError

from tests.world.clients import Api, company
from tests.world.threads import run_at_once
from verification.links import top_up_url
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Notification
from workspaces import ledger
from workspaces.ledger import notify_low_balances
from workspaces.models import Account

pytestmark = pytest.mark.django_db


def top_up(api: Api, amount: int) -> None:
    ledger.top_up(api.workspace, "production", Decimal(amount), actor="t", note="")


def terms(api: Api, **changes: object) -> None:
    Account.objects.filter(pk=api.account.pk).update(**changes)


def told() -> int:
    """How often somebody was told, after the job ran once more."""
    notify_low_balances()
    return Notification.objects.filter(kind="LOW_BALANCE").count()


@pytest.fixture
def low_api(live_api: Api) -> Api:
    """Topped up by 1,250, of which one company took 300."""
    top_up(live_api, 1250)
    live_api.create(company())
    return live_api


def test_the_owner_is_told_what_is_left_and_where_it_is_little(low_api: Api):
    notify_low_balances()
    send_due_notifications()

    (message,) = mail.outbox
    assert message.to == ["owner@acacia.test"]
    assert message.subject == "Your balance is low: KES 950.00 left"
    assert "the balance of Acacia Lenders is KES 950.00. We write" in message.body
    assert "no more than KES 1,000.00" in message.body
    assert str(low_api.workspace.pk) in message.body


def test_the_owner_is_led_to_where_money_is_taken(low_api: Api, settings):
    settings.PAYMENT_PROVIDER = "paystack"
    notify_low_balances()
    send_due_notifications()
    assert top_up_url(low_api.account.pk) in mail.outbox[0].body


def test_the_owner_is_told_once(low_api: Api):
    assert told() == 1
    low_api.create(company())

    assert told() == 1


def test_the_owner_is_told_again_when_it_was_topped_up_meanwhile(low_api: Api):
    assert told() == 1
    top_up(low_api, 100)
    assert told() == 1
    assert low_api.account.low_balance_notified_at is None

    low_api.create(company())

    assert told() == 2


def test_what_is_exactly_at_the_threshold_is_low(live_api: Api):
    top_up(live_api, 1300)
    live_api.create(company())

    assert told() == 1


def test_more_than_the_threshold_is_not_low(live_api: Api):
    top_up(live_api, 1301)
    live_api.create(company())

    assert told() == 0


def test_credit_can_be_spent_too(low_api: Api):
    terms(low_api, credit_limit=51)
    assert told() == 0

    low_api.create(company())
    notify_low_balances()
    send_due_notifications()

    (message,) = mail.outbox
    assert "KES 650.00. With your credit of KES 51.00" in message.body
    assert "you can still spend KES 701.00" in message.body


@pytest.mark.parametrize("changes", [{"low_balance_at": None}, {"billing": "POSTPAID"}])
def test_who_does_not_want_it_or_pays_later_is_not_told(low_api: Api, changes):
    terms(low_api, **changes)

    assert told() == 0


def test_owner_is_told_before_the_ceiling_is_reached(live_api: Api):
    terms(live_api, billing="POSTPAID", ceiling=1300)
    live_api.create(company())

    assert told() == 1
    terms(live_api, ceiling=1301)
    assert told() == 1
    assert live_api.account.low_balance_notified_at is None


def test_play_money_does_not_run_out(api: Api):
    api.create(company())

    assert told() == 0


def test_who_has_bought_nothing_is_not_told(live_api: Api):
    assert told() == 0
    top_up(live_api, 10)

    assert told() == 0


def test_a_suspended_workspace_is_told_when_it_works_again(low_api: Api):
    low_api.workspace.suspend("Unpaid")
    assert told() == 0

    low_api.workspace.resume()

    assert told() == 1


@pytest.mark.django_db(transaction=True)
def test_jobs_at_once_tell_once(low_api: Api):
    assert run_at_once(8, lambda _: notify_low_balances()) == [None] * 8

    assert Notification.objects.filter(kind="LOW_BALANCE").count() == 1


def test_whom_nobody_could_write_to_yet_is_not_told(low_api: Api, monkeypatch):
    def broken(*wanted: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("workspaces.ledger.notify", broken)
        with pytest.raises(RuntimeError):
            notify_low_balances()

    assert told() == 1


def test_a_threshold_is_not_negative(live_api: Api):
    with pytest.raises(IntegrityError, match="low_balance_is_not_negative"):
        terms(live_api, low_balance_at=-1)


def test_staff_set_the_threshold(live_api: Api, admin_client):
    page = f"/admin/workspaces/account/{live_api.account.pk}/change/"
    posted = {"billing": "PREPAID", "credit_limit": "0"}

    assert (
        admin_client.post(page, {**posted, "low_balance_at": "50"}).status_code == 302
    )
    assert live_api.account.low_balance_at == 50
    admin_client.post(page, {**posted, "low_balance_at": ""})
    assert live_api.account.low_balance_at is None
    assert (
        admin_client.post(page, {**posted, "low_balance_at": "-1"}).status_code == 200
    )
