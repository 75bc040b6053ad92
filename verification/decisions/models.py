"""Decisions about reports, their reasons and second members, policies, and the queue.

Also the notices of declines. A policy is the series of its versions in one workspace
and environment.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import get_language

from verification.db.encryption import EncryptedJSONField
from verification.db.ids import number_index, number_of_id
from verification.db.models import DatedRow
from verification.reports.models import Report, ReportStatus, RiskLevel
from verification.values.clock import now
from workspaces.models import Environment, Member, Workspace

# Statuses that a report can be decided in; see `findings.decidable_reports`.
DECIDABLE = (ReportStatus.READY, ReportStatus.PARTIAL, ReportStatus.FAILED)
MAX_CODES = 10
# Pages and answers show all of one report.
MAX_DECISIONS, MAX_NOTES = 100, 500
MAX_NOTE_LENGTH = 1000
MAX_TEXT_LENGTH = 200
MAX_WAITING_DAYS = 30
CODE_PATTERN = r"[A-Z][A-Z0-9_]{1,39}"


def reason_text(words: dict[str, str]) -> str:
    """Return a stored reason in the language of the page or document."""
    return words["textSw" if get_language() == "sw" else "text"]


class DecisionStatus(models.TextChoices):
    APPROVED = "APPROVED", "Approved"
    DECLINED = "DECLINED", "Declined"
    REVIEW = "REVIEW", "A person looks at it"


class DecisionState(models.TextChoices):
    PENDING = "PENDING", "Waits for a second member"
    WAITING = "WAITING", "Counts once the person has had time to answer"
    FINAL = "FINAL", "Counts"
    REFUSED = "REFUSED", "Refused, or taken back before it counted"
    WITHDRAWN = "WITHDRAWN", "Taken back while it waited"


class MakerKind(models.TextChoices):
    MEMBER = "MEMBER", "Member"
    API_KEY = "API_KEY", "API key"
    POLICY = "POLICY", "Policy"


class PolicyMode(models.TextChoices):
    PROPOSE = "PROPOSE", "It proposes, and a member confirms"
    DECIDE = "DECIDE", "It decides"


class PolicyState(models.TextChoices):
    DRAFT = "DRAFT", "Not switched on yet"
    ACTIVE = "ACTIVE", "Decides about reports that end"
    RETIRED = "RETIRED", "Switched off"


S = DecisionState


class PolicyVersion(DatedRow):
    """One version of a policy: its rules, in order, and whether it decides by itself.

    A trigger refuses changes of a version that has been switched on, except that it is
    switched off or breaks, and the deletion of all but drafts.
    """

    Mode = PolicyMode
    State = PolicyState

    # The constraint `one_policy_version_a_number` begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="policy_versions", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # 1 for the first version, and so on
    number = models.PositiveIntegerField()
    # In the shape of `decisions.rules`
    rules = models.JSONField(default=list)
    mode = models.CharField(max_length=7, choices=PolicyMode, default="PROPOSE")
    state = models.CharField(max_length=7, choices=PolicyState, default="DRAFT")
    # Ids, as members can leave
    made_by_user = models.BigIntegerField(null=True)
    activated_by_user = models.BigIntegerField(null=True)
    activated_at = models.DateTimeField(null=True, editable=False)
    retired_at = models.DateTimeField(null=True, editable=False)
    # When it first met a report and named something that is gone
    broken_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment", "number"],
                name="one_policy_version_a_number",
            ),
            models.UniqueConstraint(
                fields=["workspace", "environment"],
                condition=Q(state="ACTIVE"),
                name="one_active_policy_version",
            ),
            models.UniqueConstraint(
                fields=["workspace", "environment"],
                condition=Q(state="DRAFT"),
                name="one_draft_of_a_policy",
            ),
            models.CheckConstraint(
                name="policy_versions_say_when",
                condition=Q(state="DRAFT", activated_at=None, retired_at=None)
                | Q(state="ACTIVE", activated_at__isnull=False, retired_at=None)
                | Q(
                    state="RETIRED",
                    activated_at__isnull=False,
                    retired_at__isnull=False,
                ),
            ),
        ]
        ordering = ["workspace", "environment", "number"]

    def __str__(self) -> str:
        return f"policy version {self.number}"

    @classmethod
    def active_for(cls, report: Report) -> PolicyVersion | None:
        """Return the version that looks at the report when it ends, if any."""
        own = cls.objects.filter(
            workspace=report.workspace_id, environment=report.environment
        )
        return own.select_related("workspace").filter(state=PolicyState.ACTIVE).first()


class Decision(DatedRow):
    """A decision of the client about a report, or the proposal of one.

    The newest FINAL one of a report counts. A trigger refuses changes, except the
    answer of a second member to a proposal, once, the end of a decline that waits, and
    the erasure of codes and content.
    """

    # The index `decisions_by_time` begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="decisions", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # The constraint `one_decision_a_number` begins with this column.
    report = models.ForeignKey(
        Report, models.PROTECT, related_name="decisions", db_index=False
    )
    # 1 for the report's first decision or proposal, and so on
    number = models.PositiveSmallIntegerField()
    status = models.CharField(max_length=8, choices=DecisionStatus)
    state = models.CharField(max_length=9, choices=DecisionState)
    # Reason codes; null once the report is erased.
    codes = ArrayField(models.CharField(max_length=40), null=True)
    # {note, reasons: [{code, text, textSw}], notOnBureau}: the texts of that time, and
    # why a decline does not rest on a bureau's result. A policy's has
    # {policy: {...}} too, see `policy`. Null once the report is erased.
    content = EncryptedJSONField(null=True)
    made_by_kind = models.CharField(max_length=7, choices=MakerKind)
    # The actor's name in timelines, such as "key vrf_test_012…Ubx"
    made_by = models.CharField(max_length=100)
    # The ids of user and key, as members can leave.
    made_by_user = models.BigIntegerField(null=True)
    made_by_key = models.UUIDField(null=True)
    # The user who made the key, if a member did: a key counts as its maker.
    key_made_by_user = models.BigIntegerField(null=True)
    # No index, because versions that have decided are never deleted.
    policy_version = models.ForeignKey(
        PolicyVersion,
        models.PROTECT,
        null=True,
        related_name="decisions",
        db_index=False,
    )
    # The completed results on which it rests; null for decisions of earlier versions.
    result_ids = ArrayField(models.UUIDField(), null=True, editable=False)
    # True if the decision began as a proposal
    needs_second = models.BooleanField()
    # The actor of the confirmation or refusal of the proposal
    second_by = models.CharField(max_length=100, blank=True)
    second_by_user = models.BigIntegerField(null=True)
    second_at = models.DateTimeField(null=True, editable=False)
    # The actor who withdrew a waiting decline
    withdrawn_by = models.CharField(max_length=100, blank=True, db_default="")
    withdrawn_by_user = models.BigIntegerField(null=True)
    withdrawn_at = models.DateTimeField(null=True, editable=False)
    final_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            # If two decisions are made at the same time, one fails.
            models.UniqueConstraint(
                fields=["report", "number"], name="one_decision_a_number"
            ),
            models.UniqueConstraint(
                fields=["report"],
                condition=Q(state="PENDING"),
                name="one_proposal_a_report",
            ),
            models.CheckConstraint(
                name="decisions_name_their_maker",
                condition=Q(
                    made_by_kind="MEMBER",
                    made_by_user__isnull=False,
                    made_by_key=None,
                )
                | Q(
                    made_by_kind="API_KEY",
                    made_by_user=None,
                    made_by_key__isnull=False,
                )
                | Q(made_by_kind="POLICY", made_by_user=None, made_by_key=None),
            ),
            models.CheckConstraint(
                name="policies_name_their_version",
                condition=Q(made_by_kind="POLICY") ^ Q(policy_version=None),
            ),
            # A policy decides once; its later answers are proposals.
            models.UniqueConstraint(
                fields=["report"],
                condition=Q(made_by_kind="POLICY", needs_second=False),
                name="a_policy_decides_once",
            ),
            models.CheckConstraint(
                name="proposals_are_confirmed_by_another",
                condition=Q(
                    state__in=["WAITING", "FINAL", "WITHDRAWN"],
                    needs_second=False,
                    second_by="",
                    second_by_user=None,
                    second_at=None,
                )
                | Q(
                    state="PENDING",
                    needs_second=True,
                    second_by="",
                    second_by_user=None,
                    second_at=None,
                )
                | (
                    Q(state="REFUSED", needs_second=True, second_at__isnull=False)
                    & ~Q(second_by="")
                )
                | (
                    Q(
                        state__in=["WAITING", "FINAL", "WITHDRAWN"],
                        needs_second=True,
                        second_by_user__isnull=False,
                        second_at__isnull=False,
                    )
                    & ~Q(second_by="")
                    & (Q(made_by_user=None) | ~Q(second_by_user=F("made_by_user")))
                ),
            ),
            models.CheckConstraint(
                name="keys_count_as_their_makers",
                condition=Q(state="REFUSED")
                | Q(key_made_by_user=None)
                | Q(second_by_user=None)
                | ~Q(second_by_user=F("key_made_by_user")),
            ),
            models.CheckConstraint(
                name="final_decisions_say_when",
                condition=Q(state="FINAL", final_at__isnull=False)
                | (~Q(state="FINAL") & Q(final_at=None)),
            ),
            models.CheckConstraint(
                name="withdrawn_decisions_say_who",
                condition=(
                    Q(state="WITHDRAWN", withdrawn_at__isnull=False)
                    & ~Q(withdrawn_by="")
                )
                | (
                    ~Q(state="WITHDRAWN")
                    & Q(withdrawn_by="", withdrawn_by_user=None, withdrawn_at=None)
                ),
            ),
            models.CheckConstraint(
                name="only_declines_wait",
                condition=~Q(state__in=["WAITING", "WITHDRAWN"]) | Q(status="DECLINED"),
            ),
            models.UniqueConstraint(
                fields=["report"],
                condition=Q(state="WAITING"),
                name="one_waiting_decline_a_report",
            ),
            models.CheckConstraint(
                name="declines_have_a_reason",
                condition=~Q(status="DECLINED") | Q(codes=None) | Q(codes__len__gt=0),
            ),
        ]
        indexes = [
            models.Index(
                fields=["workspace", "environment", "id"], name="decisions_by_time"
            ),
            # Proposals that wait for a second member
            models.Index(
                fields=["workspace", "environment", "id"],
                condition=Q(state="PENDING"),
                name="decisions_to_confirm",
            ),
        ]
        ordering = ["report", "number"]

    def __str__(self) -> str:
        return f"{self.status} ({self.state})"

    @property
    def makers(self) -> list[int | None]:
        """The IDs of the users who made the decision and its API key, or None each."""
        return [self.made_by_user, self.key_made_by_user]

    @property
    def note(self) -> str | None:
        return (self.content or {}).get("note")

    @property
    def policy(self) -> dict[str, Any]:
        """Why a policy decided so: {rule, found, unanswered, isBroken, contradicted}.

        `rule` is the number of the rule that matched, null if none did; `found` has the
        report's value for each of its conditions; `unanswered` has the numbers of
        earlier rules without an answer. `isBroken` says that the version named
        something that was gone. `contradicted` has the codes of a rule that held and
        that the findings contradicted; decisions of earlier versions lack it. It is
        empty for others, and once the report is erased.
        """
        return (self.content or {}).get("policy") or {}

    @property
    def is_automated(self) -> bool:
        """True if a policy decided by itself, without a person's confirmation."""
        is_taken = self.state in {DecisionState.FINAL, DecisionState.WAITING}
        return (
            self.made_by_kind == MakerKind.POLICY
            and is_taken
            and self.second_by_user is None
        )

    @property
    def reasons(self) -> list[dict[str, str]]:
        """The reason codes with their texts of that time."""
        return (self.content or {}).get("reasons") or []

    @property
    def not_on_bureau(self) -> str | None:
        """The maker's reason why the decline does not rest on a bureau's result."""
        return (self.content or {}).get("notOnBureau")


