/* Keyboard shortcuts. A key acts on the first element with that data-key, in the page itself before the rest, such as
   the dialog of shortcuts; the places of G … are those of the sidebar. */
(function () {
  "use strict";
  var GOING_FOR = 1500;
  var going = 0;
  var $ = function (selector) { return document.querySelector(selector); };

  function isOff() {
    try { return localStorage.getItem("tenfour-keys") === "off"; } catch (e) { return false; }
  }

  /* a swap keeps the cursor's attribute: see morphIgnore in base.html */
  function move(by) {
    var rows = Array.from(document.querySelectorAll("[data-row]")).filter(function (row) {
      return row.checkVisibility();
    });
    if (!rows.length) return;
    var at = rows.findIndex(function (row) { return row.hasAttribute("data-cursor"); });
    var next = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
    rows.forEach(function (row) { row.removeAttribute("data-cursor"); });
    next.setAttribute("data-cursor", "");
    next.scrollIntoView({ block: "nearest" });
    var link = next.querySelector("summary, a");
    if (link) link.focus({ preventScroll: true });
  }

  function leave(event) {
    if (event.target.matches("input, textarea, select")) event.target.blur();
    if (location.hash === "#side") location.hash = "main";
  }

  var ACTIONS = {
    g: function () { going = Date.now(); },
    "?": function () { $("#keys-dialog").showModal(); },
    p: function () { if ($("#live")) $("#live").click(); },
    j: function () { move(1); },
    k: function () { move(-1); },
  };

  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") return leave(event);
    var typing = event.target.matches("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || $("dialog:modal")) return;
    if (event.key === "/") {
      event.preventDefault();
      if ($("#query")) return $("#query").focus();
      return document.dispatchEvent(new CustomEvent("tenfour:palette"));
    }
    if (isOff()) return;
    var place = Date.now() - going < GOING_FOR && $('[data-go="' + CSS.escape(event.key) + '"]');
    going = 0;
    if (place) return place.click();
    var rowKey = '[data-row][data-cursor] [data-row-key="' + CSS.escape(event.key) + '"]';
    var key = '[data-key="' + CSS.escape(event.key) + '"]';
    var owner = $(rowKey) || $("#main " + key) || $(key);
    if (owner) {
      event.preventDefault();
      return owner.matches("input, textarea") ? owner.focus() : owner.click();
    }
    if (Object.hasOwn(ACTIONS, event.key)) ACTIONS[event.key]();
  });

  document.addEventListener("change", function (event) {
    if (!event.target.matches("[data-keys-switch]")) return;
    try {
      if (event.target.checked) localStorage.removeItem("tenfour-keys");
      else localStorage.setItem("tenfour-keys", "off");
    } catch (e) { /* storage is not available */ }
  });
  /* back from an action on a row: the cursor is on it again */
  var back = location.hash && document.getElementById(location.hash.slice(1));
  if (back && back.matches("[data-row]")) back.setAttribute("data-cursor", "");
  var keySwitch = $("[data-keys-switch]");
  if (keySwitch) keySwitch.checked = !isOff();
})();
