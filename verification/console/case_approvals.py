"""Approve clear cases together: choose, read the left-out cases, confirm."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from verification.console.base import Place, post_required
from verification.console.case_pages import QueueForm, package_names, queue_form
from verification.decisions.case_list import QueueFilters, list_case_ids
from verification.decisions.clear_cases import (
    MAX_APPROVED,
    MAX_EXAMINED,
    SortedCases,
    Unclear,
    approve_clear,
    sort_cases,
)
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel
from verification.web.pages import read_id
from workspaces.members import Permission

# The number of names of left-out cases that are shown for each reason
MAX_NAMES = 20
WHY_LEFT_OUT: dict[Unclear, Any] = {
    Unclear.CLOSED: _("They need no decision any more."),
    Unclear.RUNNING: _("Their checks run again."),
    Unclear.TAKEN: _("A colleague has taken them."),
    Unclear.DECIDED: _("A decision or proposal came before, or a person has to look."),
    Unclear.SECOND: _("They need a second member."),
    Unclear.FINDINGS: _("They have findings to look at, or no low risk."),
}


@post_required(Permission.DECIDE_REPORTS)
def approve(place: Place) -> HttpResponse:
    """Show which of the chosen cases are clear; a POST with `confirmed` approves them.

    `all` stands for all cases that the filters show. The page then asks about the next
    ones, until none is left.
    """
    posted = place.request.POST
    form = queue_form(place, posted, package_names(place))
    chosen = [read_id(one) for one in posted.getlist("report")[:MAX_EXAMINED]]
    ids = [one for one in chosen if one]
    if "confirmed" in posted:
        return _approve(place, form, ids)
    # With invalid filters the list would have more cases than the page showed.
    if "all" in posted and form.is_valid():
        ids = _listed(place, form)
    if not ids:
        return _back(place, form, error=_("Choose at least one report first."))
    return _ask(place, form, sort_cases(place.client, place.member, ids), len(ids))


def _listed(place: Place, form: QueueForm) -> list[UUID]:
    filters = QueueFilters(**form.chosen)
    return list_case_ids(place.member, place.environment, filters, MAX_EXAMINED)


def _ask(
    place: Place, form: QueueForm, found: SortedCases, examined: int
) -> HttpResponse:
    clear = found.clear[:MAX_APPROVED]
    left_out = [
        (WHY_LEFT_OUT[why], len(cases), cases[:MAX_NAMES])
        for why, cases in found.left_out.items()
    ]
    shown = [*clear, *(case for _why, _count, cases in left_out for case in cases)]
    record_disclosures([one.pk for one in shown], Channel.CONSOLE, place.client.actor)
    context = {
        "clear": clear,
        "left_out": left_out,
        "left_out_count": sum(count for _why, count, _cases in left_out),
        "later": len(found.clear) - len(clear),
        "filters": _query(form),
        "is_all": "all" in place.request.POST,
        "back": urlencode(_query(form)),
        "is_cut": examined == MAX_EXAMINED,
        "most": MAX_EXAMINED,
    }
    return place.render("queue_approve", context)


def _approve(place: Place, form: QueueForm, ids: list[UUID]) -> HttpResponse:
    done, left = approve_clear(place.client, place.member, place.by.actor, ids)
    if not done and not left:
        return _back(place, form, error=_("Nothing was done: none is clear any more."))
    texts = [_("Approved: %(done)s.") % {"done": done}]
    if changed := len(ids) - left - done:
        text = _("Left out, as they changed since the page was shown: %(count)s.")
        texts.append(text % {"count": changed})
    if left:
        texts.append(_("Not approved yet: %(count)s.") % {"count": left})
    said = " ".join(texts)
    if "all" in place.request.POST and form.is_valid():
        listed = _listed(place, form)
        found = sort_cases(place.client, place.member, listed)
        if found.clear:
            messages.success(place.request, said)
            return _ask(place, form, found, len(listed))
    return _back(place, form, success=said)


def _back(place: Place, form: QueueForm, **message: Any) -> HttpResponse:
    """Return to the list with the filters that it had."""
    answer = place.to("queue", **message)
    if query := urlencode(_query(form)):
        answer["Location"] += f"?{query}"
    return answer


def _query(form: QueueForm) -> dict[str, str]:
    return {
        name: "on" if value is True else str(value)
        for name, value in form.chosen.items()
        if value
    }
