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
        output, is_pdf = options["output"], options["format"] == "pdf"
        if is_pdf and output is None:
            raise CommandError("Name the file of the PDF: --output FILE.")
        record = processing_record(now())
        content = as_pdf(record) if is_pdf else as_markdown(record).encode()
        if output is None:
            self.stdout.write(content.decode())
            return
        try:
            output.write_bytes(content)
        except OSError as e:
            raise CommandError(f"The record cannot be written: {e}.") from e
