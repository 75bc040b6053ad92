from django import forms
from django.contrib import admin
from django.utils.html import format_html
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldBooleanWidget

from verification.backoffice.approvals import DecisionRefused
from verification.backoffice.model_admin import (
    SEARCHED_LIST_TEMPLATE,
    RevealingAdmin,
    empty_filter,
)
from verification.backoffice.widgets import NOT_OFFERED, dialog_verb
from verification.consents.links import consent_links
from verification.payments.links import payment_links
from verification.privacy.retention import MAX_COUNT, count_expired
from verification.references.requests import reference_links
from verification.staff.customer import customer_sections
from workspaces.create import OPERATOR_ID
from workspaces.forms import (
    NoteForm,
    OwnerForm,
    ResumeForm,
    SuspendForm,
    WorkspaceForm,
)
from workspaces.members import AlreadyMember, assign_owner
from workspaces.models import Environment, Note, Workspace

RETENTION_FIELDS = {
    Environment.PRODUCTION: "retention_days",
    Environment.SANDBOX: "sandbox_retention_days",
}


class RetentionForm(forms.ModelForm):
    """The page of a workspace, with its retention."""

    erases = forms.BooleanField(
        label="Erase old reports",
        required=False,
        widget=UnfoldBooleanWidget,
        help_text="Tick to confirm that existing reports will be erased.",
    )

    def clean(self):
        """Refuse fewer days until staff have read how many reports they erase."""
        cleaned = super().clean() or {}
        saved = Workspace.objects.get(pk=self.instance.pk)
        for environment, field in RETENTION_FIELDS.items():
            days = cleaned.get(field)
            if days is None or days >= saved.retention(environment).days:
                continue
            count = count_expired(saved, environment, days)
            if count and not cleaned.get("erases"):
                number = f"over {MAX_COUNT:,}" if count > MAX_COUNT else f"{count:,}"
                warning = f"{number} {environment} reports will be erased within hours."
                self.add_error(field, f"{warning} Tick the box below and save again.")
        return cleaned


