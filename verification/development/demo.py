"""Fill the demo workspace with examples for newcomers.

The demo has about 60 reports of 90 days in every state, decisions and a queue, rules
with alerts, failed deliveries, a payment with a review flag, and an application to
review. The service's own functions create all of them, and the sandbox runs the checks.
The last step moves them into the past; a file of applicants was ordered today.

`created_by` distinguishes the demo's reports and rules from those that a newcomer
creates in the same workspace. If a start is interrupted, the next one completes the
demo: each step skips rows that exist, and the last step records the end.
"""

import io
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate
from random import Random
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import OperationalError, connection, transaction
from django.db.models import QuerySet
from django.utils.timezone import now
from PIL import Image, ImageDraw

from monitoring.models import Rule
from monitoring.rules import read_rule
from monitoring.runs import RunRefused, create_rule, run_now
from verification.backoffice import audit
from verification.backoffice.audit import Actor
from verification.backoffice.models import ActorKind, AuditEvent
from verification.batches.models import Batch
from verification.batches.spreadsheet import CSV, read_sheet, write_sheet
from verification.checks.models import CheckPackage, CheckResult
from verification.consents.models import Consent, ConsentRecord
from verification.consents.notices import notice_for
from verification.consents.subject_decisions import Evidence, decline, digest_of, grant
from verification.console.batches import OpenUpload, judge, place_batch, store_upload
from verification.console.order_inputs import Choice
from verification.db import embedded
from verification.db.base import run_sql
from verification.db.ids import uuid7
from verification.decisions.decide import Maker, NewDecision, decide
from verification.decisions.findings import decidable_reports
from verification.decisions.models import DecisionStatus
from verification.decisions.notices import credit_results
from verification.development.local_pages import (
    ADDRESSES,
    APPLICANT,
    OWNER,
    make_person,
)
from verification.figures.daily import count_changed_days
from verification.files.inspection import PNG, InspectedFile
from verification.golive import applications
from verification.golive.applications import ActingUser
from verification.golive.models import DocumentKind, Status
from verification.jobs.queue import schedule_job
from verification.payments import checkouts
from verification.payments.alerts import raise_review_flag
from verification.payments.models import Checkout, Payment, ReviewFlag
from verification.payments.provider_events import record_provider_event
from verification.payments.sandbox_provider import SandboxProvider, end_sandbox_checkout
from verification.providers.payment_provider import CheckoutState, ProviderEvent
from verification.reports.create import create_reports
from verification.reports.ends import cancel
from verification.reports.models import (
    PaymentMode,
    Report,
    ReportStatus,
    RiskLevel,
    SubjectType,
)
from verification.reports.request import (
    RuleContext,
    catalogue,
    named_packages,
    read_orders,
)
from webhooks.attempts import RETRY_DELAYS
from webhooks.configuration import configure
from webhooks.models import Configuration, Event
from workspaces.create import create_workspace
from workspaces.ledger import account_of
from workspaces.members import assign_owner
from workspaces.models import Client, Environment, Member, Workspace

logger = logging.getLogger(__name__)