class ReasonCode(DatedRow):
    """A reason for decisions, in the words of the client. The code never changes."""

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="reason_codes", db_index=False
    )
    code = models.CharField(max_length=40)
    # Subjects read it, in English and Kiswahili.
    text = models.CharField(max_length=MAX_TEXT_LENGTH)
    text_sw = models.CharField(max_length=MAX_TEXT_LENGTH)
    # A decline for a credit bureau's reason needs a notice.
    from_bureau = models.BooleanField(default=False, db_default=False)
    active = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "code"], name="one_reason_a_code"
            ),
            models.CheckConstraint(
                name="reason_codes_are_well_formed",
                condition=Q(code__regex=f"^{CODE_PATTERN}$"),
            ),
            models.CheckConstraint(
                name="reason_codes_have_both_texts",
                condition=~Q(text="") & ~Q(text_sw=""),
            ),
        ]
        ordering = ["code"]

    def __str__(self) -> str:
        return self.code

    @property
    def words(self) -> dict[str, str]:
        """The copy of the reason that a decision stores."""
        return {"code": self.code, "text": self.text, "textSw": self.text_sw}


class SecondMemberRule(models.Model):
    """The decisions of a workspace that a second member has to confirm.

    A workspace without a row needs no second member, and REVIEW never does.
    """

    workspace = models.OneToOneField(
        Workspace,
        models.PROTECT,
        primary_key=True,
        related_name="second_member_rule",
    )
    # All declines
    declines = models.BooleanField(default=False)
    # Approvals and declines of reports with this score or a higher one; null for none
    score_from = models.PositiveSmallIntegerField(null=True, blank=True)
    # Approvals and declines of reports with this score or a lower one; null for none
    score_to = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="second_member_scores_0_to_100",
                condition=(Q(score_from=None) | Q(score_from__lte=100))
                & (Q(score_to=None) | Q(score_to__lte=100)),
            )
        ]

    def __str__(self) -> str:
        return f"second member of {self.workspace_id}"

    def applies_to(self, status: str, score: int | None) -> bool:
        """Return whether a decision needs a second member.

        A report without a score needs one if any bound is set.
        """
        if status == DecisionStatus.REVIEW:
            return False
        if self.declines and status == DecisionStatus.DECLINED:
            return True
        bounds = self.score_from, self.score_to
        if score is None:
            return bounds != (None, None)
        lowest, highest = bounds
        return (lowest is not None and score >= lowest) or (
            highest is not None and score <= highest
        )

    @property
    def is_set(self) -> bool:
        return self.declines or self.score_from is not None or self.score_to is not None


