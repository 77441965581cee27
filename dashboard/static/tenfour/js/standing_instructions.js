/* The form of a rule: what is typed is stored for this tab until it is saved, and Ctrl+Enter saves. */
(function () {
  "use strict";
  var form = document.querySelector("[data-rule-draft]");
  if (!form) return;
  var KEY = "tenfour-rule-" + location.pathname;
  /* not the person's: whose request it is, and what the server has shown */
  var OTHERS = ["csrfmiddlewaretoken", "shown"];
  var first = JSON.stringify(values());

  function values() {
    var found = {};
    new FormData(form).forEach(function (value, name) {
      if (OTHERS.indexOf(name) < 0) found[name] = value;
    });
    return found;
  }
  function store(text) {
    try {
      if (text) sessionStorage.setItem(KEY, text);
      else sessionStorage.removeItem(KEY);
    } catch (e) { /* storage is not available */ }
  }
  function keep() { store(JSON.stringify(values())); }

  function recall() {
    var text = null, draft;
    try { text = sessionStorage.getItem(KEY); } catch (e) { /* storage is not available */ }
    if (!text || text === first) return;
    draft = JSON.parse(text);
    /* Someone has changed the rule meanwhile: the draft must not undo that. */
    if ((form.elements.version || {}).value !== draft.version) return store("");
    var missing = Object.keys(draft).filter(function (name) { return !form.elements[name]; });
    Object.keys(draft).forEach(function (name) { fill(name, draft[name]); });
    Array.from(form.querySelectorAll("[type=checkbox]")).forEach(function (box) { box.checked = box.name in draft; });
    if (missing.length) return form.submit();   // the server adds the rows of further conditions
    document.getElementById("restored").hidden = false;
  }
  function fill(name, value) {
    var field = form.elements[name];
    if (!field) {
      field = document.createElement("input");
      field.type = "hidden";
      field.name = name;
      form.append(field);
    }
    if (field.type !== "checkbox") field.value = value;
  }

  form.addEventListener("input", keep);
  form.addEventListener("submit", function (event) {
    var by = event.submitter && event.submitter.name;
    if (by === "save" || by === "draft") store("");
    else keep();
  });
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit(form.querySelector("[name=save]"));
  });
  form.addEventListener("click", function (event) {
    if (event.target.closest("[data-discard]")) { store(""); location.assign(location.pathname + location.search); }
  });

  if (form.hasAttribute("data-posted")) keep();
  else recall();
})();
