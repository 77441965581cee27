/* The inbox: typed text is never lost, Ctrl+Enter sends it, and a live update keeps it. */
(function () {
  "use strict";
  var $ = function (selector) { return document.querySelector(selector); };
  var KEY = "tenfour-draft-";

  function panel() { return $(".answer"); }
  function field() { return $("[data-draft]"); }

  /* ---- drafts: stored for this tab until they are sent */

  function keep(id, words) {
    try {
      if (words.trim()) sessionStorage.setItem(KEY + id, words);
      else sessionStorage.removeItem(KEY + id);
    } catch (e) { /* storage is not available */ }
  }
  function recall() {
    var box = field(), words = null;
    if (!box || isTyped(box)) return;
    try { words = sessionStorage.getItem(KEY + box.dataset.draft); } catch (e) { /* storage is not available */ }
    if (!words) return;
    box.value = words;
    typed(box);   // the preview follows
  }
  function typed(box) { box.dispatchEvent(new Event("input", { bubbles: true })); }
  document.addEventListener("input", function (event) {
    if (event.target.matches("[data-draft]")) keep(event.target.dataset.draft, event.target.value);
  });
  document.addEventListener("click", function (event) {
    var source = event.target.closest("[data-words], [data-suggest], [data-clear]"), box = field();
    if (!source || !box) return;
    var more = source.dataset.suggest, before = box.value.trim();
    box.value = more ? (before ? before + "\n" : "") + more : source.dataset.words || "";
    typed(box);
    box.focus();
  });

  /* ---- sending */

  document.addEventListener("keydown", function (event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    var box = event.target.closest("[data-draft]");
    if (!box) return;
    event.preventDefault();
    if (!$("#send-fix").disabled) box.form.requestSubmit($("#send-fix"));
  });

  function isPreview(ctx) { return ctx.sourceElement.matches("[data-draft]"); }
  function isAnswer(ctx) { return isPost(ctx) && !isPreview(ctx) && ctx.sourceElement.closest(".answer"); }

  /* what never came back, or came back as a page of its own */
  function unsent(words) {
    var box = $("[data-unsent]"), open = $("dialog[open]");
    if (open) open.close();
    if (!box) return;
    box.querySelector("span").textContent = words;
    box.hidden = false;
  }
  document.addEventListener("htmx:error", function (event) {
    if (isAnswer(event.detail.ctx)) unsent("Nothing came back. Send it again: it never counts twice.");
  });
  document.addEventListener("htmx:response:error", function (event) {
    var ctx = event.detail.ctx, status = ctx.response.status;
    if (!isAnswer(ctx) || [404, 409, 412, 422].includes(status)) return;
    unsent(
      status === 403
        ? "Your session has changed since this page was loaded. Reload the page: your text is kept."
        : "Nothing was changed: the server responded with " + status + ". Send it again."
    );
  });

  document.addEventListener("focusin", function (event) {
    if (event.target.matches("[data-draft]")) panel().setAttribute("hx-morph-skip", "");
  });
  document.addEventListener("htmx:before:swap", function (event) {
    /* a live update also replaces the panel, unless it holds text that is being typed or was not sent */
    var box = panel();
    if (!box || isAnswer(event.detail.ctx)) return;
    var text = field();
    var isTouched = box.hasAttribute("data-keep") || (text && (isTyped(text) || text === document.activeElement));
    box.toggleAttribute("hx-morph-skip", Boolean(isTouched));
    var preview = $("#preview");   // it follows the text that is typed
    if (preview) preview.toggleAttribute("hx-morph-skip", Boolean(text && isTyped(text)));
  });
  /* someone else answered while this form holds text: the text stays, and nothing sends it */
  function stop() {
    var off = Boolean($("#answered-meanwhile"));
    document.querySelectorAll(".answer button[name=action]").forEach(function (each) { each.disabled = off; });
  }
  /* a fix that was filled in and left as it was is nothing that was typed */
  function isTyped(text) {
    var filled = text.form.elements.filled;
    return text.value !== (filled ? filled.value : "");
  }
  document.addEventListener("htmx:after:swap", function (event) {
    var ctx = event.detail.ctx;
    showTab();
    runOut();
    if (!isPost(ctx)) {
      stop();
      return recall();
    }
    if (isPreview(ctx)) return;
    var box = panel();
    if (box && !field()) keep(box.id.replace("answer-", ""), "");
    attend();
  });
  /* words that came with an answer, or were there when news came: the preview follows them */
  document.addEventListener("htmx:finally:request", function (event) {
    var box = field(), preview = $("#preview"), ctx = event.detail.ctx;
    if (box && preview && box.value.trim() && !("typed" in preview.dataset) && !isPreview(ctx)) typed(box);
  });
  function attend() {
    var target = $("[data-focus]");
    if (target) target.focus({ preventScroll: true });
  }
  function isPost(ctx) { return ctx && ctx.request && ctx.request.method === "POST"; }

  /* ---- an undo runs out: its bar drains, then it is gone and the panel is like any other */

  function runOut() {
    var box = $("[data-undo]:not([data-running])");
    if (!box) return;
    var left = Number(box.dataset.undo) * 1000;
    box.setAttribute("data-running", "");
    box.querySelector(".toast__bar").style.animationDuration = left + "ms";
    setTimeout(function () {
      var kept = box.closest("[data-keep]");
      box.remove();
      if (kept && !kept.querySelector("#unsent")) kept.removeAttribute("data-keep");
    }, left);
  }

  /* ---- which two errors are compared */

  var chosen = "";
  function showTab() {
    if (!chosen || !$('[data-tab="' + chosen + '"]')) return;
    document.querySelectorAll("[data-tab]").forEach(function (tab) {
      var isIt = tab.dataset.tab === chosen;
      tab.setAttribute("aria-selected", String(isIt));
      tab.tabIndex = isIt ? 0 : -1;
    });
    document.querySelectorAll("[data-panel]").forEach(function (part) { part.hidden = part.dataset.panel !== chosen; });
  }
  document.addEventListener("click", function (event) {
    var tab = event.target.closest("[data-tab]");
    if (!tab) return;
    chosen = tab.dataset.tab;
    showTab();
  });
  document.addEventListener("keydown", function (event) {
    var tab = event.target.closest("[data-tab]");
    var by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!tab || !by) return;
    var all = Array.from(document.querySelectorAll("[data-tab]"));
    var next = all[(all.indexOf(tab) + by + all.length) % all.length];
    next.click();
    next.focus();
  });

  /* ---- the list */

  function show() {
    var current = $(".eitem[aria-current]");
    if (current) current.scrollIntoView({ block: "nearest", inline: "center" });
  }

  recall();
  runOut();
  attend();   // an answer that came as a page: it was sent before htmx was there
  show();
})();
