"""Workspaces with their keys, members, notes, accounts and ledger; and the client."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import HashIndex
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.db.models import ExpressionWrapper, F, Func, Q

from verification.db.encryption import EncryptedJSONField, KeyedHashField
from verification.db.ids import time_of_id
from verification.db.models import DatedRow, Row
from verification.jobs.names import JobName
from verification.jobs.queue import job, schedule_job
from verification.values.clock import now
from verification.values.formats import one_line
from verification.values.networks import MAX_LENGTH, MAX_NETWORKS


class Environment(models.TextChoices):
    SANDBOX = "sandbox"
    PRODUCTION = "production"


# The days for which a workspace may keep its reports.
MIN_RETENTION_DAYS = {Environment.PRODUCTION: 7, Environment.SANDBOX: 1}
MAX_RETENTION_DAYS = 3650
# Eight weeks
MAX_DECISION_HOURS = 1344
# Why a workspace is suspended that an owner has closed
CLOSED_REASON = "Closed by its owner"


def retention_field(environment: Environment) -> models.PositiveIntegerField:
    return models.PositiveIntegerField(
        default=365,
        db_default=365,
        validators=[
            MinValueValidator(MIN_RETENTION_DAYS[environment]),
            MaxValueValidator(MAX_RETENTION_DAYS),
        ],
        help_text="Days that reports are kept after their end.",
    )


class Scope(models.TextChoices):
    REPORTS_CREATE = "reports:create"
    REPORTS_READ = "reports:read"
    MONITORING_WRITE = "monitoring:write"
    MONITORING_READ = "monitoring:read"
    WEBHOOKS_MANAGE = "webhooks:manage"
    SUBJECTS_ERASE = "subjects:erase"
    DECISIONS_WRITE = "decisions:write"
    AUDIT_READ = "audit:read"


def default_scopes() -> list[str]:
    """Return the scopes of a key that names none.

    Erasing is final, people decide about people unless the client says otherwise, and
    the audit trail is about the client's own people.
    """
    named = {Scope.SUBJECTS_ERASE, Scope.DECISIONS_WRITE, Scope.AUDIT_READ}
    return [scope for scope in Scope.values if scope not in named]


def full_name(legal_name: str, trading_name: str) -> str:
    """Return a name like `Acacia Lenders Limited (Acacia)`."""
    legal, trading = one_line(legal_name), one_line(trading_name)
    return f"{legal} ({trading})" if trading else legal


@dataclass(frozen=True, slots=True)
class Requester:
    """The client as people outside its workspace see it: on pages, in mails, on paper.

    `legal_name` and `trading_name` are empty until staff have reviewed them. `contact`
    is an e-mail address, a phone number or both.
    """

    name: str
    legal_name: str
    trading_name: str
    contact: str

    @property
    def is_reviewed(self) -> bool:
        return bool(self.legal_name)

    @property
    def message_context(self) -> dict[str, str]:
        """Return what every message to a person outside says about the client."""
        return {"requester": self.name, "requesterContact": self.contact}


class NamesInLists(models.TextChoices):
    FULL = "FULL"
    INITIALS = "INITIALS"


class Workspace(DatedRow):
    """A customer of the service, who owns reports, keys and money.

    Staff review the name of an approved workspace, and each change of it. Pages and
    messages for people outside show `requester`, not `name`.
    """

    class Kind(models.TextChoices):
        INDIVIDUAL = "INDIVIDUAL"
        BUSINESS = "BUSINESS"

    class GoLive(models.TextChoices):
        NONE = "NONE"
        SUBMITTED = "SUBMITTED"
        IN_REVIEW = "IN_REVIEW"
        APPROVED = "APPROVED"
        REJECTED = "REJECTED"

    name = models.CharField(max_length=200)
    # Both names are empty until staff have reviewed them. After that, `name` is the
    # trading name, or the legal name if there is no trading name.
    legal_name = models.CharField(max_length=200, blank=True)
    trading_name = models.CharField(max_length=200, blank=True)
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.BUSINESS)
    owner_email = EncryptedJSONField()
    # The address or number for people who ask the client about their details.
    contact = EncryptedJSONField()
    go_live = models.CharField(max_length=10, choices=GoLive, default=GoLive.NONE)
    # `change_retention` writes both.
    retention_days = retention_field(Environment.PRODUCTION)
    sandbox_retention_days = retention_field(Environment.SANDBOX)
    messages_per_day = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Requests to people in a day; empty: as the service allows.",
    )
    # The service level: a report waits for a decision no longer than this. Null for a
    # workspace without a queue.
    decision_hours = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_DECISION_HOURS)],
        help_text="Hours to decide; empty: only proposals and reviews wait.",
    )
    # The form of names in the console's lists, which bystanders may see
    names_in_lists = models.CharField(
        max_length=8,
        choices=NamesInLists,
        default=NamesInLists.FULL,
        db_default=NamesInLists.FULL,
    )
    # Until then checks of the sandbox look for an outcome that the client has set.
    next_results_until = models.DateTimeField(null=True, editable=False)
    suspended_at = models.DateTimeField(null=True, blank=True)
    suspension_reason = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="a_suspension_says_why",
                condition=Q(suspended_at__isnull=True, suspension_reason="")
                | (Q(suspended_at__isnull=False) & ~Q(suspension_reason="")),
            ),
            models.CheckConstraint(
                name="only_approved_workspaces_have_reviewed_names",
                condition=Q(
                    Q(name=F("legal_name")) | Q(name=F("trading_name")),
                    ~Q(legal_name=""),
                    go_live="APPROVED",
                )
                | (Q(legal_name="", trading_name="") & ~Q(go_live="APPROVED")),
            ),
            models.CheckConstraint(
                name="retention_has_limits",
                condition=Q(
                    retention_days__range=(
                        MIN_RETENTION_DAYS[Environment.PRODUCTION],
                        MAX_RETENTION_DAYS,
                    ),
                    sandbox_retention_days__range=(
                        MIN_RETENTION_DAYS[Environment.SANDBOX],
                        MAX_RETENTION_DAYS,
                    ),
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def retention(self, environment: str) -> timedelta:
        """Return how long ended reports of this environment are kept."""
        is_sandbox = environment == Environment.SANDBOX
        days = self.sandbox_retention_days if is_sandbox else self.retention_days
        return timedelta(days=days)

    def retention_of(self, environment: str, created_at: datetime) -> timedelta:
        """Return the retention, after its end, of a report created at that time.

        Its subject was informed of the retention then, so a longer one does not apply.
        """
        terms = self.retention_terms.filter(environment=environment)
        since = terms.filter(ended_at__gt=created_at).values_list("days", flat=True)
        return min([self.retention(environment), *map(timedelta, since)])

    @transaction.atomic
    def change_retention(self, production: int, sandbox: int) -> None:
        """Set the days that reports are kept.

        Fewer days apply to all reports. More days apply to later reports: a
        RetentionTerm stores the earlier days, of which subjects were informed.
        """
        present = Workspace.objects.select_for_update(no_key=True).get(pk=self.pk)
        days = {Environment.PRODUCTION: production, Environment.SANDBOX: sandbox}
        for environment, new in days.items():
            old = present.retention(environment).days
            if new > old:
                self.retention_terms.create(environment=environment, days=old)
        self.retention_days, self.sandbox_retention_days = production, sandbox
        self.save(update_fields=["retention_days", "sandbox_retention_days"])

    @property
    def is_suspended(self) -> bool:
        return self.suspended_at is not None

    @property
    def contact_email(self) -> str:
        """Return the e-mail address of the longest-standing owner.

        It is `owner_email` until the workspace has an owner.
        """
        owners = self.members.filter(role=Role.OWNER, user__is_active=True)
        found = owners.order_by("id").values_list("user__email", flat=True)
        return found.first() or self.owner_email

    @property
    def is_live(self) -> bool:
        """Return whether staff have reviewed the workspace and approved it."""
        return self.go_live == self.GoLive.APPROVED

    @property
    def requester(self) -> Requester:
        name = full_name(self.legal_name or self.name, self.trading_name)
        return Requester(name, self.legal_name, self.trading_name, self.contact)

    def set_reviewed_names(self, legal_name: str, trading_name: str) -> list[str]:
        """Set the names, and return the columns that the caller has to save."""
        self.legal_name, self.trading_name = legal_name, trading_name
        self.name = trading_name or legal_name
        return ["legal_name", "trading_name", "name"]

    def suspend(self, reason: str) -> bool:
        """Refuse its keys and hold its jobs. Returns False if it is suspended."""
        return self._set_suspension(True, suspended_at=now(), suspension_reason=reason)

    @transaction.atomic
    def resume(self) -> bool:
        """Accept its keys and run its jobs. Returns False if it is not suspended."""
        schedule_job(JobName.SEND_DELIVERIES)
        schedule_job(JobName.SEND_NOTIFICATIONS, self.pk)
        schedule_job(JobName.RELEASE_RULES, self.pk)
        return self._set_suspension(False, suspended_at=None, suspension_reason="")

    def _set_suspension(self, suspended: bool, **changes: object) -> bool:
        others = Workspace.objects.filter(pk=self.pk, suspended_at__isnull=suspended)
        changed = others.update(**changes)
        self.refresh_from_db(fields=["suspended_at", "suspension_reason"])
        return bool(changed)


class RetentionTerm(Row):
    """A former retention that was shorter than the next one.

    It is the longest retention of reports created before `ended_at`.
    """

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="retention_terms"
    )
    environment = models.CharField(max_length=10, choices=Environment)
    days = models.PositiveIntegerField()
    ended_at = models.DateTimeField(default=now, editable=False)

    def __str__(self) -> str:
        return f"{self.days} days until {self.ended_at:%Y-%m-%d}"


MAX_RETURN_HOSTS = 10
MAX_RETURN_URL = 500
MAX_CONTACT_LINE = 120


class Brand(models.Model):
    """A client's logo, colour, contact line and return addresses on hosted pages.

    `workspaces.brands` checks and writes it, and says where it is shown. A barred brand
    is shown nowhere until staff allow it again.
    """

    workspace = models.OneToOneField(
        Workspace, models.PROTECT, primary_key=True, related_name="brand"
    )
    # A redrawn PNG. Queries leave it out (`brands.brand_of`).
    logo = models.BinaryField(null=True, editable=False)
    # SHA-256 of the logo, in hex: a part of its address
    logo_digest = models.CharField(max_length=64, blank=True, editable=False)
    logo_width = models.PositiveSmallIntegerField(null=True, editable=False)
    logo_height = models.PositiveSmallIntegerField(null=True, editable=False)
    # #rrggbb, or empty for the service's own colour
    colour = models.CharField(max_length=7, blank=True)
    # A text beside the workspace's contact, such as office hours
    contact_line = models.CharField(max_length=MAX_CONTACT_LINE, blank=True)
    contact_line_sw = models.CharField(max_length=MAX_CONTACT_LINE, blank=True)
    # The only hosts to which pages lead back, in ASCII
    return_hosts = ArrayField(models.CharField(max_length=253), default=list)
    # For reports that name no address
    return_url = models.CharField(max_length=MAX_RETURN_URL, blank=True)
    barred_at = models.DateTimeField(null=True, editable=False)
    barred_reason = models.CharField(max_length=500, blank=True, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="brand_logos_are_whole",
                condition=Q(
                    logo=None, logo_digest="", logo_width=None, logo_height=None
                )
                | Q(
                    logo__isnull=False,
                    logo_digest__regex="^[0-9a-f]{64}$",
                    logo_width__gt=0,
                    logo_height__gt=0,
                ),
            ),
            models.CheckConstraint(
                name="brand_colours_are_well_formed",
                condition=Q(colour="") | Q(colour__regex="^#[0-9a-f]{6}$"),
            ),
            models.CheckConstraint(
                name="brands_have_few_return_hosts",
                condition=Q(return_hosts__len__lte=MAX_RETURN_HOSTS),
            ),
            models.CheckConstraint(
                name="barred_brands_say_why_and_show_nothing",
                condition=Q(barred_at=None, barred_reason="")
                | (
                    Q(
                        barred_at__isnull=False,
                        logo=None,
                        contact_line="",
                        contact_line_sw="",
                    )
                    & ~Q(barred_reason="")
                ),
            ),
        ]
        indexes = [
            models.Index(
                fields=["logo_digest"],
                condition=~Q(logo_digest=""),
                name="brands_by_logo",
            )
        ]

    def __str__(self) -> str:
        return f"brand of {self.workspace}"

    @property
    def is_barred(self) -> bool:
        return self.barred_at is not None


class Account(Row):
    """A workspace's money in one environment.

    `balance` is the sum of the ledger entries. It is a column, so that one conditional
    update charges or refuses; `audit_ledger` recomputes it.
    """

    class Billing(models.TextChoices):
        PREPAID = "PREPAID", "Prepaid: refused when balance and credit are used up"
        POSTPAID = "POSTPAID", "Postpaid: pays afterwards what it has used"
        PLAY = "PLAY", "Play money of the sandbox"

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="accounts")
    environment = models.CharField(max_length=10, choices=Environment)
    billing = models.CharField(max_length=8, choices=Billing)
    currency = models.CharField(max_length=3, default="KES")
    balance = models.DecimalField(max_digits=14, decimal_places=2, default=Decimal(0))
    credit_limit = models.DecimalField(
        max_digits=14, decimal_places=2, default=Decimal(0)
    )
    ceiling = models.DecimalField(
        max_digits=14,
        decimal_places=2,
        null=True,
        blank=True,
        help_text="How much a postpaid workspace may owe; empty for any amount.",
    )
    # The sum that banks and providers took back of top-ups, spent or not. Only this
    # can bring the balance below its limit: a trigger refuses every other fall.
    taken_back = models.DecimalField(
        max_digits=14, decimal_places=2, default=Decimal(0), editable=False
    )
    # The service notifies members when the account can spend no more than this.
    low_balance_at = models.DecimalField(
        "low-balance alert at",
        max_digits=14,
        decimal_places=2,
        null=True,
        blank=True,
        default=Decimal(1000),
        help_text="When balance and credit are no more than this; empty for never.",
    )
    # Null while the account can spend more than that.
    low_balance_notified_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment"], name="one_account_an_environment"
            ),
            models.CheckConstraint(
                name="prepaid_is_never_overdrawn",
                condition=~Q(billing="PREPAID")
                | Q(balance__gte=-F("credit_limit") - F("taken_back")),
            ),
            models.CheckConstraint(
                name="postpaid_stays_below_its_ceiling",
                condition=~Q(billing="POSTPAID")
                | Q(ceiling__isnull=True)
                | Q(balance__gte=-F("ceiling") - F("taken_back")),
            ),
            models.CheckConstraint(
                name="play_money_stays_within_its_limit",
                condition=~Q(billing="PLAY")
                | Q(ceiling__isnull=True)
                | Q(balance__gte=-F("ceiling") - F("taken_back")),
            ),
            models.CheckConstraint(
                name="taken_back_is_not_negative", condition=Q(taken_back__gte=0)
            ),
            models.CheckConstraint(
                name="ceiling_is_not_negative",
                condition=Q(ceiling__isnull=True) | Q(ceiling__gte=0),
            ),
            models.CheckConstraint(
                name="play_money_is_for_the_sandbox",
                condition=Q(billing="PLAY", environment="sandbox")
                | (~Q(billing="PLAY") & Q(environment="production")),
            ),
            models.CheckConstraint(
                name="credit_limit_is_not_negative",
                condition=Q(credit_limit__gte=0),
            ),
            models.CheckConstraint(
                name="low_balance_is_not_negative",
                condition=Q(low_balance_at__isnull=True) | Q(low_balance_at__gte=0),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workspace} ({self.environment})"

    @property
    def limit(self) -> Decimal | None:
        """Return how far the balance may go below zero; `None` means no limit."""
        if self.billing == self.Billing.PREPAID:
            return self.credit_limit
        return self.ceiling

    @property
    def spendable(self) -> Decimal | None:
        """Return the highest cost of another order; `None` means no limit."""
        return None if self.limit is None else self.balance + self.limit


class LedgerEntry(DatedRow):
    """One movement of money. It never changes: another entry corrects a mistake."""

    class Kind(models.TextChoices):
        CHARGE = "CHARGE"
        REVERSAL = "REVERSAL"
        TOP_UP = "TOP_UP"
        ADJUSTMENT = "ADJUSTMENT"

    # The index `statement` begins with the account.
    account = models.ForeignKey(
        Account, models.PROTECT, related_name="entries", db_index=False
    )
    kind = models.CharField(max_length=10, choices=Kind)
    # The change of the balance: a charge is negative.
    amount = models.DecimalField(max_digits=14, decimal_places=2)
    report_id = models.UUIDField(null=True)
    result_id = models.UUIDField(null=True)
    # The number of the run of the check: each retry has its own charge.
    attempt = models.PositiveSmallIntegerField(null=True)
    # The payment by which the account was topped up.
    checkout_id = models.UUIDField(null=True)
    # The constraint has an index.
    staff_entry = models.ForeignKey(
        "StaffEntry", models.PROTECT, null=True, related_name="entries", db_index=False
    )
    note = models.CharField(max_length=200, blank=True)
    actor = models.CharField(max_length=100)

    class Meta:
        verbose_name_plural = "ledger entries"
        constraints = [
            models.UniqueConstraint(
                fields=["result_id", "attempt", "kind"],
                condition=Q(result_id__isnull=False),
                name="a_result_is_charged_and_reversed_once_an_attempt",
            ),
            models.UniqueConstraint(
                fields=["checkout_id"],
                condition=Q(kind="TOP_UP", checkout_id__isnull=False),
                name="a_checkout_tops_up_once",
            ),
            models.UniqueConstraint(
                fields=["staff_entry"],
                condition=Q(staff_entry__isnull=False),
                name="a_staff_entry_is_booked_once",
            ),
            models.CheckConstraint(
                name="charges_take_and_reversals_give",
                condition=Q(kind="CHARGE", amount__lt=0)
                | Q(kind__in=["REVERSAL", "TOP_UP"], amount__gt=0)
                | Q(kind="ADJUSTMENT"),
            ),
            models.CheckConstraint(
                name="charges_and_reversals_name_their_result",
                condition=Q(kind__in=["TOP_UP", "ADJUSTMENT"])
                | Q(result_id__isnull=False, attempt__isnull=False),
            ),
            models.CheckConstraint(
                name="only_top_ups_and_adjustments_name_a_checkout",
                condition=Q(checkout_id__isnull=True)
                | Q(kind__in=["TOP_UP", "ADJUSTMENT"]),
            ),
            models.CheckConstraint(
                name="only_top_ups_and_adjustments_are_by_staff",
                condition=Q(staff_entry=None) | Q(kind__in=["TOP_UP", "ADJUSTMENT"]),
            ),
        ]
        indexes = [
            # The statement of an account, newest first.
            models.Index(fields=["account", "-created_at", "-id"], name="statement"),
            # For the audit: what moved the balance by a checkout.
            models.Index(
                fields=["checkout_id"],
                condition=Q(checkout_id__isnull=False),
                name="entries_of_a_checkout",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount}"


class ApiKey(DatedRow):
    """A key of a client. Its text is shown once and stored nowhere."""

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="api_keys")
    name = models.CharField(max_length=100)
    environment = models.CharField(max_length=10, choices=Environment)
    scopes = ArrayField(
        models.CharField(max_length=30, choices=Scope), default=default_scopes
    )
    # SHA-256 of the whole key; 190 random bits need no salt.
    digest = models.BinaryField(unique=True)
    first_characters = models.CharField(max_length=12)
    last_characters = models.CharField(max_length=4)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, editable=False)
    # A keyed hash of the network address of that use.
    last_used_address_hash = KeyedHashField(null=True, editable=False)
    # The user id of the member who made it or rotated its predecessor. Null if staff or
    # a command made it, and for keys of earlier versions.
    made_by_user = models.BigIntegerField(null=True, editable=False)
    # It works from these alone; from everywhere if there are none.
    networks = ArrayField(
        models.CharField(max_length=MAX_LENGTH),
        size=MAX_NETWORKS,
        blank=True,
        default=list,
        db_default=[],
    )
    creates_per_minute = models.PositiveIntegerField(default=600)
    requests_per_minute = models.PositiveIntegerField(default=3000)

    # The workspace's account in the environment; `keys.find` sets it.
    account: Account

    # `last_used_at` is written at most this often.
    LAST_USED_RESOLUTION = timedelta(minutes=1)

    def __str__(self) -> str:
        return f"{self.first_characters}…{self.last_characters}"

    @property
    def is_usable(self) -> bool:
        moment = now()
        return not (
            (self.revoked_at and self.revoked_at <= moment)
            or (self.expires_at and self.expires_at <= moment)
        )


class ApiRequest(Row):
    """A request with an API key, and how it was answered: without body and query.

    There are very many. The id is the request's own, and has its time, so the indexes
    need no other column for it, and there is no constraint that would read the key for
    each row. The table has a partition for each week, which is dropped in the end.
    """

    key = models.ForeignKey(
        ApiKey,
        models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    method = models.CharField(max_length=7)
    # The pattern of the address, such as `api/v1/reports/<uuid:reportId>`
    route = models.CharField(max_length=100)
    # The report that the address names.
    report_id = models.UUIDField(null=True)
    status = models.PositiveSmallIntegerField()
    # The code of the problem, and the codes that the problem lists.
    problem = models.CharField(max_length=40, blank=True)
    reasons = ArrayField(models.CharField(max_length=40), default=list)
    duration_ms = models.PositiveIntegerField()
    # The X-Request-Id of the client, if it sent one.
    given_id = models.CharField(max_length=128, blank=True)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=["key", "id"], name="api_requests_of_a_key"),
            # The address is longer than the rest of the entry.
            models.Index(
                F("key"),
                Func(F("route"), function="hashtext"),
                F("id"),
                name="api_requests_by_route",
            ),
            models.Index(
                fields=["key", "problem", "id"],
                condition=~Q(problem=""),
                name="api_requests_by_problem",
            ),
            models.Index(
                fields=["key", "id"],
                condition=Q(status__gte=400),
                name="api_requests_refused",
            ),
            models.Index(
                fields=["key", "id"],
                condition=Q(status__gte=500),
                name="api_requests_in_error",
            ),
            HashIndex(
                fields=["given_id"],
                condition=~Q(given_id=""),
                name="api_requests_by_given_id",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.route} {self.status}"

    @property
    def received_at(self) -> datetime:
        return time_of_id(self.id)

    @property
    def request_id(self) -> str:
        return self.given_id or str(self.id)

    @property
    def address(self) -> str:
        """The address as the documentation writes it: `/api/v1/reports/{reportId}`."""
        return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", self.route)


class Role(models.TextChoices):
    OWNER = "OWNER", "Owner"
    ADMIN = "ADMIN", "Administrator"
    # Orders reports and decides about them
    OFFICER = "OFFICER", "Officer"
    VIEWER = "VIEWER", "Viewer"


class Member(DatedRow):
    """A person with a role in a workspace, who may open it in the console."""

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="members", db_index=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="memberships"
    )
    role = models.CharField(max_length=10, choices=Role)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "user"], name="one_membership_a_person"
            ),
            models.CheckConstraint(
                name="members_have_a_known_role", condition=Q(role__in=Role.values)
            ),
        ]

    def __str__(self) -> str:
        return self.user.get_full_name() or f"{self.role} of {self.workspace_id}"


class MemberMessage(models.TextChoices):
    """The kinds of messages about a workspace that each member chooses."""

    REPORT_READY = "REPORT_READY"
    REPORT_FAILED = "REPORT_FAILED"
    DECISION_WAITING = "DECISION_WAITING"
    # Notices of declines that somebody has to hand over
    HAND_OVER = "HAND_OVER"
    ALERT = "ALERT"
    RULES_PAUSED = "RULES_PAUSED"
    LOW_BALANCE = "LOW_BALANCE"
    WEBHOOK = "WEBHOOK"


class MessageTime(models.TextChoices):
    NOW = "NOW"
    # In the digest of the next morning
    DAILY = "DAILY"
    OFF = "OFF"


class MessageChoice(Row):
    """When a member gets messages of a kind. Without a row the default holds."""

    # The migration adds the constraint: the database deletes the choices with the
    # member, also if a former version deletes it.
    member = models.ForeignKey(
        Member,
        models.CASCADE,
        related_name="message_choices",
        db_index=False,
        db_constraint=False,
    )
    environment = models.CharField(max_length=10, choices=Environment)
    kind = models.CharField(max_length=16, choices=MemberMessage)
    time = models.CharField(max_length=5, choices=MessageTime)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["member", "environment", "kind"],
                name="one_message_choice_a_kind",
            ),
            models.CheckConstraint(
                name="message_choices_have_a_known_time",
                condition=Q(time__in=MessageTime.values),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.time}"


class MessageWindow(Row):
    """The start of a kind's unsent news, at `told_until`.

    It exists while a member of the workspace may want this kind at once.
    """

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="message_windows", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    kind = models.CharField(max_length=16, choices=MemberMessage)
    told_until = models.DateTimeField()
    # The next message goes out no earlier.
    rests_until = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment", "kind"],
                name="one_message_window_a_kind",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.workspace_id}"


class DigestDay(models.Model):
    """A day whose digests are all in the outbox, with news until this time."""

    day = models.DateField(primary_key=True)
    until = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.day}"


class Note(DatedRow):
    """A note of staff about a workspace.

    A trigger refuses changes, except to erase the text.
    """

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="notes")
    # Null once the retention of the workspace is over.
    text = EncryptedJSONField(null=True)
    # A user name, as in the audit trail.
    author = models.CharField(max_length=150)

    class Meta:
        default_permissions = ("add", "view")

    def __str__(self) -> str:
        return f"note by {self.author}"


@job
def purge_notes() -> None:
    """Erase the text of notes that are older than the workspace's retention.

    A note is about the customer, so the days of production count.
    """
    days = F("workspace__retention_days") * timedelta(days=1)
    retention = ExpressionWrapper(days, output_field=models.DurationField())
    old = Note.objects.filter(text__isnull=False, created_at__lt=now() - retention)
    Note.objects.filter(pk__in=old.values("pk")[:1000]).update(text=None)


class Invitation(DatedRow):
    """A link that makes the reader of an e-mail address a member, once."""

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="invitations")
    # Null once the invitation has ended: the address is needed no longer.
    email = EncryptedJSONField(null=True)
    # A keyed hash of the address, to find its invitations.
    email_hash = KeyedHashField(db_index=True)
    role = models.CharField(max_length=10, choices=Role)
    # SHA-256 of the link's random token, which is stored nowhere.
    token_digest = models.BinaryField(unique=True)
    # Null if staff invite the first owner.
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
    )
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="invitations_end_once",
                condition=Q(accepted_at=None) | Q(revoked_at=None),
            ),
            models.CheckConstraint(
                name="invitations_offer_a_known_role",
                condition=Q(role__in=Role.values),
            ),
            models.UniqueConstraint(
                fields=["workspace", "email_hash"],
                condition=Q(accepted_at=None, revoked_at=None),
                name="one_open_invitation_an_address",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.workspace_id}"


class RateCount(models.Model):
    """A count of acts of one subject in one minute, over all processes.

    The table is UNLOGGED: a crash of the database loses the counts.
    """

    pk = models.CompositePrimaryKey("subject", "minute")
    # "create:<key id>", "rest:<key id>" or "failed:<keyed hash of an address>"
    subject = models.CharField(max_length=100)
    minute = models.DateTimeField()
    count = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.subject} {self.count}"


class StaffEntry(models.Model):
    """A top-up or adjustment by staff.

    The id comes from the page with the form, so a form that is sent twice makes one
    entry.
    """

    class Kind(models.TextChoices):
        TOP_UP = "TOP_UP"
        ADJUSTMENT = "ADJUSTMENT"

    class Status(models.TextChoices):
        REQUESTED = "REQUESTED", "Waits for a second person"
        REJECTED = "REJECTED"
        BOOKED = "BOOKED"

    id = models.UUIDField(primary_key=True, editable=False)
    account = models.ForeignKey(
        "workspaces.Account", models.PROTECT, related_name="staff_entries"
    )
    kind = models.CharField(max_length=10, choices=Kind)
    # The change of the balance.
    amount = models.DecimalField(max_digits=14, decimal_places=2)
    note = models.CharField(max_length=200, blank=True)
    status = models.CharField(max_length=9, choices=Status)
    # Above STAFF_ENTRY_NEEDS_SECOND_ABOVE, a second person must approve.
    needs_second = models.BooleanField(default=False)
    requested_by = models.CharField(max_length=100)
    # The ids of users, as their names can change.
    requested_by_user = models.BigIntegerField()
    decided_by = models.CharField(max_length=100, blank=True)
    decided_by_user = models.BigIntegerField(null=True)
    decided_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        verbose_name_plural = "staff entries"
        constraints = [
            models.CheckConstraint(
                name="staff_top_up_or_say_why_they_adjust",
                condition=Q(kind="TOP_UP", amount__gt=0)
                | (Q(kind="ADJUSTMENT") & ~Q(amount=0) & ~Q(note="")),
            ),
            models.CheckConstraint(
                name="large_staff_entries_are_decided_by_another",
                condition=Q(needs_second=False, status="BOOKED")
                | Q(needs_second=True, status__in=["REQUESTED", "REJECTED"])
                | Q(
                    Q(needs_second=True, decided_by_user__isnull=False),
                    ~Q(decided_by_user=F("requested_by_user")),
                ),
            ),
            models.CheckConstraint(
                name="staff_entry_decided_at_iff_decided",
                condition=Q(decided_by_user=None, decided_at=None)
                | Q(decided_by_user__isnull=False, decided_at__isnull=False),
            ),
        ]
        indexes = [
            # Entries that wait for a second person.
            models.Index(
                fields=["id"],
                condition=Q(status="REQUESTED"),
                name="staff_entries_to_decide",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount} ({self.status})"

    @property
    def money(self) -> str:
        return f"{self.account.currency} {self.amount:.2f}"


@dataclass(frozen=True, slots=True)
class Client:
    workspace: Workspace
    account: Account
    # Shown in timelines and on ledger entries, such as "key vrf_test_012…Ubx".
    actor: str

    @classmethod
    def of(cls, workspace: Workspace, environment: str, actor: str) -> Client:
        """Return the client with the account of a row that the actor changes."""
        account = Account.objects.get(workspace=workspace, environment=environment)
        return cls(workspace, account, actor)

    @property
    def environment(self) -> str:
        return self.account.environment

    @property
    def where(self) -> tuple[UUID, str]:
        """The id of the workspace and the environment, as functions take them."""
        return self.workspace.pk, self.environment

    @property
    def lookups(self) -> dict[str, Any]:
        """The field lookups of the client's rows, and the values for a new row."""
        return {"workspace": self.workspace, "environment": self.environment}
