/* The list of the inbox: keys over groups and lines, and a list that stays put while it is in use. */
(function () {
  "use strict";
  var $ = function (selector) { return document.querySelector(selector); };

  function list() { return $("#escalation-list"); }
  function isOff() {
    try { return localStorage.getItem("tenfour-keys") === "off"; } catch (e) { return false; }
  }

  /* ---- J and K go over the headings of groups and the lines of open ones */

  function stops() {
    if (!list()) return [];
    return Array.from(list().querySelectorAll("summary, .eline")).filter(function (each) {
      var group = each.closest("details");
      return each.matches("summary") || !group || group.open;
    });
  }
  function at(all) {
    var focused = all.indexOf(document.activeElement);
    if (focused >= 0) return focused;
    return all.findIndex(function (each) { return each.getAttribute("aria-current") === "true"; });
  }
  function move(by) {
    var all = stops(), start = at(all), here = start, next = all[here + by];
    /* the heading of an open group is passed over: its lines follow */
    while (next && next.matches("summary") && next.parentNode.open) next = all[(here += by) + by];
    /* the list goes on where this page ends, and a shown line may be on none of its lines */
    var isShown = start < 0 || all[start].getAttribute("aria-current") === "true";
    var beyond = (start < 0 || !next) && isShown && $(by > 0 ? "[data-after]" : "[data-before]");
    if (beyond) return beyond.click();
    if (!next) return;
    next.scrollIntoView({ block: "nearest" });
    if (next.matches("summary") || $("[data-pick]:checked")) focus(next);
    else next.click();
  }
  /* opening another line would lose the ticks: J and K only move the cursor while there are some */
  function focus(next) {
    next.focus({ preventScroll: true });
    if (!next.matches(".eline")) return;
    document.querySelectorAll("[data-cursor]").forEach(function (row) { row.removeAttribute("data-cursor"); });
    next.closest("[data-row]").setAttribute("data-cursor", "");
  }
  function groupHere() {
    var focused = document.activeElement && document.activeElement.closest("[data-group]");
    var current = $('.eline[aria-current="true"]');
    return focused || (current && current.closest("[data-group]"));
  }

  /* ---- keys on the ticked rows, and a word about a key that does nothing */

  var VERBS = { b: "answer", h: "snooze", m: "assign", s: "skip" };
  var IDLE = { f: "No message to write", r: "Nothing to retry", s: "Nothing to skip", a: "Nothing to abort",
    h: "Nothing to snooze", m: "Nothing to assign", o: "Nothing to open", y: "Nothing to allow" };
  var before = "";
  function tell(text) {
    var box = document.createElement("div"), line = document.createElement("b");
    box.className = "toast";
    box.dataset.idle = "";
    line.textContent = text;
    box.append(line);
    document.querySelectorAll("#toasts [data-idle]").forEach(function (each) { each.remove(); });
    $("#toasts").append(box);   // beside a toast that offers to undo
    setTimeout(function () { box.remove(); }, 6000);
  }
  /* Y and N choose the answer of the form that opens for the ticked rows, or for a group of calls */
  var CHOICES = { y: "allow", n: "deny" };
  function decide(button, choice) {
    var form = button.form, box = form.querySelector("[name=action]");
    if (!box) {
      box = document.createElement("input");
      box.type = "hidden";
      box.name = "action";
      form.append(box);
    }
    box.value = choice;
    button.click();
  }
  function callsHere(heading) {
    return heading && heading.closest("[data-group]").querySelector("[data-calls] [data-group-key]");
  }
  function answerGroup(group) {
    var all = group && group.querySelector("[data-group-key]");
    if (all) return all.click();
    tell(!stops().length ? "No escalation here to answer."
      : !$("#bulk-form") ? "Your role can read these, not answer them."
      : group && group.dataset.whyNot || "No group here: select rows with X, then press B.");
  }
  function isIdle(key) { return Object.hasOwn(IDLE, key) && !$('[data-key="' + key + '"]'); }

  document.addEventListener("keydown", function (event) {
    var typing = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || isOff() || !list()) return;
    if ($("dialog:modal, details.menu[open]")) return;
    var heading = event.target.closest(".egroup summary"), group = groupHere();
    var after = before, some = $("[data-pick]:checked, [data-pick-matching]:checked");
    before = event.key;
    if (after === "g") return;
    var ofCalls = Object.hasOwn(CHOICES, event.key) && (some ? $('#bulk-form [formaction*="escalation.answer/"]')
      : callsHere(heading));
    if (ofCalls) {
      event.stopImmediatePropagation();
      decide(ofCalls, CHOICES[event.key]);
    } else if (some && Object.hasOwn(VERBS, event.key)) {
      event.stopImmediatePropagation();
      $('#bulk-form [formaction*="escalation.' + VERBS[event.key] + '/"]').click();
    } else if (event.key === "ArrowRight" && heading) heading.parentNode.open = true;
    else if (event.key === "ArrowLeft" && group && group.contains(document.activeElement)) {
      group.querySelector("details").open = false;
      group.querySelector("summary").focus();
    } else if (event.key === "b") {
      event.stopImmediatePropagation();
      answerGroup(group);
    } else if (isIdle(event.key)) {
      tell(IDLE[event.key] + " here" + ($("#bulk-form") ? "." : " with your role."));
    } else if (event.key === "x" && heading) {
      event.stopImmediatePropagation();
      tell("Open the group with → and select its rows, or press B to answer all of them.");
    } else if ((event.key === "j" || event.key === "k") && stops().length && !$('[data-key="j"], [data-key="k"]')) {
      event.stopImmediatePropagation();
      move(event.key === "j" ? 1 : -1);
    } else return;
    event.preventDefault();
  }, true);

  /* ---- a poll never closes a group, and never moves lines under the focus */

  function ids(within) {
    return Array.from(within.querySelectorAll("li[data-row]")).map(function (row) { return row.id; });
  }
  /* a fragment may be an element, which has no getElementById */
  function find(task, id) { return task.fragment.querySelector("#" + CSS.escape(id)); }
  /* a swap ignores `open`, also of a group that it inserts around lines that were there */
  var opening = [];
  document.addEventListener("htmx:after:swap", function () {
    opening.splice(0).forEach(function (id) {
      var box = document.querySelector("#" + CSS.escape(id) + " details");
      if (box) box.open = true;
    });
  });
  document.addEventListener("htmx:before:swap", function (event) {
    if (!list()) return;
    event.detail.tasks.forEach(function (task) {
      task.fragment.querySelectorAll("[data-group]").forEach(function (group) {
        var isNew = !document.getElementById(group.id);
        if (isNew && group.querySelector("details").open) opening.push(group.id);
      });
      list().querySelectorAll("[data-group]").forEach(function (group) {
        var next = find(task, group.id);
        if (next) next.querySelector("details").open = group.querySelector("details").open;
      });
      var folded = $("#preview"), preview = find(task, "preview");
      if (folded && preview && folded.open) preview.open = true;
      var held = list().contains(document.activeElement), known = ids(list());
      list().toggleAttribute("hx-morph-skip", held);
      if (!held || !find(task, "escalation-list")) return;
      var more = ids(task.fragment).filter(function (id) { return !known.includes(id); }).length;
      if (more && $("[data-news]")) window.tenfour.tellNews(list(), more);
    });
  });

  /* ---- the times of the snooze menu are those of the reader's clock */

  function zones() {
    document.querySelectorAll("[data-zone]").forEach(function (field) {
      field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
    });
  }
  document.addEventListener("toggle", function (event) {
    if (!event.target.matches("#snooze-menu") || !event.target.open) return;
    zones();
    var now = new Date();
    event.target.querySelectorAll("[data-snooze]").forEach(function (button) {
      var at = new Date(now), name = button.dataset.snooze;
      if (name === "hour") return;
      at.setHours(name === "evening" ? 18 : 9, 0, 0, 0);
      if (name === "tomorrow") at.setDate(at.getDate() + 1);
      if (name === "week") at.setDate(at.getDate() + (7 - ((at.getDay() + 6) % 7)));
      button.hidden = at <= now;
      button.value = at.toISOString();
      var time = button.querySelector("time");
      time.dateTime = at.toISOString();
      window.tenfour.localize(button);
    });
    var first = event.target.querySelector(".menu__it:not([hidden])");
    if (first) first.focus();
  }, true);
  var current = $('.eline[aria-current="true"]');
  if (current) current.scrollIntoView({ block: "nearest" });
  /* where there is room for the first one beside the list, it is seen as if its page were open */
  var beside = $(".inbox--list #escalation");
  if (current && beside && beside.checkVisibility() && !document.hidden) {
    fetch(current.href, { method: "HEAD" }).catch(function () { /* the next page may be on its way */ });
  }
})();
