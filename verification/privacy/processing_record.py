"""The record of processing activities, from the configuration of this installation.

It lists the controllers, data subjects, purposes, recipients, retention periods and
safeguards, which the Data Commissioner demands of a controller or processor (Data
Protection Act, 2019, sections 18, 19, 25, 29 and 39; General Regulations, 2021,
regulations 19 to 21, 24 and 25). It names clients and holds no data of subjects.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Exists, Model, OuterRef, Q

from monitoring.models import Rule
from verification import tracing
from verification.batches.models import UPLOAD_RETENTION, Upload
from verification.checks import next_results
from verification.checks.callbacks import ANSWER_RETENTION
from verification.checks.catalogue import CATALOGUE
from verification.documents import pdf
from verification.golive import applications
from verification.golive.models import Application, Document
from verification.jobs.schedules import FAILURE_RETENTION
from verification.notifications import outbox
from verification.notifications.models import Notification
from verification.notifications.sms import sms_is_configured
from verification.payments import alerts, provider_events
from verification.payments.models import Checkout, PaymentEvent
from verification.payments.registry import LABELS
from verification.privacy.models import RequestKind, StaffErasure, SubjectRequest
from verification.privacy.personal_data import TABLES
from verification.privacy.requests import DETAILS_RETENTION
from verification.privacy.staff_erasures import TIME_TO_DECIDE
from verification.providers import registry
from verification.reports.models import IdempotencyRecord, Report
from verification.sources import health
from verification.sources.models import Call
from verification.values.local_time import format_nairobi
from webhooks import events
from webhooks.models import Attempt, Event
from workspaces import api_requests, rate_limits
from workspaces.create import OPERATOR_ID
from workspaces.models import ApiKey, Environment, Workspace

TITLE = "Record of processing activities"
WITH_REPORT = "with its report"
NOBODY = "Nobody."

# Activity, whose data, who decides (the operator is the processor of the others), why
# it may be done
ACTIVITIES = [
    (
        "Check people and companies for clients: reports, consents, references",
        "Subjects, referees; directors and shareholders of companies",
        "The client; the operator is its processor",
        "Consent (sections 30(1)(a) and 32); the referee's own answer",
    ),
    (
        "Check again by a rule, and alert the client",
        "Subjects",
        "The client; the operator is its processor",
        "Consent that names monitoring",
    ),
    (
        "Keep what clients decide about reports, also by rules alone, with reasons",
        "Subjects",
        "The client; the operator is its processor",
        "The client's own: contract, legal obligation, or legitimate interest",
    ),
    (
        "Take payments for reports, and give them back",
        "Payers",
        "The operator",
        "Contract (section 30(1)(b)(i)); tax law",
    ),
    (
        "Keep evidence of consent and the register of requests",
        "Subjects",
        "The client and the operator, each for its own duty",
        "Legal obligation (section 30(1)(b)(ii))",
    ),
    (
        "Accounts, keys, invoices and messages of clients",
        "Members of clients, people they invite",
        "The operator",
        "Contract (section 30(1)(b)(i))",
    ),
    (
        "Review companies before they go live",
        "Contacts and directors of clients",
        "The operator",
        "Legitimate interest (section 30(1)(b)(vii))",
    ),
    (
        "Run, secure and audit the service",
        "Staff, members, visitors of pages",
        "The operator",
        "Legitimate interest; security of processing (sections 41 and 42)",
    ),
]

# Table -> the columns that are erased earlier than the report, and their age then
EARLIER: dict[type[Model], tuple[str, timedelta]] = {
    Attempt: ("answers", events.RETENTION),
    Call: ("unread answers", ANSWER_RETENTION),
    Checkout: ("telephones", provider_events.RETENTION),
    Event: ("contents", events.RETENTION),
    IdempotencyRecord: ("answers", timedelta(hours=settings.IDEMPOTENCY_HOURS)),
    Notification: ("recipients and contents", outbox.RETENTION),
    PaymentEvent: ("bodies", provider_events.RETENTION),
    SubjectRequest: ("details", DETAILS_RETENTION),
}


def _hours(time: timedelta) -> int:
    return time // timedelta(hours=1)


APPLICATIONS_ERASED = (
    f"{applications.APPROVED_RETENTION.days // 365} years after the workspace of an "
    "approved company was closed or suspended; of others "
    f"{applications.RETENTION.days} days after the last change, the rejection or the "
    "suspension"
)

# Table with data about people that goes apart from reports -> what, and when
APART: dict[type[Model], tuple[str, str]] = {
    Application: (
        "details of companies that apply to go live, and their contacts",
        APPLICATIONS_ERASED,
    ),
    Document: (
        "documents of these companies, also about directors and shareholders",
        APPLICATIONS_ERASED,
    ),
    Rule: (
        "subjects of monitoring rules",
        "when the client deletes the rule, with its subject, or when it has been "
        "paused for as long as reports are kept",
    ),
    Upload: (
        "rows of uploaded files that are not ordered",
        f"when they are ordered, with a subject, or after "
        f"{_hours(UPLOAD_RETENTION)} hours",
    ),
    StaffErasure: (
        "numbers of people in erasures by staff",
        f"when a second person decides, or after {TIME_TO_DECIDE.days} days",
    ),
}


# Scheduled job that erases -> what, and when
PURGES: dict[str, tuple[str, str]] = {
    "verification.privacy.retention.erase_expired_reports": (
        "reports with all that belongs to them, paused rules, old drafts, and what "
        "the suspension of a workspace has stopped",
        "when the retention of the workspace is over",
    ),
    "verification.privacy.requests.erase_old_details": (
        "what people typed in requests that were answered",
        f"{DETAILS_RETENTION.days} days after the answer",
    ),
    "verification.privacy.staff_erasures.erase_undecided": (
        "numbers of people in erasures by staff that nobody has decided",
        f"after {TIME_TO_DECIDE.days} days",
    ),
    "verification.notifications.outbox.purge_recipients": (
        "recipients and contents of messages, hashes of addresses that refused them",
        f"after {outbox.RETENTION.days} days",
    ),
    "verification.golive.applications.erase_old_applications": (
        "details and documents of applications to go live",
        APPLICATIONS_ERASED,
    ),
    "webhooks.events.purge_events": (
        "contents of events, answers of receivers",
        f"after {events.RETENTION.days} days",
    ),
    "verification.payments.provider_events.purge_payment_events": (
        "events of payment providers, telephones of prompts",
        f"after {provider_events.RETENTION.days} days",
    ),
    "verification.payments.alerts.purge_operator_alerts": (
        "alerts to operators about payments",
        f"after {alerts.RETENTION.days} days",
    ),
    "verification.checks.callbacks.erase_unread_answers": (
        "answers of sources that no check has read",
        f"after {ANSWER_RETENTION.days} day",
    ),
    "verification.batches.models.purge_uploads": (
        "rows of uploaded files that nobody has ordered",
        f"after {_hours(UPLOAD_RETENTION)} hours",
    ),
    "verification.reports.idempotency.purge_idempotency_records": (
        "answers to requests of clients, for repeats",
        f"after {settings.IDEMPOTENCY_HOURS} hours",
    ),
    "workspaces.models.purge_notes": (
        "notes of staff about a client",
        "after the days that the client's production reports are kept",
    ),
    "workspaces.members.end_expired_invitations": (
        "addresses of people who were invited",
        "when the invitation ends",
    ),
    "workspaces.rate_limits.purge_counts": (
        "counts of requests",
        f"after {rate_limits.RETENTION.seconds // 60} minutes",
    ),
    "workspaces.api_requests.purge_api_requests": (
        "times, addresses and outcomes of clients' requests",
        f"a week at a time, after {api_requests.RETENTION.days} days",
    ),
    "verification.accounts.sessions.purge_sessions": (
        "sessions of members and staff",
        f"after {_hours(settings.MEMBER_SESSION[1])} and "
        f"{_hours(settings.STAFF_SESSION[1])} hours",
    ),
    "verification.accounts.models.purge_unconfirmed_users": (
        "accounts that nobody has confirmed",
        "after 30 days",
    ),
    "verification.sources.health.purge_old_minutes": (
        "counts of calls of sources",
        f"after {health.RETENTION.days} days",
    ),
    "verification.checks.next_results.purge_next_results": (
        "outcomes that clients set for checks of the sandbox, under keyed hashes",
        f"after {next_results.LIFETIME.days} days",
    ),
    "verification.jobs.schedules.purge_failures": (
        "failed jobs, which hold ids only",
        f"after {FAILURE_RETENTION.days} days",
    ),
}
STAYS = [
    "What stays of an erased report: ids, checks, states, times and prices.",
    "Ledger, invoices, payments and receipts without payers stay as tax law demands.",
    "The audit trail stays. It holds names of fields and no values, and the reasons of "
    "staff, who name nobody in them.",
    "The register of requests stays without what a person typed.",
    "Names of companies, and the reasons of rejections, stay.",
    "Members and staff stay while they have an account; a deactivated one loses its "
    "password and sessions.",
]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the record: sentences, then a table if it has headings."""

    title: str
    text: Sequence[str] = ()
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class Record:
    title: str
    operator: str
    at: datetime
    sections: tuple[Section, ...]


