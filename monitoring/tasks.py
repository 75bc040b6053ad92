from uuid import UUID

from monitoring import alerts, comparison, messages, runs


def run_due() -> None:
    """Launch the runs of the rules that are due."""
    runs.run_due()


def let_go(workspace_id: str) -> None:
    """Launch what was due while this workspace was suspended."""
    runs.let_go(UUID(workspace_id))


def compare(*report_ids: str) -> None:
    """Compare the runs that made these reports with the runs before them."""
    comparison.compare([UUID(report_id) for report_id in report_ids])


def compare_left() -> None:
    """Compare the runs whose own job was lost."""
    comparison.compare_left()


def tell_paused() -> None:
    """Tell owners whose rules were paused."""
    messages.tell_paused()


def purge_alerts() -> None:
    """Delete alerts that are older than their workspace keeps them."""
    alerts.purge()
