/* People: a role is saved when it is chosen, and I opens the form that invites. */
(function () {
  "use strict";
  document.addEventListener("change", function (event) {
    var form = event.target.closest("[data-role]");
    if (form) form.requestSubmit();
  });
  document.addEventListener("click", function (event) {
    if (!event.target.closest("[data-invite]")) return;
    event.preventDefault();
    document.getElementById("invite-email").focus();
  });
  document.addEventListener("keydown", function (event) {
    if (event.key.toLowerCase() !== "i" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) return;
    var field = document.getElementById("invite-email");
    if (!field) return;
    event.preventDefault();
    field.focus();
  });
})();