def rule_of(workspace: Workspace) -> SecondMemberRule:
    """Return the workspace's rule; an unsaved one that asks for nobody by default."""
    found: Any = SecondMemberRule.objects.filter(workspace=workspace).first()
    return found or SecondMemberRule(workspace=workspace)


class CaseCause(models.TextChoices):
    ENDED = "ENDED", "The report has ended"
    PROPOSED = "PROPOSED", "A decision is proposed"
    REVIEW = "REVIEW", "A decision left it to a person"
    CHANGED = "CHANGED", "The findings of a decision changed"
    REQUESTED = "REQUESTED", "The subject asks a person to decide"


class Case(models.Model):
    """A report in the queue: it waits for a decision, or waited (`closed_at`).

    `cases.py` opens and closes it. A report that waits again has the same case.
    """

    report = models.OneToOneField(
        Report, models.PROTECT, primary_key=True, related_name="case"
    )
    # The index `open_cases` begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="cases", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # The report's, so that an index alone filters the queue
    package = models.CharField(max_length=40, null=True)  # noqa: DJ001
    risk_level = models.CharField(max_length=7, choices=RiskLevel)
    # The index `cases_of_members` begins with this column.
    assignee = models.ForeignKey(
        Member, models.SET_NULL, null=True, related_name="cases", db_index=False
    )
    cause = models.CharField(max_length=9, choices=CaseCause)
    # Null if it opened in a workspace without a service level
    due_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField(default=now, editable=False)
    closed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="closed_cases_are_nobodys",
                condition=Q(closed_at=None) | Q(assignee=None),
            )
        ]
        indexes = [
            # The queue. All filters are columns of this index.
            models.Index(
                fields=["workspace", "environment", "due_at", "report"],
                include=["assignee", "risk_level", "package"],
                condition=Q(closed_at=None),
                name="open_cases",
            ),
            models.Index(
                fields=["assignee", "due_at", "report"],
                condition=Q(assignee__isnull=False),
                name="cases_of_members",
            ),
        ]

    def __str__(self) -> str:
        return str(self.report_id)


