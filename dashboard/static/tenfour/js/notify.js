/* Switch the notifications of this browser on or off; only a click asks for permission. See live.js. */
(function () {
  "use strict";
  var KEY = "tenfour-notify";
  var button = document.querySelector("[data-notify]"), state = document.querySelector("[data-notify-state]");

  function isOn() {
    try {
      return localStorage.getItem(KEY) === "1" && Notification.permission === "granted";
    } catch (e) { return false; }   /* not available */
  }
  function paint() {
    var can = "Notification" in window, isDenied = can && Notification.permission === "denied";
    button.disabled = !can || isDenied;
    button.textContent = isOn() ? "Stop notifications in this browser" : "Notify me in this browser";
    state.textContent = !can ? "This browser has no notifications on this address; they need HTTPS."
      : isDenied ? "This browser refuses them. Allow notifications of this address in its settings, then reload."
      : isOn() ? "On." : "Off.";
  }
  button.addEventListener("click", function () {
    if (isOn()) {
      localStorage.removeItem(KEY);
      return paint();
    }
    Notification.requestPermission().then(function (answer) {
      try { if (answer === "granted") localStorage.setItem(KEY, "1"); } catch (e) { /* storage is not available */ }
      paint();
    });
  });
  paint();
})();