@admin.register(Workspace)
class WorkspaceAdmin(RevealingAdmin):
    """The page of a customer, with its sections and its retention."""

    list_display = ["name", "id", "kind", "goes_live", "suspended_at", "created_at"]
    list_filter = [
        "kind",
        "go_live",
        empty_filter("suspended_at", "running", "suspended"),
    ]
    search_parts = ("name",)
    change_list_template = SEARCHED_LIST_TEMPLATE
    change_form_template = "admin/workspace.html"
    audits_opening = True
    # The template shows everything else.
    fields = [
        "name",
        "legal_name",
        "trading_name",
        "messages_per_day",
        "owner_contact",
        "blocked_by",
        *RETENTION_FIELDS.values(),
        "erases",
    ]
    readonly_fields = ["legal_name", "trading_name", "owner_contact", "blocked_by"]
    personal_fields = ("owner_contact",)
    actions_detail = ["add_note", "invite_owner", "suspend", "resume", "reveal"]
    offers = {
        "invite_owner": lambda workspace: (
            not (workspace.is_suspended or workspace.members.exists())
            and workspace.pk != OPERATOR_ID
        ),
        "suspend": lambda workspace: not workspace.is_suspended,
        "resume": lambda workspace: workspace.is_suspended,
    }

    def render_change_form(self, request, context, *arguments, **more):
        workspace = more.get("obj")
        if workspace:
            sections = customer_sections(request, workspace)
            context |= {"workspace": workspace, **sections}
        return super().render_change_form(request, context, *arguments, **more)

    @admin.display(description="E-mail of the owner")
    def owner_contact(self, workspace):
        return format_html("{}", workspace.contact_email)

    @admin.display(description="Go-live", ordering="go_live")
    def goes_live(self, workspace):
        if workspace.go_live == Workspace.GoLive.NONE:
            return "Sandbox only"
        return workspace.get_go_live_display()

    @admin.display(description="Blocked by")
    def blocked_by(self, workspace):
        found = workspace.blocks.filter(lifted_at=None)
        unknown = found.filter(reason="UNKNOWN").count()
        return f"Recipients: {found.count()}, of whom {unknown} do not know it"

    def get_form(self, request, obj=None, change=False, **kwargs):
        if not change:
            kwargs["form"] = WorkspaceForm
        elif self.has_change_permission(request, obj):
            kwargs["form"] = RetentionForm
        return super().get_form(request, obj, change, **kwargs)

    def get_fields(self, request, obj=None):
        if obj is None:
            return ["name", "owner", "kind", "billing", "page"]
        may = self.has_change_permission(request, obj)
        return [field for field in self.fields if may or field != "erases"]

    def get_readonly_fields(self, request, obj=None):
        if obj is None:
            return []
        # Only a reviewed change sets the name of an approved workspace.
        is_reviewed = obj.requester.is_reviewed
        return self.readonly_fields + (["name"] if is_reviewed else [])

    def save_model(self, request, obj, form, change):
        if change:
            if not {*form.changed_data}.isdisjoint(RETENTION_FIELDS.values()):
                obj.change_retention(obj.retention_days, obj.sandbox_retention_days)
            super().save_model(request, obj, form, change)

    def construct_change_message(self, request, form, formsets, add=False):
        # A tick is no change of the row.
        form.changed_data = [f for f in form.changed_data if f != "erases"]
        return super().construct_change_message(request, form, formsets, add)

    def has_note_permission(self, request, object_id=None):
        return request.user.has_perm("workspaces.add_note")

    @dialog_verb(
        "Add a note",
        "Colleagues read it here, after they have said why. It cannot be changed "
        "or deleted, and is erased when the retention of the workspace is over.",
        "Add it",
        NoteForm,
        description="Add a note",
        icon="sticky_note_2",
        permissions=["note"],
        audited="note-added",
    )
    def add_note(self, request, form, workspace):
        author, typed = request.user.get_username(), form.cleaned_data
        note = {"workspace": workspace, "author": author, "text": typed["text"]}
        _, is_new = Note.objects.get_or_create(pk=typed["page"], defaults=note)
        if not is_new:
            raise DecisionRefused("You sent this before: the note is there once.")
        return "The note is added."

    @dialog_verb(
        "Invite the owner again",
        "Earlier invitations stop working. An account with the address becomes the "
        "owner at once.",
        "Invite",
        OwnerForm,
        description="Invite the owner again",
        icon="forward_to_inbox",
        permissions=["invite_owner"],
        audited="owner-invited",
    )
    def invite_owner(self, request, form, workspace):
        try:
            has_owner = assign_owner(workspace, form.cleaned_data["email"])
        except AlreadyMember:
            raise DecisionRefused(NOT_OFFERED) from None
        return f"{workspace} {'has an owner' if has_owner else 'invites its owner'}."

    @dialog_verb(
        "Suspend this workspace",
        "Its keys answer 403 and its jobs stop until it is resumed. Nothing is "
        "lost. Its members read the reason.",
        "Suspend",
        SuspendForm,
        description="Suspend",
        icon="block",
        variant=ActionVariant.DANGER,
        permissions=["suspend"],
        audited="suspended",
        change="is suspended",
    )
    def suspend(self, request, form, workspace):
        if not workspace.suspend(form.cleaned_data["reason"]):
            raise DecisionRefused(NOT_OFFERED)
        return f"{workspace} is suspended."

    @dialog_verb(
        "Resume this workspace",
        "Its keys work again, and what waited for it goes on.",
        "Resume",
        ResumeForm,
        description="Resume",
        icon="play_circle",
        variant=ActionVariant.SUCCESS,
        permissions=["resume"],
        audited="resumed",
        change="works again",
    )
    def resume(self, request, form, workspace):
        for links in (consent_links, payment_links, reference_links):
            links.prolong(workspace)
        if not workspace.resume():
            raise DecisionRefused(NOT_OFFERED)
        return f"{workspace} works again."
