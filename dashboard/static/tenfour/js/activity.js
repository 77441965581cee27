/* Choose a range of time on the chart of Activity: drag over its bars, or use the arrow keys. */
(function () {
  "use strict";
  var from = -1, to = -1;   // the bars of the chosen range
  var drags = false;

  function plotOf(target) { return target.closest && target.closest("[data-range]"); }
  function barAt(plot, x) {
    var box = plot.getBoundingClientRect(), bars = Number(plot.dataset.bars);
    return Math.min(bars - 1, Math.max(0, Math.floor((x - box.left) / box.width * bars)));
  }
  /* the time at which a bar starts */
  function timeAt(plot, bar) { return new Date((Number(plot.dataset.start) + bar * Number(plot.dataset.step)) * 1000); }
  function first() { return Math.min(from, to); }
  function last() { return Math.max(from, to); }
  function clock(at) { return at.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"}); }

  function paint(plot) {
    var mark = plot.querySelector(".loghist__chosen"), bars = Number(plot.dataset.bars);
    var hint = document.getElementById("range-hint");
    mark.hidden = from < 0;
    plot.toggleAttribute("data-in-use", from >= 0);   // live updates wait
    if (from < 0) {
      hint.textContent = hint.dataset.idle;
      return;
    }
    mark.style.insetInlineStart = first() / bars * 100 + "%";
    mark.style.width = (last() - first() + 1) / bars * 100 + "%";
    hint.textContent = clock(timeAt(plot, first())) + " to " + clock(timeAt(plot, last() + 1));
  }
  function clear(plot) {
    from = to = -1;
    drags = false;
    paint(plot);
  }
  function show(plot) {
    var url = new URL(location.href), stamp = function (at) { return at.toISOString().slice(0, 16); };
    var range = ["since:" + stamp(timeAt(plot, first())), "until:" + stamp(timeAt(plot, last() + 1))];
    url.searchParams.set("q", [plot.dataset.rest].concat(range).join(" ").trim());
    ["before", "after"].forEach(function (name) { url.searchParams.delete(name); });
    location.assign(url);
  }

  document.addEventListener("pointerdown", function (event) {
    var plot = plotOf(event.target);
    if (!plot || event.button) return;
    drags = true;
    from = to = barAt(plot, event.clientX);
    plot.setPointerCapture(event.pointerId);
    paint(plot);
  });
  document.addEventListener("pointermove", function (event) {
    var plot = plotOf(event.target);
    if (!drags || !plot) return;
    to = barAt(plot, event.clientX);
    paint(plot);
  });
  document.addEventListener("pointerup", function (event) {
    var plot = plotOf(event.target);
    if (!drags || !plot) return;
    drags = false;
    if (from === to) clear(plot);   // a click is no range
    else show(plot);
  });
  document.addEventListener("pointercancel", function (event) {
    var plot = plotOf(event.target);
    if (drags && plot) clear(plot);
  });

  document.addEventListener("keydown", function (event) {
    var plot = plotOf(event.target);
    if (!plot || event.ctrlKey || event.altKey || event.metaKey) return;
    var bars = Number(plot.dataset.bars), move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (move) {
      to = from < 0 ? bars - 1 : Math.min(bars - 1, Math.max(0, to + move));
      if (from < 0 || !event.shiftKey) from = to;
      paint(plot);
    } else if (event.key === "Enter" && from >= 0) {
      show(plot);
    } else if (event.key === "Escape" && from >= 0) {
      clear(plot);
    } else {
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
})();
