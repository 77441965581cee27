/* People: a role is saved when it is chosen, and a link leads into the form that invites. */
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
})();
