/* The page that connects an agent: the chosen way, copying its lines, and a lost server. */
(function () {
  "use strict";
  var LOST_AFTER = 5000, SHOWN_FOR = 5000;
  var $ = function (selector) { return document.querySelector(selector); };
  var lostSince = 0;

  function way() { return $(".waytabs input:checked").value; }

  /* the chosen way stays in the address, which never has the token */
  document.addEventListener("change", function (event) {
    if (!event.target.matches(".waytabs input")) return;
    var url = new URL(location.href);
    url.searchParams.set("way", way());
    history.replaceState(history.state, "", url);
    var field = $("#connect-form [name=way]");
    if (field) field.value = way();
  });
  document.addEventListener("htmx:config:request", function (event) {
    if (event.detail.ctx.sourceElement.id === "connection") event.detail.ctx.request.body.set("way", way());
  });

  document.addEventListener("click", function (event) {
    if (event.target.closest("[data-copy-lines]")) return $(".way--" + way() + " [data-copy]").click();
    var copier = event.target.closest("#connect [data-copy]");
    if (copier) toast($(copier.dataset.copy).textContent.indexOf("tenfour_agt_") >= 0);
  });
  function toast(isSecret) {
    var box = document.createElement("div"), text = document.createElement("b");
    box.className = "toast toast--ok";
    text.textContent = isSecret ? "Copied. The token is in your clipboard." : "Copied.";
    box.append(text);
    $("#toasts").append(box);
    setTimeout(function () { box.remove(); }, SHOWN_FOR);
  }

  /* the light speaks for a server that is away, beside what it said last */
  function paint() {
    var isLost = Boolean(lostSince) && Date.now() - lostSince > LOST_AFTER;
    var box = $("#light-lost");
    if (box && box.hidden === isLost) box.hidden = !isLost;
  }
  document.addEventListener("htmx:error", function () { lostSince = lostSince || Date.now(); });
  document.addEventListener("htmx:before:response", function (event) {
    if (event.detail.ctx.response.status < 500) lostSince = 0;
    else lostSince = lostSince || Date.now();
  });
  setInterval(paint, 1000);
})();
