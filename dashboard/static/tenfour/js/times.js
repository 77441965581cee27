/* Convert the server's UTC times to the user's time zone, and run countdowns. */
(function () {
  "use strict";
  var MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  var two = function (n) { return ("0" + n).slice(-2); };

  function clock(at) { return two(at.getHours()) + ":" + two(at.getMinutes()) + ":" + two(at.getSeconds()); }

  function dateTime(at, now) {
    if (at.toDateString() === now.toDateString()) return clock(at);
    var year = at.getFullYear() === now.getFullYear() ? "" : at.getFullYear() + " ";
    return at.getDate() + " " + MONTHS[at.getMonth()] + " " + year + two(at.getHours()) + ":" + two(at.getMinutes());
  }

  function logTime(at, now) {
    if (at.toDateString() !== now.toDateString()) return at.getDate() + " " + MONTHS[at.getMonth()] + " " + clock(at);
    return clock(at) + "." + ("00" + at.getMilliseconds()).slice(-3);
  }
  function hour(iso) {
    var at = new Date(iso);
    return two(at.getHours()) + ":" + two(at.getMinutes());
  }

  /* also called for a fragment before it is swapped in, so that the swap changes no text twice */
  function localize(part) {
    var now = new Date();
    part.querySelectorAll("time[datetime]").forEach(function (el) {
      var at = new Date(el.dateTime);
      if (isNaN(at)) return;
      el.textContent = "log" in el.dataset ? logTime(at, now) : dateTime(at, now);
      el.title = at.toLocaleString();
    });
    /* in charts: the hour under a bar, and the start of its tip */
    part.querySelectorAll("[data-hour]").forEach(function (el) { el.textContent = hour(el.dataset.hour); });
    part.querySelectorAll("[data-from][data-tip]").forEach(function (el) {
      var rest = el.dataset.tip.slice(el.dataset.tip.indexOf("|"));
      el.dataset.tip = hour(el.dataset.from) + " to " + hour(el.dataset.until) + rest;
    });
  }

  /* formats as dashboard/formatting.py does */
  function duration(seconds) {
    if (seconds < 60) return seconds + " s";
    var minutes = Math.floor(seconds / 60), rest = seconds % 60;
    if (minutes < 60) return minutes + " m" + (rest ? " " + two(rest) + " s" : "");
    return Math.floor(minutes / 60) + " h " + two(minutes % 60) + " m";
  }

  function tick() {
    if (document.hidden || window.tenfour.paused) return;
    document.querySelectorAll("[data-countdown]").forEach(function (el) {
      var left = Math.max(0, Number(el.dataset.countdown) - 1);
      el.dataset.countdown = left;
      el.textContent = left || !el.dataset.then ? duration(left) : el.dataset.then;
    });
    /* a ring that empties with its seconds */
    document.querySelectorAll("[data-cool]").forEach(function (el) {
      var left = Math.max(0, Number(el.dataset.cool) - 1);
      el.dataset.cool = left;
      el.querySelector(".cool__left").setAttribute("stroke-dasharray", left + " " + el.dataset.of);
      if (el.querySelector("text")) el.querySelector("text").textContent = left;
    });
  }

  window.tenfour = { localize: localize, clock: clock, duration: duration, paused: false };
  localize(document);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) setInterval(tick, 1000);
})();
