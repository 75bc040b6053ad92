"""Monitoring: rules and alerts; make, change, pause, resume and delete a rule.

A rule is made on a page like that of an order, as its first run is ordered at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django import forms
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from monitoring.alerts import edit_alert, mark_all_read
from monitoring.models import (
    Cadence,
    Rule,
    alerts_of,
    check_states,
    list_alerts,
    list_rules,
    recent_alerts,
    rules_of,
)
from monitoring.pauses import (
    NotResumable,
    delete_rule,
    pause_for_client,
    resume_for_client,
)
from monitoring.rules import RuleRequest, leave_out_referees, price_of, read_rule
from monitoring.runs import change_rule, create_rule
from verification.checks.packages import package_of
from verification.consents.models import Consent
from verification.console import order_pages, orders
from verification.console.alert_words import alert_sentences, compared_values
from verification.console.base import (
    Place,
    Refusals,
    Text,
    member_required,
    post_required,
)
from verification.console.fields import (
    FilterForm,
    filter_field,
    search_field,
)
from verification.console.order_form import (
    ChoiceForm,
    DetailsForm,
    OrderForm,
    choice_context,
)
from verification.console.order_inputs import (
    Choice,
    Input,
    Item,
    build_item,
    inputs_of,
    item_to_repeat,
    read_values,
)
from verification.console.order_quotes import covers, estimate_price
from verification.console.words import choices_of
from verification.db.ids import uuid7
from verification.reports.idempotency import (
    IdempotencyKey,
    IdempotencyKeyReused,
    RequestInProgress,
    run_once,
)
from verification.reports.models import PaymentMode
from verification.reports.request import (
    ConsentInput,
    InvalidRequest,
    Order,
    catalogue,
    named_packages,
)
from verification.values.clock import now
from verification.web.pages import REQUIRED_ERROR, read_id
from workspaces.ledger import InsufficientBalance
from workspaces.members import (
    Permission,
    require_present,
)

RUNS_SHOWN = 5
# The fingerprint of a rule's Idempotency-Key begins with this.
REQUEST = "console rule"
WITHDRAWN = _("The subject withdrew consent. Attest a new one to go on.")
# Why a rule cannot be resumed; any other reason is a withdrawn consent.
NOT_RESUMABLE = {
    "BY_STAFF": _("Staff paused it, and staff resume it."),
    "CHECK_INACTIVE": _("A check of it is not offered any more."),
    "CHANGED": _("It has changed since you looked. Look again."),
}
REFUSALS: Refusals = {
    NotResumable: lambda e: NOT_RESUMABLE.get(e.reason, WITHDRAWN),
    InsufficientBalance: _("The balance does not cover a run. Top it up first."),
    orders.QuoteChanged: _("The price has changed, so nothing was done. Look again."),
}


class RuleFilters(FilterForm):
    search = search_field(_("Name, ID number or reference"))
    status = filter_field(_("Status"), choices_of("rule"))


class AlertFilters(FilterForm):
    read = filter_field(_("Status"), [("no", _("Unread")), ("yes", _("Read"))])
    severity = filter_field(_("Severity"), choices_of("alert"))


@member_required()
def rules(place: Place) -> HttpResponse:
    form = RuleFilters(place.request.GET)
    names = _check_names()
    page = list_rules(place.client, **form.chosen, **place.paging)
    shown = {
        "form": form,
        "page": page,
        "rows": [
            (rule, [names.get(code, code) for code in rule.check_names])
            for rule in page.rows
        ],
    }
    return place.render("monitoring/rules", shown)


@member_required()
def rule(place: Place, rule: UUID) -> HttpResponse:
    found = rules_of(place.client).get(pk=rule)
    place.record("rule.opened", found)
    raised = recent_alerts([found.pk])[found.pk]
    place.disclose(alert.report_id for alert in raised)
    names, package = _check_names(), package_of(found)
    runs = found.runs.select_related("report").order_by("-number")
    shown = {
        "rule": found,
        "checks": [
            (names.get(check.name, check.name), check)
            for check in check_states([found])[found.pk]
        ],
        "package": package,
        "price": price_of(found, catalogue(), package),
        "runs": runs[:RUNS_SHOWN],
        "alerts": [(one, alert_sentences(one, names)) for one in raised],
    }
    return place.render("monitoring/rule", shown)


@member_required()
def alerts(place: Place) -> HttpResponse:
    form = AlertFilters(place.request.GET)
    read = {"no": False, "yes": True}.get(form.chosen["read"])
    chosen = {**form.chosen, "read": read}
    page = list_alerts(place.client, **chosen, **place.paging)
    # Alerts quote findings.
    place.disclose(alert.report_id for alert in page.rows)
    names = _check_names()
    rows = [(one, alert_sentences(one, names)) for one in page.rows]
    has_unread = "monitoring" in place.waiting and not read
    shown = {
        "form": form,
        "page": page,
        "rows": rows,
        # An id of this moment: no alert that comes later is read by the page's button.
        "until": uuid7() if has_unread else None,
        "query": _query(place),
    }
    return place.render("monitoring/alerts", shown)


@member_required()
def alert(place: Place, alert: UUID) -> HttpResponse:
    found = alerts_of(place.client).get(pk=alert)
    place.record("alert.opened", found)
    place.disclose([found.report_id])
    names = _check_names()
    shown = {
        "alert": found,
        "sentences": alert_sentences(found, names),
        "changes": compared_values(found, names),
        "rule": rules_of(place.client).filter(pk=found.rule_id).first(),
        "query": _query(place),
    }
    return place.render("monitoring/alert", shown)


def _query(place: Place) -> str:
    """Return the filters and the page of the list, for links that lead back to it."""
    query = place.request.GET.urlencode()
    return f"?{query}" if query else ""


def _check_names() -> Mapping[str, str]:
    return {name: one.title for name, one in catalogue().items()}


@post_required(Permission.DECIDE_REPORTS)
def mark_read(place: Place, alert: UUID) -> HttpResponse:
    edit_alert(place.client, alert, read=True, actioned=None)
    return place.to("monitoring-alerts", query=place.request.GET.urlencode())


@post_required(Permission.DECIDE_REPORTS)
def read_all(place: Place) -> HttpResponse:
    """Mark the alerts of the list's severity as read."""
    until = read_id(place.request.POST.get("until", ""))
    severity = AlertFilters(place.request.GET).chosen["severity"]
    count = mark_all_read(place.client, until, severity)
    said = ngettext(
        "%(count)s alert is marked as read.",
        "%(count)s alerts are marked as read.",
        count,
    )
    return place.to(
        "monitoring-alerts",
        success=said % {"count": count},
        query=place.request.GET.urlencode(),
    )


