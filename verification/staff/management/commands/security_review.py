from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from verification.privacy.processing_record import as_markdown
from verification.staff.security_review import security_review
from verification.values.clock import now


class Command(BaseCommand):
    help = (
        "Writes what a security review asks of this installation, from its code and "
        "configuration: Markdown to standard output, or a file. It holds no secrets."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--output", metavar="FILE", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        text = as_markdown(security_review(now()))
        if (output := options["output"]) is None:
            self.stdout.write(text)
            return
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as e:
            raise CommandError(f"The review cannot be written: {e}.") from e
