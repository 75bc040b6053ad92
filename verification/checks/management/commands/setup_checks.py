from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from verification.checks.catalogue import CATALOGUE
from verification.checks.models import CheckDefinition

OWNED_BY_CODE = [
    "required_inputs",
    "output_fields",
    "flag_codes",
    "subject_types",
    "category",
    "position",
]


class Command(BaseCommand):
    help = "Create the checks that are missing; leave alone what staff may edit."

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = {
            entry.name: CheckDefinition(position=position, **asdict(entry))
            for position, entry in enumerate(CATALOGUE)
        }
        present = CheckDefinition.objects.in_bulk(list(wanted), field_name="name")
        missing = [row for name, row in wanted.items() if name not in present]
        # Another start may be creating the same rows just now.
        CheckDefinition.objects.bulk_create(missing, ignore_conflicts=True)
        updated = sum(
            _update_definition(row, wanted[row.name]) for row in present.values()
        )
        self.stdout.write(f"Checks: {len(missing)} created, {updated} updated.")


def _update_definition(row: CheckDefinition, wanted: CheckDefinition) -> bool:
    changed = [f for f in OWNED_BY_CODE if getattr(row, f) != getattr(wanted, f)]
    for name in changed:
        setattr(row, name, getattr(wanted, name))
    if changed:
        row.save(update_fields=[*changed, "updated_at"])
    return bool(changed)
