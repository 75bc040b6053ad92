from uuid import UUID

from monitoring import comparing, launching, purging, telling


def run_due() -> None:
    """Launch the runs of the rules that are due."""
    launching.run_due()


def let_go(workspace_id: str) -> None:
    """Launch what was due while this workspace was suspended."""
    launching.let_go(UUID(workspace_id))


def compare(*report_ids: str) -> None:
    """Compare the runs that made these reports with the runs before them."""
    comparing.compare([UUID(report_id) for report_id in report_ids])


def compare_left() -> None:
    """Compare the runs whose own job was lost."""
    comparing.compare_left()


def tell_paused() -> None:
    """Tell owners whose rules were paused."""
    telling.tell_paused()


def purge_alerts() -> None:
    """Delete alerts that are older than their workspace keeps them."""
    purging.purge()
