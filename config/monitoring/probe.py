"""A check of the web server in the same container: `python -m config.monitoring.probe /readyz`.

It exits with 1 if the path does not respond with 200 on the port that the web server listens on.
"""

import sys
from urllib.request import urlopen

from config.environment import read_text

DEADLINE_S = 4


def main(path: str) -> int:
    port = read_text("PORT")
    try:
        urlopen(f"http://127.0.0.1:{port}{path}", timeout=DEADLINE_S).close()
    except OSError as error:
        print(f"Port {port} has no healthy response to {path}: {error}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
