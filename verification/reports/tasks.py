from verification.reports.idempotency import forget_old_answers


def purge_idempotency_keys() -> None:
    forget_old_answers()
