"""Alerts in words: what changed about a subject, in the reader's language."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from monitoring.alerts import DETAILS
from monitoring.models import Alert, AlertKind
from verification.checks.finding_words import FLAGS, humanise_name, label_of, text_of
from verification.console.words import WORDS

# A sentence of an alert's message about a check without an answer
NO_ANSWER = re.compile(r"([A-Z][A-Z0-9_]+) could not be done in (?:(\d+) runs)?")
# The name of each check
Names = Mapping[str, str]


def alert_sentences(alert: Alert, names: Names) -> list[str]:
    """Return what changed, check by check, the risk first."""
    if alert.kind == AlertKind.NO_ANSWER:
        found = NO_ANSWER.findall(alert.message)
        return [_no_answer(names.get(code, code), runs) for code, runs in found]
    found = [one for change in alert.changes for one in _sentences(change, names)]
    return [*found, *_other_fields(alert, names)] or [alert.title]


def compared_values(alert: Alert, names: Names) -> list[dict[str, str]]:
    """Return each change with its values before and now; a missing value is blank."""
    return [
        {
            "check": names.get(change["checkName"], change["checkName"]),
            "what": _field_name(change["field"]),
            "before": _value(change["field"], change["old"]),
            "now": _value(change["field"], change["new"]),
        }
        for change in alert.changes
    ]


def _sentences(change: dict[str, Any], names: Names) -> Iterator[str]:
    told = {"check": names.get(change["checkName"], change["checkName"])}
    field, old, new = change["field"], change["old"], change["new"]
    if field == "riskLevel":
        told |= {"before": _level(old), "now": _level(new)}
        yield _("%(check)s went from %(before)s to %(now)s risk") % told
    elif field == "flags":
        before, now = _severities(old), _severities(new)
        for code in sorted(now.keys() - before.keys()):
            yield _("%(check)s: %(flag)s") % {**told, "flag": flag_sentence(code)}
        for code in sorted(before.keys() - now.keys()):
            told["flag"] = flag_sentence(code)
            yield _("%(check)s, no longer: %(flag)s") % told
        for code in sorted(now.keys() & before.keys()):
            if now[code] != before[code]:
                told |= {"flag": flag_sentence(code), "now": _level(now[code])}
                yield _("%(check)s, now %(now)s: %(flag)s") % told


def _no_answer(check: str, runs: str) -> str:
    told = {"check": check, "runs": runs}
    if not runs:
        return _("%(check)s gave no answer") % told
    return _("%(check)s gave no answer in %(runs)s runs in a row") % told


def _other_fields(alert: Alert, names: Names) -> Iterator[str]:
    """Name the fields of each check that have another value, in one sentence."""
    fields: dict[str, list[str]] = {}
    for change in alert.changes:
        if change["field"].startswith(DETAILS):
            label = label_of(change["field"].removeprefix(DETAILS))
            fields.setdefault(change["checkName"], []).append(label)
    for code, labels in fields.items():
        told = {"check": names.get(code, code), "fields": ", ".join(labels)}
        yield _("%(check)s, changed: %(fields)s") % told


def _field_name(field: str) -> str:
    names = {"riskLevel": _("Risk"), "flags": _("Flags")}
    return names.get(field) or label_of(field.removeprefix(DETAILS))


def flag_sentence(code: str) -> str:
    return str(FLAGS[code]) if code in FLAGS else humanise_name(code.lower())


def _severities(flags: Iterable[dict[str, str]]) -> dict[str, str]:
    return {flag["code"]: flag["severity"] for flag in flags}


def _level(code: str) -> str:
    return str(WORDS["risk"].get(code, code)).lower()


def _value(field: str, value: Any) -> str:
    if field == "riskLevel":
        return str(WORDS["risk"].get(value, value or ""))
    if field != "flags":
        return text_of(value, field.removeprefix(DETAILS))
    return " ".join(
        f"{flag_sentence(flag['code'])} ({_level(flag['severity'])})" for flag in value
    )