class CaseNote(DatedRow):
    """A member's note about a report. A trigger refuses changes, except to erase.

    The subject's page and the API do not show it.
    """

    report = models.ForeignKey(Report, models.PROTECT, related_name="case_notes")
    # Null once the report is erased.
    text = EncryptedJSONField(null=True)
    # The actor's name in timelines, such as "member 0123…"
    author = models.CharField(max_length=100)
    # The id of the user, as members can leave.
    author_user = models.BigIntegerField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"note by {self.author}"


class NoticeRule(models.Model):
    """The number of working days that a decline with a notice waits before it counts.

    Without a row the decline counts at once.
    """

    workspace = models.OneToOneField(
        Workspace, models.PROTECT, primary_key=True, related_name="notice_rule"
    )
    waiting_days = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="declines_wait_1_to_30_days",
                condition=Q(waiting_days=None)
                | Q(waiting_days__gte=1, waiting_days__lte=MAX_WAITING_DAYS),
            )
        ]

    def __str__(self) -> str:
        return f"notices of {self.workspace_id}"


def notice_rule_of(workspace: Workspace) -> NoticeRule:
    """Return the workspace's rule; an unsaved one without a waiting time by default."""
    found: Any = NoticeRule.objects.filter(workspace=workspace).first()
    return found or NoticeRule(workspace=workspace)


