"""Rules that re-run chosen checks on a subject, and the alerts they raise."""
