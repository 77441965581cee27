"""`python -m tenfour` is the command `tenfour`."""

import sys

from tenfour.cli import main

if __name__ == "__main__":
    sys.exit(main())
