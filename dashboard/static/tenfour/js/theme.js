/* The theme, before anything is painted: loaded in <head> without defer. */
(function () {
  "use strict";
  var ORDER = ["system", "light", "dark"];
  var SAID = { system: "system", light: "light", dark: "dark" };
  var root = document.documentElement;
  root.classList.add("js");

  function stored() {
    try { return localStorage.getItem("tenfour-theme") || "system"; } catch (e) { return "system"; }
  }
  function wear(theme) {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    root.dataset.themeChoice = theme;
  }
  function say() {
    document.querySelectorAll("[data-theme-toggle]").forEach(function (button) {
      button.setAttribute("aria-label", "Theme: " + SAID[root.dataset.themeChoice]);
      button.title = button.getAttribute("aria-label");
    });
  }

  wear(stored());
  document.addEventListener("DOMContentLoaded", say);
  document.addEventListener("click", function (event) {
    if (!event.target.closest("[data-theme-toggle]")) return;
    var next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
    try { localStorage.setItem("tenfour-theme", next); } catch (e) { /* private window: for this page */ }
    wear(next);
    say();
  });
})();