class NoticeState(models.TextChoices):
    SENDING = "SENDING", "On its way"
    SERVED = "SERVED", "Served"
    UNDELIVERED = "UNDELIVERED", "To be handed over"
    ENDED = "ENDED", "Not needed any more"


class AdverseNotice(DatedRow):
    """The notice of a decline that rests on a bureau's result, or that no person made.

    It holds no personal data: the reasons are those of the decision, and the addresses
    are in its facts.
    """

    State = NoticeState

    decision = models.OneToOneField(Decision, models.PROTECT, related_name="notice")
    report = models.ForeignKey(Report, models.PROTECT, related_name="notices")
    # The report's; the index `notices_to_hand_over` begins with these columns.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="notices", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # The sources of the bureau's results, such as "metropol"; empty if only a reason
    # code says that there was one.
    bureaus = ArrayField(models.CharField(max_length=40), default=list)
    # The bureau's results of that time
    result_ids = ArrayField(models.UUIDField(), default=list)
    rests_on_bureau = models.BooleanField()
    # True if no person has looked at the decline
    is_automated = models.BooleanField()
    # Of the messages; blank for both languages
    language = models.CharField(max_length=2, blank=True)
    state = models.CharField(max_length=11, choices=NoticeState)
    # Counts the rounds of messages; `messaged_at` is when the last one began.
    rounds = models.PositiveSmallIntegerField(default=0)
    messaged_at = models.DateTimeField(null=True, editable=False)
    # True once each message of the last round has a final outcome
    is_settled = models.BooleanField()
    served_at = models.DateTimeField(null=True, editable=False)
    # When it turned out last that no message reaches the person
    undelivered_at = models.DateTimeField(null=True, editable=False)
    # The working days that the decline waits from its service on; null for none.
    waiting_days = models.PositiveSmallIntegerField(null=True)
    # When the decline counts; null before its service, and if it does not wait.
    waits_until = models.DateTimeField(null=True, editable=False)
    # Since when the clock stands: a correction or a review is open.
    stopped_at = models.DateTimeField(null=True, editable=False)
    review_asked_at = models.DateTimeField(null=True, editable=False)
    reviewed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="notices_have_a_ground",
                condition=Q(rests_on_bureau=True) | Q(is_automated=True),
            ),
            models.CheckConstraint(
                name="served_notices_say_when",
                condition=~Q(state="SERVED") | Q(served_at__isnull=False),
            ),
            models.CheckConstraint(
                name="undelivered_notices_say_when",
                condition=~Q(state="UNDELIVERED") | Q(undelivered_at__isnull=False),
            ),
            models.CheckConstraint(
                name="reviews_are_asked_for",
                condition=Q(reviewed_at=None) | Q(review_asked_at__isnull=False),
            ),
        ]
        indexes = [
            # Messages whose outcome is awaited
            models.Index(
                fields=["id"],
                condition=Q(is_settled=False),
                name="notices_on_their_way",
            ),
            models.Index(
                fields=["workspace", "environment", "undelivered_at"],
                condition=Q(state="UNDELIVERED"),
                name="notices_to_hand_over",
            ),
            # Reviews that wait for a person
            models.Index(
                fields=["report"],
                condition=Q(review_asked_at__isnull=False, reviewed_at=None),
                name="notices_in_review",
            ),
            # The search by the number that people read out
            number_index("notices_by_number"),
        ]

    def __str__(self) -> str:
        return f"notice {self.id} ({self.state})"

    @property
    def counts_from(self) -> datetime | None:
        """When the decline counts, or None while its clock stands or if it ended."""
        stands = self.stopped_at or self.state == NoticeState.ENDED
        return None if stands else self.waits_until

    @property
    def number(self) -> str:
        """The number that a person can read out."""
        return number_of_id("N", self.id)

    @property
    def can_be_reviewed(self) -> bool:
        """True if the subject can still request a review by a person."""
        is_over = self.state == NoticeState.ENDED
        return self.is_automated and self.review_asked_at is None and not is_over


