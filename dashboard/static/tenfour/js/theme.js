/* Set the theme before the first paint: loaded in <head> without defer. */
(function () {
  "use strict";
  var ORDER = ["system", "light", "dark"];
  var LABELS = { system: "system", light: "light", dark: "dark" };
  var root = document.documentElement;
  root.classList.add("js");

  function stored() {
    try { return localStorage.getItem("tenfour-theme") || "system"; } catch (e) { return "system"; }
  }
  function apply(theme) {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    root.dataset.themeChoice = theme;
  }
  function label() {
    document.querySelectorAll("[data-theme-toggle]").forEach(function (button) {
      button.setAttribute("aria-label", "Theme: " + LABELS[root.dataset.themeChoice]);
      button.title = button.getAttribute("aria-label");
    });
  }

  apply(stored());
  document.addEventListener("DOMContentLoaded", label);
  document.addEventListener("click", function (event) {
    if (!event.target.closest("[data-theme-toggle]")) return;
    var next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
    try { localStorage.setItem("tenfour-theme", next); } catch (e) { /* private window */ }
    apply(next);
    label();
  });
})();