NAME = "Demo"
DAYS = 90
# The reports without a decision and those that wait for an answer are more recent.
UNDECIDED_DAYS = 2
WAITING_DAYS = 9
# `created_by` of the demo's reports and rules, but for those of the file; the names of
# keys and people are longer.
ACTOR = "demo"
FILLED = "demo.filled"
# The id of the advisory lock of the process that fills the demo.
LOCK = 20
SECONDS_TO_END = 60
TRIES = 5
PEOPLE = [
    "Amina Wanjiru Otieno",
    "Brian Kiprotich Koech",
    "Caroline Achieng Odhiambo",
    "Daniel Mwangi Kamau",
    "Esther Nyambura Maina",
    "Fatuma Hassan Ali",
    "George Ochieng Ouma",
    "Halima Abdi Noor",
    "Isaac Kipchumba Rono",
    "Joyce Wairimu Njoroge",
    "Kevin Mutua Musyoka",
    "Lilian Atieno Okoth",
    "Moses Kariuki Gitau",
    "Nancy Chebet Langat",
    "Oscar Barasa Wekesa",
    "Purity Makena Mwiti",
]
PURPOSES = ["Loan application", "Tenancy", "Employment"]
COMPANIES = ["Baraka Hardware Ltd", "Mara Logistics Ltd", "Tumaini Foods Ltd"]
ATTESTED = {
    "mode": "CUSTOMER_ATTESTED",
    "obtained": True,
    "obtainedAt": "2026-01-15T09:00:00Z",
    "method": "CUSTOMER_WEB_FORM",
    "policyVersion": "1",
}
HOSTED = {"mode": "SERVICE_HOSTED"}
# The owner's input for all rows of a file
COMMON = {
    "purpose": "Loan application",
    "consent-obtained": "on",
    "consent-obtainedAt": "2026-01-15T09:00",
    "consent-method": "PAPER_FORM",
    "consent-policyVersion": "1",
}
DECISION_HOURS = 24
# The last reports that have ended wait for a decision.
UNDECIDED = 6
# The operator's packages: (name, title, checks, price)
PACKAGES: list[tuple[str, str, list[str], int]] = [
    (
        "loan-applicant",
        "Loan applicant",
        ["IDENTITY", "KRA_PIN", "CRB_SCORE"],
        200,
    ),
    (
        "new-employee",
        "New employee",
        ["IDENTITY", "KRA_PIN", "EMPLOYER_VERIFICATION"],
        540,
    ),
]
FILE = "applicants.csv"
# No such host exists, so each delivery fails.
RECEIVER = "https://hooks.demo-lender.invalid/verification"
# The last digit of a reserved number decides the sandbox's answer.
CLEAR, NOT_FOUND, OTHER_NAME, ADVERSE, DOWN, CHANGING, REFUSED = 0, 1, 2, 3, 5, 7, 8
NEXT_TRY = timedelta(days=7)
# Columns with the time of the next action keep their values.
UNMOVED_COLUMNS = "^(next_|leased_|turn_|put_off_)"
# The seconds from an event to each attempt of a failed delivery.
RETRY_SECONDS = list(accumulate(RETRY_DELAYS, initial=0))
MOVE_DELIVERIES = f"""
UPDATE webhooks_attempt t SET started_at = t.started_at - age
FROM webhooks_event e JOIN ages USING (report_id) WHERE e.id = t.delivery_id;
UPDATE webhooks_delivery d SET created_at = e.created_at,
    status = CASE WHEN age > interval '4 days' THEN 'FAILED' ELSE d.status END,
    next_attempt_at = CASE WHEN age > interval '4 days' THEN NULL
        ELSE d.next_attempt_at END,
    leased_until = NULL
FROM webhooks_event e JOIN ages USING (report_id)
WHERE e.id = d.event_id AND d.status <> 'DELIVERED';
INSERT INTO webhooks_attempt
    (id, delivery_id, number, url, started_at, duration_ms, error)
SELECT gen_random_uuid(), d.event_id, tries.number, c.url,
    d.created_at + make_interval(secs => tries.waited), 12, 'NAME_UNKNOWN'
FROM webhooks_event e JOIN ages USING (report_id)
JOIN webhooks_delivery d ON d.event_id = e.id AND d.status = 'FAILED'
JOIN webhooks_configuration c ON c.id = d.configuration_id
CROSS JOIN unnest(ARRAY{RETRY_SECONDS}) WITH ORDINALITY AS tries(waited, number)
WHERE tries.number > d.attempts;
UPDATE webhooks_delivery d SET attempts = made.number, failures = made.number
FROM (
    SELECT delivery_id, max(number) AS number FROM webhooks_attempt
    JOIN webhooks_event e ON e.id = delivery_id JOIN ages USING (report_id)
    GROUP BY delivery_id
) AS made WHERE made.delivery_id = d.event_id AND d.status = 'FAILED'
"""  # noqa: S608
COMPANY = "Mavuno Traders Limited"
APPLICATION = {
    "registrationNumber": "SBX-0000000",
    "kraPin": "P051234567X",
    "country": "KE",
    "address": "Moi Avenue 1, Nairobi",
    "contactName": "Grace Wambui",
    "contactEmail": "grace@example.com",
    "contactPhone": "+254712345678",
    "publicContact": "help@mavuno.example",
    "purpose": "Credit to shopkeepers",
    "volume": "101-1000",
}


