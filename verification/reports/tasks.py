from verification.reports.idempotency import purge_idempotency_records


def purge_idempotency_keys() -> None:
    purge_idempotency_records()