def processing_record(at: datetime) -> Record:
    """Return the record as the configuration and the rows of this moment make it."""
    return Record(TITLE, settings.OPERATOR_NAME, at, tuple(_sections()))


def _sections() -> Iterator[Section]:
    officers = ", ".join(settings.PRIVACY_CONTACTS) or "not named (PRIVACY_CONTACTS)"
    yield Section(
        "Who keeps this record",
        [
            f"Operator: {settings.OPERATOR_NAME}, {settings.OPERATOR_CONTACT}.",
            f"Data protection officer: {officers}.",
            f"Service: {settings.BASE_URL}.",
            "Counsel has to confirm the legal bases and sections below.",
        ],
    )
    yield Section(
        "Activities and purposes",
        headings=("Activity", "About whom", "Who decides", "Legal basis"),
        rows=ACTIVITIES,
    )
    yield _clients()
    yield Section(
        "Categories of data",
        ["Each table with data about subjects, payers, referees and directors."],
        ("Data", "Table", "Erased"),
        [
            *((table.what, table.name, _erased(table.model)) for table in TABLES),
            *((what, m._meta.db_table, when) for m, (what, when) in APART.items()),
        ],
    )
    yield sources_section()
    yield recipients_section()
    yield retention_section()
    yield Section(
        "Rights and deadlines",
        headings=("Right", "Days to answer"),
        rows=[
            (str(kind.label), str(settings.SUBJECT_REQUEST_DAYS[kind]))
            for kind in RequestKind
        ],
    )
    yield Section("Safeguards", _safeguards())