def require_embedded_server() -> None:
    """Raise CommandError if DATABASE_URL names a database."""
    if not embedded.is_used():
        raise CommandError("Unset DATABASE_URL: the demo needs the embedded server.")


def demo_workspace() -> Workspace:
    """Return the workspace of the demo's owner; create it if it is missing."""
    owner = make_person(OWNER, name="Demo owner")
    found = Workspace.objects.filter(members__user=owner)
    return found.order_by("id").first() or _workspace_of(owner, NAME)


@transaction.atomic
def _workspace_of(owner: User, name: str) -> Workspace:
    workspace = create_workspace(name=name, owner_email=owner.email)
    assign_owner(workspace, owner.email)
    return workspace


def fill() -> None:
    """Create the demo once, or complete an interrupted one."""
    # The process holds the lock until it ends.
    if not run_sql("SELECT pg_try_advisory_lock(%s)", [LOCK])[0][0]:
        return
    demo = Demo(demo_workspace())
    if demo.is_filled():
        return
    demo.receive_events()
    demo.order()
    demo.answer_requests()
    demo.pay()
    demo.create_rules()
    demo.decide()
    demo.order_by_file()
    demo.cancel_reports()
    demo.order_from_unavailable_source()
    apply_to_go_live()
    demo.move_into_the_past()


def offer_packages() -> None:
    """Create the operator's packages, which all workspaces can order."""
    for name, title, checks, price in PACKAGES:
        given = {"display_name": title, "checks": checks, "price": price}
        CheckPackage.objects.get_or_create(workspace=None, name=name, defaults=given)


