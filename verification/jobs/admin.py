# Imported because it registers admin classes; some are replaced here.
import django_q.admin  # noqa: F401
from django.contrib import admin, messages
from django.db import transaction
from django.utils.html import format_html
from django_q.models import Failure, Schedule, Success

from verification.backoffice.approvals import DecisionRefused
from verification.backoffice.model_admin import (
    BackofficeAdmin,
    ReadOnlyAdmin,
    empty_filter,
)
from verification.backoffice.widgets import NOT_OFFERED, ReasonForm, dialog_verb
from verification.jobs.models import Job, failure_id
from verification.values.clock import now


@admin.register(Job)
class JobAdmin(BackofficeAdmin):
    list_display = [
        "function",
        "arguments",
        "due_at",
        "attempts",
        "gave_up_at",
        "dismissed_at",
    ]
    list_filter = [
        empty_filter("gave_up_at", "still tried", "gave up"),
        empty_filter("dismissed_at", "not dismissed", "dismissed"),
    ]
    search_ids = ()
    search_exact = ("function",)
    readonly_fields = ["last_failure"]
    actions = ["run_again"]
    actions_detail = ["dismiss"]
    offers = {"dismiss": lambda job: job.gave_up_at and not job.dismissed_at}
    confirm = {"run_again": "Each is run as if it had never been tried."}

    def has_add_permission(self, request):
        return False

    def has_change_permission(self, request, obj=None):
        return False

    @admin.display(description="Why it failed last")
    def last_failure(self, job):
        failure = Failure.objects.filter(id=failure_id(job.pk)).first()
        return format_html("<pre>{}</pre>", failure.result) if failure else "-"

    @admin.action(description="Run the selected jobs again", permissions=["act"])
    def run_again(self, request, jobs):
        count = 0
        for job in jobs.filter(gave_up_at__isnull=False):
            with transaction.atomic():
                again = Job.objects.filter(pk=job.pk, gave_up_at__isnull=False)
                due = {"attempts": 0, "due_at": now()}
                if again.update(gave_up_at=None, dismissed_at=None, **due):
                    self.log_change(request, job, "runs again", verb="run-again")
                    count += 1
        if count:
            done = f"{count} jobs will run again."
            self.message_user(request, done, messages.SUCCESS)
        else:
            self.message_user(request, NOT_OFFERED, messages.WARNING)

    @dialog_verb(
        "Dismiss this job",
        "It does not run again by itself, and no longer counts as given up: the "
        "alert ends. It stays here for 30 days after it was given up, and can "
        "still be run again.",
        "Dismiss it",
        ReasonForm,
        description="Dismiss",
        icon="done",
        permissions=["dismiss"],
        audited="dismissed",
    )
    def dismiss(self, request, form, job):
        if not Job.objects.given_up().filter(pk=job.pk).update(dismissed_at=now()):
            raise DecisionRefused("The job was dismissed already, or runs again.")
        return "The job is dismissed."


# Finished jobs leave no results, and a job that failed for good is a row of `Job`.
for model in (Success, Failure, Schedule):
    admin.site.unregister(model)


@admin.register(Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    """Show the schedules, which only `setup_schedules` changes."""

    list_display = ["name", "func", "minutes", "next_run"]
    search_ids = ()
    search_exact = ("name",)
    fields = ["name", "func", "minutes", "next_run"]
