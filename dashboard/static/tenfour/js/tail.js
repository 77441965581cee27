/* The last lines of a running attempt: while the switch is on, the newest stays in view. Without it, and after
   scrolling up, the lines that are being read stand still while new ones come. */
(function () {
  "use strict";
  var NEAR = 4;
  var before = null;
  function lines() { return document.querySelector("#output .tail"); }
  function follow() { return document.querySelector("#follow"); }

  /* The box is laid out from its end: 0 is the end, and what is above it has a negative offset. */
  document.addEventListener("scroll", function (event) {
    if (follow() && event.target === lines()) follow().checked = event.target.scrollTop >= -NEAR;
  }, true);
  document.addEventListener("change", function (event) {
    if (event.target === follow() && event.target.checked) lines().scrollTop = 0;
  });
  document.addEventListener("htmx:before:swap", function () {
    var box = lines();
    before = box && { top: box.scrollTop, height: box.scrollHeight };
  });
  document.addEventListener("htmx:after:swap", function () {
    var box = lines();
    if (!box || !before || !follow()) return;
    box.scrollTop = follow().checked ? 0 : before.top - (box.scrollHeight - before.height);
  });
})();
