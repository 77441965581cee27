/* A key that is pressed before the scripts of shortcuts are there waits for them, instead of being lost.
   Loaded in <head> without defer. */
(function () {
  "use strict";
  var keys = [];

  function keep(event) {
    var typing = event.target.matches("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    keys.push(event);
    event.stopImmediatePropagation();   // a script that is there already gets it with the others
  }

  document.addEventListener("keydown", keep, true);
  /* all deferred scripts have run */
  document.addEventListener("DOMContentLoaded", function () {
    document.removeEventListener("keydown", keep, true);
    keys.forEach(function (event) {
      (document.activeElement || document.body).dispatchEvent(new KeyboardEvent("keydown", event));
    });
  });
})();