class FactKind(models.TextChoices):
    SENT = "SENT", "Sent"
    FAILED = "FAILED", "Not delivered"
    OPENED = "OPENED", "Opened"
    DOWNLOADED = "DOWNLOADED", "PDF downloaded"
    HANDED_OVER = "HANDED_OVER", "Handed over"
    REVIEW_ASKED = "REVIEW_ASKED", "Review by a person asked for"


class NoticeFact(DatedRow):
    """One fact of the proof of service. A trigger refuses changes and deletion."""

    Kind = FactKind

    notice = models.ForeignKey(
        AdverseNotice, models.PROTECT, related_name="facts", db_index=False
    )
    kind = models.CharField(max_length=12, choices=FactKind)
    at = models.DateTimeField()
    channel = models.CharField(max_length=5, blank=True)
    # The message whose outcome this is
    notification_id = models.UUIDField(null=True, editable=False)
    # A code of `Notification.error`
    error = models.CharField(max_length=15, blank=True)
    # The actor who recorded a hand-over
    recorded_by = models.CharField(max_length=100, blank=True)
    # {address} masked, or {by, on} of a hand-over; null once the report is erased.
    details = EncryptedJSONField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["notification_id"],
                condition=Q(notification_id__isnull=False),
                name="one_fact_a_message",
            ),
            models.UniqueConstraint(
                fields=["notice", "kind"],
                condition=Q(kind__in=["OPENED", "DOWNLOADED", "REVIEW_ASKED"]),
                name="first_times_happen_once",
            ),
        ]
        indexes = [models.Index(fields=["notice", "id"], name="facts_of_a_notice")]
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.notice_id}"
