"""Calls without an answer that may be charged are made again as often as is allowed."""

from typing import Any

import pytest

from tests.checks.engine import only_result, work_until_done
from tests.fakes.metropol import PRIVATE, PUBLIC, FakeMetropol
from tests.fakes.metropol import metropol as metropol
from tests.sources.two import orders
from verification.providers import registry
from verification.settings.providers import Limit
from verification.sources.models import Call

CHECK = "CRB_SCORE"


@pytest.fixture
def routed(metropol: FakeMetropol, settings):
    """Metropol alone is asked."""
    metropol.anybody = (700, "003")

    def routed(**limit: int) -> None:
        settings.SOURCE_LIMITS = {"metropol": Limit(**limit)}
        options = {
            "public_key": PUBLIC,
            "private_key": PRIVATE,
            "url": f"{metropol.url}/v2_1",
            "opened": [metropol.host],
        }
        path = "verification.providers.metropol.Metropol"
        registry.configure({"metropol": (path, options)}, {CHECK: {"KE": ["metropol"]}})

    yield routed
    registry.configure({}, {})


def ordered(api: Any) -> None:
    (order,) = orders(1)
    api.create(order | {"checksRequested": [CHECK]})
    work_until_done(api)


@pytest.mark.parametrize(("limit", "asked"), [({}, 2), ({"paid_again": 0}, 1)])
def test_paid_call_is_repeated_within_its_limit(
    paying_api, metropol, routed, limit, asked, monkeypatch
):
    monkeypatch.setattr("verification.providers.metropol.SECONDS", 0.1)
    routed(**limit)
    metropol.faults.slow = 0.4

    ordered(paying_api)

    assert len(metropol.requests) == asked
    assert Call.objects.filter(may_be_charged=True).count() == asked
    result = only_result()
    assert (result.status, result.failure_code) == ("FAILED", "SOURCE_UNAVAILABLE")
    assert result.failure_retryable


@pytest.mark.parametrize("fault", ["half", "html"])
def test_unreadable_answer_counts_as_a_paid_call(paying_api, metropol, routed, fault):
    routed()
    setattr(metropol.faults, fault, True)

    ordered(paying_api)

    assert Call.objects.filter(may_be_charged=True).count() == 2
    assert only_result().status == "FAILED"


def test_retry_by_the_client_makes_paid_calls_again(paying_api, metropol, routed):
    routed(paid_again=0)
    metropol.faults.html = True
    ordered(paying_api)
    metropol.faults.html = False

    paying_api.post(f"/reports/{only_result().report_id}/retry")
    work_until_done(paying_api)

    assert only_result().status == "COMPLETED"


def test_failed_source_is_called_by_the_retry_policy(paying_api, metropol, routed):
    routed()
    metropol.faults.status = 503

    ordered(paying_api)

    assert len(metropol.requests) == 5
    assert not Call.objects.filter(may_be_charged=True).exists()
