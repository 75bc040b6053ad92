"""The form of an order: the choice of checks, and the fields that these need."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from verification.batches.cells import MAX_ROWS, Sheet
from verification.batches.headings import is_name
from verification.batches.spreadsheet import (
    ACCEPTED,
    NoRows,
    TooManyRows,
    UnmatchedQuotes,
    read_sheet,
)
from verification.checks.catalogue import CATALOGUE
from verification.checks.models import CheckDefinition, CheckPackage
from verification.consents.models import Consent
from verification.console.batch_sheet import FULL_NAME, IGNORED, Columns
from verification.console.batches import OpenUpload
from verification.console.fields import (
    Choices,
    ChoicesForm,
    LongSelect,
    Option,
    countries,
)
from verification.console.order_faults import fault_text, path_in_item
from verification.console.order_inputs import (
    METHODS,
    ON,
    Choice,
    Input,
    Offer,
    inputs_of,
    is_offered,
    is_package_offered,
)
from verification.files.inspection import Busy, Unacceptable
from verification.files.inspection import Fault as FileFault
from verification.files.uploads import BUSY, BUSY_MESSAGE, FAULT_MESSAGES
from verification.payments.registry import accepts_payments
from verification.reports.models import PaymentMode, SubjectType
from verification.reports.pricing import price_of_package
from verification.reports.request import (
    MAX_CHECKS,
    Fault,
    no_source_reason,
)
from verification.settings.providers import HOME_COUNTRY
from verification.web.pages import REQUIRED_ERROR

# Up to this number, packages are cards; more are a list that drops down.
MOST_CARDS = 8
WIDGETS: dict[str, type[forms.Widget]] = {
    "EMAIL": forms.EmailInput,
    "NOTE": forms.Textarea,
}
FILE_FAULTS: dict[FileFault, Any] = {
    **FAULT_MESSAGES,
    FileFault.UNKNOWN: _("This file is neither CSV nor XLSX. Save it as one of these."),
    FileFault.DAMAGED: _(
        "The file cannot be read. Save it again, as XLSX or as CSV in UTF-8."
    ),
    FileFault.BOMB: _(
        "The file holds much more than rows. Copy the rows to a new file."
    ),
    FileFault.ACTIVE: _("The file has macros. Save it as XLSX without them."),
    FileFault.ENCRYPTED: _(
        "The file has a password or an old format. Save it as XLSX without a password."
    ),
    FileFault.INFECTED: _("A virus scanner refuses the file."),
    FileFault.TOO_LONG: _("The file has too many columns. Begin with the template."),
}
# The error of a choice that staff withdrew while the member filled in the form
WITHDRAWN: dict[str, Any] = {
    "checks": _("A chosen check is not offered any more"),
    "package": _("The chosen package is not offered any more"),
}
TOO_MANY_ROWS = format_lazy(
    _("The file has more than {rows} rows. Split it."), rows=MAX_ROWS
)
NO_ROWS = _("The file has no row below its headings.")
# A few words about each check. A check without an entry, and one whose
# description staff have edited, shows its description.
CHECK_HINTS: dict[str, Any] = {
    "IDENTITY": _("Name and date of birth in the national register of persons"),
    "KRA_PIN": _("PIN and name at the Kenya Revenue Authority"),
    "EMPLOYER_VERIFICATION": _("A referee at the employer confirms the employment"),
    "BUSINESS_VERIFICATION": _("Status, directors and shareholders in the register"),
    "CRB_SCORE": _("The person's credit score at a credit reference bureau"),
    "CRB_STANDARD": _("The person's credit score, accounts, balances and arrears"),
    "CRB_FULL": _("The standard report with enquiries, cheques and fraud alerts"),
    "CREDITBUREAU_SCORE": _("The newest credit score, and the bureau that gave it"),
    "CREDITBUREAU_STATUS": _("Whether lenders have listed the person, now or before"),
    "CREDITBUREAU_COMP": _("The company's credit score, accounts and arrears"),
    "AML_SCREENING": _("The name on sanctions and watch lists"),
}
SHIPPED_DESCRIPTIONS = {entry.name: entry.description for entry in CATALOGUE}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "PHONE": {"type": "tel"},
    "DATE": {"type": "date"},
    "MOMENT": {"type": "datetime-local"},
    "NUMBER": {"inputmode": "decimal"},
    "NOTE": {"rows": 2},
}


class ChoiceForm(ChoicesForm):
    """The choice of checks, kind of subject, consent and payer."""

    subject_type = forms.ChoiceField(
        choices=SubjectType.choices, widget=forms.HiddenInput
    )
    package = forms.ChoiceField(
        label=_("Package"), widget=forms.RadioSelect, required=False
    )
    checks = forms.MultipleChoiceField(
        label=_("Checks"), widget=forms.CheckboxSelectMultiple, required=False
    )
    consent = forms.ChoiceField(
        label=_("Consent"), widget=forms.RadioSelect, required=False
    )
    payment_mode = forms.ChoiceField(
        label=_("Who pays"), widget=forms.RadioSelect, error_messages=REQUIRED_ERROR
    )
    country = forms.ChoiceField(
        label=_("Country"), choices=countries, widget=LongSelect
    )

    def __init__(
        self,
        typed: Any,
        *,
        subject_type: str,
        environment: str,
        offer: Offer,
        chosen: Choice | None = None,
        may_be_empty: bool = False,
    ) -> None:
        initial: dict[str, Any] = {
            "subject_type": subject_type,
            "country": HOME_COUNTRY,
            "consent": Consent.Mode.SERVICE_HOSTED,
            "payment_mode": PaymentMode.SELF,
        }
        if chosen:
            initial |= asdict(chosen)
            if not chosen.needs_consent(offer):
                initial["consent"] = Consent.Mode.SERVICE_HOSTED
        self.environment, self.offer = environment, offer
        self.may_be_empty = may_be_empty
        is_company = subject_type == SubjectType.COMPANY
        choices: dict[str, Choices] = {
            "checks": _check_choices(subject_type, offer),
            "package": _package_choices(subject_type, offer),
            "consent": _consent_choices(is_company=is_company),
            "payment_mode": [
                (
                    PaymentMode.SELF,
                    Option(_("Your workspace"), _("At once, from the balance")),
                ),
                (
                    PaymentMode.CANDIDATE,
                    _("The company, by a link")
                    if is_company
                    else _("The person, by a link"),
                ),
                (PaymentMode.THIRD_PARTY, _("Somebody else, by a link")),
            ],
        }
        super().__init__(typed, initial=initial, choices=choices)
        for name in choices:
            # Someone who edits the address of the page gets the choice again.
            wrong = {
                "invalid_choice": WITHDRAWN.get(name, _("Choose one from the list"))
            }
            self.fields[name].error_messages |= wrong
        packages = self.fields["package"].choices  # type: ignore[attr-defined]
        if len(packages) == 1 and not (typed and typed.get("package")):
            del self.fields["package"]
        elif len(packages) > MOST_CARDS:
            listed = [
                (code, f"{one}: {one.price}" if code else one) for code, one in packages
            ]
            self.fields["package"].widget = forms.Select(choices=listed)
        if not accepts_payments(environment):
            self.fields["payment_mode"].widget = forms.HiddenInput()

    def clean_checks(self) -> list[str]:
        names: list[str] = self.cleaned_data["checks"]
        if len(names) > MAX_CHECKS:
            raise forms.ValidationError(
                format_lazy(_("Choose at most {most}"), most=MAX_CHECKS)
            )
        return names

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or self.cleaned_data
        package = typed.get("package")
        if package:
            # The page keeps single checks that were ticked before the package.
            typed["checks"] = []
        checks = typed.get("checks", [])
        field = "package" if package else "checks"
        if not package and not checks and not self.errors and not self.may_be_empty:
            self.add_error(field, _("Choose at least one"))
        for name in self.offer.packages[package].checks if package else checks:
            if no_source_reason(name, self.environment, typed.get("country", "")):
                label = self.offer.checks[name].title
                error = _("No source answers this check in the country: {check}")
                self.add_error(field, format_lazy(error, check=label))
        return typed

    @property
    def choice(self) -> Choice:
        """Return the choice; of a form with errors, its valid part."""
        typed = {"checks": [], **self.initial}
        if self.is_bound:
            # To read the errors cleans the form.
            errors = self.errors
            typed |= {n: v for n, v in self.cleaned_data.items() if n not in errors}
        return Choice(
            typed["subject_type"],
            typed["country"],
            tuple(typed["checks"]),
            typed.get("package", ""),
            typed["consent"],
            typed["payment_mode"],
        )


def query_of(choice: Choice) -> str:
    """Return the query of an address that holds the choice, and so names nobody."""
    return urlencode({**asdict(choice), "step": "details"}, doseq=True)


def choice_context(choice: Choice, offer: Offer) -> dict[str, Any]:
    """Return what pages show of a choice."""
    return {
        "choice": choice,
        "query": query_of(choice),
        "checks": choice.definitions(offer),
        "package": offer.packages.get(choice.package),
        "needs_consent": choice.needs_consent(offer),
        "is_hosted": choice.is_hosted(offer),
        "is_draft_only": choice.is_draft_only(offer),
    }


def _check_choices(subject_type: str, offer: Offer) -> Choices:
    checks = [d for d in offer.checks.values() if is_offered(d, subject_type)]
    return [
        (d.name, Option(d.title, _check_hint(d), f"{d.currency} {d.price:,.2f}"))
        for d in sorted(checks, key=lambda one: (one.position, one.name))
    ]


def _check_hint(definition: CheckDefinition) -> Any:
    name, description = definition.name, definition.description
    is_shipped = description == SHIPPED_DESCRIPTIONS.get(name)
    return CHECK_HINTS.get(name, description) if is_shipped else description


def _package_choices(subject_type: str, offer: Offer) -> Choices:
    """Return the packages, after the choice of single checks."""
    packages = [
        (package.name, _package_option(package, offer))
        for package in offer.packages.values()
        if is_package_offered(package, subject_type, offer)
    ]
    return [
        *packages,
        ("", Option(_("Single checks"), _("Choose from the list below"))),
    ]


def _package_option(package: CheckPackage, offer: Offer) -> Option:
    checks = [offer.checks[name] for name in package.checks]
    price = price_of_package(package, offer.checks)
    return Option(
        package.display_name,
        ", ".join(check.title for check in checks),
        f"{checks[0].currency} {price:,.2f}",
    )


def _consent_choices(*, is_company: bool) -> Choices:
    by_link = _(
        "By e-mail or SMS, for {days} days. Without an address, you hand the link over."
    )
    return [
        (
            Consent.Mode.SERVICE_HOSTED,
            Option(
                _("Ask the company") if is_company else _("Ask the person"),
                format_lazy(by_link, days=settings.CONSENT_LINK_DAYS),
            ),
        ),
        (Consent.Mode.CUSTOMER_ATTESTED, _("We already have it")),
        ("", _("Later: save a draft")),
    ]


class DetailsForm(forms.Form):
    """The fields of an order. The rules of the API judge them: see `add_faults`."""

    def __init__(self, typed: Any, inputs: Sequence[Input], **options: Any) -> None:
        super().__init__(typed, **options)
        self.inputs = {one.name: one for one in inputs}
        for name, one in self.inputs.items():
            self.fields[name] = _field(one)

    @property
    def sections(self) -> dict[str, list[forms.BoundField]]:
        found: dict[str, list[forms.BoundField]] = {}
        for name, one in self.inputs.items():
            found.setdefault(one.section, []).append(self[name])
        return found

    @property
    def values(self) -> dict[str, str]:
        """Return the texts for `build_item`; empty ones for fields with an error."""
        typed = {name: self.cleaned_data.get(name) for name in self.inputs}
        return {n: ON if value is True else (value or "") for n, value in typed.items()}

    def clean(self) -> dict[str, Any]:
        # A file refuses the same names; the API takes any.
        is_company = self.data.get("subject_type") == SubjectType.COMPANY
        name = self.cleaned_data.get(FULL_NAME)
        if name and not is_name(name, of_company=is_company):
            self.add_error(FULL_NAME, _("This is not a name. Write the name"))
        return self.cleaned_data

    def add_faults(self, faults: Iterable[Fault]) -> None:
        """Show each text once at its field, or above the form if there is no field.

        A field that has an error of the form already gets no other one.
        """
        known = set(self.errors)
        # Several checks can need the same field.
        texts = (
            ("-".join(path_in_item(fault)), fault_text(fault, self.inputs))
            for fault in faults
        )
        for name, text in dict.fromkeys(texts):
            if name not in known:
                self.add_error(name if name in self.fields else None, text)


@dataclass(frozen=True, slots=True)
class OrderForm:
    """The page of an order: the choice, and the fields that it needs."""

    choice: ChoiceForm
    details: DetailsForm

    def __iter__(self) -> Iterator[forms.BoundField]:
        yield from self.choice
        yield from self.details

    @property
    def errors(self) -> dict[str, Any]:
        return {**self.choice.errors, **self.details.errors}

    @property
    def non_field_errors(self) -> list[Any]:
        return [*self.choice.non_field_errors(), *self.details.non_field_errors()]


class UploadForm(DetailsForm):
    """A file, and what all its rows have in common."""

    file = forms.FileField(
        label=_("The file"),
        help_text=format_lazy(
            _("CSV or XLSX, up to {rows} rows and 10 MB"), rows=MAX_ROWS
        ),
        widget=forms.FileInput(attrs={"accept": ACCEPTED}),
        error_messages={
            "required": _("Choose a file"),
            "empty": FILE_FAULTS[FileFault.EMPTY],
            "invalid": _("Choose a file"),
        },
    )

    def __init__(
        self,
        typed: Any,
        inputs: Sequence[Input],
        *,
        is_sent: bool,
        is_live: bool = True,
        **options: Any,
    ) -> None:
        """Do not require the file that `is_sent` already."""
        super().__init__(typed, inputs, **options)
        self.is_live = is_live
        self.fields["file"].required = not is_sent

    def clean_file(self) -> tuple[str, Sheet] | None:
        """Return the name and the sheet; BUSY is the code if nobody could look."""
        upload = self.cleaned_data["file"]
        if upload is None:
            return None
        try:
            sheet = read_sheet(upload.name, upload.read(), is_live=self.is_live)
        except Unacceptable as e:
            raise forms.ValidationError(FILE_FAULTS[e.fault]) from None
        except Busy:
            raise forms.ValidationError(BUSY_MESSAGE, code=BUSY) from None
        except TooManyRows:
            raise forms.ValidationError(TOO_MANY_ROWS) from None
        except NoRows:
            raise forms.ValidationError(NO_ROWS) from None
        except UnmatchedQuotes as e:
            error = _("A quoted text does not end, near line {line}.")
            raise forms.ValidationError(format_lazy(error, line=e.line)) from None
        return upload.name, sheet


class ColumnsForm(forms.Form):
    """The input of each column of a file; the full name may have several columns."""

    def __init__(
        self, typed: Any, opened: OpenUpload, columns: Columns, offer: Offer
    ) -> None:
        super().__init__(typed)
        self.opened, self.offer = opened, offer
        inputs = inputs_of(opened.choice, offer)
        choices = [(IGNORED, _("Ignore")), *((one.name, one.label) for one in inputs)]
        self.names: dict[int, str] = {}
        for number in sorted(columns.inputs):
            name = self.names[number] = f"column-{number}"
            self.fields[name] = forms.ChoiceField(
                label=opened.original.header.at(number).text
                or format_lazy(_("Column {number}"), number=number + 1),
                choices=choices,
                widget=LongSelect,
                initial=columns.inputs[number],
                required=False,
                error_messages={"invalid_choice": _("Choose one from the list")},
            )

    def clean(self) -> dict[str, Any]:
        chosen: dict[str, str] = {}
        for name in self.names.values():
            one = self.cleaned_data.get(name, IGNORED)
            if one and one in chosen.values() and one != FULL_NAME:
                self.add_error(name, _("You chose this for another column already"))
            chosen[name] = one
        if not self.errors:
            for one in self.opened.missing(self.columns, self.offer):
                self.add_error(None, needed_text(one))
        return self.cleaned_data

    @property
    def columns(self) -> dict[int, str]:
        return {n: self.cleaned_data[name] for n, name in self.names.items()}


def needed_text(one: Input) -> Any:
    needed = _("{label} is needed: choose its column")
    return format_lazy(needed, label=one.label)


def _field(one: Input) -> forms.Field:
    label = one.label
    if one.kind == "FLAG":
        return forms.BooleanField(label=label, required=False)
    suffix: Any = None if one.is_required or one.other else _("(optional)")
    if one.kind in {"METHOD", "COUNTRY"}:
        choices = METHODS if one.kind == "METHOD" else countries()
        return forms.ChoiceField(
            label=label,
            label_suffix=suffix,
            choices=[("", _("Choose one")), *choices],
            widget=LongSelect,
            required=False,
            error_messages={"invalid_choice": _("Choose one from the list")},
        )
    hint = one.hint
    if one.other:
        this = format_lazy(_("Fill in this or “{other}”"), other=one.other)
        hint = format_lazy("{this}. {hint}", this=this, hint=hint) if hint else this
    widget = WIDGETS.get(one.kind, forms.TextInput)
    # The browser would fill in the member's details instead of the subject's.
    # `hx-preserve` keeps text that is typed while a request is under way.
    attributes = {
        "autocomplete": "off",
        "hx-preserve": "true",
        **ATTRIBUTES.get(one.kind, {}),
    }
    return forms.CharField(
        label=label,
        label_suffix=suffix,
        required=False,
        help_text=hint,
        widget=widget(attrs=attributes),
    )
