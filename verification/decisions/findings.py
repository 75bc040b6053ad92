"""The findings of reports, as decisions, policies and the queue see them."""

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from verification.checks.models import CheckResult, ResultStatus
from verification.decisions.models import DECIDABLE, AdverseNotice, Decision
from verification.decisions.rules import (
    CheckFacts,
    Facts,
    contradictions,
    suggestions,
)
from verification.privacy.models import (
    OPEN_CORRECTIONS,
    Correction,
    CorrectionStatus,
)
from verification.reports.models import IDENTIFIERS, Report, ReportStatus

MISMATCH = "NAME_MISMATCH"
Number = tuple[str, str]


def decidable_reports() -> QuerySet[Report]:
    """Return the ended reports that ran at least one check.

    A report that ended with a refused or expired consent or payment has no finding.
    """
    ran = CheckResult.objects.filter(
        report=OuterRef("pk"),
        status__in=[ResultStatus.COMPLETED, ResultStatus.FAILED],
    )
    ended = Report.objects.filter(status__in=DECIDABLE, completed_at__isnull=False)
    return ended.filter(Exists(ran))


def is_decidable(report: Report) -> bool:
    """Return whether the report can be decided.

    A report that was retried and then cancelled can while its subject waits for a
    review.
    """
    if report.status == ReportStatus.CANCELLED:
        asked = report.notices.filter(review_asked_at__isnull=False, reviewed_at=None)
        return asked.exists()
    return decidable_reports().filter(pk=report.pk).exists()


def completed_results(report: Report) -> list[UUID]:
    """Return the ids of the completed results that the report shows.

    A completed result never changes, and a correction puts another one in its place. So
    the same ids mean the same scores, levels and flags.
    """
    completed = report.results.filter(status=ResultStatus.COMPLETED)
    return sorted(completed.values_list("pk", flat=True))


def is_outdated(decision: Decision) -> bool:
    """Return whether the results of the decision have changed.

    An accepted correction changes them, of a result in another report with the same
    answer too, and so does a retry that completes a check.
    Decisions of old versions, without stored result IDs, do not count as outdated.
    """
    if decision.result_ids is None:
        return False
    if sorted(decision.result_ids) != completed_results(decision.report):
        return True
    results = CheckResult.every.filter(pk__in=decision.result_ids)
    origins = results.values_list(Coalesce("reused_from_id", "pk"))
    corrected = Correction.objects.filter(
        Q(result__in=origins) | Q(result__reused_from_id__in=origins),
        status=CorrectionStatus.CORRECTED,
        decided_at__gt=decision.created_at,
    )
    return corrected.exists()


def results_with_same_answer() -> QuerySet[CheckResult]:
    """Return the outer query's result, and the results that reuse its answer."""
    origin = Coalesce(OuterRef("reused_from_id"), OuterRef("pk"))
    return CheckResult.every.filter(Q(pk=origin) | Q(reused_from_id=origin))


def results_with_same_finding(result: CheckResult) -> QuerySet[CheckResult]:
    """Return the present results in other reports that show the same answer.

    They reuse this result, or all of them reuse one.
    """
    origin = result.reused_from_id or result.pk
    same = CheckResult.objects.filter(Q(pk=origin) | Q(reused_from_id=origin))
    others = same.exclude(report=result.report_id).order_by("-id")
    return others.select_related("report")


def disputed_reports() -> QuerySet[CheckResult, UUID]:
    """Return the ids of all reports with an open correction.

    It may be that of another report with the same answer. The query starts from
    corrections, which are few.
    """
    disputed = Correction.objects.filter(status__in=OPEN_CORRECTIONS)
    origins = disputed.values_list(Coalesce("result__reused_from_id", "result_id"))
    results = CheckResult.objects.order_by().values_list("report_id", flat=True)
    copies = results.filter(reused_from_id__in=origins)
    return results.filter(pk__in=origins).union(copies)


def reports_under_dispute() -> QuerySet[CheckResult, UUID]:
    """Return the ids of all reports with an open correction or review."""
    asked = AdverseNotice.objects.filter(
        review_asked_at__isnull=False, reviewed_at=None
    )
    return disputed_reports().union(asked.values_list("report_id"))


