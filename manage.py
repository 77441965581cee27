#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys


def run() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import NotSupportedError, OperationalError

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(str(error))
    except (NotSupportedError, OperationalError) as error:
        sys.exit(f"The database can't be used: {error}")
    finally:
        sys.stdout.flush()


def main() -> None:
    """Run a command; a closed pipe, Ctrl-C or a missing setting ends it without a traceback."""
    if sys.argv[1:2] in (["backup"], ["restore"]):
        from config.local import backups  # a folder without data has no settings yet

        sys.exit(backups.main(sys.argv[1:]))
    try:
        run()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Python would report the closed pipe again when it flushes its output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