class Demo:
    """The steps, which are safe to repeat: each skips rows that exist."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        account = account_of(workspace, Environment.SANDBOX)
        self.client = Client(workspace, account, ACTOR)
        # A fixed seed gives the same people and references at each start.
        self.chance = Random(20)  # noqa: S311
        self.number = 1000
        self.reports = Report.objects.filter(workspace=workspace, created_by=ACTOR)
        self.rules = Rule.objects.filter(workspace=workspace, created_by=ACTOR)

    def is_filled(self) -> bool:
        filled = AuditEvent.objects.filter(workspace_id=self.workspace.pk)
        return filled.filter(action=FILLED).exists()

    def receive_events(self) -> None:
        if Configuration.objects.filter(workspace=self.workspace).exists():
            return
        configure(
            self.workspace.pk,
            Environment.SANDBOX,
            url=RECEIVER,
            enabled=True,
            events=[Event.Name.REPORT_READY, Event.Name.REPORT_FAILED],
            secret=secrets.token_urlsafe(24),
            actor=audit.SERVICE,
        )

    def order(self) -> None:
        """Create reports that end, and reports that wait for each kind of answer."""
        offer_packages()
        workspaces = Workspace.objects.filter(pk=self.workspace.pk)
        workspaces.update(decision_hours=DECISION_HOURS)
        clear = [self.person(CLEAR) for _ in range(20)]
        scores = [self.applicant(CLEAR) for _ in range(6)]
        bad = [self.person(digit) for digit in (NOT_FOUND, OTHER_NAME, ADVERSE) * 2]
        firms = map(self.company, (CLEAR, CLEAR, ADVERSE))
        ended = [*clear, *scores, *bad, *firms]
        self.chance.shuffle(ended)
        self.create(*ended)
        self.create(*(self.person(REFUSED) for _ in range(3)))
        self.create(self.two_checks(REFUSED), self.two_checks(REFUSED))
        self.create(*(self.person(CLEAR) for _ in range(3)), draft=True)
        self.create(*(self.person(CLEAR, consent=HOSTED) for _ in range(8)))
        paid = {"paymentMode": "CANDIDATE"}
        self.create(*(self.person(CLEAR, **paid) for _ in range(6)))

    def create(self, *items: Mapping[str, Any], draft: bool = False) -> None:
        known = set(self.reports.values_list("reference", flat=True))
        missing = [item for item in items if item["reference"] not in known]
        if not missing:
            return
        body = {"reports": missing, "draft": draft}
        packages = named_packages(self.workspace.pk, missing)
        orders = read_orders(
            body, RuleContext(catalogue(), Environment.SANDBOX, packages)
        )
        create_reports(self.client, orders)

    def person(self, digit: int, *checks: str, **members: Any) -> dict[str, Any]:
        self.number += 1
        name = self.chance.choice(PEOPLE)
        return {
            "subject": {
                "subjectType": "INDIVIDUAL",
                "fullName": name,
                "idNumber": f"9000000{digit}",
                "dateOfBirth": f"19{self.chance.randint(60, 99)}-03-27",
                "email": f"{name.split()[0].lower()}.{self.number}@example.com",
            },
            "checksRequested": list(checks or ["IDENTITY"]),
            "purpose": self.chance.choice(PURPOSES),
            "consent": ATTESTED,
            "reference": f"LN-{self.number}",
            "reuse": False,
            **members,
        }

    def applicant(self, digit: int) -> dict[str, Any]:
        """Return an order by a package of the operator."""
        item = {**self.person(digit), "package": PACKAGES[0][0]}
        del item["checksRequested"]
        return item

    def two_checks(self, digit: int) -> dict[str, Any]:
        """Return an order of two checks; the second is always clear."""
        item = self.person(digit, "IDENTITY", "KRA_PIN")
        item["subject"]["kraPin"] = "A900000000Z"
        return item

    def company(self, digit: int) -> dict[str, Any]:
        self.number += 1
        return {
            "subject": {
                "subjectType": "COMPANY",
                "fullName": self.chance.choice(COMPANIES),
                "registrationNumber": f"SBX-000000{digit}",
            },
            "checksRequested": ["BUSINESS_VERIFICATION"],
            "purpose": "New supplier",
            "reference": f"SUP-{self.number}",
            "reuse": False,
        }

    def hosted_consents(self) -> QuerySet[Consent]:
        """Return the requests for consent, answered or not, oldest first."""
        consents = Consent.objects.filter(
            report__in=self.reports, mode=Consent.Mode.SERVICE_HOSTED
        )
        return consents.select_related("report__workspace").order_by("id")

    def answer_requests(self) -> None:
        """Let three subjects agree and one refuse."""
        for number, consent in enumerate(self.hosted_consents()[:4]):
            if consent.status != Consent.Status.PENDING:
                continue
            notice = notice_for(consent, "en")
            evidence = Evidence(
                text=notice.text,
                notice_version=notice.version,
                language="en",
                typed_name=consent.report.subject_name,
                confirmed_by="DATE_OF_BIRTH",
                address="197.248.0.1",
                user_agent="Mozilla/5.0 (demo)",
            )
            if number < 3:
                grant(consent.pk, consent.generation, evidence)
            else:
                reason = "I have not asked for a loan."
                decline(consent.pk, consent.generation, evidence, reason)

    def pay(self) -> None:
        """Let three subjects pay, and open a dispute about one payment."""
        unpaid = Payment.objects.filter(
            report__in=self.reports, report__payment_mode="CANDIDATE"
        )
        payments = list(unpaid.select_related("report").order_by("id")[:3])
        for payment in payments:
            if payment.report.status != ReportStatus.PENDING_PAYMENT:
                continue
            checkout = checkouts.open_checkout(payment.pk, payment.generation)
            checkouts.open_at_provider(checkout, "en")
            end_sandbox_checkout(checkout.reference, CheckoutState.PAID)
            event = ProviderEvent(str(uuid7()), "checkout.paid", checkout.reference)
            record_provider_event(SandboxProvider.name, event, b"{}")
        disputed = Checkout.objects.filter(payment_id=payments[-1].pk).latest("id")
        raise_review_flag(disputed.pk, ReviewFlag.DISPUTED)

    def create_rules(self) -> None:
        """Create three rules; the findings of the last two change with every run."""
        for digit, name in (
            (CLEAR, "IDENTITY"),
            (CHANGING, "CRB_SCORE"),
            (7, "IDENTITY"),
        ):
            body = {
                "subject": self.person(digit)["subject"],
                "checkNames": [name],
                "cadence": "MONTHLY",
                "reference": f"WATCH-{self.number}",
            }
            del body["subject"]["email"]
            if self.rules.filter(reference=body["reference"]).exists():
                continue
            request, order = read_rule(body, Environment.SANDBOX, catalogue())
            create_rule(self.client, request, order, audit.SERVICE)
        for made in (1, 2):
            self.wait()
            for rule in self.rules.filter(runs_made=made):
                try:
                    run_now(rule.pk, ACTOR, made=made)
                except RunRefused as e:
                    logger.warning("rule %s did not run: %s", rule.pk, e)

    def decide(self) -> None:
        """Let the owner decide about the reports that are ready, but for the last."""
        owner = self._owner()
        maker = Maker.of_member(owner, Actor(ActorKind.MEMBER, owner.user.username))
        ready = self.reports.filter(status=ReportStatus.READY).order_by("id")
        for report in list(ready.filter(decisions=None))[:-UNDECIDED]:
            new = NewDecision(DecisionStatus.APPROVED)
            if report.risk_level == RiskLevel.HIGH:
                adverse = credit_results(report).filter(risk_level=RiskLevel.HIGH)
                code = "ADVERSE_CREDIT" if adverse.exists() else "OWN_CRITERIA"
                new = NewDecision(DecisionStatus.DECLINED, [code])
            decide(self.client, report.pk, new, maker)

    def order_by_file(self) -> None:
        """Let the owner order the package for the applicants of a file."""
        if Batch.objects.filter(workspace=self.workspace).exists():
            return
        client = replace(self.client, actor=f"member {self._owner().pk}")
        rows = [
            (name, f"9{number:06}{CLEAR}", f"BR-{number}")
            for number, name in enumerate(PEOPLE, start=1)
        ]
        content = write_sheet(CSV, ["Full name", "ID number", "Your reference"], rows)
        choice = Choice(
            SubjectType.INDIVIDUAL,
            "KE",
            (),
            PACKAGES[0][0],
            Consent.Mode.CUSTOMER_ATTESTED,
            PaymentMode.SELF,
        )
        sheet = read_sheet(FILE, content)
        upload = store_upload(client, FILE, sheet, choice, COMMON)
        judged = judge(client, OpenUpload.of(upload))
        assert judged.quote, judged.faults  # noqa: S101
        place_batch(
            client,
            upload,
            judged,
            draft=False,
            digest=judged.quote.digest,
            also=lambda batch: None,
        )

    def _owner(self) -> Member:
        members = self.workspace.members.select_related("user")
        return members.get(user__email=ADDRESSES[OWNER])

    def cancel_reports(self) -> None:
        """Cancel two reports that wait for consent."""
        for consent in self.hosted_consents()[4:6]:
            if consent.report.status == ReportStatus.PENDING_CONSENT:
                cancel(self.client, consent.report_id)

    def order_from_unavailable_source(self) -> None:
        """Create reports that keep running, because their next try is in a week."""
        self.create(self.two_checks(DOWN), self.person(DOWN), self.person(DOWN))
        self.wait()

    def wait(self) -> None:
        """Wait until all reports have ended, except those whose source is down."""
        running = self.reports.filter(
            status__in=[ReportStatus.RUNNING, ReportStatus.PARTIAL], completed_at=None
        )
        # The demo shows running reports, which the engine would end within minutes.
        blocked = CheckResult.objects.filter(
            report__in=self.reports, completed_at=None, tries__gt=0
        )
        deadline = time.monotonic() + SECONDS_TO_END
        while time.monotonic() < deadline:
            blocked.update(next_attempt_at=now() + NEXT_TRY)
            if not running.exclude(results__in=blocked).exists():
                return
            time.sleep(0.2)

    def move_into_the_past(self) -> None:
        for _try in range(TRIES):
            try:
                return self._move_into_the_past()
            except OperationalError:
                # A job may lock these rows in another order.
                time.sleep(1)
        raise CommandError("The demo's reports could not be moved into the past.")

    @transaction.atomic
    def _move_into_the_past(self) -> None:
        """Spread ended reports over DAYS, and waiting reports over fewer days.

        The transaction also records that the demo is filled, so no row moves twice.
        """
        ages = self._ages()
        with connection.cursor() as cursor:
            # Triggers forbid changes of history; this user may skip triggers.
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(
                "CREATE TEMPORARY TABLE ages ON COMMIT DROP AS "
                "SELECT * FROM unnest(%s::uuid[], %s::interval[]) AS a(report_id, age)",
                [list(ages), list(ages.values())],
            )
            for table, columns in _times_of_reports(cursor):
                key = "id" if table == Report._meta.db_table else "report_id"
                earlier = ", ".join(f"{name} = {name} - age" for name in columns)
                cursor.execute(
                    f"UPDATE {table} SET {earlier} FROM ages "  # noqa: S608
                    f"WHERE {table}.{key} = ages.report_id"
                )
            cursor.execute(MOVE_DELIVERIES)
            cursor.execute(
                "UPDATE monitoring_rule SET starts_at = starts_at - age, "
                "created_at = created_at - age "
                "FROM make_interval(days => %s) AS age WHERE id = ANY(%s)",
                [DAYS, list(self.rules.values_list("pk", flat=True))],
            )
            _rewrite_digests(cursor, list(ages))
            # A trigger lists the event for its seal.
            cursor.execute("SET LOCAL session_replication_role = origin")
        audit.record(FILLED, audit.SERVICE, self.workspace)
        schedule_job(count_changed_days)

    def _ages(self) -> dict[UUID, timedelta]:
        """Return how far each report moves: later ones less far, as in lists by id."""
        ended = self.reports.filter(completed_at__isnull=False)
        undecided = decidable_reports().filter(pk__in=self.reports, decisions=None)
        ages: dict[UUID, timedelta] = {}
        for reports, least, most in (
            (undecided, 0, UNDECIDED_DAYS),
            (ended.exclude(pk__in=undecided), UNDECIDED_DAYS, DAYS),
            (self.reports.filter(completed_at=None), 0, WAITING_DAYS),
        ):
            ids = list(
                reports.order_by("-completed_at", "-id").values_list("pk", flat=True)
            )
            # The square makes recent reports more frequent.
            shares = sorted(self.chance.random() ** 2 for _ in ids)
            days = (least + (most - least) * share for share in shares)
            ages |= zip(ids, (timedelta(days=d) for d in days), strict=True)
        return ages


def _times_of_reports(cursor: Any) -> list[tuple[str, list[str]]]:
    """Return the tables with rows of reports, and their columns of times."""
    cursor.execute(
        """
        SELECT table_name, array_agg(column_name::text) FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type = 'timestamp with time zone'
            AND column_name !~ %s AND (table_name = 'reports_report' OR table_name IN (
                SELECT table_name FROM information_schema.columns
                WHERE column_name = 'report_id' AND table_schema = 'public'
            ))
        GROUP BY table_name
        """,
        [UNMOVED_COLUMNS],
    )
    return list(cursor.fetchall())


def _rewrite_digests(cursor: Any, reports: list[UUID]) -> None:
    """Write the digests of consent records again, because they cover the time."""
    for record in ConsentRecord.objects.filter(report__in=reports):
        digest = digest_of(record, record.evidence or {})
        cursor.execute(
            "UPDATE consents_consentrecord SET digest = %s WHERE id = %s",
            [digest, record.pk],
        )


def apply_to_go_live() -> None:
    """Submit a company's application to go live, for staff to review."""
    user = make_person(APPLICANT, name="Grace Wambui")
    if not Member.objects.filter(user=user).exists():
        _workspace_of(user, COMPANY)
    member = Member.objects.select_related("workspace", "user").get(user=user)
    application = applications.newest_application(member.workspace)
    if application and application.status != Status.DRAFT:
        return
    by = ActingUser(user, Actor(ActorKind.MEMBER, user.get_username()))
    applications.describe_company(member, COMPANY, APPLICATION, by)
    for kind in DocumentKind:
        file = InspectedFile(PNG, _picture(f"{COMPANY}: {kind.label}"))
        applications.upload_document(member, kind, f"{kind.lower()}.png", file, by)
    # The company is made up, so the sandbox checks it.
    applications.submit(member, by, checked_in=Environment.SANDBOX)


def _picture(text: str) -> bytes:
    """Return a picture with the name of the document."""
    picture = Image.new("RGB", (1240, 1754), "white")
    pen = ImageDraw.Draw(picture)
    pen.multiline_text((120, 120), f"{text}\nMade up for the demo", "black")
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
