"""The notice that a subject reads before deciding: versioned text in `texts/`.

`texts/<version>.<language>.toml` holds one version in one language, in the order of the
page. The page shows the parts of a Notice. The evidence of the decision keeps
`Notice.text`, which is the same as plain text.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.conf import settings

from verification.consents.models import Consent
from verification.decisions.models import PolicyMode, PolicyVersion
from verification.providers.base import Provider
from verification.providers.registry import (
    Recipient,
    Route,
    asks_referee,
    recipient,
    restrict_route,
    route_for,
)
from verification.reports.models import PaymentMode, Report, SubjectType
from verification.values.formats import one_line
from workspaces.models import Environment

FOLDER = Path(__file__).parent / "texts"
# Country of the subject -> version of the notice.
VERSIONS: dict[str, str] = {"KE": "ke-2026-11g"}
DEFAULT_VERSION = "ke-2026-11g"
# The rights whose deadlines the notice sums up
ANSWERED = ("CORRECTION", "OBJECTION", "ERASURE")


@dataclass(frozen=True, slots=True)
class Point:
    """A heading with its text; `sent` lists what a check sends, and to whom."""

    heading: str
    text: str
    sent: str = ""

    def __str__(self) -> str:
        return f"{self.heading}: {self.text} {self.sent}".rstrip()


@dataclass(frozen=True, slots=True)
class Notice:
    """A version of the text, filled in for one consent.

    The page shows `paragraphs`, and `full` collapsed below them. `agreement`, `not_me`
    and `withdrawal` are the statements behind the buttons of these names. `sources`
    names the sources in the text for each check, in the order of the route: after the
    subject agrees, a check asks no other source. `automated` tells whether the text
    says that rules can decide alone; otherwise they only propose.
    """

    version: str
    language: str
    title: str
    lead: str
    facts: tuple[Point, ...]
    checks: tuple[Point, ...]
    paragraphs: tuple[Point, ...]
    full: tuple[Point, ...]
    agreement: str
    not_me: str
    withdrawal: str
    sources: dict[str, list[str]]
    automated: bool

    @property
    def text(self) -> str:
        points = (*self.facts, *self.checks, *self.paragraphs, *self.full)
        return "\n".join([self.title, self.lead, *map(str, points), self.agreement])

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode()).hexdigest()


def notice_for(consent: Consent, language: str) -> Notice:
    """Return the present notice for this consent in one of LANGUAGES."""
    report = consent.report
    version = _version(report)
    source, values = _source(version, language), _values(report)
    providers_by_check = _asked_sources(report)
    recipients_by_check = _recipients(
        report, providers_by_check, source["sent"], values, language
    )
    has_referee = any(
        not providers and asks_referee(name, report.environment)
        for name, providers in providers_by_check.items()
    )
    values["abroad"] = _transfers_abroad(
        recipients_by_check, source["abroad"], values, has_referee=has_referee
    )
    values["protected"] = source["protected"]["referee"] if has_referee else ""
    form = "_company" if report.subject_type == SubjectType.COMPANY else ""
    return Notice(
        version=version,
        language=language,
        title=source[f"title{form}"].format(**values),
        lead=source["lead"].format(**values),
        facts=tuple(_facts(source["facts"], report)),
        checks=tuple(
            replace(
                point, sent=_sent(source, name, recipients_by_check.get(name), values)
            )
            for name, point in _points_of_checks(
                source["checks"], report.checks_requested
            )
        ),
        paragraphs=_points(source["duties"], values),
        full=_points(source["full"], values),
        agreement=source[f"agreement{form}"].format(**values),
        not_me=source["not_me"].format(**values),
        withdrawal=source["withdrawal"].format(**values),
        sources={
            name: [one.name for one in found]
            for name, found in providers_by_check.items()
        },
        automated=not (values["decides_nothing"] or values["proposes"]),
    )


def timezone_of(report: Report) -> str:
    """Return the time zone of the times on the pages of this report."""
    return str(_source(_version(report), "en")["timezone"])


def check_headings(names: Iterable[str], version: str, language: str) -> list[str]:
    """Return the headings of these checks in this version of the notice.

    If there is no such version, as when staff withdraw for a subject, return those of
    the present one.
    """
    if not (FOLDER / f"{version}.{language}.toml").exists():
        version = DEFAULT_VERSION
    texts = _source(version, language)["checks"]
    return [point.heading for _, point in _points_of_checks(texts, names)]


def consented_route(
    consent: Consent | None, check: str, environment: str, country: str
) -> Route:
    """Return the route of the check without sources that the notice did not name.

    A consent from before notices named sources allows no live source. An attested
    consent allows the whole route: the client's own notice names the sources.
    """
    route = route_for(check, environment, country)
    if consent is None or consent.mode != Consent.Mode.SERVICE_HOSTED:
        return route
    return restrict_route(route, consent.shown_sources.get(check))


def _version(report: Report) -> str:
    return VERSIONS.get(report.country, DEFAULT_VERSION)


@cache
def _source(version: str, language: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{version}.{language}.toml").read_text("utf-8"))


def _values(report: Report) -> dict[str, Any]:
    is_company = report.subject_type == SubjectType.COMPANY
    policy = PolicyVersion.active_for(report)
    decides = policy is not None and policy.mode == PolicyMode.DECIDE
    return {
        "is_company": is_company,
        "is_person": not is_company,
        "decides_nothing": policy is None,
        "proposes": policy is not None and not decides,
        "decides_about_company": decides and is_company,
        "decides_about_person": decides and not is_company,
        "client": report.workspace.requester.name,
        "client_contact": report.workspace.requester.contact,
        "service": settings.OPERATOR_NAME,
        "contact": settings.OPERATOR_CONTACT,
        "retention_days": report.workspace.retention_of(
            report.environment, report.created_at
        ).days,
        "my_data": f"{settings.BASE_URL}/my-data",
        "access_days": settings.SUBJECT_REQUEST_DAYS["ACCESS"],
        "review_days": settings.SUBJECT_REQUEST_DAYS["REVIEW"],
        "answer_days": max(settings.SUBJECT_REQUEST_DAYS[k] for k in ANSWERED),
    }


def _points(entries: list[dict[str, str]], values: dict[str, Any]) -> tuple[Point, ...]:
    return tuple(
        Point(entry["heading"].format(**values), entry["text"].format(**values))
        for entry in entries
        if "needs" not in entry or values[entry["needs"]]
    )


def _asked_sources(report: Report) -> dict[str, tuple[Provider, ...]]:
    """Return the live sources of each check, in order; none in the sandbox."""
    routes = {
        name: route_for(name, report.environment, report.country)
        for name in report.checks_requested
    }
    return {
        name: route.providers if route.is_live else () for name, route in routes.items()
    }


# Check -> recipients, where None stands for a watch list of this service. The sandbox
# has no recipients.
_Recipients = dict[str, list[Recipient | None]]


def _recipients(
    report: Report,
    providers_by_check: dict[str, tuple[Provider, ...]],
    words: dict[str, str],
    values: dict[str, Any],
    language: str,
) -> _Recipients:
    if report.environment == Environment.SANDBOX:
        return {}
    referee = Recipient(words["referee"].format(**values))
    return {
        name: [recipient(one.name, name, language) for one in providers]
        or [referee] * asks_referee(name, report.environment)
        for name, providers in providers_by_check.items()
    }


def _sent(
    source: dict[str, Any],
    check: str,
    recipients: list[Recipient | None] | None,
    values: dict[str, Any],
) -> str:
    """Name the details that the check sends and their recipients, in route order."""
    words = source["sent"]
    if recipients is None:
        return ""
    if not recipients:
        return str(words["nobody"])
    steps = [_step(words, nth, one, values) for nth, one in enumerate(recipients)]
    if any(recipients):
        entry = source["checks"].get(check, source["checks"]["other"])
        steps.insert(0, words["what"].format(what=entry["sent"]))
    return " ".join(steps)


def _step(
    words: dict[str, str], nth: int, one: Recipient | None, values: dict[str, Any]
) -> str:
    if one is None:
        return words["here_next" if nth else "here"].format(**values)
    form = "asking" if one.register else "place"
    named = words[form].format(**asdict(one)) if one.country else one.name
    return words["otherwise" if nth else "to"].format(recipient=named)


def _transfers_abroad(
    recipients_by_check: _Recipients,
    words: dict[str, str],
    values: dict[str, Any],
    *,
    has_referee: bool,
) -> str:
    """Name each recipient outside Kenya once, with the safeguards there.

    A referee may be in any country, so the text names them as well.
    """
    if not recipients_by_check:
        return words["test"]
    places = {
        words["some"].format(
            name=one.name[:1].upper() + one.name[1:],
            country=one.country,
            safeguards=one.safeguards.format(**values),
        )
        for recipients in recipients_by_check.values()
        for one in recipients
        if one and one.is_abroad
    }
    sentences = [*sorted(places), words["risk"]] if places else []
    if has_referee:
        sentences.append(words["referee"])
    sentences = sentences or [words["none"]]
    return " ".join([*sentences, words["client"].format(**values)])


def _facts(words: dict[str, str], report: Report) -> Iterable[Point]:
    if report.environment == Environment.SANDBOX:
        yield Point(words["test"], words["test_text"])
    yield Point(words["why"], one_line(report.purpose))
    if report.reference:
        yield Point(words["reference"], one_line(report.reference))
    payment = getattr(report, "payment", None)
    if report.payment_mode == PaymentMode.CANDIDATE and payment and payment.amount:
        amount = f"{payment.currency} {payment.amount}"
        yield Point(words["cost"], words["priced"].format(amount=amount))
    else:
        yield Point(words["cost"], words["free"])


def _points_of_checks(
    texts: dict[str, dict[str, str]], names: Iterable[str]
) -> Iterable[tuple[str, Point]]:
    for name in names:
        text = texts.get(name, texts["other"])
        yield name, Point(text["heading"].format(name=name), text["text"])
