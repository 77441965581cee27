/* Complete the query box: its keys at once, the values of a key and a project's own keys from the server.
   Up and Down choose, Tab completes, Enter filters, Escape closes. Without this script the box is a plain field. */
(function () {
  "use strict";
  var WAIT = 150;
  var box = document.querySelector("[data-complete]");
  if (!box) return;
  var keys = box.dataset.keys.split(" ");
  var list = document.getElementById(box.getAttribute("aria-controls"));
  var timer = 0;
  var asked = null;

  /* the term that the caret is in: its start, its text */
  function readTerm() {
    var before = box.value.slice(0, box.selectionStart);
    var text = /(?:"[^"]*"|[^\s"]|"[^"]*$)*$/.exec(before)[0].replace(/^\(+/, "");
    return { start: before.length - text.length, text: text };
  }

  function options() { return Array.from(list.children); }

  function chosen() { return list.querySelector('[aria-selected="true"]'); }

  function choose(one) {
    options().forEach(function (each) {
      each.setAttribute("aria-selected", String(each === one));
      each.removeAttribute("id");
    });
    if (!one) return box.removeAttribute("aria-activedescendant");
    one.id = "completion-chosen";
    box.setAttribute("aria-activedescendant", one.id);
    one.scrollIntoView({ block: "nearest" });
  }

  function close() {
    clearTimeout(timer);
    if (asked) asked.abort();
    asked = null;
    list.hidden = true;
    list.replaceChildren();
    box.setAttribute("aria-expanded", "false");
    choose(null);
  }

  function addPart(one, css, text) {
    var part = document.createElement("span");
    part.className = css;
    part.textContent = text;
    one.append(part);
  }

  function show(found) {
    if (!found.length || document.activeElement !== box) return close();
    list.replaceChildren.apply(list, found.map(function (each) {
      var one = document.createElement("div");
      one.className = "complete__o";
      one.setAttribute("role", "option");
      one.dataset.term = each.term;
      addPart(one, "mono", each.term);
      addPart(one, "complete__w", each.detail);
      addPart(one, "num", each.count);
      return one;
    }));
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
    choose(list.firstElementChild);
  }

  function ask(key, prefix, start) {
    if (asked) asked.abort();
    var mine = asked = new AbortController();
    var params = new URLSearchParams(location.search);
    params.set("key", key);
    params.set("prefix", prefix);
    params.set("q", box.value.slice(0, start) + box.value.slice(box.selectionStart));
    params.set("at", start);   // a value in one alternative of OR is counted without the others
    fetch(box.dataset.complete + "?" + params, { signal: mine.signal, headers: { "HX-Request": "true" } })
      .then(function (response) { return response.ok ? response.json() : { options: [] }; })
      .then(function (answer) { if (asked === mine) show(answer.options); })
      .catch(function () { /* the box works without it */ });
  }

  function complete() {
    var term = readTerm();
    var match = /^-?([a-z]+):(.*)$/i.exec(term.text) || /^-?([a-z]+\.)([^:]*)$/i.exec(term.text);
    clearTimeout(timer);
    if (match && keys.includes(match[1].toLowerCase())) {
      timer = setTimeout(ask, WAIT, match[1], match[2].split(",").pop(), term.start);
      return;
    }
    if (asked) asked.abort();
    var start = term.text.replace(/^-/, "").toLowerCase();
    show(start ? keys.filter(function (key) { return key.startsWith(start); }).map(function (key) {
      return { term: key.endsWith(".") ? key : key + ":", detail: "", count: "" };
    }) : []);
  }

  function take(one) {
    var term = readTerm();
    var minus = term.text.startsWith("-") ? "-" : "";
    var comma = term.text.lastIndexOf(",");
    var value = one.dataset.term;
    var isKey = /[:.]$/.test(value);
    var head = comma > 0 ? term.text.slice(0, comma + 1) + value.slice(value.indexOf(":") + 1) : minus + value;
    var rest = box.value.slice(box.selectionStart);
    box.value = box.value.slice(0, term.start) + head + (isKey || rest.startsWith(" ") ? "" : " ") + rest;
    var caret = term.start + head.length + (isKey ? 0 : 1);
    box.setSelectionRange(caret, caret);
    close();
    if (isKey) complete();
  }

  var KEYS = {
    ArrowDown: function () { move(1); },
    ArrowUp: function () { move(-1); },
    Tab: function () { take(chosen()); },
    Escape: close,
  };

  function move(by) {
    var all = options();
    choose(all[(all.indexOf(chosen()) + by + all.length) % all.length]);
  }

  box.addEventListener("keydown", function (event) {
    if (event.key === "Enter") return close();
    if (list.hidden || event.shiftKey || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    KEYS[event.key]();
  });
  box.addEventListener("input", complete);
  box.addEventListener("blur", close);
  list.addEventListener("mousedown", function (event) {
    var one = event.target.closest("[role=option]");
    event.preventDefault();   // the box keeps the focus
    if (one) take(one);
  });
})();
