/* Search and commands: Ctrl K opens a dialog over any page, results come while someone types. The server
   renders them; this script moves the choice and keeps the pages that were opened last. */
(function () {
  "use strict";
  var WAIT = 150;
  var SLOW = 300;
  var RECENT = 20;
  var RECENT_SHOWN = 5;
  var palette = document.getElementById("palette");
  if (!palette) return;
  var form = palette.querySelector("form");
  var box = document.getElementById("palette-box");
  var hits = document.getElementById("hits");
  var status = document.getElementById("palette-status");
  var kindChip = document.getElementById("palette-kind");
  var store = "tenfour-recent-" + palette.dataset.user;
  var kind = "";
  var timer = 0;
  var asked = null;
  var answered = null;   // the text whose results are shown

  function readRecent() {
    try { return JSON.parse(sessionStorage.getItem(store)) || []; } catch (e) { return []; }
  }

  /* the page of one thing is a recent item; its title says what it is */
  function rememberPage() {
    if (!/\/[0-9a-f-]{36}\/$/.test(location.pathname)) return;
    var url = location.pathname;
    var items = readRecent().filter(function (item) { return item.url !== url; });
    items.unshift({ url: url, title: document.title.replace(/ · Tenfour$/, "") });
    try { sessionStorage.setItem(store, JSON.stringify(items.slice(0, RECENT))); } catch (e) { /* not stored */ }
  }

  function options() { return Array.from(hits.querySelectorAll("[role=option]")); }

  function chosen() { return hits.querySelector('[aria-selected="true"]'); }

  function choose(option) {
    options().forEach(function (each) {
      each.setAttribute("aria-selected", String(each === option));
      each.removeAttribute("id");
    });
    if (!option) return box.removeAttribute("aria-activedescendant");
    option.id = "hit-chosen";
    box.setAttribute("aria-activedescendant", "hit-chosen");
    option.scrollIntoView({ block: "nearest" });
  }

  function move(by) {
    var all = options();
    if (all.length) choose(all[(all.indexOf(chosen()) + by + all.length) % all.length]);
  }

  function addRecent() {
    var place = hits.querySelector("[data-recent]") || hits.appendChild(document.createElement("div"));
    var words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    var items = readRecent().filter(function (item) {
      return words.every(function (word) { return item.title.toLowerCase().includes(word); });
    }).slice(0, RECENT_SHOWN);
    if (!items.length || kind) return;
    place.dataset.recent = "";
    place.replaceChildren();
    place.hidden = false;
    place.className = "hits__g";
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", "Recent");
    var head = document.createElement("div");
    head.className = "hits__h";
    head.setAttribute("role", "presentation");
    head.textContent = "Recent";
    place.append(head);
    items.forEach(function (item) {
      var link = document.createElement("a");
      link.className = "hit hit--recent";
      link.href = item.url;
      link.setAttribute("role", "option");
      link.setAttribute("aria-selected", "false");
      link.tabIndex = -1;
      link.dataset.kind = "recent";
      var text = document.createElement("span");
      text.className = "hit__t trunc";
      text.textContent = item.title;
      link.append(text);
      place.append(link);
    });
  }

  function show(html) {
    var parsed = new DOMParser().parseFromString(html, "text/html");
    hits.replaceChildren.apply(hits, Array.from(parsed.body.childNodes));
    var failed = palette.querySelector("[data-failed]");
    if (failed) failed.remove();
    addRecent();
    choose(options()[0] || null);
    var found = options().filter(function (each) {
      return !["actions", "nearest"].includes(each.dataset.kind);
    }).length;
    var count = hits.querySelector("[data-none]") ? "Nothing found" : found + (found === 1 ? " result" : " results");
    status.textContent = box.value ? count : "";
  }

  function fail() {
    var note = palette.querySelector("[data-failed]") || document.createElement("p");
    note.dataset.failed = "";
    note.className = "hits__none";
    note.textContent = "Search did not answer. ";
    var again = document.createElement("button");
    again.type = "button";
    again.className = "btn btn--sm";
    again.textContent = "Try again";
    again.addEventListener("click", ask);
    note.append(again);
    hits.before(note);   // a list box may hold nothing but options
    addRecent();
    status.textContent = "Search did not answer.";
  }

  /* an older answer is dropped; the list stays until the next one is there */
  function ask() {
    if (asked) asked.abort();
    var mine = asked = new AbortController();
    var params = new URLSearchParams(new FormData(form));
    params.set("part", "1");
    if (kind) params.set("kind", kind);
    var slow = setTimeout(function () { palette.classList.add("palette--slow"); }, SLOW);
    fetch(form.action + "?" + params, { signal: mine.signal, headers: { "HX-Request": "true" } })
      .then(function (response) {
        if (!response.ok) throw new Error(response.status);
        return response.text();
      })
      .then(function (html) {
        if (asked !== mine) return;
        answered = params.get("q");
        show(html);
      })
      .catch(function (error) { if (error.name !== "AbortError" && asked === mine) fail(); })
      .finally(function () {
        clearTimeout(slow);
        if (asked === mine) {
          asked = null;
          palette.classList.remove("palette--slow");
        }
      });
  }

  function askSoon() {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT);
  }

  /* Enter before the answer is there: the server decides, as without a script */
  function openChosen(inNewTab) {
    if (box.value !== answered) return form.submit();
    var link = chosen();
    if (!link) return;
    if (inNewTab && link.href) window.open(link.href, "_blank", "noopener");
    else run(link);
  }

  /* a link is opened, a button posts its form */
  function run(option) {
    if (option.href) location.assign(option.href);
    else option.click();
  }

  function keep(name) {
    kind = name;
    kindChip.hidden = !name;
    kindChip.textContent = name;
    ask();
  }

  function open() {
    if (palette.open) return;
    if (document.querySelector("dialog:modal")) return;
    box.value = "";
    answered = null;
    hits.replaceChildren();
    palette.showModal();
    box.focus();
    keep("");
  }

  var KEYS = {
    ArrowDown: function () { move(1); },
    ArrowUp: function () { move(-1); },
    Enter: function (event) { openChosen(event.ctrlKey || event.metaKey); },
    Tab: function () {
      var link = chosen();
      var name = link && link.dataset.kind;
      if (name && !["exact", "recent", "actions", "nearest", "every"].includes(name) && !kind) keep(name);
    },
    Escape: function () {
      if (box.value || kind) {
        box.value = "";
        keep("");
      } else palette.close();
    },
  };

  palette.addEventListener("keydown", function (event) {
    if (event.altKey && /^[1-3]$/.test(event.key)) {
      var actions = hits.querySelectorAll('[data-kind="actions"]');
      event.preventDefault();
      if (actions[event.key - 1]) run(actions[event.key - 1]);
    } else if (event.key === "Backspace" && !box.value && kind) {
      keep("");
    } else if (Object.hasOwn(KEYS, event.key) && (event.target === box || event.key === "Escape")) {
      event.preventDefault();
      event.stopPropagation();
      KEYS[event.key](event);
    }
  });
  box.addEventListener("input", askSoon);
  form.addEventListener("submit", function (event) {
    event.preventDefault();
    openChosen(false);
  });
  palette.querySelector("[data-palette-close]").addEventListener("click", function () { palette.close(); });

  document.addEventListener("tenfour:palette", open);
  document.addEventListener("keydown", function (event) {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  /* a click on the box in the header opens the palette; by keyboard it is a form, as without a script */
  var header = document.getElementById("q");
  if (header) header.addEventListener("click", open);
  document.addEventListener("submit", function (event) {
    if (!event.target.matches(".me")) return;
    try { sessionStorage.removeItem(store); } catch (e) { /* storage is not available */ }
  });
  rememberPage();
})();
