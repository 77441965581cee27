/* The page of a session: the next error, links to folded messages, and news below the reader. */
(function () {
  "use strict";
  var NEAR_END = 120;
  var main = document.getElementById("main");
  var atEnd = false;
  var count = 0;

  function opened(element) {
    for (var box = element; box; box = box.parentElement) {
      if (box.matches("details")) box.open = true;
    }
    return element;
  }
  function show(element) {
    opened(element).scrollIntoView({ block: "center" });
    var focusable = element.querySelector("summary, a");
    if (focusable) focusable.focus({ preventScroll: true });
  }

  /* ---- the next error below the last one shown, round and round */
  var lastError = "";
  function nextError() {
    var errors = Array.from(document.querySelectorAll("#conversation [data-error]"));
    if (!errors.length) return;
    var at = errors.findIndex(function (error) { return error.id === lastError; });
    var next = errors[(at + 1) % errors.length];
    lastError = next.id;
    var call = next.querySelector("details.call");
    if (call) call.open = true;
    show(next);
  }
  document.addEventListener("click", function (event) {
    if (event.target.closest("[data-next-error]")) nextError();
    var link = event.target.closest("[data-message]");
    var target = link && document.getElementById("m-" + link.dataset.message);
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
    /* the message is on this page already: no need to load another one */
    event.preventDefault();
    history.replaceState(null, "", "#" + target.id);
    location.hash = target.id;
    show(target);
  });

  function showHash() {
    var target = /^#m-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (target) show(target);
  }

  /* ---- a poll: what is open stays open, and the page does not scroll away from the reader */
  function remember(fragment) {
    document.querySelectorAll("#session details[id]").forEach(function (box) {
      var twin = fragment.getElementById(box.id);
      if (!twin) return;
      twin.open = box.open;
      var out = box.querySelector("[data-fetched]"), empty = out && twin.querySelector("#" + out.id);
      if (empty) empty.replaceWith(out.cloneNode(true));
    });
  }
  document.addEventListener("htmx:before:swap", function (event) {
    if (!document.getElementById("session")) return;
    var ctx = event.detail.ctx;
    if (ctx && ctx.sourceElement && ctx.sourceElement.matches("details.call")) {
      ctx.sourceElement.querySelector(".call__out").setAttribute("data-fetched", "");
      return;
    }
    atEnd = main.scrollHeight - main.scrollTop - main.clientHeight < NEAR_END;
    count = document.querySelectorAll("#conversation > .turn").length;
    event.detail.tasks.forEach(function (task) { if (task.fragment) remember(task.fragment); });
  });
  document.addEventListener("htmx:after:swap", function () {
    var news = document.getElementById("news");
    var more = document.querySelectorAll("#conversation > .turn").length - count;
    if (!news || more <= 0 || !count) return;
    if (atEnd) return main.scrollTo({ top: main.scrollHeight });
    news.hidden = false;
    news.textContent = more + " new";
  });
  document.addEventListener("click", function (event) {
    if (event.target.id !== "news") return;
    event.target.hidden = true;
    main.scrollTo({ top: main.scrollHeight });
  });

  /* ---- a flush waits for the lock: the button counts the seconds */
  document.addEventListener("submit", function (event) {
    var label = event.target.matches("[data-flush]") && event.target.querySelector("[data-flush-label]");
    if (!label) return;
    if (event.target.dataset.sent) return event.preventDefault();
    event.target.dataset.sent = "yes";
    var seconds = 0;
    label.textContent = "Flushing";
    setInterval(function () { label.textContent = "Flushing " + (seconds += 1) + " s"; }, 1000);
  });

  addEventListener("hashchange", showHash);
  showHash();
})();
