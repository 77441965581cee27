/* Dialogs, toasts and copying, on every page. */
(function () {
  "use strict";
  var SHOWN_FOR = 5;   // seconds; a message with a button says how long it stays

  function copy(selector) {
    var from = document.querySelector(selector);
    if (from && navigator.clipboard) navigator.clipboard.writeText((from.value || from.textContent).trim());
    else if (from) getSelection().selectAllChildren(from);   /* without HTTPS, only the user can copy */
  }

  document.addEventListener("click", function (event) {
    var opener = event.target.closest("[data-open]");
    if (opener) {
      event.preventDefault();   // without scripts, the button submits its form
      var dialog = document.getElementById(opener.dataset.open);
      var menu = dialog.closest("details");
      if (menu) menu.open = true;   // a key may open a dialog of a closed menu
      dialog.showModal();
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

  /* scroll an output once to the line that its headline comes from */
  var shown = new WeakSet();
  function showLine(mark) {
    var box = mark.closest("pre");
    if (shown.has(mark) || !box.clientHeight) return;
    shown.add(mark);
    box.scrollTop += mark.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 2;
  }
  function showLines() { document.querySelectorAll("pre mark").forEach(showLine); }
  document.addEventListener("htmx:after:swap", showLines);
  document.addEventListener("toggle", showLines, true);
  showLines();

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
