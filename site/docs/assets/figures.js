// The form of a curve that a reader can zoom, read at a step, and switch conditions and seeds in. The picture stays where no script runs.
// uPlot and the numbers lie beside the pages and are loaded when a reader asks: nothing of this weighs on a page that is only read.
(() => {
  const assets = new URL(".", document.currentScript.src).href;
  const found = {}; // address of a script with numbers -> its object
  const loading = {};
  window.octavo = Object.assign(window.octavo || {}, {
    figure(made) { found[document.currentScript.src] = made; },
  });
  const load = (address) => loading[address] ||= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });
  const library = () => {
    if (!document.querySelector("link[data-uplot]")) {
      const style = document.createElement("link");
      style.rel = "stylesheet";
      style.href = assets + "uplot/uPlot.min.css";
      style.dataset.uplot = "";
      document.head.append(style);
    }
    return load(assets + "uplot/uPlot.iife.min.js");
  };

  const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  const paint = (index) => css(`--octavo-c${(index % 8) + 1}`);
  const shown = (value) => value === null || value === undefined || value === false ? "–"
    : (value === 0 || Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 ? Number(value.toPrecision(4)).toString() : value.toExponential(2)).replace("-", "−");
  const button = (text, pressed) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    if (pressed !== undefined) made.setAttribute("aria-pressed", pressed);
    return made;
  };

  const hatch = (context, colour) => {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colour;
    pen.globalAlpha = 0.55;
    pen.lineWidth = 1.6;
    for (const shift of [-8, 0, 8]) { pen.beginPath(); pen.moveTo(shift, 8); pen.lineTo(shift + 8, 0); pen.stroke(); }
    return context.createPattern(tile, "repeat");
  };

  // Non-finite ranges hatched, another attempt dotted, the onset of a collapse a triangle, a stop by a rule a square.
  const mark = (plot, made, on) => {
    const { ctx: pen, bbox } = plot;
    const ratio = devicePixelRatio;
    pen.save();
    pen.beginPath();
    pen.rect(bbox.left, bbox.top - 10 * ratio, bbox.width, bbox.height + 10 * ratio);
    pen.clip();
    for (const one of made.marks) {
      const line = made.lines.find((known) => known.name === one.run);
      if (!line || !on(line)) continue;
      const at = (step) => plot.valToPos(step, "x", true);
      pen.fillStyle = pen.strokeStyle = paint(line.colour);
      pen.lineWidth = 1.2 * ratio;
      if (one.kind === "not_finite") {
        pen.fillStyle = hatch(pen, paint(line.colour));
        pen.fillRect(at(one.first - 0.5), bbox.top, Math.max(2 * ratio, at(one.last + 0.5) - at(one.first - 0.5)), bbox.height);
      } else if (one.kind === "attempt") {
        pen.setLineDash([ratio, 3 * ratio]);
        pen.beginPath(); pen.moveTo(at(one.first - 0.5), bbox.top); pen.lineTo(at(one.first - 0.5), bbox.top + bbox.height); pen.stroke();
        pen.setLineDash([]);
      } else if (one.kind === "stopped") {
        pen.fillRect(at(one.first) - 4 * ratio, bbox.top - 9 * ratio, 8 * ratio, 8 * ratio);
      } else {
        pen.beginPath(); pen.moveTo(at(one.first) - 5 * ratio, bbox.top - 9 * ratio); pen.lineTo(at(one.first) + 5 * ratio, bbox.top - 9 * ratio);
        pen.lineTo(at(one.first), bbox.top); pen.fill();
      }
    }
    pen.restore();
  };

  const draw = (figure, made) => {
    const only = figure.dataset.run || null;
    const hidden = new Set(); // conditions
    let seeds = true;
    const on = (line) => !hidden.has(line.condition) && (line.mean || line.name === only || (seeds && !only));
    const box = document.createElement("div");
    box.className = "plot";
    const tools = document.createElement("div");
    tools.className = "tools";
    const name = document.createElement("b");
    name.textContent = made.title + (made.unit && made.unit !== "share" ? ` (${made.unit})` : "");
    tools.append(name);
    const place = document.createElement("div");
    place.className = "canvas";
    place.tabIndex = 0;
    place.setAttribute("role", "application");
    place.setAttribute("aria-label", `${made.title}: arrow keys read it step by step, plus and minus zoom, 0 shows all`);
    const told = document.createElement("p");
    told.className = "told";
    told.setAttribute("role", "status");
    box.append(tools, place, told);
    figure.querySelector("figcaption").before(box);

    const height = () => Math.max(220, Math.min(360, innerHeight * 0.5));
    const values = made.lines.map((line) => line.values.map((value) => value === false ? undefined : value));
    const soft = (alpha) => () => `color-mix(in srgb, ${css("--oct-ink")} ${alpha}%, transparent)`;
    const axis = { stroke: soft(75), font: `12px ${css("--oct-sans") || "sans-serif"}`, grid: { stroke: soft(13), width: 1 }, ticks: { stroke: soft(25), width: 1, size: 4 } };
    const say = (plot) => {
      const index = plot.cursor.idx;
      if (index === null || index === undefined) { told.textContent = "Point at the curve, or drag over a part of it to zoom."; return; }
      const step = made.steps[index];
      const means = made.lines.map((line, at) => [line, values[at][index]]).filter(([line]) => on(line) && (line.mean || line.name === only));
      const marks = made.marks.filter((one) => one.first <= step && step <= one.last && on(made.lines.find((line) => line.name === one.run) || {}));
      told.textContent = `Step ${step}: ` + [...means.map(([line, value]) => `${line.mean ? line.condition : line.name} ${shown(value)}`), ...marks.map((one) => one.says)].join("; ");
    };
    const plot = new uPlot({
      width: place.clientWidth,
      height: height(),
      padding: [14, 8, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: true, y: false }, points: { size: 6 } },
      scales: { x: { time: false } },
      axes: [{ ...axis }, { ...axis, size: 52, values: (_, ticks) => ticks.map(shown) }],
      series: [{}, ...made.lines.map((line) => ({
        label: line.mean ? `${line.condition}: mean` : line.name,
        stroke: () => paint(line.colour),
        width: line.mean ? (only ? 1.4 : 2.6) : only ? 2.2 : 1,
        alpha: line.mean ? (only ? 0.45 : 1) : only ? 1 : 0.55,
        dash: line.counts ? undefined : [3, 3],
        points: { show: false },
        show: on(line),
      }))],
      hooks: { draw: [(u) => mark(u, made, on)], setCursor: [say] },
    }, [made.steps, ...values], place);
    plot.over.setAttribute("aria-hidden", "true");

    const refresh = () => plot.batch(() => made.lines.forEach((line, at) => plot.setSeries(at + 1, { show: on(line) })));
    for (const condition of made.conditions.filter(({ name }) => made.lines.some((line) => line.condition === name))) {
      const toggle = button(condition.name, true);
      toggle.className = "condition";
      const chip = document.createElement("span");
      chip.className = `swatch c${condition.colour % 8}`;
      toggle.prepend(chip);
      toggle.addEventListener("click", () => {
        if (hidden.has(condition.name)) hidden.delete(condition.name); else hidden.add(condition.name);
        toggle.setAttribute("aria-pressed", !hidden.has(condition.name));
        refresh();
      });
      tools.append(toggle);
    }
    if (!only) {
      const toggle = button("seeds", true);
      toggle.addEventListener("click", () => { seeds = !seeds; toggle.setAttribute("aria-pressed", seeds); refresh(); });
      tools.append(toggle);
    }
    const first = made.steps[0], last = made.steps[made.steps.length - 1];
    const zoom = (min, max) => plot.setScale("x", { min: Math.max(first, min), max: Math.min(last, max) });
    const all = button("show all steps");
    all.addEventListener("click", () => zoom(first, last));
    tools.append(all);
    place.addEventListener("keydown", (event) => {
      const { min, max } = plot.scales.x;
      const middle = (min + max) / 2, half = (max - min) / 2;
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move) {
        const index = Math.max(0, Math.min(made.steps.length - 1, (plot.cursor.idx ?? (move > 0 ? -1 : made.steps.length)) + move));
        plot.setCursor({ left: plot.valToPos(made.steps[index], "x"), top: 10 });
      } else if (event.key === "+") zoom(middle - half / 2, middle + half / 2);
      else if (event.key === "-") zoom(middle - half * 2, middle + half * 2);
      else if (event.key === "0") zoom(first, last);
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => { if (place.clientWidth) plot.setSize({ width: place.clientWidth, height: height() }); }).observe(place);
    new MutationObserver(() => plot.redraw(false)).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
    say(plot);
    return box;
  };

  document.querySelectorAll("figure[data-plot]").forEach((figure) => {
    const picture = figure.querySelector("svg");
    const address = new URL(figure.dataset.plot, location.href.split("#")[0]).href;
    const explore = button("Explore", false);
    explore.className = "explore";
    const of = figure.querySelector("figcaption a[download]").getAttribute("aria-label").replace(/^Numbers of | \(CSV\)$/g, "");
    const name = (word) => { explore.textContent = word; explore.setAttribute("aria-label", `${word}: ${of}`); };
    name("Explore");
    let box = null;
    explore.addEventListener("click", async () => {
      const opening = explore.getAttribute("aria-pressed") === "false";
      try {
        if (opening && !box) await Promise.all([library(), load(address)]);
      } catch { explore.remove(); return; } // the numbers are not here: the picture stays
      explore.setAttribute("aria-pressed", opening);
      name(opening ? "Picture" : "Explore");
      figure.classList.toggle("exploring", opening);
      picture.toggleAttribute("hidden", opening);
      if (opening && !box) box = draw(figure, found[address]);
      box.hidden = !opening;
    });
    figure.querySelector("figcaption").prepend(explore, " ");
  });
})();
