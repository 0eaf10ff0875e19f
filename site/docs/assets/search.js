// Search without a worker and without an index to build: the theme asks as it asks its own worker, and the answer is a look through plain text.
// `search/octavo-0.js` holds titles, claims, questions and the guide; further parts hold the other words of experiments and are loaded
// when the first one does not have enough. Scripts and not JSON, so that pages from the file system can load them too.
(() => {
  const SETUP = 0, READY = 1, QUERY = 2, RESULT = 3; // the theme's messages
  const ENOUGH = 8, MOST = 40; // pages
  const root = new URL("../", document.currentScript.src).href;
  const rows = []; // {location, page, title, text, low: {title, text}}
  const titles = {}; // address of a page -> its title in small letters
  let parts = 1, loaded = 0, coming = null;

  window.octavo = Object.assign(window.octavo || {}, {
    words(part) {
      parts = part.parts;
      for (let at = 0; at < part.rows.length; at += 3) {
        const [location, title, text] = part.rows.slice(at, at + 3);
        const page = location.split("#")[0];
        const row = { location, page, title, text, low: { title: title.toLowerCase(), text: text.toLowerCase() } };
        rows.push(row);
        if (location === page) titles[page] = row.low.title;
      }
    },
  });
  const more = () => coming ||= new Promise((done) => {
    const script = document.createElement("script");
    script.src = `${root}search/octavo-${loaded}.js`;
    script.onload = () => { loaded += 1; coming = null; done(true); };
    script.onerror = () => { parts = loaded; coming = null; done(false); };
    document.head.append(script);
  });

  const letter = /[\p{L}\p{N}]/u;
  const begins = (text, at) => at === 0 || !letter.test(text[at - 1]);
  // 0 when a word of the query is in neither: a title counts more than text, the beginning of a word more than its middle.
  const score = (row, terms) => {
    let sum = 0;
    for (const term of terms) {
      const inTitle = row.low.title.indexOf(term), inText = row.low.text.indexOf(term);
      if (inTitle < 0 && inText < 0 && !(titles[row.page] || "").includes(term)) return 0;
      if (inTitle >= 0) sum += begins(row.low.title, inTitle) ? 20 : 8;
      if (inText >= 0) sum += begins(row.low.text, inText) ? 3 : 1;
    }
    return sum && row.location === row.page ? sum + 5 : sum;
  };

  const escaped = (text) => text.replace(/[&<>"']/g, (mark) => `&#${mark.charCodeAt(0)};`);
  const marked = (text, terms) => {
    const wanted = new RegExp(`(${terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "giu");
    return text.split(wanted).map((part, at) => at % 2 ? `<mark data-md-highlight>${escaped(part)}</mark>` : escaped(part)).join("");
  };
  const around = (row, terms) => {
    const first = Math.min(...terms.map((term) => row.low.text.indexOf(term)).filter((at) => at >= 0), row.text.length);
    const from = first > 80 && first < row.text.length ? row.text.indexOf(" ", first - 70) + 1 : 0;
    const part = row.text.slice(from, from + 190);
    return part && `<p>${from ? "… " : ""}${marked(part, terms)}${from + 190 < row.text.length ? " …" : ""}</p>`;
  };

  const find = (query) => {
    const terms = [...new Set(query.toLowerCase().split(/[\s*+~^"]+/).filter(Boolean))].slice(0, 12);
    if (!terms.length) return [];
    const pages = new Map(); // address -> rows with their score
    for (const row of rows) {
      const sum = score(row, terms);
      if (!sum) continue;
      if (!pages.has(row.page)) pages.set(row.page, []);
      pages.get(row.page).push([sum, row]);
    }
    const best = [...pages].map(([page, found]) => [Math.max(...found.map(([sum]) => sum)), page, found]);
    best.sort((one, other) => other[0] - one[0]);
    return best.slice(0, MOST).map(([, page, found]) => {
      found.sort((one, other) => other[0] - one[0]);
      const head = rows.find((row) => row.location === page);
      const shown = found.filter(([, row]) => row !== head).slice(0, 8);
      const item = (row, place) => ({
        location: row.location, title: marked(row.title, terms), text: around(row, terms), score: place,
        terms: Object.fromEntries(terms.map((term) => [term, true])),
      });
      // the theme shows what scores as the first does, and folds the rest: three parts of a page are shown
      return [...(head ? [item(head, 1)] : []), ...shown.map(([, row], at) => item(row, at < 3 ? 1 : 0.5))];
    }).filter((found) => found.length && !found[0].location.includes("#"));
  };

  class Search extends EventTarget {
    constructor() {
      super();
      this.asked = "";
    }

    say(type, data) { this.dispatchEvent(new MessageEvent("message", { data: { type, data } })); }

    postMessage({ type, data }) {
      if (type === SETUP) this.say(READY);
      if (type === QUERY) this.answer(data);
    }

    async answer(query) {
      this.asked = query;
      if (!loaded) await more();
      for (;;) {
        if (this.asked !== query) return;
        const items = find(query);
        this.say(RESULT, { items });
        if (!query.trim() || items.length >= ENOUGH || loaded >= parts) return;
        await more();
      }
    }

    terminate() {}
  }

  const Native = window.Worker;
  window.Worker = function (address, options) {
    return /\/workers\/search\.[^/]*$/.test(`${address}`) ? new Search() : new Native(address, options);
  };
  // The words are there before the first letter is typed.
  const soon = (event) => {
    if (!loaded && event.target.closest && event.target.closest(".md-search, [for=__search]")) more();
  };
  for (const sign of ["pointerover", "focusin", "touchstart"]) document.addEventListener(sign, soon, { passive: true });
})();
