from verification.jobs.management.commands import jobs


class Command(jobs.Command):
    """Takes the place of django-q2's command."""
