"""Health of the service: `/healthz` and `/readyz`."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from verification.db import startup
from verification.db.standbys import writes_waiting_seconds
from verification.jobs import queue
from verification.payments.alerts import recent_failed_openings
from verification.payments.models import REFUND_REVIEW_FLAGS, Checkout
from verification.privacy.models import SubjectRequest

UNKNOWN_WITHOUT_DATABASE = "not known without the database"
# No commit succeeds after a synchronous standby is lost: a healthy one takes
# milliseconds.
WRITES_WAIT_SECONDS = 5
READINESS_PARTS = ("database", "migrations", "jobs")


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok", "version": settings.VERSION})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return figures of the service, or 503 with the part that is not ready."""
    parts, age = read_readiness()
    in_doubt = refunds = unopened = overdue = None
    # The tables exist once the migrations are applied.
    if parts["migrations"] == "ok":
        try:
            doubted = Checkout.objects.exclude(review_flags=[])
            in_doubt, refunds = doubted.aggregate(
                all=Count("pk"),
                refunds=Count("pk", Q(review_flags__overlap=REFUND_REVIEW_FLAGS)),
            ).values()
            unopened = sum(recent_failed_openings().values())
            # A figure for operators: the service is ready all the same.
            overdue = SubjectRequest.objects.overdue().count()
        except DatabaseError as e:
            parts = _away(e)
    is_ready = set(parts.values()) == {"ok"}
    return JsonResponse(
        {
            "status": "ready" if is_ready else "not ready",
            **parts,
            "jobHeartbeatAgeSeconds": None if age is None else round(age, 1),
            "paymentsInDoubt": in_doubt,
            "refundsWaiting": refunds,
            "checkoutsNotOpened": unopened,
            "subjectRequestsOverdue": overdue,
        },
        status=200 if is_ready else 503,
    )


def read_readiness() -> tuple[dict[str, str], float | None]:
    """Return each of READINESS_PARTS, "ok" or why not, and the heartbeat's age."""
    try:
        parts = {"database": _writes(), "migrations": _migrations()}
        age = queue.heartbeat_age_seconds() if parts["migrations"] == "ok" else None
    except DatabaseError as e:
        return _away(e), None
    return parts | {"jobs": _jobs(age)}, age


def _away(e: DatabaseError) -> dict[str, str]:
    others = dict.fromkeys(READINESS_PARTS, UNKNOWN_WITHOUT_DATABASE)
    if isinstance(e, startup.RightsMissing):
        return others | {"database": "refuses the role"}
    refuses = isinstance(e, startup.KeysRefused)
    return others | {"database": "refuses the keys" if refuses else "away"}


def _writes() -> str:
    return "ok" if writes_waiting_seconds() <= WRITES_WAIT_SECONDS else "writes wait"


def _migrations() -> str:
    try:
        _require_applied_migrations()
    except _MigrationsMissing as unapplied:
        return f"{unapplied.args[0]} not applied"
    # A query in any case, to notice a lost database.
    needed = startup.find_needed_version()
    return f"version {needed} needed" if needed else "ok"


class _MigrationsMissing(Exception):
    pass


@cache
def _require_applied_migrations() -> None:
    """Raise an error until all migrations are applied.

    They stay applied while this process lives: new ones come with new code.

    An exception is not cached.
    """
    if unapplied := startup.count_unapplied_migrations():
        raise _MigrationsMissing(unapplied)


def _jobs(age: float | None) -> str:
    if age is None:
        return "no heartbeat"
    return "ok" if age <= queue.WORKING_SECONDS else "heartbeat too old"
