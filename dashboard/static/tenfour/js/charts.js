/* The tip over a bar, by pointer or arrow keys. Listens on the document, so swaps cost nothing. */
(function () {
  "use strict";
  var tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);

  /* "title|name number|name number" */
  function fill(text) {
    var lines = text.split("|");
    var title = document.createElement("b");
    title.textContent = lines[0];
    tip.replaceChildren(title);
    lines.slice(1).forEach(function (line) {
      var cut = line.lastIndexOf(" ");
      var row = document.createElement("span"), number = document.createElement("i");
      row.textContent = line.slice(0, cut);
      number.textContent = line.slice(cut + 1);
      row.append(number);
      tip.append(row);
    });
  }

  function show(bar) {
    fill(bar.dataset.tip);
    tip.hidden = false;
    var box = bar.getBoundingClientRect();
    var left = box.left + box.width / 2 - tip.offsetWidth / 2;
    tip.style.left = Math.min(innerWidth - tip.offsetWidth - 8, Math.max(8, left)) + "px";
    tip.style.top = Math.max(8, box.top - tip.offsetHeight - 6) + "px";
  }

  function over(event) {
    var bar = event.target.closest && event.target.closest("[data-tip]");
    if (bar) show(bar);
    else tip.hidden = true;
  }

  document.addEventListener("pointerover", over);
  document.addEventListener("focusin", over);
  document.addEventListener("focusout", function () { tip.hidden = true; });
  document.addEventListener("keydown", function (event) {
    var bar = event.target.closest("[data-chart] [data-tip]");
    if (!bar || (event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
    var bars = Array.from(bar.closest("[data-chart]").querySelectorAll("[data-tip]"));
    var next = bars[bars.indexOf(bar) + (event.key === "ArrowLeft" ? -1 : 1)];
    if (!next) return;
    event.preventDefault();
    bar.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
})();
