"""Find what a finger can't press surely: targets of less than 44 px."""

from playwright.sync_api import Page

# The size of a target is what a finger hits around its middle, not its box: another element may
# cover a part of it, and its label or the area around it may belong to it. Left out, as by WCAG's
# exceptions: links within sentences, whose height is that of the line, and marks in charts, whose
# place and size say something. A menu or a dialog is opened to measure what is in it.
SCRIPT = """(part) => {
    const SIZE = 44, ROUNDING = 2;
    const CONTROLS = "a[href], button, summary, input:not([type=hidden]), select, textarea, [role=button], [role=option]";
    const TEXT = /[\\p{L}\\p{N}]/u;
    const isInline = (each) => getComputedStyle(each).display === "inline";
    const hasOtherText = (block) => {
        const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const node = walker.currentNode;
            if (TEXT.test(node.data) && !node.parentElement.closest(CONTROLS)?.matches("a, button, summary")) return true;
        }
        return false;
    };
    const isInSentence = (each) => {
        if (!isInline(each)) return false;
        let block = each.parentElement;
        while (isInline(block)) block = block.parentElement;
        return hasOtherText(block);
    };
    const isSeen = (each) => {
        const box = each.getBoundingClientRect();
        return box.width > 2 && box.height > 2 && box.bottom > 0
            && each.checkVisibility({visibilityProperty: true}) && getComputedStyle(each).clipPath === "none"
            && getComputedStyle(each).pointerEvents !== "none"
            && !each.closest(".vh, svg, [inert], [aria-hidden=true]");
    };
    const measure = (each) => {
        each.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
        const box = each.getClientRects()[0];
        const x = box.x + box.width / 2, y = box.y + box.height / 2;
        const isHit = (dx, dy) => {
            const hit = document.elementFromPoint(x + dx, y + dy);
            return hit !== null && (each.contains(hit) || [...each.labels ?? []].some((label) => label.contains(hit)));
        };
        const reach = (dx, dy) => {
            let low = 0, high = 0, before = -1;
            while (low + high > before && low + high < SIZE) {
                before = low + high;
                if (isHit(-dx * (low + 1), -dy * (low + 1))) low += 1;
                if (isHit(dx * (high + 1), dy * (high + 1))) high += 1;
            }
            return low + high;
        };
        return isHit(0, 0) ? [reach(1, 0), reach(0, 1)] : [0, 0];
    };
    const describe = (each, size) => {
        const name = (each.getAttribute("aria-label") || each.textContent || each.name || "").trim().replace(/\\s+/g, " ");
        const place = [each.parentElement, each].map((one) =>
            one.localName + [...one.classList].map((name) => "." + name).join("")).join(" > ");
        return `${place} “${name.slice(0, 30)}” ${size.join("×")}`;
    };
    const small = new Set(), seen = new Set();
    const check = (within) => {
        for (const each of within.querySelectorAll(CONTROLS)) {
            if (seen.has(each) || !isSeen(each) || isInSentence(each)) continue;
            seen.add(each);
            const size = measure(each);
            if (size.some((one) => one < SIZE - ROUNDING)) small.add(describe(each, size));
        }
    };
    if (part) {
        check(document.querySelector(part));
        return [...small];
    }
    for (const open of document.querySelectorAll("dialog[open]")) check(open);
    for (const open of document.querySelectorAll("dialog[open]")) open.close();
    for (const fold of document.querySelectorAll("details:not(.menu)")) fold.open = true;
    for (const menu of document.querySelectorAll("details.menu")) menu.open = false;
    check(document);
    for (const menu of document.querySelectorAll("details.menu")) {
        menu.open = true;
        check(menu);
        menu.open = false;
    }
    for (const dialog of document.querySelectorAll("dialog")) {
        const menu = dialog.closest("details.menu");
        if (menu) menu.open = true;
        dialog.showModal();
        check(dialog);
        dialog.close();
        if (menu) menu.open = false;
    }
    return [...small];
}"""


def find_small_targets(page: Page, part: str = "") -> list[str]:
    """Return what can be pressed on a page, or in one part of it, and is too small for a finger."""
    assert page.evaluate("() => matchMedia('(pointer: coarse)').matches")
    found: list[str] = page.evaluate(SCRIPT, part)
    return found
