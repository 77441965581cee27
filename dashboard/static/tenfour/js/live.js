/* Keeps the page's live part ([data-live]) current by asking for it again and again.

   The server answers 204 while its key (data-since) stands still. Asks every 2 s, every 10 s after a
   minute without news, not at all while the page is hidden, paused or held by its reader. */
(function () {
  "use strict";
  var FAST = 2000, SLOW = 10000, QUIET_AFTER = 60000, LOST_AFTER = 5000, BANNER_AFTER = 30000;
  var $ = function (selector) { return document.querySelector(selector); };

  var light = $("#live");
  if (!light || !part()) return;
  var timer = 0;
  var asking = false;
  var signedOut = false;
  var failedSince = 0;
  var failures = 0;
  var currentAt = Date.now();   // what the page shows was true then
  var newsAt = Date.now();      // something changed, or its reader did something
  var versions = new Map();
  var paused = false;
  try { paused = sessionStorage.getItem("tenfour-paused") === "1"; } catch (e) { /* not kept */ }
  window.tenfour.paused = paused;

  function part() { return $("[data-live]"); }

  /* ---- when to ask */

  /* a log does not move while one of its rows is open or it is paused: what is new is counted */
  function counts() {
    return "held" in part().dataset && (paused || Boolean(part().querySelector("details[open]")));
  }
  /* a menu, a dialog, a selection or a form: nothing may move under its reader's hands */
  function isHeld() {
    var live = part(), chosen = getSelection(), focus = document.activeElement;
    if ($("dialog[open], details.menu[open], [data-pick]:checked")) return true;
    if (counts() && !live.dataset.held) return true;   /* an older page: nothing comes in there */
    if (chosen && !chosen.isCollapsed && chosen.rangeCount && chosen.getRangeAt(0).intersectsNode(live)) return true;
    return live.contains(focus) && focus.matches("input, textarea, select") && !focus.closest("[hx-morph-skip]");
  }
  function pause() {
    if (failures) return Math.min(SLOW, FAST * Math.pow(2, failures - 1));
    return Date.now() - newsAt > QUIET_AFTER ? SLOW : FAST;
  }
  function later() {
    clearTimeout(timer);
    if (!signedOut) timer = setTimeout(ask, pause());
  }
  function ask() {
    clearTimeout(timer);
    if (signedOut || document.hidden || (paused && !counts())) return;
    /* before htmx has seen the part nobody would hear the event, nor its end */
    if (asking || isHeld() || !part().hasAttribute("data-htmx-powered")) return later();
    asking = true;
    htmx.trigger(part(), "tenfour:poll");
  }
  function isPoll(ctx) { return ctx && ctx.sourceEvent && ctx.sourceEvent.type === "tenfour:poll"; }

  document.addEventListener("htmx:config:request", function (event) {
    var ctx = event.detail.ctx;
    if (!isPoll(ctx)) return;
    ctx.request.body.set("since", ctx.sourceElement.dataset.since);
    if (!counts()) return;
    ctx.isCount = true;
    ctx.request.body.set("held", part().dataset.held);
    ctx.request.body.set("since", $("#fresh").dataset.since || part().dataset.since);
  });

  /* ---- what came back */

  document.addEventListener("htmx:before:response", function (event) {
    var response = event.detail.ctx.response;
    if (response.status === 401 || (response.raw.redirected && response.raw.url.includes("/sign-in/"))) {
      /* a session that ended: never swap the sign-in page into this one */
      event.preventDefault();
      signedOut = true;
      paint();
    } else if (response.status < 400) {
      failures = failedSince = 0;
      if (!event.detail.ctx.isCount) currentAt = Date.now();
      paint();
    } else if (isPoll(event.detail.ctx)) {
      failed();
    }
  });
  document.addEventListener("htmx:error", failed);
  document.addEventListener("htmx:finally:request", function (event) {
    if (!isPoll(event.detail.ctx)) return;
    asking = false;
    later();
  });
  function failed() {
    failures += 1;
    failedSince = failedSince || Date.now();
    paint();
  }

  document.addEventListener("htmx:before:swap", function (event) {
    /* it was free to move when the question was asked: is it still? */
    var ctx = event.detail.ctx;
    if (isPoll(ctx) && (isHeld() || counts() !== Boolean(ctx.isCount))) return event.preventDefault();
    event.detail.tasks.forEach(function (task) { window.tenfour.localise(task.fragment); });
    versions = new Map(rows().map(function (row) { return [row.id, row.dataset.version]; }));
    versions.set("key", keyOf(part()));
  });
  document.addEventListener("htmx:after:swap", function () {
    if (!part()) return;
    if (keyOf(part()) !== versions.get("key")) newsAt = Date.now();
    rows().forEach(function (row) {
      if (!versions.has(row.id)) row.classList.add("is-new");
      else if (versions.get(row.id) !== row.dataset.version) row.classList.add("is-changed");
    });
  });
  function rows() { return Array.from(document.querySelectorAll("[data-row]")); }
  /* without its bucket of time, in which nothing but the clock has moved */
  function keyOf(live) { return live.dataset.since.split("~")[1]; }

  /* ---- the light and the banners */

  function paint() {
    var lostFor = failedSince ? Date.now() - failedSince : 0;
    var isLost = signedOut || lostFor > LOST_AFTER;
    light.classList.toggle("live--lost", isLost);
    light.classList.toggle("live--paused", paused && !isLost);
    light.setAttribute("aria-pressed", String(!paused));
    light.title = paused ? "Resume live updates (P)" : "Pause live updates (P)";
    light.querySelector("b").textContent =
      signedOut ? "Signed out" : isLost ? "Reconnecting" : paused ? "Paused" : "Live";
    var age = Math.round((Date.now() - currentAt) / 1000);
    light.querySelector(".live__age").textContent =
      signedOut || document.hidden ? "" : window.tenfour.duration(age) + " ago";
    banner($("#lost"), !signedOut && lostFor > BANNER_AFTER);
    banner($("#signed-out"), signedOut);
  }
  function banner(box, shown) {
    if (box.hidden !== shown) return;
    box.querySelector("[data-as-of]").textContent = window.tenfour.clock(new Date(currentAt));
    box.hidden = !shown;
  }

  light.addEventListener("click", function () {
    paused = window.tenfour.paused = !paused;
    try { sessionStorage.setItem("tenfour-paused", paused ? "1" : "0"); } catch (e) { /* not kept */ }
    paint();
    ask();
  });
  document.addEventListener("click", function (event) {
    if (event.target.closest("[data-poll-now]")) ask();
  });
  ["pointerdown", "keydown"].forEach(function (kind) {
    document.addEventListener(kind, function () {
      var wasQuiet = Date.now() - newsAt > QUIET_AFTER;
      newsAt = Date.now();
      if (wasQuiet) ask();
    });
  });
  document.addEventListener("visibilitychange", ask);
  document.addEventListener("toggle", function () { if (part() && "held" in part().dataset) ask(); }, true);
  document.addEventListener("ledger-changed", ask);   // an action says so in its answer
  addEventListener("pageshow", function (event) { if (event.persisted) ask(); });
  setInterval(function () { if (!document.hidden) paint(); }, 1000);
  paint();
  later();
})();
