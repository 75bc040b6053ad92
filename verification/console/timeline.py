"""The timeline of a report in words: what happened, and who did it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from verification.console.base import Text, names_of_actors
from verification.console.words import MARKS, WORDS, Topic
from verification.reports.models import Report, StatusChange
from verification.reports.status import CHECK_ENDED, SUBJECT_ACTOR
from workspaces.models import ApiKey

# What the timeline stores -> (words, ground, icon)
HAPPENED: dict[str, tuple[Promise, str, str]] = {
    "created": (_("Ordered"), "", "file-pen-line"),
    "launched": (_("Launched: the checks run"), "", "play"),
    "retried": (_("Failed checks run again"), "", "rotate-cw"),
    "check run again": (_("A check ran again"), "", "rotate-cw"),
    "consent granted": (_("Consent given"), "is-ok", "user-round-check"),
    "consent declined": (_("Consent declined"), "is-bad", "user-round-x"),
    "consent expired": (_("Nobody answered in time"), "is-bad", "alarm-clock"),
    "consent withdrawn": (_("Consent withdrawn"), "is-bad", "undo-2"),
    "consent link locked for good": (
        _("Too many wrong answers: the link is locked"),
        "is-bad",
        "lock",
    ),
    "subject asks for a new link": (_("The subject asked for a new link"), "", "send"),
    "payer asks for a new link": (_("The payer asked for a new link"), "", "send"),
    "link to own data sent": (
        _("A link to their data was sent to the subject"),
        "",
        "send",
    ),
    "paid": (_("Paid"), "is-ok", "hand-coins"),
    "payment expired": (_("Not paid in time"), "is-bad", "alarm-clock"),
    "subject erased": (_("The details of the subject were erased"), "", "trash-2"),
    "cancelled": (_("Cancelled"), "", "ban"),
    "decided": (_("Decided"), "is-ok", "gavel"),
    "decision proposed": (_("A decision was proposed"), "is-wait", "users"),
    "proposal refused": (_("The proposal was refused"), "", "x"),
    "proposal withdrawn": (_("The proposal was taken back"), "", "undo-2"),
    "decline taken back": (_("The decline was taken back"), "", "undo-2"),
    "decline waits until it counts": (
        _("Declined; it counts once its time is up"),
        "is-wait",
        "hourglass",
    ),
    "decline ended before it counted": (
        _("The decline ended before it counted"),
        "",
        "undo-2",
    ),
    "notice of the decline sent again": (
        _("The notice of the decline was sent again"),
        "",
        "send",
    ),
    "notice of the decline handed over": (
        _("The notice of the decline was handed over"),
        "is-ok",
        "hand",
    ),
    "review by a person asked for": (
        _("The subject asked a person to review the decision"),
        "is-wait",
        "eye",
    ),
    "correction opened": (
        _("The subject disputed a finding"),
        "is-wait",
        "message-square-warning",
    ),
    "correction in_review": (_("The dispute is being looked into"), "", "eye"),
    "correction corrected": (_("The finding was corrected"), "is-ok", "circle-check"),
    "correction confirmed": (_("The finding stays as it is"), "", "circle-minus"),
    "correction withdrawn": (_("The subject took the dispute back"), "", "undo-2"),
    "subject objected": (_("The subject objected"), "is-bad", "octagon-alert"),
    "holder of a mistyped number erased": (
        _("What belonged to another person was erased"),
        "",
        "trash-2",
    ),
}
ACTORS: dict[str, Promise] = {
    SUBJECT_ACTOR: _("the subject"),
    "payer": _("the payer"),
}
# Parts of the service that act without a person
AUTOMATIC = {"engine", "service", "erasure", "retention", "jobs"}
KEY = "key "


class Entry(NamedTuple):
    at: datetime
    text: Text
    ground: str
    icon: str
    # Who did it; empty for the service itself
    by: Text


def timeline_of(report: Report) -> list[Entry]:
    """Return what happened to the report, the newest first."""
    changes = list(report.status_changes.all())
    names = _names_of(report, {change.actor for change in changes})
    return list(_entries(changes, names))[::-1]


def _entries(
    changes: Iterable[StatusChange], names: dict[str, Text]
) -> Iterator[Entry]:
    for change in changes:
        if change.trigger == CHECK_ENDED:
            text: Text = WORDS[Topic.REPORT][change.target]
            ground, icon = MARKS[Topic.REPORT][change.target]
        else:
            unknown = (change.trigger, "", "clock")
            text, ground, icon = HAPPENED.get(change.trigger, unknown)
        by = names.get(change.actor, change.actor)
        yield Entry(change.created_at, text, ground, icon, by)


def _names_of(report: Report, actors: set[str]) -> dict[str, Text]:
    """Return how the page names these actors; one that has left keeps their id."""
    names: dict[str, Text] = {**ACTORS, **dict.fromkeys(AUTOMATIC, "")}
    names |= names_of_actors(report.workspace_id, actors)
    shown = {actor.removeprefix(KEY) for actor in actors if actor.startswith(KEY)}
    if shown:
        keys = ApiKey.objects.filter(workspace=report.workspace_id)
        for key in keys.filter(last_characters__in=[one[-4:] for one in shown]):
            names[f"{KEY}{key}"] = _("the key “%(name)s”") % {"name": key.name}
    return names
