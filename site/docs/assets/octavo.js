// Passports: what is behind a number, a verdict or a figure. Their words are data and are written with textContent, never as HTML.
(() => {
  // `passports.js` beside the page is loaded when the first passport is opened, also from the file system; a run's page holds its own.
  const contents = {}; // address -> content of passports.js; "" is that of this page
  const waiting = {}; // address -> promise
  window.octavo = Object.assign(window.octavo || {}, {
    passports(content) { contents[document.currentScript.src] = content; },
  });
  const own = document.getElementById("octavo-passports");
  if (own) contents[""] = JSON.parse(own.textContent);
  const home = (fact) => fact.href.split("#")[0];
  const address = (fact) => own && home(fact) === location.href.split("#")[0] ? "" : new URL("passports.js", home(fact)).href;
  const load = (place) => waiting[place] ||= contents[place] ? Promise.resolve() : new Promise((done) => {
    const script = document.createElement("script");
    script.src = place;
    script.onload = script.onerror = done;
    document.head.append(script);
  });

  const make = (tag, className, ...parts) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...parts);
    return made;
  };
  const link = (href, text, className) => Object.assign(make("a", className, text), { href });
  const row = (name, ...parts) => make("div", "", make("dt", "", name), make("dd", "", ...parts));
  const listed = (parts, mark) => parts.flatMap((part, at) => at ? [mark, part] : [part]);
  const slug = (id) => "passport-" + id.replace(/[^A-Za-z0-9_./-]/gu, "--");
  const anchorOf = (run) => "behind-" + run.replaceAll(" ", "-");

  // Sentence and rows of a passport; `page` is the address of the page that lists all of them.
  const rowsOf = (content, entry, page) => {
    const run = (name) => link(`${page}#${anchorOf(name)}`, name, "ref");
    const says = make("p", "says", entry.says);
    if (entry.unit) says.append(" ", make("small", "", `unit: ${entry.unit}`));
    const rows = (entry.rows || []).map(([name, text]) => row(name, text));
    if (entry.numbers) {
      rows.push(row("numbers", ...entry.numbers.map(([id, printed]) => make("span", "",
        id in content.passports ? link(`${page}#${slug(id)}`, id) : id, " ", make("b", "", printed)))));
    }
    if (entry.seeds) {
      rows.push(row("seeds", ...entry.seeds.map((seed) => make("span", seed.included ? "" : "out", run(seed.run), " ",
        make("b", "", seed.printed), ...(seed.included ? [] : [" ", make("i", "", seed.why || "left out")])))));
    }
    if (entry.behind) {
      rows.push(row("from", ...listed(entry.behind.map(({ files, runs }) => make("span", "", files,
        ...(runs.length ? [" of ", ...listed(runs.map(run), ", ")] : [" of each"]))), " ")));
    }
    if (entry.spec) rows.push(row("spec", entry.spec.join(", ")));
    if (entry.links) {
      rows.push(row("files", ...listed(entry.links.map(([name, file]) => link(page ? new URL(file, page).href : file, name)), ", ")));
    } else rows.push(row("recompute", make("code", "", content.recompute)));
    return [says, make("dl", "", ...rows)];
  };
  const passport = (content, id, page) => {
    const entry = content.passports[id];
    const head = make("summary", "", make("code", "", id), " ", make("b", "", entry.printed));
    return Object.assign(make("details", "passport", head, ...rowsOf(content, entry, page)), { id: slug(id) });
  };
  // Attempts, card, code and files of a run, closed until a reader asks.
  const record = (content, run) => {
    const { rows, files } = content.records[run] || { rows: [], files: [] };
    const below = `runs/${content.experiment}/${run}/`;
    return make("details", "record", make("summary", "", make("code", "", run)), make("dl", "",
      ...rows.map(([name, text]) => row(name, text)),
      ...files.map((file) => row(file.path.startsWith(below) ? file.path.slice(below.length) : file.path,
        make("code", "hash", `sha256 ${file.sha256}`), file.attempt ? ` attempt ${file.attempt}` : ""))));
  };
  const runsOf = (entry) => [...new Set([...(entry.seeds || []).map((seed) => seed.run), ...(entry.behind || []).flatMap((part) => part.runs)])];

  let open = null; // {fact, box, pinned}
  let returning = false; // focus comes back to a number whose passport was just closed

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

  let wanted = null; // the number that was asked for last, while its passport is loading
  const show = async (fact, pinned) => {
    if (open && open.fact === fact) { open.pinned = open.pinned || pinned; return; }
    close(false);
    wanted = fact;
    const from = address(fact), name = fact.dataset.finding, page = from && home(fact);
    if (!contents[from]) {
      await load(from);
      if (wanted !== fact) return;
    }
    const content = contents[from], entry = content && content.passports[name];
    if (!entry) { if (pinned) location.href = fact.href; return; }
    const shut = Object.assign(make("button", "", "×"), { type: "button" });
    shut.setAttribute("aria-label", "Close");
    shut.addEventListener("click", () => close(true));
    const id = link(fact.href, name, "id");
    id.addEventListener("click", () => close(false));
    const box = make("div", "popover md-typeset", make("div", "oct", make("header", "", make("b", "", entry.printed), shut), id,
      make("div", "body", ...rowsOf(content, entry, page)), ...runsOf(entry).map((run) => record(content, run))));
    box.tabIndex = -1;
    box.setAttribute("role", "dialog");
    box.setAttribute("aria-label", "What is behind " + name);
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
    if (fact) load(address(fact));
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

  // Pages that list all passports: of an experiment, and of a run.
  document.querySelectorAll("[data-passports]").forEach(async (section) => {
    const from = section.dataset.passports && new URL(section.dataset.passports, location.href).href;
    await load(from);
    const content = contents[from];
    if (!content) return;
    const ids = Object.keys(content.passports), kind = (id) => /^(verdict|figure)\//.test(id) ? id.split("/")[0] : "";
    for (const [group, title] of [["", ""], ["verdict", "Verdicts"], ["figure", "Figures"]]) {
      const some = ids.filter((id) => kind(id) === group);
      if (some.length && title) section.append(Object.assign(make("h2", "", title), { id: `${group}s` }));
      if (some.length) section.append(make("div", "list", ...some.map((id) => passport(content, id, ""))));
    }
    section.append(Object.assign(make("h2", "", "Behind the numbers"), { id: "behind-the-numbers" }),
      ...Object.keys(content.records).map((run) => Object.assign(record(content, run), { id: anchorOf(run) })));
    reveal(true);
  });
  const reveal = (late) => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target; part; part = part.parentElement) {  // what an address names is shown, also inside a folded section
      if (part.matches("details.part, details.passport, details.record")) part.open = late = true;
    }
    if (target && late === true) target.scrollIntoView();
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
  // A page that is served while runs go on is loaded again when another one is there.
  if (document.querySelector("[data-renewed]") && location.protocol.startsWith("http")) {
    let before;
    const look = async () => {
      const now = await fetch(location.href, { cache: "no-store" }).then((answer) => answer.text()).catch(() => before);
      if (before !== undefined && now !== before) location.reload();
      before = now;
      setTimeout(look, 3000);
    };
    look();
  }
  // All stored completions, which are loaded when a reader asks. Their words are data too.
  const MOST_HITS = 100, LETTERS_OF_A_HIT = 600;
  const stored = {}; // address of a script with texts -> its object
  window.octavo.texts = (content) => { stored[document.currentScript.src] = content; };
  const loadTexts = (place) => waiting[place] ||= new Promise((done) => {
    const script = document.createElement("script");
    script.src = place;
    script.onload = script.onerror = done;
    document.head.append(script);
  });
  const around = (text, word) => {
    const at = Math.max(0, text.toLowerCase().indexOf(word) - LETTERS_OF_A_HIT / 2), end = at + LETTERS_OF_A_HIT;
    return (at ? "…" : "") + text.slice(at, end) + (end < text.length ? "…" : "");
  };
  const hitOf = (texts, at, word) => {
    const held = texts.step[at] === null, pass = texts.labels[texts.label[at]].startsWith("passed");
    const head = make("p", "head", texts.condition, " ", make("small", "", [...(texts.run === texts.condition ? [] : [texts.run]), held ? "held out" : `step ${texts.step[at]}`].join(", ")), " ",
      make("b", "", texts.labels[texts.label[at]]), ...(held ? [] : [" ", make("span", "kv", "reward ", make("b", "", String(texts.reward[at] ?? "not known")))]),
      ...(texts.times[at] > 1 ? [" ", make("span", "kv", `${texts.times[at]}×`)] : []));
    const shown = (text) => make("bdi", "", make("code", "completion", around(text, word)));
    return make("article", `said ${pass ? "pass" : "fail"}`, head, make("div", "prompt", shown(texts.prompts[texts.prompt[at]])), shown(texts.texts[texts.text[at]]));
  };
  const searchStored = async (note, { word, place, condition, step, outcome }) => {
    const addresses = note.dataset.stored.split(" ").map((file) => new URL(file, location.href).href);
    await Promise.all(addresses.map(loadTexts));
    const hits = [];
    let count = 0, searched = 0, more = false;
    const files = addresses.map((one) => stored[one]).filter(Boolean), most = Math.ceil(MOST_HITS / files.length);
    for (const texts of files) {
      let left = most;
      const holds = (values) => values.map((text) => text.toLowerCase().includes(word));
      const inText = holds(texts.texts), inPrompt = holds(texts.prompts);
      texts.step.forEach((own, at) => {
        searched += texts.times[at];
        const fits = (inText[texts.text[at]] || inPrompt[texts.prompt[at]]) && (!condition || condition === texts.condition) && (!step || step === String(own))
          && (!outcome || outcome === texts.labels[texts.label[at]]) && (!place || (place === "training") === (own !== null));
        if (!fits) return;
        count += texts.times[at];
        if (left-- > 0) hits.push(hitOf(texts, at, word));
        else more = true;
      });
    }
    return { count, searched, hits, more };
  };
  // Lists of texts can be searched by words, and by what the attributes of each text say; the list is whole without this.
  const FACETS = [["place", "Training and held out"], ["condition", "All conditions"], ["step", "All steps"], ["outcome", "All outcomes"], ["gates", "All gates"]];
  document.querySelectorAll("[data-texts]").forEach((list) => {
    const entries = [...list.children].map((part) => ({ part, text: part.textContent.toLowerCase() }));
    const bar = make("form", "find");
    const input = Object.assign(make("input"), { type: "search", placeholder: "Find in prompts and completions" });
    input.setAttribute("aria-label", input.placeholder);
    const count = make("span");
    count.setAttribute("role", "status");
    const valuesOf = (part, facet) => part.dataset[facet] ? part.dataset[facet].split("|") : [];
    const selects = FACETS.map(([facet, all]) => {
      const values = [...new Set(entries.flatMap(({ part }) => valuesOf(part, facet)))];
      if (values.length < 2) return null;
      const select = make("select");
      select.setAttribute("aria-label", facet);
      select.append(new Option(all, ""), ...values.map((value) => new Option(facet === "step" ? `step ${value}` : value, value)));
      return [facet, select];
    }).filter(Boolean);
    const apply = () => {
      const word = input.value.toLowerCase();
      let left = 0;
      for (const { part, text } of entries) {
        const fits = text.includes(word) && selects.every(([facet, { value }]) => !value || valuesOf(part, facet).includes(value));
        part.hidden = !fits;
        left += fits;
      }
      count.textContent = `${left} of ${entries.length} shown`;
    };
    bar.addEventListener("input", apply);
    const note = list.parentElement.querySelector("[data-stored]") || document.querySelector("[data-stored]");
    if (note && note.dataset.stored) {
      const every = Object.assign(make("button", "", `Search all ${Number(note.dataset.count).toLocaleString("en")}`), { type: "button" });
      const back = Object.assign(make("button", "", "Back to the chosen texts"), { type: "button", hidden: true });
      const results = Object.assign(make("div", "stored"), { hidden: true });
      const show = (all) => { results.hidden = back.hidden = !all; list.hidden = all; };
      every.addEventListener("click", async () => {
        count.textContent = "loading …";
        const chosen = Object.fromEntries(selects.map(([facet, { value }]) => [facet, value]));
        const { count: hits, searched, hits: parts, more } = await searchStored(note, { ...chosen, word: input.value.toLowerCase() });
        results.replaceChildren(...parts);
        count.textContent = `${hits.toLocaleString("en")} of ${searched.toLocaleString("en")} stored completions fit`
          + (more ? `; ${parts.length} are shown, the first of each run` : "") + (chosen.gates ? "; the choice of a gate is not looked at" : "");
        show(true);
      });
      back.addEventListener("click", () => { show(false); apply(); });
      bar.addEventListener("input", () => show(false));
      bar.addEventListener("submit", () => every.click());
      list.after(results);
      queueMicrotask(() => bar.append(every, back));
    }
    bar.addEventListener("submit", (event) => event.preventDefault());
    bar.append(input, ...selects.map(([, select]) => select), count);
    list.before(bar);
    apply();
  });
  addEventListener("hashchange", reveal);
  addEventListener("beforeprint", () => document.querySelectorAll("details.part, .oct details:not(.passport):not(.record)").forEach((part) => { part.open = true; }));
  reveal();
})();
