// The form of a curve that a reader can zoom, read at a step, and switch conditions and seeds in. The picture stays where no script runs.
// uPlot and the numbers lie beside the pages and are loaded when a reader asks: nothing of this weighs on a page that is only read.
(() => {
  const assets = new URL(".", document.currentScript.src).href;
  const numbers = {}; // address of a script with numbers -> its object
  const loading = {};
  window.octavo = Object.assign(window.octavo || {}, {
    figure(made) { numbers[document.currentScript.src] = made; },
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

  // Expectations as bars over the steps that are scored, limits of stop rules as lines of dashes and dots.
  const drawLimits = (plot, limits, colourOf) => {
    const { ctx: pen, bbox } = plot;
    const ratio = devicePixelRatio, top = bbox.top, bottom = bbox.top + bbox.height;
    for (const limit of limits) {
      const [from, to] = [limit.first - 0.5, limit.last + 0.5].map((step) => plot.valToPos(step, "x", true));
      const bounds = [limit.above, limit.below].filter((bound) => bound !== null && (plot.scales.y.distr !== 3 || bound > 0))
        .map((bound) => Math.min(bottom, Math.max(top, plot.valToPos(bound, "y", true))));
      if (!bounds.length) continue;
      pen.strokeStyle = pen.fillStyle = paint(colourOf(limit.condition));
      pen.lineWidth = 1.4 * ratio;
      if (limit.kind === "stops") pen.setLineDash([6, 2, 1, 2].map((length) => length * ratio));
      else {
        const other = bounds[1] ?? bounds[0] + (limit.above === null ? 8 : -8) * ratio;
        pen.globalAlpha = 0.3;
        pen.fillRect(from, Math.min(bounds[0], other), to - from, Math.abs(other - bounds[0]));
        pen.globalAlpha = 1;
        pen.strokeStyle = css("--oct-ink");
      }
      for (const y of bounds) { pen.beginPath(); pen.moveTo(from, y); pen.lineTo(to, y); pen.stroke(); }
      pen.setLineDash([]);
    }
  };

  // Steps without a finite gradient hatched at the height of their run, another attempt dotted, the onset of a collapse a triangle, a stop by a rule a square.
  const drawMarks = (plot, made, marks) => {
    const { ctx: pen, bbox } = plot;
    const ratio = devicePixelRatio;
    const x = (step) => plot.valToPos(step, "x", true);
    for (const [mark, line] of marks) {
      pen.fillStyle = pen.strokeStyle = paint(line.colour);
      pen.lineWidth = 1.2 * ratio;
      if (mark.kind === "not_finite") {
        const known = (value) => typeof value === "number";
        const before = line.values.findLastIndex((value, at) => known(value) && made.steps[at] < mark.first);
        const level = before >= 0 ? line.values[before] : line.values.find((value, at) => known(value) && made.steps[at] > mark.last);
        if (level === undefined) continue;
        pen.fillStyle = hatch(pen, paint(line.colour));
        pen.fillRect(x(mark.first - 0.5), plot.valToPos(level, "y", true) - 6 * ratio, Math.max(2 * ratio, x(mark.last + 0.5) - x(mark.first - 0.5)), 12 * ratio);
      } else if (mark.kind === "attempt") {
        pen.setLineDash([ratio, 3 * ratio]);
        pen.beginPath(); pen.moveTo(x(mark.first - 0.5), bbox.top); pen.lineTo(x(mark.first - 0.5), bbox.top + bbox.height); pen.stroke();
        pen.setLineDash([]);
      } else if (mark.kind === "stopped") {
        pen.fillRect(x(mark.first) - 4 * ratio, bbox.top - 9 * ratio, 8 * ratio, 8 * ratio);
      } else {
        pen.beginPath(); pen.moveTo(x(mark.first) - 5 * ratio, bbox.top - 9 * ratio); pen.lineTo(x(mark.first) + 5 * ratio, bbox.top - 9 * ratio);
        pen.lineTo(x(mark.first), bbox.top); pen.fill();
      }
    }
  };

  // Mean of the values at most `half` steps away; never over a gap, which is null. undefined: a step at which the line has no value.
  const smoothed = (values, steps, half) => {
    const means = values.slice();
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value || 0)), 0);
    for (let begin = 0, end = 0; end <= values.length; end++) {
      if (end < values.length && values[end] !== null) continue;
      for (let at = begin, low = begin, high = begin, sum = 0, count = 0; at < end; at++) {
        for (; high < end && steps[high] <= steps[at] + half; high++) if (values[high] !== undefined) { sum += values[high]; count++; }
        for (; steps[low] < steps[at] - half; low++) if (values[low] !== undefined) { sum -= values[low]; count--; }
        if (values[at] !== undefined) means[at] = Math.abs(sum) < 1e-12 * largest ? 0 : sum / count; // what is left of differences is no value
      }
      begin = end + 1;
    }
    return means;
  };
  const SMOOTHING = { off: 0, light: 0.08, strong: 0.25 }; // part of the steps that a mean is over
  const MOST_NAMED = 12; // single seeds in the read-out; of more only the nearest is named

  const draw = (figure, made) => {
    const only = figure.dataset.run || null;
    const hidden = new Set(); // conditions
    const steps = made.steps, first = steps[0], last = steps[steps.length - 1];
    let seeds = true, smoothing = "off", axis = "linear", plots = [], under = null; // under: the plot that the pointer is over
    const on = (line) => !hidden.has(line.condition) && (line.mean || line.name === only || (seeds && !only));
    const colourOf = (condition) => made.conditions.find(({ name }) => name === condition)?.colour ?? 0;
    for (const line of made.lines) line.values = line.values.flatMap((value) => Array.isArray(value) ? Array(value[0]).fill(false) : [value]);
    const raw = made.lines.map((line) => line.values.map((value) => value === false ? undefined : value));
    let shownValues = raw;
    const width = () => Math.max(3, Math.round(SMOOTHING[smoothing] * (last - first + 1)));

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
    const readout = document.createElement("p");
    readout.className = "readout";
    readout.setAttribute("role", "status");
    box.append(tools, place, readout);
    figure.querySelector("figcaption").before(box);

    const height = () => Math.max(made.panels.length > 1 ? 130 : 220, Math.min(360, innerHeight * 0.5 / made.panels.length));
    const soft = (alpha) => () => `color-mix(in srgb, ${css("--oct-ink")} ${alpha}%, transparent)`;
    const look = { stroke: soft(75), font: `12px ${css("--oct-sans") || "sans-serif"}`, grid: { stroke: soft(13), width: 1 }, ticks: { stroke: soft(25), width: 1, size: 4 } };
    const whole = (line) => line.mean ? `${line.condition} mean` : line.counts ? line.name : `${line.name} (left out${line.why ? `: ${line.why}` : ""})`;
    const below = () => axis === "log" ? made.lines.reduce((sum, line) => sum + (on(line) ? line.values.filter((value) => typeof value === "number" && value <= 0).length : 0), 0) : 0;

    // The step under the pointer: the nearest line by its whole name, then each condition's mean with its seeds.
    const say = (plot) => {
      if (under && plot !== under) return;
      const index = plot.cursor.idx, lacks = below();
      const note = lacks ? ` A log axis has no place for ${lacks} values at or below 0.` : "";
      if (index === null || index === undefined) { readout.textContent = `Point at a curve, or drag over a part of it to zoom.${note}`; return; }
      const lines = made.lines.map((line, at) => ({ line, value: shownValues[at][index] })).filter(({ line }) => on(line));
      const known = lines.filter(({ value }) => typeof value === "number");
      const nearest = plot.lines && plot.cursor.top >= 0 ? known.filter(({ line }) => plot.lines.includes(line))
        .map((part) => [Math.abs(plot.valToPos(part.value, "y") - plot.cursor.top), part]).sort(([a], [b]) => a - b)[0]?.[1] : null;
      const single = known.filter(({ line }) => !line.mean), named = single.length <= MOST_NAMED;
      const groups = made.conditions.map(({ name: condition }) => {
        const mean = known.find(({ line }) => line.condition === condition && line.mean);
        const own = single.filter(({ line }) => line.condition === condition);
        const each = named && own.length ? ` (${own.map(({ line, value }) => `${line.name}${line.counts ? "" : " left out"} ${shown(value)}`).join(", ")})` : "";
        return mean || each ? `${condition} ${mean ? shown(mean.value) : "without a mean"}${each}` : "";
      }).filter(Boolean);
      const covers = ({ first: from, last: to }) => from <= steps[index] && steps[index] <= to;
      const marks = made.marks.filter((mark) => covers(mark) && lines.some(({ line }) => line.name === mark.run)).map((mark) => mark.says);
      const limits = made.limits.filter((limit) => covers(limit) && !hidden.has(limit.condition)).map((limit) => limit.says);
      const smooth = SMOOTHING[smoothing] ? `, means over ${width()} steps` : "";
      readout.textContent = `Step ${steps[index]}${smooth}: ${groups.join("; ") || "no value"}.`
        + (nearest ? ` Nearest: ${whole(nearest.line)} ${shown(nearest.value)}.` : "") + [...marks, ...limits].map((text) => ` ${text}.`).join("") + note;
    };

    const panelOf = (panel) => {
      const lines = made.lines.map((line, at) => ({ line, at })).filter(({ line }) => panel.includes(line.condition));
      const limits = made.limits.filter((limit) => panel.includes(limit.condition));
      const positive = lines.some(({ line }) => line.values.some((value) => value > 0)), log = axis === "log" && positive;
      const placed = (values) => log ? values.map((value) => value <= 0 ? null : value) : values;
      const style = (line, faint) => ({
        label: whole(line),
        stroke: () => paint(line.colour),
        width: faint ? 1 : line.mean ? (only ? 1.4 : 2.6) : only ? 2.2 : 1,
        alpha: faint ? 0.28 : line.mean ? (only ? 0.45 : 1) : only ? 1 : 0.6,
        dash: line.counts ? undefined : [3, 3],
        points: { show: false },
        show: on(line),
      });
      const behind = SMOOTHING[smoothing] ? lines : []; // the raw points stay in sight behind their means
      const drawn = [...behind.map((part) => ({ ...part, faint: true })), ...lines];
      const bounds = limits.flatMap((limit) => [limit.above, limit.below]).filter((bound) => bound !== null && (!log || bound > 0));
      const range = (_, low, high) => {
        if (low === null || low === undefined) return log ? [0.1, 1] : [0, 1];
        const widest = 4 * (high - low) || Math.max(1, 2 * Math.abs(high));
        for (const bound of bounds) if (Math.max(high, bound) - Math.min(low, bound) <= widest) [low, high] = [Math.min(low, bound), Math.max(high, bound)];
        if (low === high && !log) return [low - Math.max(0.5, Math.abs(low) * 0.1), high + Math.max(0.5, Math.abs(high) * 0.1)];
        return log ? uPlot.rangeLog(low, high, 10, false) : uPlot.rangeNum(low, high, 0.1, true);
      };
      const plot = new uPlot({
        width: place.clientWidth,
        height: height(),
        padding: [14, 8, 0, 0],
        legend: { show: false },
        cursor: { y: made.panels.length < 2, drag: { x: true, y: false }, points: { size: 6 }, sync: { key: figure.id } },
        scales: { x: { time: false }, y: { distr: log ? 3 : 1, range } },
        axes: [{ ...look }, { ...look, size: 52, values: (_, ticks) => ticks.map((tick) => tick === null ? "" : shown(tick).replace(/\.?0+e/, "e")) }],
        series: [{}, ...drawn.map(({ line, faint }) => style(line, faint))],
        hooks: {
          draw: [(u) => {
            u.ctx.save();
            u.ctx.beginPath();
            u.ctx.rect(u.bbox.left, u.bbox.top - 10 * devicePixelRatio, u.bbox.width, u.bbox.height + 10 * devicePixelRatio);
            u.ctx.clip();
            drawLimits(u, limits.filter((limit) => !hidden.has(limit.condition)), colourOf);
            drawMarks(u, made, made.marks.map((mark) => [mark, made.lines.find((line) => line.name === mark.run)])
              .filter(([, line]) => line && panel.includes(line.condition) && on(line)));
            u.ctx.restore();
          }],
          setCursor: [say],
          setScale: [(u, key) => { if (key === "x") plots.forEach((other) => { if (other !== u && other.scales.x.min !== u.scales.x.min) other.setScale("x", u.scales.x); }); }],
        },
      }, [steps, ...drawn.map(({ at, faint }) => placed(faint ? raw[at] : shownValues[at]))], place);
      plot.lines = lines.map(({ line }) => line);
      plot.drawn = drawn.map(({ line }) => line);
      plot.over.setAttribute("aria-hidden", "true");
      plot.over.addEventListener("pointerenter", () => { under = plot; });
      return plot;
    };
    const build = () => {
      plots.forEach((plot) => plot.destroy());
      under = null;
      shownValues = SMOOTHING[smoothing] ? raw.map((values) => smoothed(values, steps, width() / 2)) : raw;
      const panels = made.panels.length ? made.panels : [made.conditions.map((condition) => condition.name)];
      plots = [];
      for (const [at, panel] of panels.entries()) if (made.lines.some((line) => panel.includes(line.condition))) {
        if (panels.length > 1) {
          const title = document.createElement("small");
          title.textContent = made.titles?.[at] ?? panel.join(", ");
          title.className = "panel";
          place.append(title);
        }
        plots.push(panelOf(panel));
      }
      say(plots[0]);
    };
    const rebuild = () => { place.replaceChildren(); build(); };

    const refresh = () => plots.forEach((plot) => plot.batch(() => plot.drawn.forEach((line, at) => plot.setSeries(at + 1, { show: on(line) }))));
    for (const condition of made.conditions.filter((known) => made.lines.some((line) => line.condition === known.name))) {
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
    const choice = (words, label, chosen) => {
      const select = document.createElement("select");
      select.setAttribute("aria-label", label);
      for (const [value, text] of words) select.append(new Option(text, value));
      select.addEventListener("change", () => { chosen(select.value); rebuild(); });
      tools.append(select);
    };
    choice([["off", "not smoothed"], ["light", "smoothed lightly"], ["strong", "smoothed strongly"]], "Smoothing", (value) => { smoothing = value; });
    choice([["linear", "linear axis"], ["log", "log axis"]], "Vertical axis", (value) => { axis = value; });
    const zoom = (min, max) => plots.forEach((plot) => plot.setScale("x", { min: Math.max(first, min), max: Math.min(last, max) }));
    const all = button("show all steps");
    all.addEventListener("click", () => zoom(first, last));
    tools.append(all);
    place.addEventListener("keydown", (event) => {
      const plot = under || plots[0], { min, max } = plot.scales.x;
      const middle = (min + max) / 2, half = (max - min) / 2;
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move) {
        const index = Math.max(0, Math.min(steps.length - 1, (plot.cursor.idx ?? (move > 0 ? -1 : steps.length)) + move));
        plot.setCursor({ left: plot.valToPos(steps[index], "x"), top: 10 });
      } else if (event.key === "+") zoom(middle - half / 2, middle + half / 2);
      else if (event.key === "-") zoom(middle - half * 2, middle + half * 2);
      else if (event.key === "0") zoom(first, last);
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => { if (place.clientWidth) plots.forEach((plot) => plot.setSize({ width: place.clientWidth, height: height() })); }).observe(place);
    new MutationObserver(() => plots.forEach((plot) => plot.redraw(false))).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
    build();
    return { box, canvases: () => plots.map((plot) => plot.ctx.canvas) };
  };

  // A PNG of what is in sight: the picture on white, in the colours of a light page; the zoomed form as it stands.
  const drawing = async (picture) => {
    const copy = picture.cloneNode(true), { width, height } = picture.viewBox.baseVal;
    for (const [key, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width: 2 * width, height: 2 * height, "font-family": "sans-serif" })) copy.setAttribute(key, value);
    copy.removeAttribute("hidden");
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
    await image.decode();
    return image;
  };
  const savePng = async (figure, parts, paper) => {
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    canvas.width = Math.max(...parts.map((part) => part.width));
    canvas.height = parts.reduce((sum, part) => sum + part.height, 0);
    pen.fillStyle = paper;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    let top = 0;
    for (const part of parts) { pen.drawImage(part, 0, top); top += part.height; }
    const link = document.createElement("a");
    link.download = `${figure.id.replace(/^figure-/, "")}.png`;
    link.href = URL.createObjectURL(await new Promise((done) => canvas.toBlob(done, "image/png")));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  document.querySelectorAll("figure.picture").forEach((figure) => {
    const picture = figure.querySelector("svg"), caption = figure.querySelector("figcaption");
    const title = figure.querySelector("a[download]").getAttribute("aria-label").replace(/^Numbers of | \(CSV\)$/g, "");
    let open = null;
    const png = button("PNG");
    png.className = "png";
    png.setAttribute("aria-label", `${title} as PNG`);
    png.addEventListener("click", async () => {
      const exploring = figure.classList.contains("exploring");
      savePng(figure, exploring ? open.canvases() : [await drawing(picture)], exploring ? getComputedStyle(document.body).backgroundColor : "#fff");
    });
    caption.append(" ", png);
    if (!figure.dataset.plot) return;
    const address = new URL(figure.dataset.plot, location.href.split("#")[0]).href;
    const explore = button("Explore", false);
    explore.className = "explore";
    const name = (word) => { explore.textContent = word; explore.setAttribute("aria-label", `${word}: ${title}`); };
    name("Explore");
    explore.addEventListener("click", async () => {
      const opening = explore.getAttribute("aria-pressed") === "false";
      try {
        if (opening && !open) await Promise.all([library(), load(address)]);
      } catch { explore.remove(); return; } // the numbers are not here: the picture stays
      explore.setAttribute("aria-pressed", opening);
      name(opening ? "Picture" : "Explore");
      figure.classList.toggle("exploring", opening);
      picture.toggleAttribute("hidden", opening);
      if (opening && !open) open = draw(figure, numbers[address]);
      open.box.hidden = !opening;
    });
    caption.prepend(explore, " ");
  });
})();
