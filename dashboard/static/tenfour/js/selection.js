/* Select rows by key, or all at once. The bulk bar itself needs no script: see selection.css. */
(function () {
  "use strict";
  function boxes(within) { return Array.from((within || document).querySelectorAll("[data-pick]")); }
  function paint() {
    var all = document.querySelector("[data-pick-all]"), each = boxes();
    var picked = each.filter(function (box) { return box.checked; }).length;
    if (!picked) pickMatching(false);
    if (!all) return;
    all.checked = picked > 0 && picked === each.length;
    all.indeterminate = picked > 0 && picked < each.length;
  }
  /* choose everything that the filter matches instead of the ticked rows */
  function pickMatching(on) {
    var matching = document.querySelector("[data-pick-matching]");
    if (matching) matching.checked = on;
  }
  function pick(some, on) {
    some.forEach(function (box) { box.checked = on; });
    paint();
  }

  /* move to the actions on the selection, or first select everything that the filter matches */
  function act(event, everything) {
    if (everything && !document.querySelector("[data-pick-matching]")) return;
    if (everything) pick(boxes(), true);
    if (!boxes().some(function (box) { return box.checked; })) return;
    if (everything) pickMatching(true);
    event.preventDefault();
    document.querySelector("#bulk-form button[formaction]").focus();
  }

  document.addEventListener("change", function (event) {
    if (event.target.matches("[data-pick-all]")) pick(boxes(), event.target.checked);
    else if (event.target.matches("[data-pick]")) paint();
  });
  document.addEventListener("reset", function () { setTimeout(function () { pick(boxes(), false); }); });

  document.addEventListener("keydown", function (event) {
    var typing = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog:modal")) return;
    if (event.key === "Escape") return pick(boxes(), false);
    var off = false;
    try { off = localStorage.getItem("tenfour-keys") === "off"; } catch (e) { /* not kept */ }
    var row = document.querySelector("[data-row][data-cursor]"), key = event.key.toLowerCase();
    if (off || event.defaultPrevented) return;
    if (key === "a" && event.shiftKey || key === "b" && !event.shiftKey) return act(event, key === "a");
    if (!row || key !== "x") return;
    var some = boxes(event.shiftKey ? row.closest("tbody, ol") : row);
    pick(some, !some.every(function (box) { return box.checked; }));
  });
  document.addEventListener("htmx:after:swap", paint);
  paint();
})();
