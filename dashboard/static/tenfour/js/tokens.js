/* Tokens: C opens the form for a new one. */
(function () {
  "use strict";
  document.addEventListener("keydown", function (event) {
    if (event.key.toLowerCase() !== "c" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) return;
    var link = document.querySelector("[data-new-token]");
    if (!link) return;
    event.preventDefault();
    link.click();
  });
})();
