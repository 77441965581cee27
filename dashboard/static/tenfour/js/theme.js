/* Set the theme before the first paint: loaded in <head> without defer. */
(function () {
  "use strict";
  var ORDER = ["system", "light", "dark"];
  var LABELS = { system: "system", light: "light", dark: "dark" };
  var root = document.documentElement;
  root.classList.add("js");

  /* what a person chose on the profile page wins over what this browser remembers */
  function stored() {
    if (root.dataset.themeSaved) return root.dataset.themeSaved;
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

  var saved = Promise.resolve();

  /* for the other browsers of the person; one after the other, so that the last choice stays */
  function save(url, theme) {
    root.dataset.themeSaved = theme;
    var headers = document.body.getAttribute("hx-headers:inherited");
    if (!url || !headers) return;
    var body = new URLSearchParams({ theme: theme });
    var request = { method: "POST", headers: JSON.parse(headers), body: body, keepalive: true };
    saved = saved
      .then(function () { return fetch(url, request); })
      .catch(function () { /* it stays this browser's own */ });
  }

  apply(stored());
  document.addEventListener("DOMContentLoaded", label);
  document.addEventListener("click", function (event) {
    var toggle = event.target.closest("[data-theme-toggle]");
    if (!toggle) return;
    var next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
    try { localStorage.setItem("tenfour-theme", next); } catch (e) { /* private window */ }
    apply(next);
    label();
    save(toggle.dataset.themeToggle, next);
  });
})();
