"""The results of the search in the top bar, while a member types."""

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from verification.console.base import Place, Text, member_required
from verification.decisions.notices import reports_under_correction
from verification.reports.queries import Filters, list_newest
from verification.values.formats import one_line
from workspaces.members import Permission

MOST_REPORTS = 5
# One letter matches too many names to help anybody.
LEAST_LETTERS = 2


class Action(NamedTuple):
    label: Promise
    page: str
    icon: str
    needs: Permission


ACTIONS = (
    Action(_("Order a report"), "reports-new", "plus", Permission.ORDER),
    Action(
        _("Order from a file"),
        "reports-batch-new",
        "file-spreadsheet",
        Permission.ORDER,
    ),
    Action(_("Create a key"), "keys-create", "key-round", Permission.MANAGE_KEYS),
    Action(
        _("Set up webhooks"),
        "webhooks-configure",
        "webhook",
        Permission.MANAGE_WEBHOOKS,
    ),
)


class Found(NamedTuple):
    """A page or an action that the member may open."""

    label: Text
    url: str
    icon: str


@member_required()
def find(place: Place) -> HttpResponse:
    """List the reports, pages and actions that match; without a text, all pages.

    When the form sends `open`, redirect to the only match, to the first page if no
    report matches, or else to the list.
    """
    text = one_line(place.request.GET.get("search", ""))[:200]
    filters = Filters(search=text)
    is_long = len(text) >= LEAST_LETTERS
    reports = list_newest(*place.where, filters, MOST_REPORTS) if is_long else []
    pages = [one for one in _pages(place) if text.lower() in str(one.label).lower()]
    if "open" in place.request.GET:
        urls = [place.url("reports-detail", report=one.pk) for one in reports]
        urls += [one.url for one in pages]
        listed = f"{place.url('reports')}?{urlencode({'search': text})}"
        opens = len(urls) == 1 or (text and urls and not reports)
        return HttpResponseRedirect(urls[0] if opens else listed)
    disputed = reports_under_correction([one.pk for one in reports])
    shown = {"reports": reports, "pages": pages, "text": text, "disputed": disputed}
    return place.render("parts/found", shown)


def _pages(place: Place) -> Iterator[Found]:
    for one in ACTIONS:
        if one.needs in place.offered:
            yield Found(one.label, place.url(one.page), one.icon)
    for _group, sections in place.groups:
        for section in sections:
            yield Found(section.label, place.url(section.name), section.icon)
