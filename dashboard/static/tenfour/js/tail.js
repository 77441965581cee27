/* The output of a running attempt: new lines come about once a second until the attempt is over. While nothing is
   printed, the page asks every 15 s at most, and the answer is empty. The last piece comes again when it has grown.
   Old pieces leave the page, which has a link to the whole output.

   While the switch is on, the newest stays in view. Without it, and after scrolling up, the lines that are being
   read stand still while new ones come. */
(function () {
  "use strict";
  var NEAR = 4;
  var before = null;
  function lines() { return document.querySelector("#output .tail"); }
  function follow() { return document.querySelector("#follow"); }

  /* The box is laid out from its end: 0 is the end, and what is above it has a negative offset. */
  document.addEventListener("scroll", function (event) {
    if (follow() && event.target === lines()) follow().checked = event.target.scrollTop >= -NEAR;
  }, true);
  document.addEventListener("change", function (event) {
    if (event.target === follow() && event.target.checked) lines().scrollTop = 0;
  });
  document.addEventListener("htmx:before:swap", function () {
    var box = lines();
    before = box && { top: box.scrollTop, height: box.scrollHeight };
  });
  document.addEventListener("htmx:after:swap", function () {
    var box = lines();
    if (!box || !before || !follow()) return;
    box.scrollTop = follow().checked ? 0 : before.top - (box.scrollHeight - before.height);
  });

  /* ---- what is new */

  var EVERY = 1500, QUIET = 15000, AWAY = 10000, MOST = 400000;
  var pause = EVERY;
  var next = 0, size = 0, pieces = new Map(), over = "", shown = null;

  function later(pause) { setTimeout(ask, pause); }
  function ask() {
    var box = lines(), url = box && box.dataset.output;
    if (!url || url === over || document.hidden || window.tenfour.paused) return later(EVERY);
    if (shown !== url) { shown = url; next = size = 0; pause = EVERY; pieces.clear(); }
    var headers = { "HX-Request": "true", "Accept": "application/json" };
    fetch(url + "?from=" + next + "&size=" + size, { headers: headers, redirect: "error" })
      .then(function (response) {
        if (response.status === 204) return { data: [], next: next, is_live: true };
        return response.ok ? response.json() : Promise.reject(new Error(response.status));
      })
      .then(function (answer) {
        pause = show(answer.data) ? EVERY : Math.min(4 * pause, QUIET);
        if (answer.data.length) size = answer.data[answer.data.length - 1].size;
        if (!answer.is_live && answer.next === next) over = url;
        var more = answer.next !== next && answer.data.length > 1;
        next = answer.next;
        later(more ? 0 : pause);
      })
      .catch(function () { later(AWAY); });
  }
  function show(data) {
    var box = lines();
    if (!box) return false;
    var isNew = false, pre = box.querySelector("pre"), height = box.scrollHeight, top = box.scrollTop;
    if (pieces.size ? !pre.contains(pieces.values().next().value) : data.length) {
      pre.replaceChildren(...pieces.values());   /* in place of the last lines */
      box.setAttribute("hx-morph-skip", "");
    }
    data.forEach(function (piece) {
      var text = (piece.left_out ? "[… " + piece.left_out + " bytes left out]\n" : "") + piece.text;
      var part = pieces.get(piece.at);
      if (!part) {
        part = document.createElement("bdi");
        pieces.set(piece.at, part);
        pre.append(part);
      }
      if (part.textContent !== text) {
        part.textContent = text;
        isNew = true;
      }
    });
    var total = pre.textContent.length;
    pieces.forEach(function (part, at) {
      if (total <= MOST || pieces.size === 1) return;
      total -= part.textContent.length;
      part.remove();
      pieces.delete(at);
    });
    if (follow()) box.scrollTop = follow().checked ? 0 : top - (box.scrollHeight - height);
    return isNew;
  }
  ask();
})();
