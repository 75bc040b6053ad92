"""Approve clear cases together: choose, read the left-out cases, confirm."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from verification.console.base import Place, Text, member_required
from verification.console.case_pages import QueueForm, package_names, queue_form
from verification.decisions.case_list import QueueFilters, list_case_ids
from verification.decisions.clear_cases import (
    MAX_APPROVED,
    MAX_EXAMINED,
    SortedCases,
    Unclear,
    approve_clear,
    count_decided,
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


@member_required(Permission.DECIDE_REPORTS)
def approve(place: Place) -> HttpResponse:
    """Show which of the chosen cases are clear; a POST with `confirmed` approves them.

    `all` stands for all cases that the filters show. The page then asks about the next
    ones, until none is left.
    """
    asked = place.request.POST or place.request.GET
    form = queue_form(place, asked, package_names(place))
    chosen = [read_id(one) for one in asked.getlist("report")[:MAX_EXAMINED]]
    ids = [one for one in chosen if one]
    if "confirmed" in place.request.POST:
        return _approve(place, form, ids)
    # Invalid filters would list more cases than the page showed.
    if is_all := "all" in asked and form.is_valid():
        ids = _listed(place, form)
    elif not ids:
        return _to(place, "queue", form, error=_("Choose at least one report first."))
    found = sort_cases(place.client, place.member, ids)
    return _ask(place, form, found, len(ids), is_all=is_all)


def _listed(place: Place, form: QueueForm) -> list[UUID]:
    filters = QueueFilters(**form.chosen)
    return list_case_ids(place.member, place.environment, filters, MAX_EXAMINED)


def _ask(
    place: Place, form: QueueForm, found: SortedCases, examined: int, *, is_all: bool
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
        "is_all": is_all,
        "back": urlencode(_query(form)),
        "is_cut": examined == MAX_EXAMINED,
        "most": MAX_EXAMINED,
    }
    return place.render("queue_approve", context)


def _approve(place: Place, form: QueueForm, ids: list[UUID]) -> HttpResponse:
    done, left = approve_clear(place.client, place.member, place.by.actor, ids)
    texts = [_("Approved: %(done)s.") % {"done": done}]
    # A colleague has decided them, or the first press of the same button.
    if decided := count_decided(place.client, ids) - done:
        texts.append(_("Decided already: %(count)s.") % {"count": decided})
    if changed := len(ids) - left - done - decided:
        text = _("Left out, as they changed since the page was shown: %(count)s.")
        texts.append(text % {"count": changed})
    if left:
        texts.append(_("Not approved yet: %(count)s.") % {"count": left})
    said = " ".join(texts)
    if "all" in place.request.POST and form.is_valid():
        listed = _listed(place, form)
        if sort_cases(place.client, place.member, listed).clear:
            return _to(place, "queue-approve", form, success=said, all="on")
    return _to(place, "queue", form, success=said)


def _to(
    place: Place,
    name: str,
    form: QueueForm,
    *,
    success: str = "",
    error: Text = "",
    **more: str,
) -> HttpResponse:
    """Redirect to a page with the filters that the list had."""
    answer = place.to(name, success=success, error=error)
    if query := urlencode({**_query(form), **more}):
        answer["Location"] += f"?{query}"
    return answer


def _query(form: QueueForm) -> dict[str, str]:
    return {
        name: "on" if value is True else str(value)
        for name, value in form.chosen.items()
        if value
    }
