"""Request a page per line of stdin as a signed-in operator; print its wall and processor time."""

import json
import sys
import time

import django

from bench.page_client import PAGES, build_getter, find_detail_pages, freeze_loaded


def main(name: str) -> None:
    django.setup()
    get = build_getter(name)
    freeze_loaded()
    print(json.dumps(PAGES | find_detail_pages()), flush=True)
    for line in sys.stdin:
        path, _, query = line.strip().partition("?")
        start, processor = time.perf_counter(), time.process_time()
        status, _ = get(path, query)
        processor, seconds = time.process_time() - processor, time.perf_counter() - start
        assert status == 200, (path, status)
        print(json.dumps([seconds * 1000, processor * 1000]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
