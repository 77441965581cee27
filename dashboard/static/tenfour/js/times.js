/* Convert the server's UTC times to the user's time zone, and run ages and countdowns. */
(function () {
  "use strict";
  var DAY = 86400, SKEW = 5000, skew = 0;
  var CALM = 10000;   /* less motion: ages and countdowns change less often */
  var MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  /* the zone that the person chose on the profile page, or else the browser's */
  var zone = document.documentElement.dataset.timeZone;
  var two = function (n) { return ("0" + n).slice(-2); };

  /* the same moment with the clock of the chosen zone */
  function local(at) {
    if (!zone) return at;
    return new Date(+new Date(at.toLocaleString("en-US", { timeZone: zone })) + at.getMilliseconds());
  }

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
    var at = local(new Date(iso));
    return two(at.getHours()) + ":" + two(at.getMinutes());
  }

  /* also called for a fragment before it is swapped in, so that the swap changes no text twice */
  function localize(part) {
    var now = local(new Date());
    part.querySelectorAll("time[datetime]").forEach(function (el) {
      var moment = new Date(el.dateTime), at = local(moment);
      if (isNaN(moment)) return;
      if (el.dataset.age) el.textContent = age(el, new Date());
      else el.textContent = "log" in el.dataset ? logTime(at, now) : dateTime(at, now);
      el.title = moment.toLocaleString(undefined, zone ? { timeZone: zone, timeZoneName: "short" } : {});
    });
    /* in charts: the hour under a bar, and the start of its tip */
    part.querySelectorAll("[data-hour]").forEach(function (el) { el.textContent = hour(el.dataset.hour); });
    part.querySelectorAll("[data-from][data-tip]").forEach(function (el) {
      var rest = el.dataset.tip.slice(el.dataset.tip.indexOf("|"));
      el.dataset.tip = hour(el.dataset.from) + " to " + hour(el.dataset.until) + rest;
    });
  }

  /* formats as dashboard/wording/formatting.py does */
  function duration(seconds) {
    if (seconds < 60) return seconds + " s";
    var minutes = Math.floor(seconds / 60), rest = seconds % 60;
    if (minutes < 60) return minutes + " m" + (rest ? " " + two(rest) + " s" : "");
    return Math.floor(minutes / 60) + " h " + two(minutes % 60) + " m";
  }

  function roughDuration(seconds) {
    if (seconds >= DAY) return Math.floor(seconds / DAY) + " d";
    if (seconds >= 3600) return Math.floor(seconds / 3600) + " h";
    return seconds >= 60 ? Math.floor(seconds / 60) + " m" : seconds + " s";
  }

  /* The server's clock decides how old things are; a live key begins with its second. A page out of the
     browser's history is older than its response. */
  function setClock(key) {
    var off = Date.now() - Number(key.split("~")[0]) * 1000;
    skew = Math.abs(off) > SKEW && off < DAY * 1000 && off > -DAY * 1000 ? off : 0;
  }

  /* how long ago a time was */
  function age(el, now) {
    var seconds = Math.max(0, Math.floor((now - skew - new Date(el.dateTime)) / 1000)), style = el.dataset.age;
    if (style === "rough" || (style === "wait" && seconds < 3600)) return roughDuration(seconds);
    return seconds >= DAY ? roughDuration(seconds) : duration(seconds);
  }

  /* the end of a countdown: the tab may be hidden, or asleep, for a while */
  function secondsLeft(el, name) {
    if (el.tenfourEnd === undefined || el.tenfourLeft !== el.dataset[name]) {
      el.tenfourEnd = Date.now() + Number(el.dataset[name]) * 1000;
    }
    el.tenfourLeft = el.dataset[name] = String(Math.max(0, Math.round((el.tenfourEnd - Date.now()) / 1000)));
    return Number(el.tenfourLeft);
  }

  function tick() {
    if (document.hidden || window.tenfour.paused) return;
    var now = new Date();
    document.querySelectorAll("time[data-age]").forEach(function (el) {
      var text = age(el, now);
      if (el.textContent !== text && !isNaN(new Date(el.dateTime))) el.textContent = text;
    });
    document.querySelectorAll("[data-countdown]").forEach(function (el) {
      var left = secondsLeft(el, "countdown");
      el.textContent = left || !el.dataset.then ? duration(left) : el.dataset.then;
    });
    /* a ring that empties with its seconds */
    document.querySelectorAll("[data-cool]").forEach(function (el) {
      var left = secondsLeft(el, "cool");
      el.querySelector(".cool__left").setAttribute("stroke-dasharray", left + " " + el.dataset.of);
      if (el.querySelector("text")) el.querySelector("text").textContent = left;
    });
  }

  var live = document.querySelector("[data-since]"), visit = performance.getEntriesByType("navigation")[0];
  if (live && visit && visit.type !== "back_forward") setClock(live.dataset.since);
  window.tenfour = { setClock: setClock, localize: localize, clock: clock, duration: duration, paused: false };
  localize(document);
  tick();   /* a countdown ends by the time of its response, however seldom it changes */
  document.addEventListener("htmx:after:swap", tick);
  setInterval(tick, matchMedia("(prefers-reduced-motion: reduce)").matches ? CALM : 1000);
  document.addEventListener("visibilitychange", tick);
})();
