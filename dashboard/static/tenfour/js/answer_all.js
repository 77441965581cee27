/* One answer for a group: counts follow the ticks, Ctrl Enter reviews and sends, Escape goes back. */
(function () {
  "use strict";
  var form = document.getElementById("answer-all-form");
  if (!form) return;
  var boxes = Array.from(form.querySelectorAll("[data-leave]"));

  function paint() {
    var picked = boxes.filter(function (box) { return box.checked; }).length;
    form.querySelectorAll("[data-count]").forEach(function (each) {
      var noun = each.dataset.count && " " + each.dataset.count + (picked === 1 ? "" : "s");
      each.textContent = picked.toLocaleString("en") + noun;
    });
    form.querySelector("[data-picked]").textContent =
      picked.toLocaleString("en") + " of " + boxes.length.toLocaleString("en") + " selected";
  }
  /* the tick of an error ticks those that have it, and follows them */
  var variants = Array.from(form.querySelectorAll("[data-variant]"));
  function withError(variant) {
    return boxes.filter(function (box) { return box.dataset.signature === variant.value; });
  }
  function follow() {
    variants.forEach(function (each) {
      each.checked = withError(each).some(function (box) { return box.checked; });
    });
    paint();
  }
  form.addEventListener("change", function (event) {
    var variant = event.target.closest("[data-variant]");
    if (variant) withError(variant).forEach(function (box) { box.checked = variant.checked; });
    follow();
  });
  form.addEventListener("click", function (event) {
    var source = event.target.closest("[data-clear], [data-suggest]"), text = document.getElementById("fix");
    if (!source) return;
    var more = source.dataset.suggest, before = text.value.trim();
    text.value = more ? (before ? before + "\n" : "") + more : "";
    text.focus();
  });

  /* the review is modal: Escape and "Keep editing" go back to the form, which is still there */
  var review = document.getElementById("review-dialog");
  if (review) {
    review.close();
    review.showModal();
    review.querySelector("[data-edit]").addEventListener("click", function (event) {
      event.preventDefault();
      review.close();
    });
  }
  document.addEventListener("keydown", function (event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      return form.requestSubmit(document.getElementById(review && review.open ? "send-all" : "review"));
    }
    if (document.querySelector("dialog:modal, details.menu[open]")) return;
    var typing = event.target.matches("input:not([type=checkbox], [type=radio]), textarea, select");
    if (event.key === "Escape" && !typing) return location.assign(form.dataset.inbox);
    var off = false;
    try { off = localStorage.getItem("tenfour-keys") === "off"; } catch (e) { /* not kept */ }
    if (typing || off || event.ctrlKey || event.metaKey || event.altKey || event.key.toLowerCase() !== "x") return;
    var box = document.querySelector("[data-row][data-cursor] [data-leave]");
    if (!box) return;
    box.checked = !box.checked;
    follow();
  });
  paint();
})();