# Each form gets a copy of the field.
CADENCE = forms.ChoiceField(
    label=_("How often"),
    choices=choices_of("cadence"),
    initial=Cadence.MONTHLY,
    error_messages=REQUIRED_ERROR,
)


class RuleForm(DetailsForm):
    """The subject and the consent of a rule, and how often it runs."""

    cadence = CADENCE


class ChangeForm(forms.Form):
    cadence = CADENCE
    reference = forms.CharField(
        label=_("Your reference"),
        max_length=100,
        required=False,
        help_text=_("Such as a loan or a staff number, to find the rule by"),
    )


@member_required(Permission.MANAGE_MONITORING)
def create(place: Place) -> HttpResponse:
    """Show the page of a new rule, about the subject of a report if it names one."""
    place.require_live()
    if place.posted is None:
        return _open(place)
    is_update = place.posted.get("step") != "make"
    typed = (
        order_pages.still_offered(place, place.posted) if is_update else place.posted
    )
    chosen = order_pages.choice_form(place, typed, may_be_empty=is_update)
    details = RuleForm(typed, _inputs(_choice(chosen), place))
    form = OrderForm(chosen, details)
    if is_update:
        order_pages.require_price_rate(place)
        return _render(place, form)
    order_pages.require_order_rate(place)
    if not form.errors:
        return _make(place, form)
    if not chosen.errors:
        try:
            _read_rule(place, _body(place, _choice(chosen), details))
        except InvalidRequest as e:
            details.add_faults(e.faults)
    return _render(place, form)


