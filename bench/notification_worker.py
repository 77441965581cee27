"""Make moves with and without channels, and print their times as JSON."""

import json
import sys

import django


def main(url: str, rounds: int, moves: int) -> None:
    django.setup()

    from bench import notification_moves

    print(json.dumps(notification_moves.measure(url, rounds, moves)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