def _clients() -> Section:
    """Return the clients who may use production, or have used it."""
    production = {"workspace": OuterRef("pk"), "environment": Environment.PRODUCTION}
    found = Workspace.objects.exclude(pk=OPERATOR_ID).annotate(
        uses_production=Q(go_live=Workspace.GoLive.APPROVED)
        | Exists(ApiKey.objects.filter(**production))
        | Exists(Report.objects.filter(**production))
    )
    live = found.filter(uses_production=True).order_by("name")
    sandbox = found.filter(uses_production=False).count()
    return Section(
        "Clients whose processor the operator is",
        [f"{sandbox} more workspaces use the sandbox alone, with made-up people."],
        ("Client", "Contact", "Production reports are kept"),
        [
            (w.requester.name, w.contact, _days(w.retention(Environment.PRODUCTION)))
            for w in live
        ],
    )


def _days(time: timedelta) -> str:
    return f"{time.days} days" if time.days != 1 else "1 day"


def _erased(model: type[Model]) -> str:
    if model not in EARLIER:
        return WITH_REPORT
    what, after = EARLIER[model]
    return f"{what} after {_days(after)}, or {WITH_REPORT}"


def retention_section() -> Section:
    """Return what the jobs erase by the clock, and what stays."""
    return Section(
        "Retention",
        ["Jobs erase these by the clock.", *STAYS],
        ("Job", "What", "When"),
        [(job.rpartition(".")[2], *entry) for job, entry in sorted(PURGES.items())],
    )


def sources_section() -> Section:
    """Return the live sources on the routes of checks, as recipients."""
    checks: dict[tuple[str, str, str], list[str]] = {}
    for entry in CATALOGUE:
        for provider in registry.sources_of(entry.name):
            found = registry.recipient(provider.name, entry.name, "en")
            safeguards = ""
            if found is None:
                key = (provider.name, "this installation", safeguards)
            else:
                if found.is_abroad:
                    given = found.safeguards or "Name the safeguards in the contract."
                    safeguards = given.format(service=settings.OPERATOR_NAME)
                key = (found.name, found.country or "unknown", safeguards)
            checks.setdefault(key, []).append(entry.name)
    text = "Each gets what its check needs, from production alone."
    texts = [text if checks else "No live source is configured."]
    if not list(registry.sources_of(registry.REFEREE_CHECK)):
        texts.append(
            "A referee whom the client names is asked by e-mail about an employment."
        )
    return Section(
        "Sources that receive details of subjects",
        texts,
        ("Source", "Country", "Checks", "Safeguards abroad"),
        [
            (name, country, ", ".join(names), safeguards or "-")
            for (name, country, safeguards), names in sorted(checks.items())
        ],
    )


