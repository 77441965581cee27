/* Notifications: Ctrl+Enter saves the open form, and a new rule starts in the person's own time zone. */
(function () {
  "use strict";
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    var form = event.target.closest("[data-save]") || document.querySelector("[data-save]");
    if (!form) return;
    event.preventDefault();
    form.requestSubmit();
  });
  document.querySelectorAll("[data-zone]").forEach(function (field) {
    var zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (zone && field.value === "UTC") field.value = zone;
  });
})();
