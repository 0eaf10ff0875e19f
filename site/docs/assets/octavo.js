// Passports: a number, a verdict or a figure opens what is written about it on the page of numbers. Without this script its link leads there.
(() => {
  // `numbers.js` beside that page holds the same words; it is loaded when the first number is opened, also from the file system.
  const words = {}; // address of a page of numbers -> {anchor: HTML}
  const waiting = {}; // the same address -> promise
  const home = (fact) => fact.href.split("#")[0];
  const anchor = (fact) => decodeURIComponent(fact.hash.slice(1));
  const load = (fact) => waiting[home(fact)] ||= new Promise((done) => {
    const script = document.createElement("script");
    script.src = home(fact).replace(/\.html$/, ".js");
    script.onload = script.onerror = () => done(words[home(fact)]);
    document.head.append(script);
  });
  window.octavo = Object.assign(window.octavo || {}, {
    numbers(found) { words[document.currentScript.src.replace(/\.js$/, ".html")] = found; },
  });
  // Parsed without being part of the page; the words were escaped when they were written.
  const entry = (link) => {
    const here = document.getElementById(anchor(link));
    if (here) return here;
    const found = (words[home(link)] || {})[anchor(link)];
    if (!found) return null;
    const made = document.createElement("template");
    made.innerHTML = found;
    return made.content.querySelector("details");
  };

  let open = null; // {fact, box, pinned}
  let returning = false; // focus comes back to a number whose passport was just closed

  const body = (source) => {
    const made = document.createElement("div");
    made.className = "body";
    for (const part of [...source.children].slice(1)) made.append(part.cloneNode(true));
    return made;
  };

  // Records of the runs that a passport names: the same words as on the page of numbers, closed until someone asks.
  const behind = (box, fact) => [...box.querySelectorAll("a.ref")].map((link) => {
    link.href = home(fact) + link.hash;
    const record = entry(link);
    const copy = record ? record.cloneNode(true) : document.createElement("span");
    copy.removeAttribute("id");
    copy.open = false;
    return copy;
  });

  const close = (back) => {
    if (!open) return;
    const { fact, box } = open;
    open = null;
    box.remove();
    fact.classList.remove("open");
    fact.removeAttribute("aria-expanded");
    if (back) {
      returning = true;
      fact.focus({ preventScroll: true });
      returning = false;
    }
  };

  let wanted = null; // the number that was asked for last, while its words are loading
  const show = async (fact, pinned) => {
    if (open && open.fact === fact) { open.pinned = open.pinned || pinned; return; }
    close(false);
    wanted = fact;
    let source = entry(fact);
    if (!source) {
      await load(fact);
      source = entry(fact);
      if (wanted !== fact) return;
      if (!source) { if (pinned) location.href = fact.href; return; }
    }
    const box = document.createElement("div");
    box.className = "popover md-typeset";
    box.tabIndex = -1;
    box.setAttribute("role", "dialog");
    box.setAttribute("aria-label", "Passport of " + fact.dataset.finding);
    const head = document.createElement("header");
    const value = document.createElement("b");
    value.textContent = source.querySelector("summary b").textContent;
    const shut = document.createElement("button");
    shut.type = "button";
    shut.setAttribute("aria-label", "Close");
    shut.textContent = "×";
    shut.addEventListener("click", () => close(true));
    head.append(value, shut);
    const id = document.createElement("a");
    id.className = "id";
    id.href = fact.href;
    id.textContent = fact.dataset.finding;
    id.addEventListener("click", () => { source.open = true; close(false); });
    const said = body(source);
    const inside = document.createElement("div");
    inside.className = "oct";
    inside.append(head, id, said, ...behind(said, fact));
    box.append(inside);
    document.body.append(box);
    place(box, fact);
    fact.classList.add("open");
    fact.setAttribute("aria-expanded", "true");
    open = { fact, box, pinned };
  };

  const place = (box, fact) => {
    const at = fact.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - box.offsetWidth - 8));
    const below = at.bottom + 8;
    const above = at.top - box.offsetHeight - 8;
    const top = below + box.offsetHeight < innerHeight || above < 60 ? below : above;
    box.style.left = left + scrollX + "px";
    box.style.top = top + scrollY + "px";
  };

  // A picture is a door as its caption's link is; only the link can be reached with the keyboard and is read out.
  const door = (part) => {
    if (!part || !part.closest) return null;
    const picture = part.closest("figure.picture > svg");
    return picture ? picture.parentElement.querySelector("a.passport-of") : part.closest("a.fact");
  };

  document.addEventListener("click", (event) => {
    const fact = door(event.target);
    if (fact && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      event.stopPropagation();
      if (open && open.fact === fact && open.pinned) close(true);
      else show(fact, true);
    } else {
      wanted = null;
      if (open && !open.box.contains(event.target)) close(false);
    }
  }, true);
  document.addEventListener("pointerover", (event) => {
    const fact = door(event.target);
    if (fact && !document.getElementById(anchor(fact))) load(fact);
  }, { passive: true });

  document.addEventListener("focusin", (event) => {
    if (returning) return;
    const fact = event.target.closest && event.target.closest("a.fact");
    if (fact && fact.matches(":focus-visible")) show(fact, false);
    else {
      if (!fact) wanted = null;
      if (open && !open.pinned && !open.box.contains(event.target)) close(false);
    }
  });

  document.addEventListener("keydown", (event) => {
    if (!open) return;
    if (event.key === "Escape") { event.preventDefault(); close(true); }
    else if (event.key === "Tab" && !event.shiftKey && document.activeElement === open.fact && open.pinned) {
      event.preventDefault();
      open.box.querySelector("button").focus();
    }
  });

  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("details.passport, details.record")) target.open = true;
  };
  // What scrolls can be reached with the keyboard; the theme's search is a dialog without a name.
  const reach = () => document.querySelectorAll(".scroll, .md-typeset__scrollwrap, .md-typeset pre > code, .flow .box ul").forEach((part) => {
    if (part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight + 1) part.tabIndex = 0;
  });
  document.querySelectorAll(".md-search[role=dialog]").forEach((part) => part.setAttribute("aria-label", "Search"));
  document.addEventListener("toggle", reach, true);
  addEventListener("resize", reach);
  addEventListener("load", reach);
  // How old data are depends on the reader's day, so no page holds it.
  document.querySelectorAll("time[data-age]").forEach((time) => {
    const days = Math.floor((Date.now() - Date.parse(time.dateTime)) / 86400000);
    if (days >= 0) time.append(days === 0 ? " (today)" : days === 1 ? " (yesterday)" : ` (${days} days ago)`);
  });
  // A page of completions can be searched by words, and by how they ended; the table is whole without this.
  document.querySelectorAll("table[data-browse]").forEach((table) => {
    const rows = [...table.tBodies[0].rows];
    const ends = [...new Set(rows.map((row) => row.cells[3].textContent))];
    const bar = document.createElement("form");
    bar.className = "find";
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "Find in completions and prompts";
    input.setAttribute("aria-label", input.placeholder);
    const select = document.createElement("select");
    select.setAttribute("aria-label", "How they ended");
    for (const end of ["All outcomes", ...ends]) select.append(new Option(end, end));
    const told = document.createElement("span");
    told.setAttribute("role", "status");
    const apply = () => {
      const word = input.value.toLowerCase();
      let left = 0;
      rows.forEach((row) => {
        const fits = (select.selectedIndex === 0 || row.cells[3].textContent === select.value)
          && (row.cells[1].textContent + " " + row.cells[4].textContent).toLowerCase().includes(word);
        row.hidden = !fits;
        left += fits;
      });
      told.textContent = `${left} shown`;
    };
    bar.addEventListener("input", apply);
    bar.addEventListener("submit", (event) => event.preventDefault());
    bar.append(input, select, told);
    table.closest(".scroll").before(bar);
    apply();
  });
  addEventListener("hashchange", reveal);
  addEventListener("beforeprint", () => document.querySelectorAll(".oct details:not(.passport):not(.record)").forEach((part) => { part.open = true; }));
  reveal();
})();
