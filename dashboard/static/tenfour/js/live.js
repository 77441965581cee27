/* Keep the page's live part ([data-live]) current by polling it.

   The server answers 204 as long as its key (data-since) stays the same, or with a newer key while the
   content stays the same. Polls run every 2 s after news or input, slow down to one in 15 s while nothing
   happens, and stop while the page is hidden, paused or in use. */
(function () {
  "use strict";
  var FAST = 2000, SLOW = 15000, SLOWING = 2, LOST_AFTER = 5000, BANNER_AFTER = 30000;
  var $ = function (selector) { return document.querySelector(selector); };

  var light = $("#live");
  if (!light || !part()) return;
  var timer = 0;
  var asking = false;
  var signedOut = false;
  var failedSince = 0;
  var failures = 0;
  var currentAt = Date.now();   // when the page showed the current state
  var newsAt = Date.now();      // when something changed or the user did something
  var versions = new Map();
  var paused = false;
  var behind = false;           // a list holds an older order
  try { paused = sessionStorage.getItem("tenfour-paused") === "1"; } catch (e) { /* storage is not available */ }
  window.tenfour.paused = paused;

  function part() { return $("[data-live]"); }

  /* ---- when to poll */

  /* the log stays put while a row is open or updates are paused; new events are only counted */
  function counts() {
    return "held" in part().dataset && (paused || Boolean(part().querySelector("details[open]")));
  }
  /* an open menu, dialog, selection or form: nothing may move while someone uses it */
  function isHeld() {
    var live = part(), chosen = getSelection(), focus = document.activeElement;
    if ($("dialog[open], details.menu[open], [popover]:popover-open, [data-pick]:checked, [data-in-use]")) return true;
    if ($('[role="combobox"][aria-expanded="true"]:not(dialog *)') || isFilledIn(live)) return true;
    if (counts() && !live.dataset.held) return true;   /* an older page gets no new events */
    if (chosen && !chosen.isCollapsed && chosen.rangeCount && chosen.getRangeAt(0).intersectsNode(live)) return true;
    var field = "input:not([type=checkbox], [type=radio]), textarea, select";
    return live.contains(focus) && focus.matches(field) && !focus.closest("[hx-morph-skip]");
  }
  /* text typed or a choice made, but not sent */
  function isFilledIn(live) {
    return Array.from(live.querySelectorAll("input, textarea, select")).some(function (field) {
      if (field.type === "hidden" || field.closest("[hx-morph-skip]")) return false;
      if (field.matches("select")) return Array.from(field.options).some(isRechosen);
      if (/^(checkbox|radio)$/.test(field.type)) return field.checked !== field.defaultChecked;
      return field.value !== field.defaultValue;
    });
  }
  function isRechosen(option, index) {
    var initial = Array.from(option.parentNode.options).some(function (each) { return each.defaultSelected; });
    return option.selected !== (initial || option.closest("select").multiple ? option.defaultSelected : !index);
  }
  function pause() {
    if (failures) return Math.min(SLOW, FAST * Math.pow(2, failures - 1));
    var own = part().dataset, quiet = Date.now() - newsAt;
    if (own.quietAfter) return quiet > own.quietAfter ? own.slow : FAST;   /* waits for one call */
    return Math.min(SLOW, Math.max(FAST, quiet / SLOWING));
  }
  function later() {
    clearTimeout(timer);
    if (!signedOut) timer = setTimeout(ask, pause());
  }
  function ask() {
    clearTimeout(timer);
    if (signedOut || document.hidden || (paused && !counts())) return;
    /* without htmx on the part, the event would be lost and the poll would never end */
    if (asking || isHeld() || !part().hasAttribute("data-htmx-powered")) return later();
    asking = true;
    if ((behind || $("[data-news]:not([hidden])")) && !lists().some(isInUse)) {
      part().dataset.since = "";   /* nothing may have changed since the list held its order */
      behind = false;
    }
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

  /* ---- responses */

  document.addEventListener("htmx:before:response", function (event) {
    var response = event.detail.ctx.response;
    if (response.status === 401 || (response.raw.redirected && response.raw.url.includes("/sign-in/"))) {
      /* the session ended: never swap the sign-in page into this one */
      event.preventDefault();
      signedOut = true;
      paint();
    } else if (response.status < 400) {
      failures = failedSince = 0;
      var newer = response.raw.headers.get("Tenfour-Live-Key");
      if (newer) {
        part().dataset.since = newer;
        window.tenfour.setClock(newer);
      }
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
    /* the page may have come into use since the poll began */
    var ctx = event.detail.ctx;
    if (isPoll(ctx) && (isHeld() || counts() !== Boolean(ctx.isCount))) return event.preventDefault();
    event.detail.tasks.forEach(function (task) {
      window.tenfour.localize(task.fragment);
      lists().forEach(function (list) { hold(list, task.fragment); });
    });
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
  /* the key without its time bucket, which changes although nothing else did */
  function keyOf(live) { return live.dataset.since.split("~")[1]; }

  /* ---- a list in use keeps its order: its rows change in place, and what would move is only counted */

  function lists() { return Array.from(document.querySelectorAll("[data-holds]")); }
  function isInUse(list) {
    var isOver = list.dataset.holds && ($("#query:focus") || list.matches(":hover"));
    return isOver || list.contains(document.activeElement);
  }
  function hold(list, fragment) {
    var next = fragment.querySelector("#" + list.id), least = Infinity, moved = 0;
    if (!next || !next.rows || !isInUse(list)) return;
    var mine = Array.from(list.rows), theirs = Array.from(next.rows);
    var order = mine.map(function (row) { return row.id; });
    theirs.reverse().forEach(function (row) {
      var at = order.indexOf(row.id);
      if (at < 0 || at > least) moved += 1;
      else least = at;
    });
    next.replaceChildren.apply(next, mine.map(function (row) {
      var twin = theirs.find(function (each) { return each.id === row.id; });
      behind = behind || !twin;
      return twin || row.cloneNode(true);
    }));
    if (moved) window.tenfour.tellNews(fragment, moved);
  }
  window.tenfour.tellNews = function (within, count) {
    var button = within.querySelector("[data-news]");
    button.textContent = count + " " + button.dataset.news;
    button.hidden = false;
  };
  document.addEventListener("click", function (event) {
    if (!event.target.closest("[data-news]")) return;
    event.target.blur();
    ask();
  });

  /* ---- the live button and the banners */

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
    try { sessionStorage.setItem("tenfour-paused", paused ? "1" : "0"); } catch (e) { /* storage is not available */ }
    paint();
    ask();
  });
  document.addEventListener("click", function (event) {
    if (event.target.closest("[data-poll-now]")) ask();
  });
  ["pointerdown", "keydown"].forEach(function (kind) {
    document.addEventListener(kind, function () {
      var wasQuiet = pause() > FAST * 2;
      newsAt = Date.now();
      if (wasQuiet) ask();
    });
  });
  document.addEventListener("visibilitychange", ask);
  addEventListener("online", ask);
  document.addEventListener("toggle", function () { if (part() && "held" in part().dataset) ask(); }, true);
  document.addEventListener("ledger-changed", ask);   // a response of an action triggers it
  addEventListener("pageshow", function (event) { if (event.persisted) ask(); });
  setInterval(function () { if (!document.hidden) paint(); }, 1000);
  paint();
  later();
})();
