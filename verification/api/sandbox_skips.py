"""Skip ahead in the sandbox over HTTP, with test keys only."""

from typing import Annotated, Any, ClassVar, Self
from uuid import UUID

from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from monitoring.models import Run
from verification.api.operations import operation
from verification.api.sandbox import SandboxViewSet
from verification.sandbox.skips import DELIVERIES, REPORTS, RULES, Due, Kind, MomentName
from verification.values.shapes import Shape, Timestamp, enumeration
from workspaces.models import Scope


class Moment(Shape):
    """A due moment of an object."""

    name: Annotated[MomentName, enumeration("SandboxMoment", list(MomentName))]
    due_at: Timestamp
    """When it is due, or was before a skip."""
    effect: str
    """What happens then, in words. After a skip, what has happened."""

    @classmethod
    def of(cls, due: Due[Any] | None) -> Self | None:
        if due is None:
            return None
        return cls(name=due.moment.name, due_at=due.at, effect=due.moment.effect)


class NextMoment(Shape):
    """The next due moment of an object."""

    next: Moment | None
    """null if nothing is due, or a job is doing it."""


class Skipped(Shape):
    """The moment that the skip brought about, and the next one."""

    done: Moment | None
    next: Moment | None
    report_id: UUID | None
    """The report of the run that the skip launched. null if it paused the rule instead,
    and for objects other than rules."""


def _next(name: str, summary: str, scope: Scope) -> Any:
    """Declare the operation that shows the next due moment of an object."""

    @action(detail=True, methods=["get"], url_path="next")
    @operation(name, summary, scope=scope, answer=NextMoment)
    def next_moment(view: _SkipViewSet, request: Request, **ids: UUID) -> NextMoment:
        """See what is due next, and when. `skip` does it now."""
        due = view.kind.next_moment(view.client, ids[view.lookup_url_kwarg])
        return NextMoment(next=Moment.of(due))

    return next_moment


def _skip(name: str, summary: str, scope: Scope, path: str, *problems: str) -> Any:
    """Declare the operation that does the next due moment of an object now."""

    @action(detail=True, methods=["post"])
    @operation(
        name,
        summary,
        scope=scope,
        idempotent_as=f"POST /sandbox/{path}/skip",
        answer=Skipped,
        problems=("nothing-due", *problems),
    )
    def skip(view: _SkipViewSet, request: Request, **ids: UUID) -> Response:
        """Do now what is due next, and nothing else.

        A skip has the effects that the due time would have had, with the same events
        and messages. Checks, erasures and deliveries start at once and end within
        seconds: wait for their end before the next skip. The run of a rule keeps its
        planned time; its report has the present time.
        """
        return view.run_once(lambda: view.skip_ahead(ids[view.lookup_url_kwarg]))

    return skip


class _SkipViewSet(SandboxViewSet):
    """The next due moments of objects of one kind."""

    kind: ClassVar[Kind[Any]]
    lookup_url_kwarg: str

    def skip_ahead(self, pk: UUID) -> Skipped:
        done, following = self.kind.skip(self.client, pk)
        return Skipped(
            done=Moment.of(done),
            next=Moment.of(following),
            report_id=self.launched_report(pk, done),
        )

    def launched_report(self, pk: UUID, done: Due[Any]) -> UUID | None:
        return None


class ReportSkipViewSet(_SkipViewSet):
    """The next due moment of a report."""

    kind = REPORTS
    lookup_url_kwarg = "reportId"
    lookup_description = "The id of the report."
    next_moment = _next("getNextForReport", "See what is due next", Scope.REPORTS_READ)
    skip = _skip("skipReport", "Skip ahead", Scope.REPORTS_CREATE, "reports/{reportId}")


class RuleSkipViewSet(_SkipViewSet):
    """The next run of a monitoring rule."""

    kind = RULES
    lookup_url_kwarg = "monitoringId"
    lookup_description = "The id of the rule."
    next_moment = _next("getNextForRule", "See the next run", Scope.MONITORING_READ)
    skip = _skip(
        "skipRule",
        "Skip to the next run",
        Scope.MONITORING_WRITE,
        "monitoring/{monitoringId}",
        # The balance is spent after the rule was found able to pay.
        "insufficient-balance",
    )

    def launched_report(self, pk: UUID, done: Due[Any]) -> UUID | None:
        """Return the report of the newest run, if it is the run of this time."""
        newest = Run.objects.filter(rule=pk).order_by("-number").first()
        return newest.report_id if newest and newest.due_at == done.at else None


class DeliverySkipViewSet(_SkipViewSet):
    """The next attempt at a delivery."""

    kind = DELIVERIES
    lookup_url_kwarg = "deliveryId"
    lookup_description = "The id of the delivery: its event's id."
    next_moment = _next(
        "getNextForDelivery", "See the next attempt", Scope.WEBHOOKS_MANAGE
    )
    skip = _skip(
        "skipDelivery",
        "Skip to the next attempt",
        Scope.WEBHOOKS_MANAGE,
        "deliveries/{deliveryId}",
    )
