from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from verification.privacy.processing_record import (
    as_markdown,
    as_pdf,
    processing_record,
)
from verification.values.clock import now


class Command(BaseCommand):
    help = (
        "Writes the record of processing activities of this installation, from its "
        "configuration: Markdown to standard output, or a file."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--format", choices=["md", "pdf"], default="md")
        parser.add_argument("--output", metavar="FILE", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        output = options["output"]
        if options["format"] == "pdf" and output is None:
            raise CommandError("Name the file of the PDF: --output FILE.")
        record = processing_record(now())
        if options["format"] == "pdf":
            output.write_bytes(as_pdf(record))
        elif output:
            output.write_text(as_markdown(record), encoding="utf-8")
        else:
            self.stdout.write(as_markdown(record))
