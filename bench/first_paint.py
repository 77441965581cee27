"""Paint pages in Chromium and print the milliseconds to their first contents as JSON."""

import json
import sys

from playwright.sync_api import sync_playwright

READ_PAINT = """() => new Promise((done) => {
    const read = () => performance.getEntriesByName("first-contentful-paint")[0];
    const wait = () => read() ? done(read().startTime) : setTimeout(wait, 10);
    wait();
})"""


def main(chromium: str, address: str, name: str, value: str, pages: str, paints: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.add_cookies([{"name": name, "value": value, "url": address}])
        tab = context.new_page()
        found: dict[str, list[float]] = {}
        for page, path in json.loads(pages).items():
            for number in range(int(paints) + 1):
                tab.goto(address + path)
                if number:  # the first visit loads what the others share
                    found.setdefault(page, []).append(tab.evaluate(READ_PAINT))
        browser.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
