/* The inbox: what is typed is never lost, Ctrl Enter sends it, and a live update leaves it alone. */
(function () {
  "use strict";
  var $ = function (selector) { return document.querySelector(selector); };
  var KEY = "heed-draft-";

  function panel() { return $(".answer"); }
  function field() { return $("[data-draft]"); }

  /* ---- drafts: kept for this tab until they are sent */

  function keep(id, words) {
    try {
      if (words.trim()) sessionStorage.setItem(KEY + id, words);
      else sessionStorage.removeItem(KEY + id);
    } catch (e) { /* not kept */ }
  }
  function recall() {
    var box = field(), words = null;
    if (!box || box.value) return;
    try { words = sessionStorage.getItem(KEY + box.dataset.draft); } catch (e) { /* not kept */ }
    if (words) box.value = words;
  }
  document.addEventListener("input", function (event) {
    if (event.target.matches("[data-draft]")) keep(event.target.dataset.draft, event.target.value);
  });
  document.addEventListener("click", function (event) {
    var source = event.target.closest("[data-words]"), box = field();
    if (!source || !box) return;
    box.value = source.dataset.words;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    box.focus();
  });

  /* ---- sending */

  document.addEventListener("keydown", function (event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    var box = event.target.closest("[data-draft]");
    if (!box) return;
    event.preventDefault();
    box.form.requestSubmit($("#send-fix"));
  });

  function isAnswer(ctx) { return ctx && ctx.request && ctx.request.method === "POST" && ctx.sourceElement.closest(".answer"); }

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
    unsent(status === 403 ? "This page is older than your login. Load it again: your words are kept." : "Nothing was done: the server answered " + status + ". Send it again.");
  });

  document.addEventListener("focusin", function (event) {
    if (event.target.matches("[data-draft]")) panel().setAttribute("hx-morph-skip", "");
  });
  document.addEventListener("htmx:before:swap", function (event) {
    /* a live update takes the panel's place too, unless somebody writes there or has lost words */
    var box = panel();
    if (!box || isAnswer(event.detail.ctx)) return;
    var text = field();
    var isTouched = box.hasAttribute("data-keep") || (text && (text.value || text === document.activeElement));
    box.toggleAttribute("hx-morph-skip", Boolean(isTouched));
  });
  document.addEventListener("htmx:after:swap", function (event) {
    if (!isPost(event.detail.ctx)) return recall();
    var box = panel();
    if (box && !field()) keep(box.id.replace("answer-", ""), "");
    attend();
  });
  function attend() {
    var target = $("[data-focus]");
    if (target) target.focus({ preventScroll: true });
  }
  function isPost(ctx) { return ctx && ctx.request && ctx.request.method === "POST"; }

  /* ---- the list */

  function show() {
    var current = $(".eitem[aria-current]");
    if (current) current.scrollIntoView({ block: "nearest", inline: "center" });
  }

  recall();
  attend();   // an answer that came as a page: it was sent before htmx was there
  show();
})();
