from uuid import UUID

from monitoring import comparing, purging, running


def run_due() -> None:
    """Launch the runs of the rules that are due."""
    running.run_due()


def compare(*report_ids: str) -> None:
    """Compare the runs that made these reports with the runs before them."""
    comparing.compare([UUID(report_id) for report_id in report_ids])


def compare_left() -> None:
    """Compare the runs whose own job was lost."""
    comparing.compare_left()


def purge_alerts() -> None:
    """Delete alerts that are older than their workspace keeps them."""
    purging.purge()