def recipients_section() -> Section:
    """Return who else receives data, by the configuration."""
    rows = [
        ("The client", "reports, events, documents", "API, console, webhooks by https"),
        *(
            (LABELS.get(name, name), "payer's telephone or e-mail, amount", "https")
            for name in settings.PAYMENT_PROVIDERS
        ),
    ]
    if settings.EMAIL_BACKEND.endswith("smtp.EmailBackend"):
        is_encrypted = settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL
        how = "TLS" if is_encrypted else "no TLS to the server"
        rows.append((f"Mail server {settings.EMAIL_HOST}", "messages by e-mail", how))
    if sms_is_configured():
        rows.append(("Africa's Talking", "messages by SMS", "https"))
    if "s3" in settings.STORAGES["documents"]["BACKEND"].lower():
        rows.append(("Bucket of documents", "sealed documents", "https"))
    if settings.AUDIT_EXPORT_URL:
        url = urlsplit(settings.AUDIT_EXPORT_URL)
        what = "the audit trail, with names and addresses of users"
        rows.append((f"Log store {url.hostname}", what, url.scheme))
    for provider in settings.IDENTITY_PROVIDERS.values():
        url = urlsplit(provider.issuer)
        what = "when its members and staff log in"
        rows.append((f"Identity provider {url.hostname}", what, url.scheme))
    if tracing.is_on():
        what = "traces: ids of reports, routes, times"
        rows.append(("OpenTelemetry collector", what, "http or https"))
    text = "Authorities receive data only if a law demands it."
    return Section("Other recipients", [text], ("Recipient", "What", "How"), rows)


def _safeguards() -> list[str]:
    scheme = "https" if settings.BASE_URL.startswith("https:") else "plain HTTP"
    scanner = "with a virus scanner" if settings.CLAMAV else "without a virus scanner"
    return [
        "Personal fields and documents are encrypted with AES-256-GCM under a key of "
        f"each column, bound to the row. Keys in use: {len(settings.FIELD_KEYS)}.",
        "Names of subjects are readable in the database, so that clients and staff "
        "find reports.",
        "Values are found by keyed hashes. The keys lie apart from database and "
        "backups.",
        f"Pages and the API use {scheme}; calls to sources and receivers use TLS.",
        "Staff and members of live clients need a second factor. Sessions of staff end "
        f"after {settings.STAFF_SESSION[0].seconds // 60} minutes without a request.",
        "Staff see personal data masked until they give a reason, which the audit "
        "trail keeps. The database refuses changes of the trail.",
        "Large refunds, bookings and new superusers need a second person.",
        "Subjects prove who they are before they see a report; wrong answers lock.",
        f"Uploaded documents are inspected, {scanner}.",
        "Logs, addresses of pages and arguments of jobs hold no personal data.",
    ]


def as_markdown(record: Record) -> str:
    made = f"{record.operator}, {format_nairobi(record.at)}."
    parts = [f"# {record.title}", made]
    for section in record.sections:
        parts.append(f"## {section.title}")
        if section.text:
            parts.append("\n".join(f"- {_cell(line)}" for line in section.text))
        if section.headings:
            rows = section.rows or [(NOBODY, *[""] * (len(section.headings) - 1))]
            lines = [section.headings, ["---"] * len(section.headings), *rows]
            parts.append("\n".join(f"| {' | '.join(map(_cell, r))} |" for r in lines))
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    """Escape what Markdown would read as markup: clients choose their names."""
    return text.translate({ord(c): f"\\{c}" for c in "\\|<>`*_[]"})


def as_pdf(record: Record) -> bytes:
    data: dict[str, Any] = {
        "title": record.title,
        "operator": record.operator,
        "at": format_nairobi(record.at),
        "nobody": NOBODY,
        "sections": [asdict(section) for section in record.sections],
    }
    return pdf.render_document("processing_record.typ", record.at, data)
