#!/usr/bin/env python
import os
import sys

from verification import embedded


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "verification.settings")
    embedded.start_if_needed(sys.argv)

    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
