from uuid import UUID

from monitoring import alerts, comparison, messages, runs


def run_due() -> None:
    """Launch the runs of the rules that are due."""
    runs.launch_due_runs()


def release_rules(workspace_id: str) -> None:
    """Launch what was due while this workspace was suspended."""
    runs.release_rules(UUID(workspace_id))


def compare(*report_ids: str) -> None:
    """Compare the runs that made these reports with the runs before them."""
    comparison.compare([UUID(report_id) for report_id in report_ids])


def compare_lost_runs() -> None:
    """Compare the runs whose own job was lost."""
    comparison.compare_lost_runs()


def notify_paused() -> None:
    """Tell owners whose rules were paused."""
    messages.notify_paused()


def purge_alerts() -> None:
    """Delete alerts that are older than their workspace keeps them."""
    alerts.purge()
