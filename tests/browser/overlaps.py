"""Find texts of a page that cross each other."""

# The lines of all texts that can be seen, each cut to what its scrolling parents show. What floats
# above the page (a bar, a message, an open dialog) may cover a text.
SCRIPT = """() => {
    const floats = (each) => ["fixed", "sticky"].includes(getComputedStyle(each).position);
    const isFolded = (each) => each.parentElement?.matches("details:not([open])") && each.localName !== "summary";
    const parents = (each) => each ? [each, ...parents(each.parentElement)] : [];
    const isSeen = (each) => each.checkVisibility({opacityProperty: true, visibilityProperty: true})
        && !each.closest("svg, script, style, .skip, .vh, dialog")
        && !parents(each).some((one) => floats(one) || isFolded(one));
    const cut = (box, by) => ({
        left: Math.max(box.left, by.left), right: Math.min(box.right, by.right),
        top: Math.max(box.top, by.top), bottom: Math.min(box.bottom, by.bottom),
    });
    const lines = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode, element = node.parentElement;
        if (!node.data.trim() || !element || !isSeen(element)) continue;
        const clips = parents(element).filter((each) => getComputedStyle(each).overflowX !== "visible");
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const rect of range.getClientRects()) {
            const box = clips.map((each) => each.getBoundingClientRect()).reduce(cut, cut(rect, rect));
            if (box.right - box.left > 2 && box.bottom - box.top > 2) lines.push({node, box});
        }
    }
    const crossed = new Set();
    lines.forEach((one, at) => lines.slice(at + 1).forEach((other) => {
        const shared = cut(one.box, other.box);
        if (one.node === other.node || shared.right - shared.left <= 2 || shared.bottom - shared.top <= 4) return;
        crossed.add(`${one.node.data.trim().slice(0, 40)} × ${other.node.data.trim().slice(0, 40)}`);
    }));
    return [...crossed].slice(0, 5);
}"""
