# Imported for what it registers, some of which is replaced here.
import django_q.admin  # noqa: F401
from django.contrib import admin, messages
from django.utils import timezone
from django_q.models import Schedule, Success

from verification.jobs.models import Job


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    list_display = ["function", "arguments", "due_at", "attempts", "gave_up_at"]
    list_filter = [("gave_up_at", admin.EmptyFieldListFilter), "function"]
    show_full_result_count = False
    actions = ["run_again"]

    def has_add_permission(self, request):
        return False

    def has_change_permission(self, request, obj=None):
        return False

    @admin.action(description="Run the selected jobs again", permissions=["delete"])
    def run_again(self, request, jobs):
        count = jobs.filter(gave_up_at__isnull=False).update(
            gave_up_at=None, attempts=0, due_at=timezone.now()
        )
        self.message_user(request, f"{count} jobs will run again.", messages.SUCCESS)


# Results of finished jobs are not kept.
admin.site.unregister(Success)
admin.site.unregister(Schedule)


@admin.register(Schedule)
class ScheduleAdmin(admin.ModelAdmin):
    """To be looked at: `setup_schedules` owns them."""

    list_display = ["name", "func", "minutes", "next_run"]

    def has_add_permission(self, request):
        return False

    def has_change_permission(self, request, obj=None):
        return False

    def has_delete_permission(self, request, obj=None):
        return False
