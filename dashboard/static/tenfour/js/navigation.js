/* Dialogs, toasts and copying, on every page. */
(function () {
  "use strict";
  var SHOWN_FOR = 5;   // seconds; a message with a button says how long it stays

  function copy(selector) {
    var from = document.querySelector(selector);
    if (from && navigator.clipboard) navigator.clipboard.writeText(from.textContent.trim());
    else if (from) getSelection().selectAllChildren(from);   /* without HTTPS, only the user can copy */
  }

  document.addEventListener("click", function (event) {
    var opener = event.target.closest("[data-open]");
    if (opener) {
      event.preventDefault();   // without scripts, the button submits its form
      document.getElementById(opener.dataset.open).showModal();
    }
    var closer = event.target.closest("[data-close]");
    if (closer) closer.closest(".toast").remove();
    if (event.target.closest("[data-print]")) window.print();
    var copier = event.target.closest("[data-copy]");
    if (copier) {
      copy(copier.dataset.copy);
      copier.title = "Copied";
    }
    /* a click outside a dialog closes it */
    if (event.target.matches("dialog[open]")) {
      var box = event.target.getBoundingClientRect();
      var inside =
        event.clientX >= box.left && event.clientX <= box.right &&
        event.clientY >= box.top && event.clientY <= box.bottom;
      if (!inside) event.target.close();
    }
  });

  /* scroll a row of buttons or links so that the current one is in view on a phone */
  document.querySelectorAll('.seg [aria-current="true"], .setnav [aria-current]').forEach(function (chosen) {
    var row = chosen.closest(".seg, .setnav");
    row.scrollLeft = chosen.offsetLeft - (row.clientWidth - chosen.offsetWidth) / 2;
  });

  /* a message goes after a while, but not while someone points at it or has another tab in front */
  function remove(toast, after) {
    setTimeout(function () {
      if (document.hidden || toast.matches(":hover, :focus-within")) remove(toast, after);
      else toast.remove();
    }, after);
  }
  document.querySelectorAll("#toasts .toast").forEach(function (toast) {
    remove(toast, (toast.dataset.shownFor || SHOWN_FOR) * 1000);
  });
})();
