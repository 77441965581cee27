/* The cross-fade between two pages (base.css) ends early when its reader is already off to a third one,
   stops the loading or leaves the tab. The browser calls that an error that nobody caught: here it is.
   Loaded in <head> without defer, because a page may be revealed before deferred scripts run. */
(function () {
  "use strict";
  function letGo(event) {
    var fade = event.viewTransition;
    if (!fade) return;
    [fade.ready, fade.finished, fade.updateCallbackDone].forEach(function (end) { end.catch(function () {}); });
  }
  addEventListener("pageswap", letGo);
  addEventListener("pagereveal", letGo);
})();
