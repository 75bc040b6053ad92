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


def set_terms(api: Api, **changes: object) -> None:
    Account.objects.filter(pk=api.account.pk).update(**changes)


def run_job_and_count() -> int:
    """Run the job again. Returns the number of messages so far."""
    notify_low_balances()
    return Notification.objects.filter(kind="LOW_BALANCE").count()


@pytest.fixture
def low_api(live_api: Api) -> Api:
    """Return a client with 1,250 less 300 for one report."""
    top_up(live_api, 1250)
    live_api.create(company())
    return live_api


def test_owner_gets_balance_and_threshold(low_api: Api):
    notify_low_balances()
    send_due_notifications()

    (message,) = mail.outbox
    assert message.to == ["owner@acacia.test"]
    english, kiswahili = message.subject.split(" / ")
    assert english == "Your balance is low: KES 950.00 left"
    assert kiswahili == "Salio lako ni dogo: KES 950.00"
    assert "The balance of Acacia Lenders is KES 950.00. We write" in message.body
    assert "no more than KES 1,000.00" in message.body
    assert str(low_api.workspace.pk) in message.body


def test_owner_gets_a_link_to_the_top_up_page(low_api: Api, settings):
    settings.PAYMENT_PROVIDER = "paystack"
    notify_low_balances()
    send_due_notifications()
    assert top_up_url(low_api.account.pk) in mail.outbox[0].body


def test_owner_is_notified_once(low_api: Api):
    assert run_job_and_count() == 1
    low_api.create(company())

    assert run_job_and_count() == 1


def test_owner_is_notified_again_after_a_top_up(low_api: Api):
    assert run_job_and_count() == 1
    top_up(low_api, 100)
    assert run_job_and_count() == 1
    assert low_api.account.low_balance_notified_at is None

    low_api.create(company())

    assert run_job_and_count() == 2


def test_balance_at_the_threshold_is_low(live_api: Api):
    top_up(live_api, 1300)
    live_api.create(company())

    assert run_job_and_count() == 1


def test_more_than_the_threshold_is_not_low(live_api: Api):
    top_up(live_api, 1301)
    live_api.create(company())

    assert run_job_and_count() == 0


def test_credit_can_be_spent_too(low_api: Api):
    set_terms(low_api, credit_limit=51)
    assert run_job_and_count() == 0

    low_api.create(company())
    notify_low_balances()
    send_due_notifications()

    (message,) = mail.outbox
    assert "KES 650.00. With your credit of KES 51.00" in message.body
    assert "you can still spend KES 701.00" in message.body


@pytest.mark.parametrize("changes", [{"low_balance_at": None}, {"billing": "POSTPAID"}])
def test_owner_without_threshold_or_prepayment_gets_no_mail(low_api: Api, changes):
    set_terms(low_api, **changes)

    assert run_job_and_count() == 0


def test_owner_is_notified_before_the_ceiling_is_reached(live_api: Api):
    set_terms(live_api, billing="POSTPAID", ceiling=1300)
    live_api.create(company())

    assert run_job_and_count() == 1
    set_terms(live_api, ceiling=1301)
    assert run_job_and_count() == 1
    assert live_api.account.low_balance_notified_at is None


def test_play_money_does_not_run_out(api: Api):
    api.create(company())

    assert run_job_and_count() == 0


def test_owner_who_has_bought_nothing_gets_no_mail(live_api: Api):
    assert run_job_and_count() == 0
    top_up(live_api, 10)

    assert run_job_and_count() == 0


def test_suspended_workspace_is_notified_after_it_resumes(low_api: Api):
    low_api.workspace.suspend("Unpaid")
    assert run_job_and_count() == 0

    low_api.workspace.resume()

    assert run_job_and_count() == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_jobs_notify_once(low_api: Api):
    assert run_at_once(8, lambda _: notify_low_balances()) == [None] * 8

    assert Notification.objects.filter(kind="LOW_BALANCE").count() == 1


def test_owner_is_notified_after_a_failed_run(low_api: Api, monkeypatch):
    def broken(*outgoing: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("workspaces.ledger.notify_members", broken)
        with pytest.raises(RuntimeError):
            notify_low_balances()

    assert run_job_and_count() == 1


def test_threshold_is_not_negative(live_api: Api):
    with pytest.raises(IntegrityError, match="low_balance_is_not_negative"):
        set_terms(live_api, low_balance_at=-1)


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
