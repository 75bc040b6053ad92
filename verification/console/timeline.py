"""The timeline of a report in words: what happened, and who did it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from verification.console.base import Text, names_of_actors
from verification.console.words import STATES, State, Topic
from verification.reports.models import Report
from verification.reports.status import CHECK_ENDED, SUBJECT_ACTOR
from verification.values.masking import hide_staff

ERASED = "subject erased"
# Stored entry of the timeline -> its state on the page
HAPPENED: dict[str, State] = {
    "created": State(_("Ordered"), "", "file-pen-line"),
    "launched": State(_("Launched: the checks run"), "", "play"),
    "retried": State(_("Failed checks run again"), "", "rotate-cw"),
    "check run again": State(_("A check ran again"), "", "rotate-cw"),
    "consent granted": State(_("Consent given"), "is-ok", "user-round-check"),
    "consent declined": State(_("Consent declined"), "is-bad", "user-round-x"),
    "consent expired": State(_("Nobody answered in time"), "is-bad", "alarm-clock"),
    "consent withdrawn": State(_("Consent withdrawn"), "is-bad", "undo-2"),
    "consent link locked for good": State(
        _("Too many wrong answers: the link is locked"), "is-bad", "lock"
    ),
    "subject asks for a new link": State(
        _("The subject asked for a new link"), "", "send"
    ),
    "payer asks for a new link": State(_("The payer asked for a new link"), "", "send"),
    "link to own data sent": State(
        _("A link to their data was made for the subject"), "", "send"
    ),
    "paid": State(_("Paid"), "is-ok", "hand-coins"),
    "payment expired": State(_("Not paid in time"), "is-bad", "alarm-clock"),
    ERASED: State(_("The details of the subject were erased"), "", "trash-2"),
    "cancelled": State(_("Cancelled"), "", "ban"),
    "decided": State(_("Decided"), "is-ok", "gavel"),
    "decision proposed": State(_("A decision was proposed"), "is-wait", "users"),
    "proposal refused": State(_("The proposal was refused"), "", "x"),
    "proposal withdrawn": State(_("The proposal was taken back"), "", "undo-2"),
    "decline taken back": State(_("The decline was taken back"), "", "undo-2"),
    "decline waits until it counts": State(
        _("Declined; it counts once its time is up"), "is-wait", "hourglass"
    ),
    "decline ended before it counted": State(
        _("The decline ended before it counted"), "", "undo-2"
    ),
    "notice of the decline sent again": State(
        _("The notice of the decline was sent again"), "", "send"
    ),
    "notice of the decline handed over": State(
        _("The notice of the decline was handed over"), "is-ok", "hand"
    ),
    "review by a person asked for": State(
        _("The subject asked a person to review the decision"), "is-wait", "eye"
    ),
    "correction opened": State(
        _("The subject disputed a finding"), "is-wait", "message-square-warning"
    ),
    "correction in_review": State(_("The dispute is being looked into"), "", "eye"),
    "correction corrected": State(
        _("The finding was corrected"), "is-ok", "circle-check"
    ),
    "correction confirmed": State(_("The finding stays as it is"), "", "circle-minus"),
    "correction withdrawn": State(_("The subject took the dispute back"), "", "undo-2"),
    "subject objected": State(_("The subject objected"), "is-bad", "octagon-alert"),
    "holder of a mistyped number erased": State(
        _("What belonged to another person was erased"), "", "trash-2"
    ),
}
ACTORS: dict[str, Promise] = {
    SUBJECT_ACTOR: _("the subject"),
    "payer": _("the payer"),
}
# Parts of the service that act without a person
AUTOMATIC = {"engine", "service", "erasure", "retention", "jobs"}


class Entry(NamedTuple):
    at: datetime
    text: Text
    ground: str
    icon: str
    # The actor; empty for the service itself
    by: Text


def timeline_of(report: Report) -> list[Entry]:
    """Return the history of the report, the newest entry first."""
    changes = list(report.status_changes.all())
    # A member who has left keeps their id.
    names: dict[str, Text] = {**ACTORS, **dict.fromkeys(AUTOMATIC, "")}
    actors = {one.actor for one in changes}
    names |= {actor: _("staff") for actor in actors if hide_staff(actor) != actor}
    names |= names_of_actors(report.workspace_id, actors)
    entries = []
    for change in changes:
        state = HAPPENED.get(change.trigger, State(change.trigger))
        if change.trigger == CHECK_ENDED:
            state = STATES[Topic.REPORT][change.target]
        by = names.get(change.actor, change.actor)
        entries.append(Entry(change.created_at, *state, by))
    if report.erased_at and all(one.trigger != ERASED for one in changes):
        # The erasure of an ended report changes no status.
        entries.append(Entry(report.erased_at, *HAPPENED[ERASED], ""))
        entries.sort(key=lambda entry: entry.at)
    return entries[::-1]
