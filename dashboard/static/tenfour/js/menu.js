/* Menus: Escape and a click outside close them, arrows move, one is open at a time. */
(function () {
  "use strict";
  function open() { return document.querySelector("details.menu[open]"); }

  document.addEventListener("toggle", function (event) {
    if (!event.target.matches("details.menu") || !event.target.open) return;
    document.querySelectorAll("details.menu[open]").forEach(function (each) {
      if (each !== event.target) each.open = false;
    });
  }, true);
  document.addEventListener("click", function (event) {
    var menu = open();
    if (menu && !menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", function (event) {
    var menu = open();
    if (!menu) return;
    if (event.key === "Escape") {
      menu.open = false;
      return menu.querySelector("summary").focus();
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    if (!menu.contains(document.activeElement) || event.target.matches("input, textarea, select")) return;
    event.preventDefault();
    var items = Array.from(menu.querySelectorAll(".menu__it"));
    var at = items.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    items[(at + items.length) % items.length].focus();
  });
})();
