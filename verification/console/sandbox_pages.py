"""The sandbox: test subjects, and the mailbox with messages that people would get."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

from csp.decorators import csp_replace
from django import forms
from django.conf import settings
from django.core.validators import validate_email
from django.db import transaction
from django.http import Http404, HttpResponse
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _
from pydantic_core import PydanticCustomError

from verification.console.base import (
    Place,
    Refusals,
    member_required,
    post_required,
)
from verification.console.fields import text_field
from verification.console.words import WORDS
from verification.db.base import read_page
from verification.notifications.models import (
    THIRD_PARTY_KINDS,
    Channel,
    Kind,
    Notification,
)
from verification.notifications.sms import sms_is_configured
from verification.notifications.templates import write_email, write_sms
from verification.providers.sandbox import DATA, list_reserved_numbers
from verification.values import formats
from verification.web.pages import INVALID_EMAIL
from workspaces import sandbox_addresses
from workspaces.members import Permission

# The end of a check, by the outcome of its test subject
ENDINGS = {
    "CLEAR": _("Found, and nothing is wrong."),
    "NOT_FOUND": _("The source has no such record."),
    "NAME_MISMATCH": _("Found, under another name."),
    "ADVERSE": _("Found, with something adverse: deceased, dissolved, a bad loan."),
    "RECOVERS": _("The source is down for two tries, then everything is clear."),
    "DOWN": _("The source stays down: the check fails after its last try."),
    "SLOW": _("The source answers after 20 seconds, and everything is clear."),
    "CHANGING": _("The result changes with every run, and now and then its risk."),
    "REFUSED": _("The source refuses the request: the check fails at once."),
    "FIXTURE_MISSING": _("The sandbox has no answer: the check fails at once."),
}


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
                else INVALID_EMAIL
            ) from None
        return Channel.EMAIL, typed


REFUSALS: Refusals = {
    sandbox_addresses.WrongCode: _("The code is wrong or has expired.")
}
# Shown in place of the link to block the workspace, which only the recipient may use.
NO_BLOCK_LINK = "…"
# An e-mail has its styles inline, and nothing else to load or to run.
MAIL_POLICY: dict[str, Any] = {"style-src": ["'unsafe-inline'"], "sandbox": True}
KINDS = {
    Kind.CONSENT_REQUEST: _("Request for consent"),
    Kind.CONSENT_REMINDER: _("Reminder of a request for consent"),
    Kind.CONSENT_CODE: _("Code for a consent"),
    Kind.CONSENT_LOCKED: _("Notice that a link is locked"),
    Kind.ACCESS_CODE: _("Code to see one's own data"),
    Kind.ACCESS_LINK: _("Link to one's own data"),
    Kind.CONSENT_RECEIPT: _("Receipt of a decision"),
    Kind.CORRECTION_RECEIPT: _("Receipt of a correction"),
    Kind.CORRECTION_ANSWER: _("Answer to a correction"),
    Kind.ADVERSE_NOTICE: _("Notice of a decline"),
    Kind.REVIEW_ANSWER: _("Answer to a review, or news of a decline"),
    Kind.PAYMENT_REQUEST: _("Request to pay"),
    Kind.PAYMENT_REMINDER: _("Reminder to pay"),
    Kind.PAYMENT_SHORT: _("Notice that too little was paid"),
    Kind.PAYMENT_RECEIPT: _("Receipt of a payment"),
    Kind.PAYMENT_REFUNDED: _("Money given back"),
    Kind.REFERENCE_REQUEST: _("Request for a reference"),
    Kind.REFERENCE_REMINDER: _("Reminder of a reference"),
    Kind.REFERENCE_RECEIPT: _("Receipt of a reference"),
}


@member_required()
def list_test_subjects(place: Place) -> HttpResponse:
    _require_sandbox(place)
    subjects = [
        {**one, "ending": ENDINGS.get(one["outcome"], one["description"])}
        for one in list_reserved_numbers()
    ]
    shown = {"subjects": subjects, "referee": DATA["referee"]}
    return place.render("sandbox", shown)


@member_required(Permission.MANAGE_MAILBOX)
def list_messages(place: Place) -> HttpResponse:
    page = read_page(_messages(place).order_by("-id"), **place.paging)
    page = replace(page, rows=[describe_message(m) for m in page.rows])
    return place.render("mailbox/list", {"page": page})


@member_required(Permission.MANAGE_MAILBOX)
def show_message(place: Place, message: UUID) -> HttpResponse:
    found = _messages(place).get(pk=message)
    place.record("notification.opened", found)
    shown = {
        **describe_message(found),
        **render_message(found, block_link=_no_block_url()),
        "html_url": place.url("mailbox-html", message=found.pk),
    }
    return place.render("mailbox/message", {"message": shown})


@csp_replace(MAIL_POLICY)
@member_required(Permission.MANAGE_MAILBOX)
def show_html(place: Place, message: UUID) -> HttpResponse:
    """Show an e-mail as mail programs show it."""
    found = _messages(place).get(pk=message)
    place.record("notification.opened", found)
    return html_response(found, block_link=_no_block_url())


@member_required(Permission.MANAGE_MAILBOX)
def edit_addresses(place: Place) -> HttpResponse:
    """List the addresses that get the messages; a POST adds one and sends it a code."""
    _require_sandbox(place)
    # It names the members, and sends codes in the name of the workspace.
    place.require_second_factor()
    by_sms = place.workspace.is_live and sms_is_configured()
    form = SandboxAddressForm(place.posted, by_sms=by_sms)
    if form.is_valid() and _add_address(place, form):
        return place.to(
            "mailbox-addresses", success=_("A code is sent to this address.")
        )
    members = place.workspace.members.select_related("user").order_by("id")
    shown = {
        "form": form,
        "members": members.filter(user__is_active=True),
        "addresses": with_messages(
            place.workspace.sandbox_addresses.order_by("id"), sandbox_addresses.cause_of
        ),
        "most": sandbox_addresses.MAX_ADDRESSES,
    }
    return place.render("mailbox/addresses", shown)


@post_required(Permission.MANAGE_MAILBOX)
def confirm_address(place: Place, address: UUID) -> HttpResponse:
    found = place.workspace.sandbox_addresses.get(pk=address)
    code = place.request.POST.get("code", "")
    with place.refusing(REFUSALS, "mailbox-addresses"):
        sandbox_addresses.confirm(place.member, found.pk, code)
        place.record("sandbox-address.confirmed", found)
    success = _("This address gets messages from now on.")
    return place.to("mailbox-addresses", success=success)


@post_required(Permission.MANAGE_MAILBOX)
def remove_address(place: Place, address: UUID) -> HttpResponse:
    found = place.workspace.sandbox_addresses.get(pk=address)
    with transaction.atomic():
        place.record("sandbox-address.removed", found)
        sandbox_addresses.remove(place.member, found.pk)
    success = _("This address gets no more messages.")
    return place.to("mailbox-addresses", success=success)


def describe_message(notification: Notification) -> dict[str, Any]:
    """Return what pages show of a message besides its text."""
    return {
        "row": notification,
        "kind": KINDS.get(Kind(notification.kind), notification.get_kind_display()),
        "status": WORDS["message"][notification.status],
        "reason": WORDS["failure"].get(notification.error, ""),
    }


def with_messages(rows: Iterable[Any], cause_of: Any) -> list[dict[str, Any]]:
    """Return the rows, each with what pages show of the message that it caused."""
    causes = {cause_of(row): row for row in rows}
    found = Notification.objects.filter(cause__in=causes).defer("context")
    messages = {message.cause: describe_message(message) for message in found}
    return [{"row": row, "message": messages.get(c)} for c, row in causes.items()]


def render_message(
    notification: Notification, *, block_link: str = ""
) -> dict[str, str]:
    """Return subject, text and HTML, which are empty after the purge."""
    shown = {"subject": "", "text": "", "html": ""}
    if notification.context is None:
        return shown
    if notification.channel == Channel.SMS:
        return shown | {"text": write_sms(notification, block_link=block_link)}
    email = write_email(notification, attach=False, block_link=block_link)
    return {"subject": email.subject, "text": email.text, "html": email.html}


def html_response(notification: Notification, *, block_link: str = "") -> HttpResponse:
    """Return the e-mail as a page, for views with `MAIL_POLICY`. Raises Http404."""
    html = render_message(notification, block_link=block_link)["html"]
    if not html:
        raise Http404
    return HttpResponse(html)


def _no_block_url() -> str:
    return f"{settings.BASE_URL}/b/{NO_BLOCK_LINK}"


def _messages(place: Place) -> Any:
    _require_sandbox(place)
    return Notification.objects.filter(
        workspace=place.workspace, sandbox=True, kind__in=THIRD_PARTY_KINDS
    )


def _require_sandbox(place: Place) -> None:
    if not place.is_sandbox:
        raise Http404


def _add_address(place: Place, form: SandboxAddressForm) -> bool:
    channel, address = form.cleaned_data["address"]
    language = get_language() or "en"
    try:
        with transaction.atomic():
            added = sandbox_addresses.add(place.member, channel, address, language)
            place.record("sandbox-address.added", added)
    except sandbox_addresses.TooManyAddresses:
        error = _("Too many addresses were added. Remove one, or go on tomorrow")
        form.add_error("address", error)
    return form.is_valid()
