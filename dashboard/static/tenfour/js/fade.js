/* The cross-fade between two pages (base.css) ends early if the user moves on to a third page, stops the
   loading or leaves the tab. The browser reports that as an uncaught error, so it is caught here.
   Loaded in <head> without defer, because a page may be revealed before deferred scripts run. */
(function () {
  "use strict";
  function ignoreEarlyEnd(event) {
    var fade = event.viewTransition;
    if (!fade) return;
    [fade.ready, fade.finished, fade.updateCallbackDone].forEach(function (end) { end.catch(function () {}); });
  }
  addEventListener("pageswap", ignoreEarlyEnd);
  addEventListener("pagereveal", ignoreEarlyEnd);
  // Chromium also ends fades that it never announces with an event, such as one to a page already painted.
  addEventListener("unhandledrejection", function (event) {
    var error = event.reason;
    if (error instanceof DOMException && error.message.startsWith("Transition was ")) event.preventDefault();
  });
})();
