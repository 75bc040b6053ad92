#!/usr/bin/env python
import os
import sys

from verification import embedded


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "verification.settings")
    embedded.start_if_needed(sys.argv)

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
