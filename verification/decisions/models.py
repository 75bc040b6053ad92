"""Decisions about reports, their reasons and second members, policies, and the queue.

A policy is the series of its versions in one workspace and environment.
"""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.timezone import now

from verification.db.encryption import EncryptedJSONField
from verification.db.ids import uuid7
from verification.reports.models import Report, ReportStatus, RiskLevel
from workspaces.models import Environment, Member, Workspace

# Statuses of reports that have ended and can be decided
DECIDABLE = (ReportStatus.READY, ReportStatus.PARTIAL, ReportStatus.FAILED)
MAX_CODES = 10
MAX_NOTE_LENGTH = 1000
MAX_TEXT_LENGTH = 200
CODE_PATTERN = r"[A-Z][A-Z0-9_]{1,39}"


class DecisionStatus(models.TextChoices):
    APPROVED = "APPROVED", "Approved"
    DECLINED = "DECLINED", "Declined"
    REVIEW = "REVIEW", "A person looks at it"


class DecisionState(models.TextChoices):
    PENDING = "PENDING", "Waits for a second member"
    FINAL = "FINAL", "Counts"
    REFUSED = "REFUSED", "Refused by a second member"


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


class PolicyVersion(models.Model):
    """One version of a policy: its rules, in order, and whether it decides by itself.

    A trigger refuses changes of a version that has been switched on, except that it is
    switched off or breaks, and the deletion of all but drafts.
    """

    Mode = PolicyMode
    State = PolicyState

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # The constraint `one_policy_version_a_number` begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="policy_versions", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # 1 for the first version, and so on
    number = models.PositiveIntegerField()
    # As `decisions.rules` reads them
    rules = models.JSONField(default=list)
    mode = models.CharField(max_length=7, choices=PolicyMode, default="PROPOSE")
    state = models.CharField(max_length=7, choices=PolicyState, default="DRAFT")
    # Ids, as members can leave
    made_by_user = models.BigIntegerField(null=True)
    activated_by_user = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(default=now, editable=False)
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


class Decision(models.Model):
    """A decision of the client about a report, or the proposal of one.

    The newest FINAL one of a report counts. A trigger refuses changes, except the
    answer of a second member to a proposal, once, and the erasure of codes and content.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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
    state = models.CharField(max_length=7, choices=DecisionState)
    # Reason codes; null once the report is erased.
    codes = ArrayField(models.CharField(max_length=40), null=True)
    # {note, reasons: [{code, text, textSw}]}: the texts of that time. A policy's has
    # {policy: {rule, found, unanswered, isBroken}} too. Null once the report is erased.
    content = EncryptedJSONField(null=True)
    made_by_kind = models.CharField(max_length=7, choices=MakerKind)
    # As in timelines, such as "key vrf_test_012…Ubx"
    made_by = models.CharField(max_length=100)
    # The ids of user and key, as members can leave.
    made_by_user = models.BigIntegerField(null=True)
    made_by_key = models.UUIDField(null=True)
    # No index, because versions that have decided are never deleted.
    policy_version = models.ForeignKey(
        PolicyVersion,
        models.PROTECT,
        null=True,
        related_name="decisions",
        db_index=False,
    )
    # Whether it was made as a proposal
    needs_second = models.BooleanField()
    # Who confirmed or refused the proposal
    second_by = models.CharField(max_length=100, blank=True)
    second_by_user = models.BigIntegerField(null=True)
    second_at = models.DateTimeField(null=True, editable=False)
    final_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        constraints = [
            # Of two decisions at once one fails.
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
            # A policy decides once; what it says later is a proposal.
            models.UniqueConstraint(
                fields=["report"],
                condition=Q(made_by_kind="POLICY", needs_second=False),
                name="a_policy_decides_once",
            ),
            models.CheckConstraint(
                name="proposals_are_confirmed_by_another",
                condition=Q(
                    state="FINAL",
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
                        state="FINAL",
                        needs_second=True,
                        second_by_user__isnull=False,
                        second_at__isnull=False,
                    )
                    & ~Q(second_by="")
                    & (Q(made_by_user=None) | ~Q(second_by_user=F("made_by_user")))
                ),
            ),
            models.CheckConstraint(
                name="final_decisions_say_when",
                condition=Q(state="FINAL", final_at__isnull=False)
                | (~Q(state="FINAL") & Q(final_at=None)),
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
    def note(self) -> str | None:
        return (self.content or {}).get("note")

    @property
    def policy(self) -> dict[str, Any]:
        """Why a policy decided so: {rule, found, unanswered, isBroken}.

        `rule` is the number of the rule that matched, null if none did; `found` has the
        report's value for each of its conditions; `unanswered` has the numbers of
        earlier rules without an answer. `isBroken` says that the version named
        something that was gone. It is empty for others, and once the report is erased.
        """
        return (self.content or {}).get("policy") or {}

    @property
    def is_automated(self) -> bool:
        """Whether it counts, or has counted, and no person has looked at it."""
        is_final = self.state == DecisionState.FINAL
        return (
            self.made_by_kind == MakerKind.POLICY
            and is_final
            and self.second_by_user is None
        )

    @property
    def reasons(self) -> list[dict[str, str]]:
        """The reason codes with their texts of that time."""
        return (self.content or {}).get("reasons") or []


class ReasonCode(models.Model):
    """A reason for decisions, in the words of the client. The code never changes."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="reason_codes", db_index=False
    )
    code = models.CharField(max_length=40)
    # Subjects read it, in English and Kiswahili.
    text = models.CharField(max_length=MAX_TEXT_LENGTH)
    text_sw = models.CharField(max_length=MAX_TEXT_LENGTH)
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=now, editable=False)

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
        """What a decision keeps of it."""
        return {"code": self.code, "text": self.text, "textSw": self.text_sw}


class SecondMemberRule(models.Model):
    """When a workspace wants a second member to confirm a decision.

    Without a row it never does. REVIEW decides nothing, so it needs nobody.
    """

    workspace = models.OneToOneField(
        Workspace,
        models.PROTECT,
        primary_key=True,
        related_name="second_member_rule",
    )
    # All declines
    declines = models.BooleanField(default=False)
    # Approvals and declines of reports with a score from here on; null for none.
    score_from = models.PositiveSmallIntegerField(null=True, blank=True)
    # The same of reports with a score up to here
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
    due_at = models.DateTimeField()
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


class CaseNote(models.Model):
    """What a member noted about a report. A trigger refuses changes, except to erase.

    Neither the subject's page nor the API shows it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    report = models.ForeignKey(Report, models.PROTECT, related_name="case_notes")
    # Null once the report is erased.
    text = EncryptedJSONField(null=True)
    # As in timelines, such as "member 0123…"
    author = models.CharField(max_length=100)
    # The id of the user, as members can leave.
    author_user = models.BigIntegerField()
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"note by {self.author}"
