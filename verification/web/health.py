"""Health of the service: `/livez`, `/healthz` and `/readyz`."""

from django.conf import settings
from django.db import DatabaseError, OperationalError
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from psycopg.errors import InsufficientPrivilege

from verification.db import startup
from verification.db.base import is_disk_full, run_sql
from verification.db.standbys import writes_waiting_seconds
from verification.jobs import queue
from verification.payments.alerts import recent_failed_openings
from verification.payments.models import REFUND_REVIEW_FLAGS, Checkout
from verification.privacy.models import SubjectRequest
from verification.web import gateway

UNKNOWN_WITHOUT_DATABASE = "not known without the database"
# No commit succeeds after a synchronous standby is lost: a healthy one takes
# milliseconds.
WRITES_WAIT_SECONDS = 5
READINESS_PARTS = ("database", "migrations", "jobs")
# Applied migrations stay while this process lives: new ones come with new code.
_is_migrated = False
# Writes a temporary file of half a megabyte on the disk of the database, which fails if
# that is full. Reading goes on then, and so do updates that find room in their page.
WRITE_FILE = """
SELECT count(*), current_setting('transaction_read_only') = 'on'
FROM set_config('work_mem', '64kB', true) AS memory,
    generate_series(1, 20000 + 0 * length(memory))
"""


@never_cache
@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """Return 200 while the process answers: nothing else is mended by a restart."""
    return JsonResponse({"status": "ok", "version": settings.VERSION})


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Return 503 if a proxy should send requests to other web servers.

    This one drains, or started with keys that the database refuses.
    """
    status = "stopping" if gateway.stopping.is_set() else "ok"
    if gateway.keys_refused.is_set():
        status = "refuses the keys"
    return JsonResponse(
        {"status": status, "version": settings.VERSION},
        status=200 if status == "ok" else 503,
    )


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return figures of the service, or 503 with the part that is not ready."""
    parts, age = read_readiness(request)
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


def is_late_watcher(request: HttpRequest) -> bool:
    """Return whether a monitor's request has waited too long for the database."""
    is_late = request.META.get(gateway.REFUSAL) == "overloaded"
    return is_late and request.path_info in gateway.WATCHER_PATHS


def read_readiness(request: HttpRequest) -> tuple[dict[str, str], float | None]:
    """Return each of READINESS_PARTS, "ok" or why not, and the heartbeat's age."""
    if is_late_watcher(request):
        return _unknown("does not answer"), None
    try:
        parts = {"database": _writes(), "migrations": _migrations()}
        age = queue.heartbeat_age_seconds() if parts["migrations"] == "ok" else None
    except DatabaseError as e:
        return _away(e), None
    return parts | {"jobs": _jobs(age)}, age


def _away(e: DatabaseError) -> dict[str, str]:
    # A session that is older than the loss of a right meets it at a table.
    if isinstance(e, startup.RightsMissing) or isinstance(
        e.__cause__, InsufficientPrivilege
    ):
        return _unknown("refuses the role")
    if is_disk_full(e):
        return _unknown("disk full")
    refuses = isinstance(e, startup.KeysRefused)
    return _unknown("refuses the keys" if refuses else "away")


def _unknown(database: str) -> dict[str, str]:
    others = dict.fromkeys(READINESS_PARTS, UNKNOWN_WITHOUT_DATABASE)
    return others | {"database": database}


def _writes() -> str:
    if writes_waiting_seconds() > WRITES_WAIT_SECONDS:
        return "writes wait"
    try:
        [(_, is_read_only)] = run_sql(WRITE_FILE)
    except OperationalError as e:
        if is_disk_full(e):
            return "disk full"
        raise
    # As a standby is, which a former primary server becomes
    return "read only" if is_read_only else "ok"


def _migrations() -> str:
    global _is_migrated
    if not _is_migrated and (unapplied := startup.count_unapplied_migrations()):
        return f"{unapplied} not applied"
    _is_migrated = True
    # A query in any case, to notice a lost database.
    needed = startup.find_needed_version()
    return f"version {needed} needed" if needed else "ok"


def _jobs(age: float | None) -> str:
    if age is None:
        return "no heartbeat"
    return "ok" if age <= queue.WORKING_SECONDS else "heartbeat too old"
