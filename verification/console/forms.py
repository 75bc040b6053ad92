"""Forms of the console. Each error is a sentence that says what to do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pycountry
from django import forms
from django.conf import settings
from django.core.validators import validate_email
from django.db.models import QuerySet
from django.utils.text import format_lazy
from django.utils.timezone import localdate
from django.utils.translation import gettext_lazy as _
from pydantic_core import PydanticCustomError

from monitoring.models import Severity
from verification.accounts.forms import PublicNameField
from verification.api.exports import MAX_DAYS, Period, PeriodTooLong
from verification.api.problem_kinds import PROBLEM_KINDS
from verification.checks.models import CheckPackage
from verification.console.words import Topic, choices_of
from verification.decisions import case_list
from verification.decisions.case_list import Holder, Wait
from verification.decisions.decide import NewDecision
from verification.decisions.models import (
    CODE_PATTERN,
    MAX_CODES,
    MAX_NOTE_LENGTH,
    MAX_TEXT_LENGTH,
    MAX_WAITING_DAYS,
    DecisionStatus,
    NoticeRule,
    PolicyMode,
    ReasonCode,
    SecondMemberRule,
)
from verification.decisions.notices import MAX_NAME_LENGTH
from verification.decisions.rules import (
    MAX_CONDITIONS,
    MAX_NUMBER,
    NUMBERS,
    CheckState,
    Comparison,
    Condition,
    Fact,
    Known,
    Rule,
    words_for,
)
from verification.figures.summary import Days
from verification.files.inspection import Fault
from verification.files.uploads import (
    ACCEPTED,
    ACCEPTED_LOGOS,
    FAULT_MESSAGES,
    LOGO_MESSAGES,
    UploadedFile,
    read_logo,
    read_upload,
)
from verification.golive.applications import can_be_checked
from verification.golive.models import Application, DocumentKind
from verification.notifications.models import Channel
from verification.outbound.targets import Blocked, check_url
from verification.privacy.models import CorrectionStatus, Outcome
from verification.reports.queries import Filters
from verification.values import formats
from verification.values.clock import now
from verification.values.formats import one_line
from verification.values.identifiers import KRA_PIN
from verification.values.local_time import NAIROBI
from webhooks.models import DeliveryStatus, Event
from webhooks.sender import signing_key
from workspaces.api_requests import ApiRequestFilters
from workspaces.brands import NewBrand
from workspaces.models import (
    MAX_CONTACT_LINE,
    MAX_DECISION_HOURS,
    MAX_RETENTION_DAYS,
    MAX_RETURN_URL,
    MIN_RETENTION_DAYS,
    ApiKey,
    Environment,
    Member,
    MessageTime,
    Role,
    Scope,
    default_scopes,
)

CONTACT_HINT = _(
    "An e-mail address, a phone number, or both with a comma between; people see it"
)
REQUIRED_ERROR = {"required": _("This is needed")}
ALL_CHOICE = [("", _("All"))]
INVALID_DATE_ERROR = {"invalid": _("Choose a day")}
INVALID_SECRET = _("Enter a secret of 16 to 128 letters, digits and signs")
SECRET_PATTERN = re.compile("[ -~]{16,128}")
EVENT_CHOICES = [(n, n) for n in Event.Name.values if n != Event.Name.WEBHOOK_TEST]


def text_field(label: Any, max_length: int = 200, **options: Any) -> forms.CharField:
    return forms.CharField(
        label=label, max_length=max_length, error_messages=REQUIRED_ERROR, **options
    )


def text_area(label: Any, max_length: int) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": 3, "maxlength": max_length})
    return text_field(label, max_length, widget=widget)


def email_field(label: Any) -> forms.EmailField:
    invalid = _("Enter an e-mail address, such as name@example.com")
    return forms.EmailField(
        label=label,
        max_length=254,
        error_messages={**REQUIRED_ERROR, "invalid": invalid},
    )


def date_field(**options: Any) -> forms.DateField:
    field = forms.DateField(
        required=False, error_messages=INVALID_DATE_ERROR, **options
    )
    field.widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
    return field


def filter_field(label: Any, choices: Iterable[tuple[str, Any]]) -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label, choices=[*ALL_CHOICE, *choices], required=False
    )


class ContactField(forms.CharField):
    """An e-mail address, a phone number, or one of each with a comma between."""

    def __init__(self) -> None:
        super().__init__(
            label=_("Where people ask you about their details"),
            max_length=254,
            help_text=CONTACT_HINT,
            error_messages=REQUIRED_ERROR,
        )

    def clean(self, value: Any) -> str:
        parts = [part.strip() for part in super().clean(value).split(",")]
        emails = [part for part in parts if "@" in part]
        phones = [part for part in parts if "@" not in part]
        try:
            found = [*map(formats.email, emails), *map(formats.phone, phones)]
        except PydanticCustomError:
            found = []
        if not found or len(emails) > 1 or len(phones) > 1:
            raise forms.ValidationError(
                _("Enter name@example.com, +254712345678, or both with a comma between")
            )
        return ", ".join(found)


class OneLineField(forms.CharField):
    """Text without control characters and line breaks."""

    def clean(self, value: Any) -> str:
        return one_line(super().clean(value))


def name_field(label: Any, **options: Any) -> OneLineField:
    return OneLineField(
        label=label, max_length=200, error_messages=REQUIRED_ERROR, **options
    )


def trading_name_field() -> OneLineField:
    return name_field(
        _("Trading name"),
        required=False,
        help_text=_("If people know you by another name than the legal one"),
    )


class KeyForm(forms.Form):
    name = text_field(
        _("Name"),
        100,
        help_text=_("So that you know it again, such as the system that uses it"),
    )
    scopes = forms.MultipleChoiceField(
        label=_("What it may do"),
        choices=Scope.choices,
        initial=default_scopes,
        widget=forms.CheckboxSelectMultiple,
        error_messages=REQUIRED_ERROR,
    )
    expires = date_field(
        label=_("Last day"), help_text=_("Without one it works until you revoke it")
    )

    def clean_expires(self) -> date | None:
        day: date | None = self.cleaned_data["expires"]
        if day and day < localdate():
            raise forms.ValidationError(_("Choose a day to come"))
        return day

    @property
    def expires_at(self) -> datetime | None:
        day = self.cleaned_data["expires"]
        return datetime.combine(day, time.max, NAIROBI) if day else None


class RotationForm(forms.Form):
    ends = forms.TypedChoiceField(
        label=_("How long the old key still works"),
        coerce=int,
        choices=[
            (0, _("It ends now")),
            (1, _("One hour")),
            (24, _("One day")),
            (168, _("One week")),
        ],
        initial=24,
        error_messages=REQUIRED_ERROR,
    )

    @property
    def old_ends_at(self) -> datetime:
        return now() + timedelta(hours=self.cleaned_data["ends"])


class ReportFilters(forms.Form):
    search = forms.CharField(label=_("Search"), max_length=200, required=False)
    status = filter_field(_("Status"), choices_of(Topic.REPORT))
    subject_type = filter_field(_("Subject"), choices_of(Topic.SUBJECT))
    first = date_field(label=_("From"))
    last = date_field(label=_("To"))

    def filters(self) -> Filters:
        typed = self.cleaned_data
        return Filters(
            search=typed["search"] or None,
            status=typed["status"] or None,
            subject_type=typed["subject_type"] or None,
            first_day=typed["first"],
            last_day=typed["last"],
            zone=NAIROBI,
        )


def moment_field(label: Any) -> forms.DateTimeField:
    widget = forms.DateTimeInput(
        attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"
    )
    invalid = {"invalid": _("Choose a day and a time")}
    return forms.DateTimeField(
        label=label, required=False, widget=widget, error_messages=invalid
    )


class RequestFilters(forms.Form):
    key = forms.ModelChoiceField(
        queryset=ApiKey.objects.none(),
        label=_("Key"),
        required=False,
        empty_label=_("All"),
    )
    outcome = filter_field(
        _("Answer"),
        [
            ("2", _("2xx: done")),
            ("4", _("4xx: refused")),
            ("5", _("5xx: error of the service")),
        ],
    )
    problem = filter_field(_("Problem"), ((code, code) for code in PROBLEM_KINDS))
    route = filter_field(_("Address"), [])
    since = moment_field(_("From"))
    until = moment_field(_("To"))
    request_id = forms.CharField(label=_("Request id"), max_length=128, required=False)

    def __init__(
        self, *args: Any, keys: QuerySet[ApiKey], routes: Iterable[tuple[str, str]]
    ) -> None:
        super().__init__(*args)
        chosen: Any = self.fields["key"]
        chosen.queryset = keys
        chosen.label_from_instance = lambda key: f"{key.name} {key}"
        chosen = self.fields["route"]
        chosen.choices = [*ALL_CHOICE, *routes]

    def filters(self) -> ApiRequestFilters:
        typed = self.cleaned_data
        hundreds = int(typed["outcome"] or 0) * 100
        until = typed["until"]
        return ApiRequestFilters(
            first_status=hundreds or None,
            last_status=hundreds + 99 if hundreds else None,
            problem=typed["problem"] or None,
            route=typed["route"] or None,
            since=typed["since"],
            # The minute that is chosen counts.
            until=until + timedelta(minutes=1) if until else None,
            request_id=typed["request_id"] or None,
        )


class DeliveryFilters(forms.Form):
    event = filter_field(_("Event"), ((n, n) for n in Event.Name.values))
    status = filter_field(_("Status"), DeliveryStatus.choices)


class ExportForm(forms.Form):
    KINDS = (
        ("reports", _("Reports")),
        ("results", _("Results")),
        ("decisions", _("Decisions")),
        ("alerts", _("Alerts")),
        ("audit-trail", _("Audit trail: who did what")),
    )
    kind = forms.ChoiceField(label=_("What"), choices=KINDS)
    first = date_field(label=_("From"))
    last = date_field(label=_("To"))
    format = forms.ChoiceField(
        label=_("File"),
        choices=[
            ("csv", _("CSV, for a spreadsheet")),
            ("jsonl", _("JSON Lines, for a program")),
        ],
    )
    in_full = forms.BooleanField(
        label=_("Do not mask details about people"), required=False
    )
    reason = text_field(
        _("Why you need them"), 300, required=False, help_text=_("It is recorded")
    )

    def __init__(self, *args: Any, may_unmask: bool, may_see_trail: bool) -> None:
        super().__init__(*args)
        if not may_see_trail:
            kinds = [kind for kind in self.KINDS if kind[0] != "audit-trail"]
            self.fields["kind"].choices = kinds  # type: ignore[attr-defined]
        for name in ("first", "last"):
            self.fields[name].required = True
            self.fields[name].error_messages |= REQUIRED_ERROR
        if not may_unmask:
            del self.fields["in_full"], self.fields["reason"]

    def clean(self) -> dict[str, Any]:
        typed = self.cleaned_data
        if typed.get("first") and typed.get("last"):
            try:
                typed["period"] = Period(typed["first"], typed["last"], NAIROBI)
            except PeriodTooLong:
                days = {"days": MAX_DAYS}
                why = _("Choose a day after the first, within %(days)s days") % days
                self.add_error("last", why)
        if typed.get("in_full") and not typed.get("reason"):
            self.add_error("reason", REQUIRED_ERROR["required"])
        return typed


class FiguresForm(forms.Form):
    """A period and a package; by default this month, and all packages.

    `days` and `package_name` are what they mean: None is all packages.
    """

    WITHOUT_PACKAGE = "none"

    period = forms.ChoiceField(
        label=_("Period"),
        required=False,
        choices=[
            ("month", _("This month")),
            ("last-month", _("Last month")),
            ("90", _("Last 90 days")),
            ("365", _("Last 365 days")),
            ("days", _("From a day to a day")),
        ],
    )
    first = date_field(label=_("From"))
    last = date_field(label=_("To"))
    package = filter_field(_("Package"), [])

    def __init__(self, *args: Any, packages: Iterable[CheckPackage]) -> None:
        super().__init__(*args)
        chosen: Any = self.fields["package"]
        names = ((f"package:{one.name}", one.display_name) for one in packages)
        chosen.choices = [
            *ALL_CHOICE,
            (self.WITHOUT_PACKAGE, _("Without a package")),
            *names,
        ]

    def clean(self) -> dict[str, Any]:
        typed = self.cleaned_data
        name = typed.get("package", "").removeprefix("package:")
        is_without = typed.get("package") == self.WITHOUT_PACKAGE
        typed["package_name"] = "" if is_without else name or None
        typed["days"] = self._days(typed.get("period") or "month")
        return typed

    def _days(self, period: str) -> Days | None:
        today = localdate()
        if period in ("90", "365"):
            return Days(today - timedelta(days=int(period) - 1), today)
        month = today.replace(day=1)
        if period == "last-month":
            last = month - timedelta(days=1)
            return Days(last.replace(day=1), last)
        if period == "month":
            return Days(month, today)
        for name in ("first", "last"):
            if name not in self.errors and not self.cleaned_data.get(name):
                self.add_error(name, REQUIRED_ERROR["required"])
        if self.errors:
            return None
        first = self.cleaned_data["first"]
        last = min(self.cleaned_data["last"], today)
        # The period before would begin before the first year, which has no name.
        if first.year < 3 or not 0 <= (last - first).days < MAX_DAYS:
            why = _("Choose past days: the last one after the first, %(days)s in all")
            self.add_error("last", why % {"days": MAX_DAYS})
            return None
        return Days(first, last)


class ReasonForm(forms.Form):
    reason = text_field(_("Why you need to see it"), 500)


class CorrectionFilters(forms.Form):
    status = filter_field(_("Status"), choices_of(Topic.CORRECTION))


class CorrectionForm(forms.Form):
    """The decision is the button that sent the form."""

    decision = forms.ChoiceField(
        choices=[
            (s, s) for s in (CorrectionStatus.CORRECTED, CorrectionStatus.CONFIRMED)
        ],
        widget=forms.HiddenInput,
    )
    reason = text_area(_("Your reason, which the person reads"), 1000)


class JoinForm(forms.Form):
    """Whether the visitor is the person; the decision is the button that sent it."""

    decision = forms.ChoiceField(
        choices=[(each, each) for each in (Outcome.DONE, Outcome.REFUSED)],
        widget=forms.HiddenInput,
    )
    reason = forms.CharField(
        label=_("Why you refuse"),
        required=False,
        max_length=500,
        help_text=_("The person reads it. Do not name anybody"),
        error_messages=REQUIRED_ERROR,
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        is_refusal = cleaned.get("decision") == Outcome.REFUSED
        if is_refusal and not cleaned.get("reason"):
            self.add_error("reason", _("Say why you refuse"))
        return cleaned


class DecisionForm(forms.Form):
    status = forms.ChoiceField(
        label=_("Your decision"),
        choices=[
            (DecisionStatus.APPROVED, _("Approve")),
            (DecisionStatus.DECLINED, _("Decline")),
            (DecisionStatus.REVIEW, _("Leave it to a person to review")),
        ],
        widget=forms.RadioSelect,
        error_messages=REQUIRED_ERROR,
    )
    codes = forms.MultipleChoiceField(
        label=_("Reasons"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("The subject reads them. A decline needs one"),
        error_messages={"invalid_choice": _("Choose reasons that are offered here")},
    )
    note = forms.CharField(
        label=_("Note"),
        required=False,
        max_length=MAX_NOTE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": MAX_NOTE_LENGTH}),
        help_text=_("For members and your programs; the subject's page has no notes"),
    )
    not_on_bureau = forms.CharField(
        label=_("Why a decline does not rest on the credit bureau's result"),
        required=False,
        max_length=MAX_NOTE_LENGTH,
        help_text=_("Empty if it does: then the person gets a notice with the reasons"),
    )
    # The decision that the member has read
    replaces = forms.UUIDField(required=False, widget=forms.HiddenInput)
    # Whether the member has read what follows from a decline
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        typed: Any,
        *,
        codes: list[tuple[str, str]],
        bureau_codes: Collection[str],
        contradictions: Mapping[str, str],
        has_credit_check: bool,
        **more: Any,
    ):
        super().__init__(typed, **more)
        self.fields["codes"].choices = codes  # type: ignore[attr-defined]
        self.bureau_codes, self.contradictions = bureau_codes, contradictions
        if not has_credit_check:
            del self.fields["not_on_bureau"]

    def clean(self) -> dict[str, Any]:
        typed: dict[str, Any] = super().clean() or {}
        codes = typed.get("codes", [])
        if typed.get("status") == DecisionStatus.DECLINED and not codes:
            if "codes" not in self.errors:
                self.add_error("codes", _("Choose at least one reason for a decline"))
        elif len(codes) > MAX_CODES:
            error = format_lazy(_("Choose at most {most} reasons"), most=MAX_CODES)
            self.add_error("codes", error)
        for code in set(codes) & set(self.contradictions):
            self.add_error("codes", self.contradictions[code])
        if typed.get("not_on_bureau"):
            if typed.get("status") != DecisionStatus.DECLINED:
                self.add_error("not_on_bureau", _("This is for a decline alone"))
            elif set(codes) & set(self.bureau_codes):
                why = _("A reason that you chose comes from a credit bureau")
                self.add_error("not_on_bureau", why)
        return typed

    @property
    def has_to_confirm(self) -> bool:
        """Whether the member has to read first what follows."""
        typed = self.cleaned_data
        return typed["status"] == DecisionStatus.DECLINED and not typed["confirmed"]

    @property
    def new_decision(self) -> NewDecision:
        typed = self.cleaned_data
        return NewDecision(
            typed["status"],
            typed["codes"],
            typed["note"],
            typed["replaces"],
            typed.get("not_on_bureau", ""),
        )


class QueueFilters(forms.Form):
    """The filters of the queue; `packages` are those that its cases can have."""

    search = forms.CharField(
        label=_("Search"),
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"accesskey": "s"}),
    )
    holder = filter_field(
        _("Whose"), [(Holder.MINE, _("Mine")), (Holder.NOBODY, _("Nobody's"))]
    )
    wait = filter_field(
        _("Waits for"),
        [(Wait.DECISION, _("A decision")), (Wait.SECOND, _("A second member"))],
    )
    level = filter_field(_("Risk"), choices_of(Topic.RISK))
    package = filter_field(_("Package"), [])
    overdue = forms.BooleanField(label=_("Overdue only"), required=False)

    def __init__(self, typed: Any, *, packages: Iterable[tuple[str, str]]) -> None:
        super().__init__(typed)
        self.fields["package"].choices = [*ALL_CHOICE, *packages]  # type: ignore[attr-defined]

    def filters(self) -> case_list.QueueFilters:
        typed = self.cleaned_data
        return case_list.QueueFilters(
            search=typed["search"] or None,
            holder=Holder(typed["holder"]) if typed["holder"] else None,
            overdue=typed["overdue"],
            wait=Wait(typed["wait"]) if typed["wait"] else None,
            level=typed["level"] or None,
            package=typed["package"] or None,
        )


class TakeNextForm(forms.Form):
    """The next case; `held` is how many the member had on the page of the form."""

    held = forms.IntegerField()


class AssignmentForm(forms.Form):
    """Who gets a case; `seen` is who has it as the member has read."""

    member = forms.ModelChoiceField(
        queryset=Member.objects.none(),
        label=_("Give it to"),
        required=False,
        empty_label=_("Nobody"),
    )
    seen = forms.UUIDField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, members: QuerySet[Member], **more: Any) -> None:
        super().__init__(*args, **more)
        chosen: Any = self.fields["member"]
        chosen.queryset = members
        chosen.label_from_instance = lambda one: (
            one.user.get_full_name() or one.user.email
        )


class CaseNoteForm(forms.Form):
    text = text_area(_("New note"), MAX_NOTE_LENGTH)


class ServiceLevelForm(forms.Form):
    decision_hours = forms.IntegerField(
        label=_("Hours until a report is decided"),
        min_value=1,
        max_value=MAX_DECISION_HOURS,
        required=False,
        help_text=_(
            "Counted from its end. Empty: only what needs a person is in the queue"
        ),
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_value"),
            format_lazy(
                _("Enter 1 to {most} hours, or nothing"), most=MAX_DECISION_HOURS
            ),
        ),
    )


def score_field(label: Any, help_text: Any) -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        min_value=0,
        max_value=100,
        required=False,
        help_text=help_text,
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_value"),
            _("Enter a score from 0 to 100, or nothing"),
        ),
    )


class MessagesForm(forms.Form):
    """When a member gets each kind of messages."""

    def __init__(
        self, *args: Any, kinds: Iterable[tuple[str, Any, Any]], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        for kind, label, hint in kinds:
            self.fields[kind] = forms.ChoiceField(
                label=label,
                help_text=hint,
                choices=[
                    (MessageTime.NOW, _("At once")),
                    (MessageTime.DAILY, _("Once a day, at 7 in the morning")),
                    (MessageTime.OFF, _("Never")),
                ],
                error_messages=REQUIRED_ERROR,
            )


def bureau_field() -> forms.BooleanField:
    return forms.BooleanField(
        label=_("It comes from a credit bureau"),
        required=False,
        help_text=_("A decline for this reason is served on the person as a notice"),
    )


class NoticeRuleForm(forms.ModelForm):
    """How long a decline with a notice waits."""

    waiting_days = forms.IntegerField(
        label=_("Working days until such a decline counts"),
        required=False,
        min_value=1,
        max_value=MAX_WAITING_DAYS,
        help_text=_("1 to 30, from the service of the notice on. Empty for none"),
        error_messages={
            "invalid": _("Enter a number from 1 to 30"),
            "min_value": _("Enter a number from 1 to 30"),
            "max_value": _("Enter a number from 1 to 30"),
        },
    )

    class Meta:
        model = NoticeRule
        fields = ["waiting_days"]


class HandOverForm(forms.Form):
    """Who handed the notice of a decline to the person, and when."""

    by = text_field(_("Handed over by"), MAX_NAME_LENGTH)
    on = forms.DateField(label=_("Handed over on"))


class SecondMemberForm(forms.ModelForm):
    """When a second member has to confirm a decision."""

    declines = forms.BooleanField(label=_("All declines"), required=False)
    score_from = score_field(
        _("Reports with this score or a higher one"),
        _("Approvals and declines; a higher score is riskier. Empty for none"),
    )
    score_to = score_field(
        _("Reports with this score or a lower one"), _("Empty for none")
    )

    class Meta:
        model = SecondMemberRule
        fields = ["declines", "score_from", "score_to"]


class ReasonCodeForm(forms.ModelForm):
    text = text_field(_("Text in English"), MAX_TEXT_LENGTH)
    text_sw = text_field(_("Text in Kiswahili"), MAX_TEXT_LENGTH)
    from_bureau = bureau_field()
    active = forms.BooleanField(label=_("Offered for new decisions"), required=False)

    class Meta:
        model = ReasonCode
        fields = ["text", "text_sw", "from_bureau", "active"]


class NewReasonForm(forms.Form):
    code = forms.RegexField(
        f"^{CODE_PATTERN}$",
        label=_("Code"),
        max_length=40,
        help_text=_("Capital letters, digits and _, such as RENT_IN_ARREARS. It stays"),
        error_messages={
            **REQUIRED_ERROR,
            "invalid": _("Enter 2 to 40 capital letters, digits and _"),
        },
    )
    text = text_field(
        _("Text in English"),
        MAX_TEXT_LENGTH,
        help_text=_("The subject reads it, and so do readers of the PDF"),
    )
    text_sw = text_field(_("Text in Kiswahili"), MAX_TEXT_LENGTH)
    from_bureau = bureau_field()


REPORT_FACTS = {
    Fact.SCORE: _("The report: score"),
    Fact.LEVEL: _("The report: level"),
    Fact.FLAG: _("The report: flag of any check"),
    Fact.PACKAGE: _("The report: package"),
}
CHECK_FACTS = {
    Fact.SCORE: _("score"),
    Fact.LEVEL: _("level"),
    Fact.FLAG: _("flag"),
    Fact.STATE: _("state"),
}
NUMBER_NAMES = {
    "creditScore": _("credit score"),
    "probabilityOfDefault": _("probability of default"),
    "openAccounts": _("number of open accounts"),
    "nonPerformingAccounts": _("number of non-performing accounts"),
    "totalBalance": _("total balance"),
    "totalOverdue": _("total overdue"),
    "worstDaysInArrears": _("longest arrears in days"),
    "enquiriesLast12Months": _("number of enquiries in 12 months"),
    "bouncedChequesLast12Months": _("number of bounced cheques in 12 months"),
}
COMPARISONS = {
    Comparison.AT_LEAST: _("is at least"),
    Comparison.BELOW: _("is below"),
    Comparison.IS: _("is"),
    Comparison.IS_NOT: _("is not"),
}
NUMERIC = {Comparison.AT_LEAST, Comparison.BELOW}
CONDITION_FIELDS = ("fact", "comparison", "value")
NO_FACT = [("", _("Choose"))]
# As many conditions of a rule are shown at once; more can be opened.
SHOWN_CONDITIONS = 2


class PolicyRuleForm(forms.Form):
    """A rule of a policy: conditions that all have to hold, and what follows."""

    then = forms.ChoiceField(
        label=_("Then"),
        choices=[
            (DecisionStatus.APPROVED, _("Approve")),
            (DecisionStatus.DECLINED, _("Decline")),
            (DecisionStatus.REVIEW, _("Leave it to a person to review")),
        ],
        widget=forms.RadioSelect,
        error_messages=REQUIRED_ERROR,
    )
    codes = forms.MultipleChoiceField(
        label=_("Reasons"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("The subject reads them. A decline needs one"),
        error_messages={"invalid_choice": _("Choose reasons that are offered here")},
    )
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        typed: Any,
        *,
        known: Known,
        codes: list[tuple[str, str]],
        rule: Rule | None = None,
        seen: str = "",
    ) -> None:
        self.known = known
        super().__init__(typed, initial={"seen": seen})
        about = [*NO_FACT, *_fact_choices(known)]
        for n in range(1, MAX_CONDITIONS + 1):
            self._add_condition(n, about)
        chosen: Any = self.fields["codes"]
        chosen.choices = codes
        if rule:
            self._show(rule)
        self.order_fields([*self._condition_names(), "then", "codes", "seen"])

    @property
    def rows(self) -> list[tuple[int, list[Any]]]:
        """The fields of each condition with its number."""
        return [
            (n, [self[f"{name}_{n}"] for name in CONDITION_FIELDS])
            for n in range(1, MAX_CONDITIONS + 1)
        ]

    @property
    def first_rows(self) -> list[tuple[int, list[Any]]]:
        return self.rows[:SHOWN_CONDITIONS]

    @property
    def further_rows(self) -> list[tuple[int, list[Any]]]:
        return self.rows[SHOWN_CONDITIONS:]

    @property
    def has_further(self) -> bool:
        return any(f.value() or f.errors for _, row in self.further_rows for f in row)

    @property
    def words(self) -> list[str]:
        """The words that conditions can name, for the browser to offer."""
        found = {*words_for(None, Fact.LEVEL, self.known)}
        found |= {*words_for(None, Fact.FLAG, self.known)}
        found |= {*self.known.packages, *CheckState}
        return sorted(found)

    def clean(self) -> dict[str, Any]:
        typed: dict[str, Any] = super().clean() or {}
        when = [self._read_condition(n, typed) for n in range(1, MAX_CONDITIONS + 1)]
        typed["when"] = [one for one in when if one]
        if not typed["when"] and not self.errors:
            self.add_error("fact_1", _("Choose at least one condition"))
        codes = typed.get("codes", [])
        if typed.get("then") == DecisionStatus.DECLINED and not codes:
            self.add_error("codes", _("Choose at least one reason for a decline"))
        elif len(codes) > MAX_CODES:
            error = format_lazy(_("Choose at most {most} reasons"), most=MAX_CODES)
            self.add_error("codes", error)
        return typed

    @property
    def rule(self) -> Rule:
        typed = self.cleaned_data
        return Rule(when=typed["when"], then=typed["then"], codes=typed["codes"])

    def _condition_names(self) -> list[str]:
        numbers = range(1, MAX_CONDITIONS + 1)
        return [f"{name}_{n}" for n in numbers for name in CONDITION_FIELDS]

    def _add_condition(self, n: int, about: Any) -> None:
        self.fields[f"fact_{n}"] = forms.ChoiceField(
            label=format_lazy(_("Condition {n}: what"), n=n),
            choices=about,
            required=False,
        )
        self.fields[f"comparison_{n}"] = forms.ChoiceField(
            label=format_lazy(_("Condition {n}: comparison"), n=n),
            choices=COMPARISONS.items(),
            required=False,
        )
        self.fields[f"value_{n}"] = forms.CharField(
            label=format_lazy(_("Condition {n}: value"), n=n),
            max_length=40,
            required=False,
            widget=forms.TextInput(attrs={"list": "words", "autocomplete": "off"}),
        )

    def _show(self, rule: Rule) -> None:
        for n, one in enumerate(rule.when, 1):
            self.initial[f"fact_{n}"] = fact_key(one.check, one.fact)
            self.initial[f"comparison_{n}"] = one.comparison
            self.initial[f"value_{n}"] = value_text(one.value)
        self.initial["then"], self.initial["codes"] = rule.then, list(rule.codes)

    def _read_condition(self, n: int, typed: dict[str, Any]) -> Condition | None:
        about, value = typed.get(f"fact_{n}"), typed.get(f"value_{n}", "").strip()
        if not about:
            if value:
                self.add_error(f"fact_{n}", _("Choose what the condition is about"))
            return None
        check, _separator, fact = about.rpartition(".")
        is_number = fact == Fact.SCORE or fact in NUMBERS
        comparison = Comparison(typed.get(f"comparison_{n}") or Comparison.IS)
        if (comparison in NUMERIC) != is_number:
            choose = _("Choose “is” or “is not”")
            if is_number:
                choose = _("Choose “is at least” or “is below”")
            self.add_error(f"comparison_{n}", choose)
            return None
        read = self._read_number if is_number else self._read_word
        found = read(n, check or None, fact, value)
        if found is None:
            return None
        return Condition(
            check=check or None, fact=fact, comparison=comparison, value=found
        )

    def _read_number(
        self, n: int, check: str | None, fact: str, value: str
    ) -> float | None:
        most = 100 if fact == Fact.SCORE else MAX_NUMBER
        try:
            number = float(value.replace(",", ""))
        except ValueError:
            number = -1
        if 0 <= number <= most:
            return number
        error = format_lazy(_("Enter a number from 0 to {most}"), most=most)
        self.add_error(f"value_{n}", error)
        return None

    def _read_word(
        self, n: int, check: str | None, fact: str, value: str
    ) -> str | None:
        words = {word.casefold(): word for word in words_for(check, fact, self.known)}
        if found := words.get(value.casefold()):
            return found
        listed = ", ".join(words.values())
        self.add_error(
            f"value_{n}",
            format_lazy(_("Enter one of these: {words}"), words=listed)
            if words
            else _("There is none that could be named here"),
        )
        return None


def fact_key(check: str | None, fact: str) -> str:
    return f"{check}.{fact}" if check else fact


def value_text(value: float | str) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _fact_choices(known: Known) -> list[Any]:
    choices: list[Any] = [
        (_("The report"), [(fact.value, name) for fact, name in REPORT_FACTS.items()])
    ]
    for check in known.checks.values():
        names = {fact.value: name for fact, name in CHECK_FACTS.items()}
        names |= {n: NUMBER_NAMES[n] for n in NUMBERS if n in check.output_fields}
        group = [
            (
                fact_key(check.name, fact),
                format_lazy("{}: {}", check.display_name, name),
            )
            for fact, name in names.items()
        ]
        choices.append((check.display_name, group))
    return choices


class ActivationForm(forms.Form):
    """How a version works once it is switched on."""

    mode = forms.ChoiceField(
        label=_("Once it is switched on"),
        choices=[
            (PolicyMode.PROPOSE, _("It proposes, and a member confirms")),
            (PolicyMode.DECIDE, _("It decides, and the subject can ask for a person")),
        ],
        widget=forms.RadioSelect,
        error_messages=REQUIRED_ERROR,
    )
    seen = forms.CharField(required=False, widget=forms.HiddenInput)


class RuleFilters(forms.Form):
    search = forms.CharField(label=_("Search"), max_length=200, required=False)


class AlertFilters(forms.Form):
    read = forms.TypedChoiceField(
        label=_("Show"),
        choices=[*ALL_CHOICE, ("no", _("Unread")), ("yes", _("Read"))],
        coerce=lambda text: text == "yes",
        empty_value=None,
        required=False,
    )
    severity = filter_field(_("Severity"), Severity.choices)


class WebhookForm(forms.Form):
    url = text_field(
        _("Address"),
        2048,
        widget=forms.URLInput,
        help_text=_("https, port 443 or 8443, and a public host name"),
    )
    enabled_events = forms.MultipleChoiceField(
        label=_("Events"),
        choices=EVENT_CHOICES,
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    secret = forms.CharField(
        label=_("Secret"),
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        strip=False,
    )
    enabled = forms.BooleanField(label=_("Send events"), required=False, initial=True)

    def __init__(self, *args: Any, has_secret: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.has_secret = has_secret
        self.fields["secret"].help_text = (
            _("Leave it empty to keep the present one. It is never shown.")
            if has_secret
            else _("16 to 128 characters, by which your receiver knows us")
        )

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        try:
            check_url(url, settings.WEBHOOK_DEV_HOSTS)
        except Blocked:
            raise forms.ValidationError(
                _("Enter a public https address, such as https://hooks.example.com/")
            ) from None
        return url

    def clean_secret(self) -> str | None:
        secret: str = self.cleaned_data["secret"]
        if not secret and self.has_secret:
            return None
        try:
            if not SECRET_PATTERN.fullmatch(secret):
                raise ValueError
            signing_key(secret)
        except ValueError:
            raise forms.ValidationError(INVALID_SECRET) from None
        return secret


class InvitationForm(forms.Form):
    email = email_field(_("E-mail address"))
    role = forms.ChoiceField(
        label=_("Role"), initial=Role.VIEWER, error_messages=REQUIRED_ERROR
    )

    def __init__(self, typed: Any, roles: list[tuple[str, Any]]) -> None:
        """Offer the roles that the member may give; the verb checks them again."""
        super().__init__(typed)
        self.fields["role"].choices = roles  # type: ignore[attr-defined]


class SandboxAddressForm(forms.Form):
    """The cleaned `address` is a channel and an address."""

    address = text_field(_("E-mail address"), 254)

    def __init__(self, typed: Any, *, by_sms: bool) -> None:
        super().__init__(typed)
        self.by_sms = by_sms
        if by_sms:
            label = _("E-mail address, or phone number such as +254712345678")
            self.fields["address"].label = label

    def clean_address(self) -> tuple[Channel, str]:
        typed: str = self.cleaned_data["address"]
        try:
            if self.by_sms and typed.startswith("+"):
                return Channel.SMS, formats.phone(typed)
            validate_email(typed)
        except (PydanticCustomError, forms.ValidationError):
            raise forms.ValidationError(
                _("Enter an e-mail address, or a number such as +254712345678")
                if self.by_sms
                else _("Enter an e-mail address, such as name@example.com")
            ) from None
        return Channel.EMAIL, typed


def retention_field(label: Any, environment: Environment) -> forms.IntegerField:
    least = MIN_RETENTION_DAYS[environment]
    error = format_lazy(
        _("Enter a number of days from {least} to {most}"),
        least=least,
        most=MAX_RETENTION_DAYS,
    )
    return forms.IntegerField(
        label=label,
        min_value=least,
        max_value=MAX_RETENTION_DAYS,
        help_text=_("From a report's end. More days apply to later reports only"),
        error_messages=dict.fromkeys(
            ("required", "invalid", "min_value", "max_value"), error
        ),
    )


class SettingsForm(forms.Form):
    name = PublicNameField(
        label=_("Name"),
        max_length=200,
        help_text=_("People who are asked for their consent see it"),
        error_messages=REQUIRED_ERROR,
    )
    contact = ContactField()
    retention_days = retention_field(
        _("Days that reports in production are kept"), Environment.PRODUCTION
    )
    sandbox_retention_days = retention_field(
        _("Days that reports in the sandbox are kept"), Environment.SANDBOX
    )
    low_balance_at = forms.DecimalField(
        label=_("Tell the owner when no more is left than"),
        min_value=Decimal(0),
        max_digits=14,
        decimal_places=2,
        required=False,
        help_text=_("In production; empty for never"),
        error_messages={
            name: _("Enter an amount, such as 1000, or nothing for never")
            for name in ("invalid", "min_value", "max_digits", "max_decimal_places")
        },
    )


class BrandForm(forms.Form):
    logo = forms.FileField(
        label=_("Logo"),
        required=False,
        help_text=_("PNG or JPEG, up to 1 MB; your name stands beside it"),
        widget=forms.FileInput(attrs={"accept": ACCEPTED_LOGOS}),
        error_messages={"empty": LOGO_MESSAGES[Fault.EMPTY]},
    )
    drop_logo = forms.BooleanField(label=_("Show no logo"), required=False)
    colour = text_field(
        _("Colour of buttons"),
        20,
        required=False,
        help_text=_("Such as #0f766e; empty for ours"),
    )
    contact_line = text_field(
        _("Line below your contact, in English"),
        MAX_CONTACT_LINE,
        required=False,
        help_text=_("Such as office hours; no links"),
    )
    contact_line_sw = text_field(
        _("The same line in Kiswahili"), MAX_CONTACT_LINE, required=False
    )
    return_hosts = forms.CharField(
        label=_("Hosts to which pages may lead back"),
        max_length=3000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": 3000}),
        help_text=_("One a line, such as apply.example.com; exactly these, at most 10"),
    )
    return_url = text_field(
        _("Return address"),
        MAX_RETURN_URL,
        required=False,
        help_text=_("For reports that name none; it begins with https://"),
    )

    def clean_logo(self) -> bytes | None:
        upload = self.cleaned_data["logo"]
        return read_logo(upload) if upload else None

    @property
    def brand(self) -> NewBrand:
        """What was typed, with the right fields only if others are wrong."""
        typed = self.cleaned_data
        return NewBrand(
            colour=typed.get("colour", ""),
            contact_line=typed.get("contact_line", ""),
            contact_line_sw=typed.get("contact_line_sw", ""),
            return_hosts=typed.get("return_hosts", "").split(),
            return_url=typed.get("return_url", ""),
        )


class PackageForm(forms.Form):
    display_name = OneLineField(
        label=_("Title"),
        max_length=100,
        help_text=_("People of your company see it, such as Loan applicant"),
        error_messages=REQUIRED_ERROR,
    )
    checks = forms.MultipleChoiceField(
        label=_("Checks"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Reports and rules that you have made keep their checks"),
        error_messages={
            "required": _("Choose a check"),
            "invalid_choice": _("One of these checks is not offered"),
        },
    )

    def __init__(self, *args: Any, checks: list[tuple[str, str]], **options: Any):
        super().__init__(*args, **options)
        self.fields["checks"].choices = checks  # type: ignore[attr-defined]


class NewPackageForm(PackageForm):
    name = text_field(
        _("Name"),
        40,
        help_text=_("Your systems send it; it can never be changed"),
        widget=forms.TextInput(attrs={"autocapitalize": "none", "spellcheck": "false"}),
    )
    field_order = ("name", "display_name", "checks")


class NamesForm(forms.Form):
    legal_name = name_field(_("Legal name"), help_text=_("As on the certificate"))
    trading_name = trading_name_field()
    note = text_field(
        _("How we can check it"),
        500,
        required=False,
        help_text=_("Such as the day on which the register changed the name"),
    )


class CloseForm(forms.Form):
    password = forms.CharField(
        label=_("Your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        error_messages=REQUIRED_ERROR,
    )


COUNTRIES = sorted((c.alpha_2, c.name) for c in pycountry.countries)
VOLUMES = [
    ("", _("Choose one")),
    ("1-100", "1 - 100"),
    ("101-1000", "101 - 1,000"),
    ("1001-10000", "1,001 - 10,000"),
    ("10001+", "10,001 +"),
]
DOCUMENT_LABELS = {
    DocumentKind.INCORPORATION: _("Certificate of incorporation"),
    DocumentKind.CR12: _("CR12, of the last 12 months"),
    DocumentKind.KRA: _("KRA PIN certificate"),
    DocumentKind.DIRECTOR_ID: _("ID card or passport of a director"),
}


class CompanyForm(forms.Form):
    company_name = name_field(_("Legal name"), help_text=_("As on the certificate"))
    trading_name = trading_name_field()
    registration_number = text_field(_("Registration number"), 64)
    kra_pin = text_field(_("KRA PIN"), 11, help_text=_("Such as P051234567X"))
    country = forms.ChoiceField(label=_("Country"), choices=COUNTRIES, initial="KE")
    address = text_area(_("Address"), 300)
    contact_name = name_field(_("Whom we may ask"))
    contact_email = email_field(_("Their e-mail address"))
    contact_phone = text_field(
        _("Their phone number"),
        30,
        help_text=_("With the country code, such as +254712345678"),
    )
    public_contact = ContactField()
    purpose = text_area(_("What you verify people or companies for"), 500)
    volume = forms.ChoiceField(
        label=_("Reports that you expect in a month"),
        choices=VOLUMES,
        error_messages=REQUIRED_ERROR,
    )

    def clean_kra_pin(self) -> str:
        pin = re.sub(r"\s", "", self.cleaned_data["kra_pin"]).upper()
        if not KRA_PIN.fits(pin):
            raise forms.ValidationError(
                _("Enter a letter, nine digits and a letter, such as P051234567X")
            )
        return pin

    def clean_contact_phone(self) -> str:
        try:
            return formats.phone(self.cleaned_data["contact_phone"])
        except PydanticCustomError:
            raise forms.ValidationError(
                _("Enter a phone number with its country code, +254712345678")
            ) from None

    def clean(self) -> dict[str, Any]:
        """Refuse a registration number that makes no order of the company's check."""
        typed: dict[str, Any] = super().clean() or {}
        fields = ("company_name", "registration_number", "country")
        name, number, country = (typed.get(field) or "" for field in fields)
        is_complete = bool(name and number and country)
        if is_complete and not can_be_checked(name, number, country):
            error = _("Enter the number as on the certificate, such as PVT-AB12CD3")
            self.add_error("registration_number", error)
        return typed

    @property
    def details(self) -> dict[str, str]:
        """The details as an application stores them: all but the company's name."""
        typed = self.cleaned_data.items()
        return {_camel_case(k): v for k, v in typed if k != "company_name"}


def initial_of(application: Application) -> dict[str, str]:
    """Return the initial values of CompanyForm."""
    details = {_snake_case(k): v for k, v in application.details.items()}
    return {"company_name": application.company_name, **details}


def _camel_case(name: str) -> str:
    return re.sub("_([a-z])", lambda letter: letter[1].upper(), name)


def _snake_case(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).lower()


class DocumentForm(forms.Form):
    file = forms.FileField(
        label=_("The file"),
        help_text=_("PDF, JPEG or PNG, up to 10 MB"),
        widget=forms.FileInput(attrs={"accept": ACCEPTED}),
        error_messages={
            "required": _("Choose a file"),
            "empty": FAULT_MESSAGES[Fault.EMPTY],
            "invalid": _("Choose a file"),
        },
    )

    def clean_file(self) -> UploadedFile:
        return read_upload(self.cleaned_data["file"])


class SubmissionForm(forms.Form):
    confirmed = forms.BooleanField(
        label=_("All of it is true, and I may act for the company"),
        error_messages={"required": _("Confirm it to submit")},
    )
