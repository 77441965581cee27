/* Keep the page's live part ([data-live]) current by polling it.

   The server answers 204 as long as its key (data-since) stays the same, or with a newer key while the
   content stays the same. Polls run every 2 s after news or input, slow down to one in 15 s while nothing
   happens, and stop while the page is paused. While the page is in use they only count what waits; while its
   tab is hidden they run every 30 s, for the number of open escalations. */
(function () {
  "use strict";
  var FAST = 2000, SLOW = 15000, SLOWING = 2, HIDDEN = 30000, LOST_AFTER = 5000, BANNER_AFTER = 30000;
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
  var held = "";                // why nothing may move
  var waiting = 0;              // changes that wait for it
  var waitingSince = "";        // the live key of the newest of them
  var released = false;         // while a poll ran
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
  function isHeld() { return Boolean(whyHeld()); }
  function whyHeld() {
    var live = part(), chosen = getSelection(), focus = document.activeElement;
    var picked = document.querySelectorAll("[data-pick]:checked").length;
    if (picked) return picked + (picked === 1 ? " row is selected" : " rows are selected");
    if ($("dialog[open]")) return "a dialog is open";
    if ($("details.menu[open], [popover]:popover-open")) return "a menu is open";
    if ($('[role="combobox"][aria-expanded="true"]:not(dialog *)')) return "a menu is open";
    if ($("[data-in-use]")) return "a range is chosen";
    if (isFilledIn(live)) return "a form is filled in";
    if (counts() && !live.dataset.held) return "an older page is open";   /* it gets no new events */
    if (chosen && !chosen.isCollapsed && chosen.rangeCount && chosen.getRangeAt(0).intersectsNode(live)) {
      return "text is selected";
    }
    var field = "input:not([type=checkbox], [type=radio]), textarea, select";
    return live.contains(focus) && focus.matches(field) && !focus.closest("[hx-morph-skip]") ? "a field is in use" : "";
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
    if (document.hidden) return HIDDEN;
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
    if (signedOut || (paused && !counts())) return;
    /* without htmx on the part, the event would be lost and the poll would never end */
    if (asking || !part().hasAttribute("data-htmx-powered")) return later();
    asking = true;
    released = false;
    if (!isHeld() && (behind || $("[data-news]:not([hidden])")) && !lists().some(isInUse)) {
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
    ctx.isPeek = isHeld();
    if (ctx.isPeek) ctx.request.body.set("since", waitingSince || part().dataset.since);
    if (ctx.isPeek || !counts()) return;
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
        if (event.detail.ctx.isPeek && waiting) waitingSince = newer;
        else part().dataset.since = newer;
        window.tenfour.setClock(newer);
      }
      if (!event.detail.ctx.isCount && !(event.detail.ctx.isPeek && waiting)) currentAt = Date.now();
      paint();
    } else if (isPoll(event.detail.ctx)) {
      failed();
    }
  });
  document.addEventListener("htmx:error", failed);
  document.addEventListener("htmx:finally:request", function (event) {
    if (!isPoll(event.detail.ctx)) return;
    asking = false;
    if (released) ask();
    else later();
  });
  function failed() {
    failures += 1;
    failedSince = failedSince || Date.now();
    paint();
  }

  document.addEventListener("htmx:before:swap", function (event) {
    /* the page may have come into use since the poll began */
    var ctx = event.detail.ctx;
    if (isPoll(ctx)) event.detail.tasks.forEach(function (task) { tellOpen(task.fragment); });
    if (isPoll(ctx) && isHeld()) countWaiting(event.detail.tasks);
    if (isPoll(ctx) && (isHeld() || ctx.isPeek || counts() !== Boolean(ctx.isCount))) return event.preventDefault();
    event.detail.tasks.forEach(function (task) {
      window.tenfour.localize(task.fragment);
      lists().forEach(function (list) { hold(list, task.fragment); });
    });
    versions = new Map(rows().map(function (row) { return [row.id, row.dataset.version]; }));
    versions.set("key", keyOf(part()));
  });
  document.addEventListener("htmx:after:swap", function () {
    nameTab();
    if (!part()) return;
    if (keyOf(part()) !== versions.get("key")) newsAt = Date.now();
    rows().forEach(function (row) {
      if (!versions.has(row.id)) row.classList.add("is-new");
      else if (versions.get(row.id) !== row.dataset.version) row.classList.add("is-changed");
    });
  });
  /* a page in use: what the newest response would change */
  function countWaiting(tasks) {
    var fresh = tasks.map(function (task) { return task.fragment.querySelector("[data-live]"); }).find(Boolean);
    if (!fresh || fresh.id !== part().id) return;
    var mine = new Map(Array.from(part().querySelectorAll("[data-row]")).map(function (row) {
      return [row.id, row.dataset.version];
    }));
    var added = 0, changed = 0, before = waiting;
    fresh.querySelectorAll("[data-row]").forEach(function (row) {
      if (!mine.has(row.id)) added += 1;
      else if (mine.get(row.id) !== row.dataset.version) changed += 1;
      mine.delete(row.id);
    });
    /* with the hash of its content, the page knows that something else changed */
    var isOther = Boolean((waitingSince || part().dataset.since).split("~")[2]);
    waiting = changed + Math.max(added, mine.size) || Number(isOther || before > 0);
    waitingSince = fresh.dataset.since;
    if (waiting !== before) newsAt = Date.now();
    paint();
  }
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
    notice();
    var isStill = held && !paused && !isLost;
    light.classList.toggle("live--paused", (paused || isStill) && !isLost);
    light.classList.toggle("live--held", Boolean(isStill));
    light.setAttribute("aria-pressed", String(!paused));
    light.title = (isStill ? "Held while " + held + ". " : "") + (paused ? "Resume" : "Pause") + " live updates (P)";
    light.querySelector("b").textContent =
      signedOut ? "Signed out" : isLost ? "Reconnecting" : paused ? "Paused" : isStill ? "Held" : "Live";
    light.querySelector(".live__why").textContent = isStill ? "while " + held : "";
    light.querySelector(".live__waits").textContent =
      isStill && waiting ? waiting + (waiting === 1 ? " change" : " changes") + " waiting" : "";
    var age = Math.round((Date.now() - currentAt) / 1000);
    light.querySelector(".live__age").textContent =
      signedOut || document.hidden || isStill ? "" : window.tenfour.duration(age) + " ago";
    banner($("#lost"), !signedOut && lostFor > BANNER_AFTER);
    banner($("#signed-out"), signedOut);
  }
  function banner(box, shown) {
    if (box.hidden !== shown) return;
    box.querySelector("[data-as-of]").textContent = window.tenfour.clock(new Date(currentAt));
    box.hidden = !shown;
  }

  /* a released page shows at once what waited */
  function notice() {
    var was = held;
    held = whyHeld() || (counts() ? "an entry is open" : "");
    if (!was || held) return;
    waiting = 0;
    waitingSince = "";
    released = asking;
    if (!asking) setTimeout(ask);
  }
  ["change", "click", "toggle", "close"].forEach(function (kind) {
    document.addEventListener(kind, function () { setTimeout(paint); }, true);
  });

  /* ---- a hidden tab: its title tells how many escalations are open, and a notification that there are more */

  var open = readOpen(document);
  function readOpen(within) {
    var place = within.querySelector('[data-go="e"]'), count = place && place.querySelector(".nav__count");
    return place ? Number(count ? count.firstChild.textContent.replace(/\D/g, "") : 0) : null;
  }
  function tellOpen(fragment) {
    var now = readOpen(fragment);
    if (now === null) return;
    if (document.hidden && now > open) notify(now - open, now);
    open = now;
    setTimeout(nameTab);   /* after htmx has set the title */
  }
  function nameTab() {
    var shown = document.title.replace(/^\(\d+\) /, "");
    document.title = document.hidden && open ? "(" + open + ") " + shown : shown;
  }
  function notify(more, all) {
    try {
      if (localStorage.getItem("tenfour-notify") !== "1" || Notification.permission !== "granted") return;
      var text = more + (more === 1 ? " new escalation" : " new escalations") + ", " + all + " open";
      var told = new Notification("Tenfour", { body: text, tag: "tenfour-escalations" });
      told.onclick = function () { window.focus(); $('[data-go="e"]').click(); };
    } catch (e) { /* not available, or only with a service worker */ }
  }
  document.addEventListener("visibilitychange", nameTab);

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
