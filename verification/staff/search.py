"""The search of the back office: `/admin/search` finds rows of every kind.

The form is sent by POST, so that names and addresses of people stand in no URL and no
log. Reports and rules are found by any part of a name, or by an exact ID number,
registration number, e-mail address, phone number or reference in any workspace, or by
the number on a paper about the report. The phone of an M-Pesa prompt is encrypted
without a hash, and finds nothing.
Encrypted values are found by their keyed hashes, which differ by workspace and
environment.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.formats import date_format
from django.utils.timezone import localtime

from monitoring.models import Rule
from verification.accounts.models import Colleague
from verification.backoffice import audit
from verification.backoffice.widgets import link
from verification.checks.models import CheckResult
from verification.db.base import force_custom_plan, run_sql
from verification.db.ids import filter_by_number
from verification.notifications.models import Notification
from verification.payments.models import Checkout
from verification.privacy.models import Erasure, SubjectRequest
from verification.references.models import Reference
from verification.reports.models import Report, fold_name
from verification.reports.numbers import find_reports_by_number
from verification.reports.queries import GRAM_LENGTH, Terms
from verification.values.formats import typed_phone
from verification.values.masking import mask_email
from verification.web.pages import read_id
from webhooks.models import Delivery
from workspaces.models import Account, ApiKey, LedgerEntry, Member, Workspace

MAX_TERM_LENGTH = 200
MAX_ROWS = 10
# Nobody can type more of a whole number, address or reference.
MAX_ROWS_OF_EXACT = 50
# Up to this many candidates are all compared; if there are more, the newest rows are
# read until enough of them match.
MAX_CANDIDATES = 1_000
ACCOUNTS_PER_STATEMENT = 500


@dataclass(frozen=True, slots=True)
class SearchGroup:
    """One kind of rows in the results.

    `describe` returns the text of a row's link and the cells beside it.
    """

    title: str
    model: type[Model]
    find: Callable[[str], list[Any]]
    describe: Callable[[Any], tuple[Any, ...]]


@force_custom_plan()
def search_page(request: HttpRequest) -> HttpResponse:
    # Templates reverse `admin:...`, which must not be this URL's instance `office`.
    request.current_app = admin.site.name
    term = " ".join(request.POST.get("q", "").replace("\0", "").split())[
        :MAX_TERM_LENGTH
    ]
    groups = list(_search_groups(request, term)) if term else []
    if term:
        # The audit trail keeps who searched and the kinds that were found. It must not
        # keep the search term, which may name a person.
        fields = [group["title"].lower() for group in groups]
        who: Any = request.user
        audit.record("search.made", audit.actor_of(request), who, fields=fields)
    shown = {
        **admin.site.each_context(request),
        "title": "Search",
        "term": term,
        "is_short": bool(term) and len(fold_name(term)) < GRAM_LENGTH,
        "groups": groups,
        "shown": _max_rows(term),
        "is_whole": _max_rows(term) > MAX_ROWS,
    }
    return TemplateResponse(request, "admin/search.html", shown)


def _max_rows(term: str) -> int:
    """Return the limit of rows: higher for a whole value, with a digit or an @."""
    is_whole = any(one.isdigit() or one == "@" for one in term)
    return MAX_ROWS_OF_EXACT if is_whole else MAX_ROWS


def _search_groups(request: HttpRequest, term: str) -> Iterator[dict[str, Any]]:
    for group in SEARCH_GROUPS:
        meta = group.model._meta
        if not request.user.has_perm(f"{meta.app_label}.view_{meta.model_name}"):
            continue
        if rows := group.find(term):
            shown = [
                (link(row, first), rest)
                for row in rows[: _max_rows(term)]
                for first, *rest in [group.describe(row)]
            ]
            more = len(rows) > _max_rows(term)
            yield {"title": group.title, "rows": shown, "more": more}


# Reports and rules


def _reports(term: str) -> list[Report]:
    reports = Report.objects.select_related("workspace").defer("subject")
    found = _find_by_name(reports, term, "reports_searchentry", "report_id")
    by_reference = reports.filter(reference__startswith=term)[: _max_rows(term) + 1]
    numbered = reports.filter(pk__in=find_reports_by_number(term))
    return _newest_first([*found, *by_reference, *_newest(numbered, term)])


def _rules(term: str) -> list[Rule]:
    rules = Rule.objects.select_related("workspace").defer("subject", "consent")
    return _newest_first(_find_by_name(rules, term, "monitoring_rule", "id"))


def _find_by_name(rows: QuerySet[Any], term: str, table: str, column: str) -> list[Any]:
    """Find rows by a part of the name, or by a whole identifier, in all accounts."""
    name = fold_name(term)
    accounts = [
        Terms(*account)
        for account in Account.objects.values_list("workspace_id", "environment")
    ]
    phone = typed_phone(term)
    exact = [
        hashed
        for terms in accounts
        for hashed in (
            terms.of_number(term),
            terms.of_text(term),
            terms.of_phone(phone),
        )
    ]
    query = Q(pk__in=_find_ids(table, column, "&&", [exact]))
    if row := read_id(term):
        query |= Q(pk=row)
    if len(name) >= GRAM_LENGTH:
        grams = [list(terms.of_name(name)) for terms in accounts]
        likely = _find_ids(table, column, "@>", grams)
        # The newest rows soon hold enough people with a common name.
        is_common = len(likely) > MAX_CANDIDATES
        named = Q() if is_common else Q(pk__in=likely)
        query |= Q(named, search_name__contains=name)
    return _newest(rows.filter(query), term)


def _find_ids(
    table: str, column: str, operator: str, sought: list[list[int]]
) -> list[UUID]:
    """Return the ids of at most MAX_CANDIDATES + 1 rows that match a list of `sought`.

    The operator `@>` requires all terms of a list, `&&` one of them.
    """
    found: list[UUID] = []
    for start in range(0, len(sought), ACCOUNTS_PER_STATEMENT):
        some = sought[start : start + ACCOUNTS_PER_STATEMENT]
        values = ", ".join(["(%s::bigint[])"] * len(some))
        sql = (
            f"SELECT e.{column} FROM (VALUES {values}) AS sought(terms) "  # noqa: S608
            f"CROSS JOIN LATERAL (SELECT {column} FROM {table} "
            f"WHERE terms {operator} sought.terms LIMIT %s) AS e LIMIT %s"
        )
        left = MAX_CANDIDATES + 1 - len(found)
        found += [id for (id,) in run_sql(sql, [*some, left, left])]
        if len(found) > MAX_CANDIDATES:
            break
    return found


def _newest_first(rows: list[Any]) -> list[Any]:
    once = {row.pk: row for row in rows}
    return [once[pk] for pk in sorted(once, reverse=True)]


# Workspaces, their members and their keys


def _workspaces(term: str) -> list[Workspace]:
    query = Q(name__icontains=term) | Q(members__user__email__iexact=term)
    if row := read_id(term):
        query |= Q(pk=row)
    if len(term) == 4:
        query |= Q(api_keys__last_characters=term)
    return _newest(Workspace.objects.filter(query).distinct(), term)


def _members(term: str) -> list[Member]:
    query = _match_person(term, "user__") | Q(workspace__name__icontains=term)
    members = Member.objects.select_related("user", "workspace").filter(query)
    return _newest(members, term)


def _staff(term: str) -> list[Colleague]:
    # The audit trail knows staff by their user names; those of members are random.
    query = _match_person(term) | Q(username__icontains=term)
    return _newest(Colleague.objects.filter(query), term)


def _match_person(term: str, path: str = "") -> Q:
    """Match users by a part of the e-mail address or the name."""
    names = ("email", "first_name", "last_name")
    return Q(*((f"{path}{name}__icontains", term) for name in names), _connector=Q.OR)


def _keys(term: str) -> list[ApiKey]:
    query = Q(last_characters=term[-4:])
    if len(term) > 4:
        query &= Q(first_characters=term[:12]) if len(term) >= 16 else Q(pk__in=[])
    if row := read_id(term):
        query = Q(pk=row)
    keys = ApiKey.objects.select_related("workspace").filter(query)
    return _newest(keys, term)


# Money, messages and deliveries: by their own id, or by a report's id or reference


def _checkouts(term: str) -> list[Checkout]:
    checkouts = filter_by_number(Checkout.objects.all(), "P", term)
    if checkouts is None:
        ids = _report_ids(term)
        checkouts = Checkout.objects.filter(
            Q(report_id__in=ids) | Q(pk__in=ids) | Q(transaction=term)
        )
    return _newest(checkouts, term)


def _requests(term: str) -> list[SubjectRequest]:
    requests = filter_by_number(SubjectRequest.objects.all(), "D", term)
    if requests is None:
        ids = _report_ids(term)
        requests = SubjectRequest.objects.filter(Q(report_id__in=ids) | Q(pk__in=ids))
    return _newest(requests.select_related("workspace"), term)


def _erasures(term: str) -> list[Erasure]:
    erasures = Erasure.objects.select_related("request__workspace")
    numbered = filter_by_number(erasures, "E", term)
    return _newest(
        erasures.filter(pk__in=_own_id(term)) if numbered is None else numbered, term
    )


def _references(term: str) -> list[Reference]:
    references = Reference.objects.defer("answers", "evidence")
    numbered = filter_by_number(references, "R", term)
    if numbered is None:
        numbered = references.filter(
            Q(report_id__in=_report_ids(term)) | Q(pk__in=_own_id(term))
        )
    return _newest(numbered, term)


def _entries(term: str) -> list[LedgerEntry]:
    # Entries name their result, and have an index on it alone. `every` includes
    # superseded results, which were charged.
    results = CheckResult.every.filter(report__in=_report_ids(term))
    entries = LedgerEntry.objects.filter(
        Q(result_id__in=list(results.values_list("pk", flat=True)))
        | Q(pk__in=_own_id(term))
    )
    return _newest(entries.select_related("account"), term)


def _messages(term: str) -> list[Notification]:
    messages = Notification.objects.defer("context", "recipient")
    query = Q(report_id__in=_report_ids(term)) | Q(pk__in=_own_id(term))
    return _newest(messages.filter(query), term)


def _deliveries(term: str) -> list[Delivery]:
    # An OR over two tables could use the index of neither.
    belong = Delivery.objects.filter(event__report_id__in=_report_ids(term))
    ids = [*belong.values_list("pk", flat=True), *_own_id(term)]
    deliveries = Delivery.objects.filter(pk__in=ids).select_related("workspace")
    return _newest(deliveries, term)


def _newest(rows: QuerySet[Any], term: str) -> list[Any]:
    """Return the newest rows, one more than the page shows."""
    return list(rows.order_by("-pk")[: _max_rows(term) + 1])


def _own_id(term: str) -> list[UUID]:
    row = read_id(term)
    return [row] if row else []


def _report_ids(term: str) -> list[UUID]:
    """Return the id that `term` is, or those of the reports with this reference."""
    if own := _own_id(term):
        return own
    named = Report.objects.filter(reference=term).order_by("-id")
    return list(named.values_list("pk", flat=True)[:MAX_ROWS_OF_EXACT])


def _time(moment: Any) -> str:
    return date_format(localtime(moment), "SHORT_DATETIME_FORMAT")


SEARCH_GROUPS = [
    SearchGroup(
        "Reports",
        Report,
        _reports,
        lambda r: (
            r.subject_name,
            r.workspace,
            r.environment,
            r.get_status_display(),
            r.reference or "",
            _time(r.created_at),
        ),
    ),
    SearchGroup(
        "Monitoring rules",
        Rule,
        _rules,
        lambda r: (r.subject_name, r.workspace, r.environment, r.get_status_display()),
    ),
    SearchGroup(
        "Workspaces",
        Workspace,
        _workspaces,
        lambda w: (w.name, w.get_kind_display(), w.get_go_live_display()),
    ),
    SearchGroup(
        "Members",
        Member,
        _members,
        lambda m: (
            m.user.get_full_name() or m.user.username,
            mask_email(m.user.email),
            m.workspace,
            m.get_role_display(),
        ),
    ),
    SearchGroup(
        "Staff",
        Colleague,
        _staff,
        lambda c: (
            str(c),
            mask_email(c.email),
            "" if c.is_active else "deactivated",
        ),
    ),
    SearchGroup(
        "API keys",
        ApiKey,
        _keys,
        lambda k: (str(k), k.name, k.workspace, k.environment),
    ),
    SearchGroup(
        "Checkouts",
        Checkout,
        _checkouts,
        lambda c: (
            c.number,
            c.environment,
            c.get_status_display(),
            c.money,
        ),
    ),
    SearchGroup(
        "Requests of subjects",
        SubjectRequest,
        _requests,
        lambda r: (
            r.number,
            r.get_kind_display(),
            r.workspace or "",
            r.get_outcome_display() or "open",
            _time(r.received_at),
        ),
    ),
    SearchGroup(
        "Erasures",
        Erasure,
        _erasures,
        lambda e: (
            e.number,
            e.request.workspace or "",
            "ended" if e.ended_at else "waits",
            _time(e.created_at),
        ),
    ),
    SearchGroup(
        "References",
        Reference,
        _references,
        lambda r: (r.number, r.status.lower(), _time(r.created_at)),
    ),
    SearchGroup(
        "Ledger entries",
        LedgerEntry,
        _entries,
        lambda e: (e.kind, e.amount, e.account, _time(e.created_at)),
    ),
    SearchGroup(
        "Messages",
        Notification,
        _messages,
        lambda n: (
            n.get_kind_display(),
            n.channel,
            n.get_status_display(),
            _time(n.created_at),
        ),
    ),
    SearchGroup(
        "Deliveries",
        Delivery,
        _deliveries,
        lambda d: (d.name, d.workspace, d.get_status_display(), _time(d.created_at)),
    ),
]
