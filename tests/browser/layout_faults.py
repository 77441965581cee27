"""Find what a page loses at a width: what scrolls sideways, cut texts, and rows beside their table."""

# What may scroll in its own box: code, tables of figures, and strips to swipe.
SCRIPT = """() => {
    const SCROLLS = "pre, textarea, .scroll-x, .facets, .subnav, .ladder, .bulk, .views__in, .gantt, select, input";
    const NAMES = { ".fleet .f-agent": 176, ".rows .t-name": 120, ".t-rule": 120, ".log__about a, .log__row > .log__about": 60 };
    const WHOLE = ".tbl td, .tbl th, .log summary > *, .aud__row summary > *, .brk";
    const all = (names, from = document) => [...from.querySelectorAll(names)];
    const isSeen = (each) => each.checkVisibility() && each.clientWidth > 1 && !each.closest(".vh, dialog, svg");
    const call = (each) => `${each.localName}.${each.className} “${each.textContent.trim().replace(/\\s+/g, " ").slice(0, 30)}”`;
    const isWide = (each) => each.scrollWidth > each.clientWidth + 1;
    const faults = new Set();
    const root = document.documentElement;
    if (isWide(root)) faults.add(`page scrolls ${root.scrollWidth - root.clientWidth}`);
    for (const each of all("body *")) {
        if (!isWide(each) || each.matches(SCROLLS) || !isSeen(each)) continue;
        if (["auto", "scroll"].includes(getComputedStyle(each).overflowX))
            faults.add(`${each.scrollWidth - each.clientWidth} px scroll in ${call(each)}`);
    }
    for (const each of all(WHOLE).filter(isSeen)) {
        const style = getComputedStyle(each);
        if (isWide(each) && style.overflowX !== "visible" && style.textOverflow !== "ellipsis")
            faults.add(`cut: ${call(each)}`);
    }
    for (const [names, floor] of Object.entries(NAMES)) for (const each of all(names).filter(isSeen)) {
        const cut = [each, ...all("*", each)].some((one) => isWide(one) && one.checkVisibility() && !one.closest(".vh"));
        if (cut && each.clientWidth < floor) faults.add(`${each.clientWidth} px of ${call(each)}`);
    }
    for (const row of all(".log__row"))
        if (!row.querySelector(":scope > .log__about")?.checkVisibility()) faults.add("an event without its subject");
    for (const row of all("table.tbl tr").filter(isSeen)) {
        const cell = [...row.cells].filter(isSeen).at(-1), table = row.closest("table");
        if (!cell || getComputedStyle(row).display !== "table-row") continue;
        const gap = table.getBoundingClientRect().right - cell.getBoundingClientRect().right;
        if (Math.abs(gap) > 4) faults.add(`${Math.round(gap)} px between ${call(cell)} and the edge`);
    }
    return [...faults].slice(0, 6);
}"""
