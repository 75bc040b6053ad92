"""Both rotations of keys in a database of very many reports."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from typing import Any

from django.db import connections

from benchmarks.backup import copied, manage
from benchmarks.figures import Figure, bench
from benchmarks.lists import use_filled
from benchmarks.service import Service
from verification.db.encryption import seal

NEW_KEY = base64.b64encode(bytes(range(32))).decode()
FINDING = b'{"details": {"fullName": "Grace Wambui Otieno", "nameMatch": "EXACT"}}'
ROWS = 5_000
SEAL = """
UPDATE checks_checkresult SET finding = u.sealed
FROM unnest(%s::uuid[], %s::bytea[]) AS u(id, sealed)
WHERE checks_checkresult.id = u.id
"""


@bench(is_filled=True, reports=2_000)
def key_rotation(service: Service, reports: int = 1_000_000) -> Iterator[Figure]:
    """Measure `reencrypt`, while a service could run, and `rehash`, while none can."""
    use_filled(service, reports)
    fields, lookup = os.environ["FIELD_KEYS"], os.environ["LOOKUP_KEY"]
    with copied(service, os.environ["DATABASE_URL"]):
        with service.connect() as db:
            results = _seal_findings(db)
        # The settings of the benches name their own keys.
        new = {
            "DJANGO_SETTINGS_MODULE": "verification.settings",
            "FIELD_KEYS": f"k2:{NEW_KEY},{fields}",
        }
        reencrypted, said = manage("reencrypt", **new)
        print(f"  {said.strip()}")
        # It refuses to run beside another connection.
        connections.close_all()
        rehashed, said = manage("rehash", **new, LOOKUP_KEY=f"{NEW_KEY},{lookup}")
        print(f"  {said.strip()}")
    values = reports + results
    rate = [values / reencrypted]
    yield Figure(f"reencrypt: {values:,} values", rate, "/s", rate=True)
    yield Figure(f"rehash: {reports:,} reports", [rehashed], "s")


def _seal_findings(db: Any) -> int:
    """Give each result a finding. Returns how many there are."""
    ids = [row[0] for row in db.execute("SELECT id FROM checks_checkresult")]
    for start in range(0, len(ids), ROWS):
        some = ids[start : start + ROWS]
        column = "checks_checkresult.finding"
        sealed = [seal(FINDING, column=column, row=id) for id in some]
        db.execute(SEAL, [some, sealed])
    db.execute("VACUUM (ANALYZE) checks_checkresult")
    return len(ids)