def results_where(report: Report, condition: Q) -> QuerySet[CheckResult]:
    """Return the results of the report that meet it, or share an answer that does."""
    same = results_with_same_answer().filter(condition)
    results = CheckResult.objects.filter(report=report, status=ResultStatus.COMPLETED)
    return results.filter(Exists(same))


def find_contradictions(report: Report, codes: Collection[str]) -> dict[str, list[str]]:
    """Return the reason codes that the findings contradict, with the checks."""
    return weigh_reasons(report, codes)[1] if codes else {}


def weigh_reasons(
    report: Report, codes: Collection[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the reason codes that the findings suggest, and those they contradict.

    The latter come with the checks that say so. It takes one statement.
    """
    facts = read_facts([report], for_member=True)[report.pk]
    return suggestions(codes, facts), contradictions(codes, facts)


def read_facts(
    reports: Iterable[Report], *, for_member: bool = False
) -> dict[UUID, Facts]:
    """Return the facts of the reports that rules can rely on, by report ID.

    They cannot rely on a finding about the holder of a mistyped number, about details
    that were corrected since, or that another report disputes or has corrected. It
    counts as a check that left all open, except that the names differ, and the report
    has no score. A member, who reads the findings, weighs all of them.
    """
    by_id = {report.pk: report for report in reports}
    found: dict[UUID, list[Any]] = {pk: [] for pk in by_id}
    refuted = Q(disputed_at__isnull=False) | ~Q(revision=0)
    results = CheckResult.objects.filter(report__in=by_id).annotate(
        is_refuted=Exists(results_with_same_answer().filter(refuted))
    )
    for result in results.select_related("definition"):
        found[result.report_id].append(result)
    return {
        pk: _facts_of(report, found[pk], for_member) for pk, report in by_id.items()
    }


def _facts_of(report: Report, results: Collection[Any], for_member: bool) -> Facts:
    theirs = set() if for_member else strangers_results(results, report)
    score, checks = report.risk_score, dict[str, CheckFacts]()
    for one in results:
        finding = one.finding or {}
        flags = frozenset(flag["code"] for flag in finding.get("flags") or ())
        # Findings of earlier versions do not say whether they are whole.
        known = CheckFacts(
            one.status,
            one.score,
            flags,
            finding.get("details") or {},
            is_whole=one.score is not None and finding.get("isWhole", True),
        )
        is_wrong = one.is_refuted or one.outdated_details(report.subject)
        if one.pk in theirs or (is_wrong and not for_member):
            score = None
            flags = frozenset() if is_wrong else flags & {MISMATCH}
            known = CheckFacts(one.status, flags=flags, is_whole=False)
        checks[one.name] = known
    return Facts(score, report.package, checks)


def strangers_results(results: Collection[CheckResult], report: Report) -> set[UUID]:
    """Return the IDs of results about a number's holder who is not the subject.

    A source compared the names, and they differ. The results of other sources for the
    same number are about that holder too, unless they have the subject's name.
    """
    theirs = {
        number
        for one in results
        if _likeness(one) == "NO_MATCH"
        for number in numbers_asked(one, report)
    }
    return {
        one.pk
        for one in results
        if theirs and one.finding and _likeness(one) in {"NO_MATCH", None}
        if theirs & numbers_asked(one, report)
    }


def numbers_asked(result: CheckResult, report: Report) -> set[Number]:
    """Return the identifying numbers that the check asked with, by their names."""
    members = result.inputs or report.subject or {}
    names = {entry["key"] for entry in result.definition.required_inputs}
    return {
        (name, str(members[name]))
        for name in IDENTIFIERS
        if name in names and members.get(name)
    }


def _likeness(result: CheckResult) -> str | None:
    """Return the source's comparison of the names, or None without one."""
    finding = result.finding or {}
    if any(flag["code"] == MISMATCH for flag in finding.get("flags") or ()):
        return "NO_MATCH"
    likeness: str | None = (finding.get("details") or {}).get("nameMatch")
    return likeness
