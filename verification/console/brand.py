"""The company's face: logo, colour, contact line, return addresses, and a preview."""

from base64 import b64encode
from typing import Any

from csp.constants import SELF
from csp.decorators import csp_replace
from django import forms
from django.conf import settings
from django.db import transaction
from django.forms.models import model_to_dict
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import translation
from django.utils.translation import gettext_lazy as _
from django.views.decorators.clickjacking import xframe_options_sameorigin

from verification.accounts.forms import TEXT_FAULTS
from verification.console.base import Place, member_required
from verification.console.fields import text_field
from verification.files.inspection import Fault
from verification.files.uploads import (
    ACCEPTED_LOGOS,
    LOGO_MESSAGES,
    read_logo,
    status_of,
)
from verification.hosted.brand import context_of
from verification.hosted.consent import preview_context
from verification.values.public_text import TextFault
from verification.web.pages import allow_sources
from workspaces import brands
from workspaces.brands import BrandFault, InvalidBrand, NewBrand
from workspaces.members import Permission
from workspaces.models import MAX_CONTACT_LINE, MAX_RETURN_URL, Brand


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
        label=_("Hosts that pages may return to"),
        max_length=3000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": 3000}),
        help_text=_("One per line, such as apply.example.com; at most 10"),
    )
    return_url = text_field(
        _("Return address"),
        MAX_RETURN_URL,
        required=False,
        help_text=_("For reports that name none; it begins with https://"),
    )

    def __init__(self, *arguments: Any, is_live: bool, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.is_live = is_live

    def clean_logo(self) -> bytes | None:
        upload = self.cleaned_data["logo"]
        return read_logo(upload, is_live=self.is_live) if upload else None

    @property
    def brand(self) -> NewBrand:
        """The typed brand; it leaves out invalid fields."""
        typed = self.cleaned_data
        return NewBrand(
            colour=typed.get("colour", ""),
            contact_line=typed.get("contact_line", ""),
            contact_line_sw=typed.get("contact_line_sw", ""),
            return_hosts=typed.get("return_hosts", "").split(),
            return_url=typed.get("return_url", ""),
        )


LOGOS_PER_MINUTE = 10
FAULT_MESSAGES = {
    BrandFault.NO_COLOUR: _("Enter six digits or letters from a to f, such as #0f766e"),
    BrandFault.FAINT: _(
        "This colour is too faint: its contrast is %(detail)s and must be 4.5:1"
    ),
    BrandFault.TOO_LONG: _("Use at most 120 characters"),
    BrandFault.LINK: _(
        "Use no links and no e-mail addresses here; the settings have your contact"
    ),
    BrandFault.SIGNS: TEXT_FAULTS[TextFault.SIGNS],
    BrandFault.WARY: TEXT_FAULTS[TextFault.WARY],
    BrandFault.HOST: _(
        "Write only host names, such as apply.example.com. This is not one: %(detail)s"
    ),
    BrandFault.TOO_MANY_HOSTS: _("List at most 10 hosts"),
    BrandFault.ADDRESS: _(
        "Enter a public https address, such as https://apply.example.com/done"
    ),
    BrandFault.NOT_LISTED: _("List its host above first"),
    BrandFault.SMALL_LOGO: _(
        "The logo is too small or too narrow: each side needs 16 pixels"
    ),
    BrandFault.BARRED: _("We have removed the logo and the line"),
}


@member_required(Permission.MANAGE_SETTINGS)
def edit(place: Place) -> HttpResponse:
    brand = brands.brand_of(place.workspace)
    form = _form(place, brand)
    if _is_valid(place, form):
        typed = form.cleaned_data
        try:
            with transaction.atomic():
                saved, changed = brands.change_brand(
                    place.member,
                    form.brand,
                    typed["logo"],
                    drop_logo=typed["drop_logo"],
                )
                if changed:
                    place.record("brand.changed", saved, *changed)
        except InvalidBrand as e:
            _show_faults(form, e)
        else:
            return place.to("settings-brand", success=_("Saved."))
    shown = {
        "form": form,
        "brand": brand,
        "is_live": place.workspace.is_live,
    }
    response = place.render("settings/brand", shown, status=status_of(form))
    allow_sources(response, frame_src=["'self'"])
    return response


@xframe_options_sameorigin
@csp_replace({"frame-ancestors": [SELF]})
@member_required(Permission.MANAGE_SETTINGS)
def preview(place: Place) -> HttpResponse:
    """Show the consent page with the saved brand, or with the one in a form.

    The page names no person, stores nothing, and its buttons have no effect.
    """
    chosen = place.request.GET.get("in", "")
    is_known = chosen in dict(settings.LANGUAGES)
    brand, logo = brands.brand_of(place.workspace), None
    with translation.override(chosen if is_known else translation.get_language()):
        if place.posted is not None:
            form = _form(place, brand)
            _is_valid(place, form)
            brand, logo = _draft(brand, form)
        shown = preview_context(place.workspace) | context_of(brand)
        if logo:
            shown["brand_logo"] = f"data:image/png;base64,{b64encode(logo).decode()}"
        response = render(place.request, "hosted/asked.html", shown)
    if logo:
        allow_sources(response, img_src=["data:"])
    return response


def _is_valid(place: Place, form: forms.Form) -> bool:
    if place.request.FILES:
        return place.is_valid_upload(form, "logos", LOGOS_PER_MINUTE)
    return form.is_valid()


def _form(place: Place, brand: Brand) -> BrandForm:
    names = ("colour", "contact_line", "contact_line_sw", "return_url")
    initial = model_to_dict(brand, names)
    initial["return_hosts"] = "\n".join(brand.return_hosts)
    is_live = place.workspace.is_live
    return BrandForm(place.posted, place.files, initial=initial, is_live=is_live)


def _draft(brand: Brand, form: BrandForm) -> tuple[Brand, bytes | None]:
    logo = form.cleaned_data.get("logo")
    try:
        return brands.preview_brand(brand, form.brand, logo), logo
    except InvalidBrand:
        return brands.preview_brand(brand, form.brand, None), None


def _show_faults(form: forms.Form, error: InvalidBrand) -> None:
    for name, fault in error.faults.items():
        text = FAULT_MESSAGES[fault]
        form.add_error(name, text % {"detail": error.details.get(name, "")})
    if form.files.get("logo") and "logo" not in error.faults:
        form.add_error("logo", _("Choose the file again: a page cannot keep it"))