def _open(place: Place) -> HttpResponse:
    item: Item | None = None
    if report_id := read_id(place.request.GET.get("report", "")):
        report = place.get_report(report_id)
        place.record("report.opened", report)
        item = item_to_repeat(report, place.offer) if report.subject else None
    chosen = order_pages.choice_form(place, None, item)
    texts = read_values(item, place.offer) if item else {}
    details = RuleForm(None, _inputs(_choice(chosen), place), initial=texts)
    return _render(place, OrderForm(chosen, details))


def _choice(form: ChoiceForm) -> Choice:
    """Return the choice of a rule: nobody can be asked, or pay, before each run."""
    mode = Consent.Mode.CUSTOMER_ATTESTED
    return replace(form.choice, consent=mode, payment_mode=PaymentMode.SELF)


def _inputs(choice: Choice, place: Place) -> Sequence[Input]:
    found = inputs_of(choice, place.offer)
    return [
        one
        for one in found
        if one.section in {"subject", "consent"} or one.name == "reference"
    ]


def _render(place: Place, form: OrderForm, error: Text = "") -> HttpResponse:
    choice = _choice(form.choice)
    price = estimate_price(choice, place.offer)
    shown = {
        **choice_context(choice, place.offer),
        "form": form,
        "error": error,
        "price": price,
        "is_covered": covers(place.client, price.charge),
        "sealed": order_pages.seal_quote(place, price.digest),
    }
    return place.render("monitoring/new", shown)


def _make(place: Place, form: OrderForm) -> HttpResponse:
    """Make the rule for the price that the page showed, once; open it."""
    choice, quote = _choice(form.choice), order_pages.shown_quote(place)
    if quote is None:
        return _render(place, form, order_pages.LOOK)
    body = _body(place, choice, form.details)
    key = f"console {place.member.pk} {quote.key}"
    try:
        done = run_once(
            IdempotencyKey.read(key, place.client, REQUEST, body),
            lambda: {"rule": str(_create(place, body, quote.digest).pk)},
        )
    except InvalidRequest as e:
        form.details.add_faults(e.faults)
        return _render(place, form)
    except IdempotencyKeyReused:
        return _render(place, form, order_pages.LOOK)
    except orders.QuoteChanged:
        return _render(place, form, order_pages.CHANGED)
    except InsufficientBalance:
        return _render(place, form, order_pages.NOT_COVERED)
    except RequestInProgress:
        return place.to("monitoring")
    made = _("Monitoring has begun. The first run is under way.")
    return place.to("monitoring-rule", success=made, rule=UUID(done.body["rule"]))


def _body(place: Place, choice: Choice, form: DetailsForm) -> dict[str, Any]:
    """Return the request that makes the rule by the API."""
    item = build_item(choice, form.values, place.offer)
    names = {"checksRequested": "checkNames"}
    members = ("subject", "checksRequested", "package", "consent", "reference")
    body = {names.get(name, name): item[name] for name in members if name in item}
    return {**body, "cadence": form.cleaned_data.get("cadence")}


def _read_rule(place: Place, body: Mapping[str, Any]) -> tuple[RuleRequest, Order]:
    packages = named_packages(place.workspace.pk, [body])
    return read_rule(body, place.environment, catalogue(), packages)


def _create(place: Place, body: Mapping[str, Any], digest: str) -> Rule:
    require_present(place.member, Permission.MANAGE_MONITORING)
    request, order = _read_rule(place, body)
    made = create_rule(place.client, request, order, place.by.actor)
    orders.require_quoted(made.runs.values_list("report", flat=True), digest)
    return made


@member_required(Permission.MANAGE_MONITORING)
def change(place: Place, rule: UUID) -> HttpResponse:
    found = rules_of(place.client).get(pk=rule)
    initial = {"cadence": found.cadence, "reference": found.reference or ""}
    form = ChangeForm(place.posted, initial=initial)
    if not form.is_valid():
        return place.render("monitoring/change", {"form": form, "rule": found})
    cadence = Cadence(form.cleaned_data["cadence"])
    reference = form.cleaned_data["reference"] or None
    with transaction.atomic():
        require_present(place.member, Permission.MANAGE_MONITORING)
        changed = change_rule(place.client, found.pk, cadence, reference)
        place.record("rule.changed", changed, *form.changed_data)
    return place.to("monitoring-rule", success=_("Saved."), rule=rule)


@member_required(Permission.MANAGE_MONITORING)
def delete(place: Place, rule: UUID) -> HttpResponse:
    found = rules_of(place.client).get(pk=rule)
    if place.posted is None:
        return place.render("monitoring/delete", {"rule": found})
    delete_rule(place.client, found.pk, place.by.actor)
    return place.to("monitoring", success=_("The rule is deleted."))


@post_required(Permission.MANAGE_MONITORING)
def pause(place: Place, rule: UUID) -> HttpResponse:
    pause_for_client(place.client, rule, place.by.actor)
    return place.to("monitoring-rule", success=_("The rule is paused."), rule=rule)


@member_required(Permission.MANAGE_MONITORING)
def resume(place: Place, rule: UUID) -> HttpResponse:
    """Show the next run and its price; a POST resumes the rule.

    The page asks for a new consent if the subject withdrew it.
    """
    found = rules_of(place.client).get(pk=rule)
    choice = Choice.of(
        {
            "subject": found.subject,
            "checksRequested": found.check_names,
            "consent": {"mode": "CUSTOMER_ATTESTED"},
        }
    )
    inputs = [one for one in _inputs(choice, place) if one.section == "consent"]
    if found.consent_withdrawn_at is None or found.pause_reason == "BY_STAFF":
        inputs = []
    form = DetailsForm(place.posted, inputs)
    if form.is_valid():
        item = build_item(choice, form.values, place.offer) if inputs else {}
        consent = item.get("consent")
        attested = ConsentInput.model_validate(consent) if consent else None
        try:
            return _resume(place, found, attested)
        except InvalidRequest as e:
            form.add_faults(e.faults)
    shown = {
        "form": form,
        "rule": found,
        "is_due": found.next_run_at <= now(),
        "price": _price_text(place, found),
        # A resume then begins no run.
        "is_held": found.check_names == [found.left_out],
    }
    return place.render("monitoring/resume", shown)


def _price_text(place: Place, rule: Rule) -> str:
    if rule.next_run_at <= now():
        leave_out_referees([rule])
    price = price_of(rule, catalogue(), package_of(rule))
    return f"{place.account.currency} {price:,.2f}"


def _resume(place: Place, rule: Rule, consent: ConsentInput | None) -> HttpResponse:
    is_by_staff = rule.pause_reason == "BY_STAFF"
    done = _("The rule goes on.")
    with place.refusing(REFUSALS, "monitoring-rule", rule=rule.pk):
        # A run begins at once for the price that was shown.
        is_due = rule.next_run_at <= now() and not is_by_staff
        if is_due and place.request.POST.get("price") != _price_text(place, rule):
            raise orders.QuoteChanged
        try:
            resume_for_client(
                place.client,
                rule.pk,
                consent,
                catalogue(),
                place.by.actor,
                # Only the button that ends a pause beside that of staff has no field.
                seen=place.request.POST.get("seen", "BY_STAFF"),
            )
        except NotResumable as e:
            if not (e.reason == "BY_STAFF" and rule.paused_by_client):
                raise
            done = _("Your own pause has ended. Our staff's pause goes on.")
    return place.to("monitoring-rule", success=done, rule=rule.pk)
