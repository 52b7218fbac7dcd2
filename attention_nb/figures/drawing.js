// What every drawing is made of. `stage(figure)` gives a script its data, its room, and ways to
// draw, ask and move.
function stage(figure) {
  "use strict";
  const view = figure.querySelector(".view");
  const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const viewWidth = widthOf(view);
  view.replaceChildren();

  // The widths of all figures of a page are read at once, before the first is drawn: read after a
  // change, each would lay the whole page out anew.
  function widthOf(view) {
    const widths = stage.widths ??= new WeakMap();
    if (!widths.has(view)) {
      const views = [view, ...document.querySelectorAll("figure.drawing > .view")];
      for (const one of views) widths.set(one, one.clientWidth);
    }
    return widths.get(view);
  }

  // ---- Elements: el("p", { class: "row" }, "text", child); what begins with "on" listens ----
  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === false || value == null) node.removeAttribute(name);
      else node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
    }
    if (children.length) node.replaceChildren(...children);
    return node;
  }
  const el = (tag, attributes, ...children) =>
    fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  const set = (node, attributes, ...children) => fill(node, attributes, children);

  // ---- Numbers: as the package computes them ----
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const column = (matrix, j) => matrix.map((row) => row[j]);
  const matmul = (rows, matrix) =>
    rows.map((row) => matrix[0].map((_, j) => dot(row, column(matrix, j))));
  function softmax(scores) {  // -Infinity is forbidden; a row of nothing else is all zero
    const top = Math.max(...scores);
    if (top === -Infinity) return scores.map(() => 0);
    const powers = scores.map((x) => Math.exp(x - top));
    const total = sum(powers);
    return powers.map((p) => p / total);
  }
  // Numbers, or lists of them, on the way from a (t = 0) to b (t = 1).
  const between = (a, b, t) =>
    (Array.isArray(a) ? a.map((x, i) => between(x, b[i], t)) : a + (b - a) * t);
  const mix = (weights, values) => values[0].map((_, j) => dot(weights, column(values, j)));
  // 1,234.5, and no other way in any drawing
  const grouped = (x, form) => formatOf(form).format(x).replace("-", "−");
  function formatOf(form) {  // made once for each form: to make one takes longer than to draw
    const formats = stage.formats ??= new Map();
    const key = JSON.stringify(form ?? {});
    if (!formats.has(key)) formats.set(key, new Intl.NumberFormat("en", form));
    return formats.get(key);
  }
  function number(x, digits = 2) {
    const shown = Math.abs(x) < 0.5 * 10 ** -digits ? 0 : x;  // no −0.00
    return grouped(shown, { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }
  const quoted = (word) => `“${word}”`;
  const high = { "−": "⁻", "-": "⁻", "(": "⁽", ")": "⁾", ...[..."⁰¹²³⁴⁵⁶⁷⁸⁹"] };
  const raised = (x) => [...String(x)].map((sign) => high[sign] ?? sign).join("");
  const listed = (items, write = quoted) =>
    items.map((item) => write(item)).join(", ").replace(/, (?=[^,]*$)/, " and ");
  const vector = (row, write) => `(${row.map((x) => write(x)).join(", ")})`;
  const percent = (part) => `${number(100 * part, 0)}%`;
  // Parts as whole numbers that sum to `whole`: those that lose most by it are rounded up.
  function rounded(parts, whole) {
    const low = parts.map(Math.floor);
    const lost = (i) => parts[i] - low[i];
    const up = [...parts.keys()].sort((a, b) => lost(b) - lost(a)).slice(0, whole - sum(low));
    return low.map((n, i) => n + up.includes(i));
  }
  const plural = (n, one, more = `${one}s`) => `${grouped(n)} ${n === 1 ? one : more}`;

  // ---- What is heard: a line under the figure, read out by screen readers after each change ----
  const said = el("output", { class: "said", "aria-live": "polite" });
  const say = (text) => { if (said.textContent !== text) said.textContent = text; };
  // JupyterLab would take the keys for itself
  const keep = { "data-lm-suppress-shortcuts": "true" };

  // ---- Controls ----
  // Each is made once, and then changed; one that was made anew would be lost to the finger that
  // is on it.
  function slider(name, { min, max, step, value, input, text = number }) {
    const shown = el("span");
    const range = el("input", { type: "range", min, max, step, value, "aria-label": name, ...keep,
      oninput: () => { tell(+range.value); input(+range.value); } });
    const node = el("label", { class: "row" }, el("span", {}, name), range, shown);
    function tell(at) {
      shown.textContent = text(at);
      set(range, { "aria-valuetext": text(at) });
      range.style.setProperty("--part", (at - range.min) / (range.max - range.min || 1));
    }
    node.move = (to, last = max) => {  // `last`: where it ends now, if that changes
      set(range, { max: last });
      range.value = to;
      tell(to);
    };
    tell(value);
    return node;
  }
  function choices(name, options, chosen, input) {  // radio buttons that look like buttons
    const group = `${name}-${Math.random()}`;
    const radio = (i) => el("input", { type: "radio", name: group, value: i, checked: i === chosen,
      onchange: () => input(i), ...keep });
    return el("div", { class: "row", role: "radiogroup", "aria-label": name },
      ...options.map((option, i) => el("label", { class: "choice" }, radio(i), option)));
  }
  const button = (text, onclick) => el("button", { type: "button", onclick, ...keep }, text);
  function toggle(text, on, input) {
    const press = () => set(node, { "aria-pressed": String(on) });
    const node = button(text, () => {
      on = !on;
      press();
      input(on);
    });
    return press();
  }
  // A figure begins with its picture and one or two controls; all others are one click away, under
  // these words.
  const more = (...controls) =>
    el("details", { class: "more" }, el("summary", keep, "More switches"), ...controls);
  // What the marks of a picture mean: of each its paint, or the mark itself, and its name.
  function legendOf(...entries) {
    const swatch = (paint) => el("span", { style: "flex: none; width: 16px; height: 14px; "
      + `box-shadow: inset 0 0 0 1px var(--faint); background: ${paint}` });
    const entry = ([mark, says]) =>
      el("span", { style: "display: inline-flex; align-items: center; gap: 5px" },
        typeof mark === "string" ? swatch(mark) : mark, says);
    const small = "font-size: 13px; gap: 0.2rem 0.9rem; margin-block: 0.1rem";
    return el("div", { class: "beside", style: small }, ...entries.map(entry));
  }
  // A hatch, at first that of pairs which a mask forbids: its definition, and the fill of squares.
  function hatch(id, ink = "var(--faint)", broad = 1.5, ground = "none") {
    const even = { width: 6, height: 6, patternUnits: "userSpaceOnUse" };
    const pattern = svg("pattern", { id, ...even, patternTransform: "rotate(45)" },
      svg("rect", { width: 6, height: 6, fill: ground }),
      svg("rect", { width: broad, height: 6, fill: ink }));
    return { node: svg("defs", {}, pattern), fill: `url(#${id})` };
  }
  // The hatch of such pairs where they are cells of a table.
  const hatched = "repeating-linear-gradient(135deg, "
    + "color-mix(in srgb, currentColor 34%, transparent) 0 1.5px, transparent 1.5px 6px)";
  const wash = (hue, part = 60) => `color-mix(in srgb, var(--${hue}) ${part}%, transparent)`;
  // Where Play goes: on, and anew from the end, or from the step that a figure shows before anybody
  // has used it.
  function follower(at, last, first) {
    let used = false;
    for (const kind of ["input", "click"]) view.addEventListener(kind, () => { used = true; });
    return () => {
      const anew = at() >= last() || (!used && at() > first);
      used = true;
      return anew ? first : at() + 1;
    };
  }
  // A button that goes on step by step: `at()` is the step that is shown, `go(i)` shows another.
  // What a reader chooses meanwhile calls `stop()`.
  function player({ at, last, go, ms = () => 750, first = 0 }) {
    let timer = null;
    const after = follower(at, last, first);
    const node = set(button("", () => (timer === null ? next() : stop())),
      { class: "play", style: "min-width: 5.5rem" });
    function wait(more) {
      timer = more ? setTimeout(next, ms()) : null;
      node.textContent = more ? "■ Stop" : "▶ Play";
    }
    function next() {
      const to = after();
      wait(to < last());
      go(to);
    }
    function start() {
      if (timer === null && at() < last()) wait(true);
    }
    function stop() {
      clearTimeout(timer);
      wait(false);
    }
    stop();
    return { node, stop, playing: () => timer !== null, start };
  }
  // The player of the figure that stands first on its page begins by itself, once, while it is in
  // sight, and rests for good when a reader uses the figure: the function that is given back. All
  // other figures rest, and so does this one where motion is unwanted. A figure whose question asks
  // to press Play rests, too, at the state that the question is about.
  // `first()` goes to where it begins, if not here. What it says is not read out.
  function byItself(play, first) {
    const rests = calm.matches || typeof IntersectionObserver === "undefined"
      || document.querySelector("figure.drawing") !== figure;
    if (rests) return () => { };
    const seen = ([{ isIntersecting }]) => (isIntersecting ? play.start() : play.stop());
    const watch = new IntersectionObserver(seen, { threshold: 0.5 });
    function end(e) {
      watch.disconnect();
      if (!play.node.contains(e?.target ?? null)) play.stop();  // that button stops by itself
      set(said, { "aria-live": "polite" });
    }
    for (const kind of ["pointerdown", "keydown", "input"]) {
      figure.addEventListener(kind, end, { once: true, capture: true });
    }
    set(said, { "aria-live": "off" });
    first?.();
    watch.observe(view);
    return end;
  }

  // ---- The table below: of what is drawn ----
  // `told()` gives its caption, columns and rows; they are written when the table is opened and,
  // while it is open, with each change of the picture.
  function tabulate(told) {
    if (typeof MutationObserver === "undefined") return;  // a still picture has that of the start
    const fold = figure.querySelector(".view ~ details");
    let written = "";
    function write() {
      const now = fold.open ? JSON.stringify(told()) : written;
      if (now !== written) fold.querySelector("table").replaceChildren(...partsOf(told()));
      written = now;
    }
    fold.addEventListener("toggle", write);
    const all = { subtree: true, childList: true, attributes: true, characterData: true };
    new MutationObserver(write).observe(view, all);
  }
  function partsOf({ caption, columns, rows, digits = 2 }) {
    const head = (scope) => (text) => el("th", { scope }, text);
    const cell = (x) => el("td", {}, typeof x === "number" ? number(x, digits) : x);
    const line = ([name, row]) => el("tr", {}, head("row")(name), ...row.map(cell));
    return [el("caption", {}, caption),
      el("thead", {}, el("tr", {}, el("td"), ...columns.map(head("col")))),
      el("tbody", {}, ...rows.map(line))];
  }

  // ---- Motion: f is called with 0 → 1; at once where motion is not wanted ----
  function tween(ms, f) {
    if (calm.matches || !ms) {
      f(1);
      return Promise.resolve();
    }
    return new Promise((done) => {
      const begun = performance.now();
      (function step(now) {
        const t = Math.min(1, (now - begun) / ms);
        f(t * t * (3 - 2 * t));
        if (t < 1) requestAnimationFrame(step);
        else done();
      })(begun);
    });
  }
  // What is written of a bar comes when the bar has come, after `ms`.
  const late = (node, ms, how = { opacity: [0, 0, 0, 1] }) =>
    calm.matches || node.animate?.(how, ms);
  // A tween that gives way when it is begun anew, and promises whether it came to its end.
  function motion() {
    let last = 0;
    return (ms, f) => {
      const mine = ++last;
      const on = () => mine === last;
      return tween(ms, (t) => { if (on()) f(t); }).then(on);
    };
  }

  // ---- A handle ----
  // Dragged, it gives `moved` a place in the picture `root`; a key gives `keyed` what `ways` says
  // of it.
  const onkeys = (ways, keyed) => (e) => {
    const way = ways[e.key];
    if (!way) return;
    e.preventDefault();
    e.stopPropagation();
    keyed(way, e);
  };
  function handle(root, name, place, [low, high], moved, ways, keyed) {
    const looks = { ...place, r: 16, fill: "transparent", class: "handle" };
    const node = svg("circle", { ...looks, tabindex: 0, role: "slider",
      "aria-label": `${name}, move it with the arrow keys`,
      "aria-valuemin": low, "aria-valuemax": high, ...keep, onkeydown: onkeys(ways, keyed) });
    node.addEventListener("pointerdown", (e) => {
      node.setPointerCapture(e.pointerId);
      e.preventDefault();
      node.focus();
    });
    // A finger moves it, and not the page: parts of an SVG are inline, and for them `touch-action`
    // does not count.
    node.addEventListener("touchstart", (e) => e.preventDefault());
    node.addEventListener("pointermove", (e) => {
      if (!node.hasPointerCapture(e.pointerId)) return;
      const box = root.getBoundingClientRect();
      const { x, y, width } = root.viewBox.baseVal;
      const scale = width / box.width;
      moved(x + (e.clientX - box.left) * scale, y + (e.clientY - box.top) * scale);
    });
    return node;
  }

  // ---- A plane with arrows ----
  // at([x, y]) gives pixels; arrow(…) can be drawn anew; drag(…) by mouse, touch and keys.
  function plane(size, reach, low = -reach, step = 1) {
    const unit = size / (reach - low);
    const at = ([x, y]) => [(x - low) * unit, (reach - y) * unit];
    const viewBox = `0 0 ${size} ${size}`;
    const root = svg("svg", { width: size, height: size, viewBox, role: "group" });
    for (let i = Math.ceil(low / step) * step; i <= reach + 1e-9; i += step) {
      const d = `M${at([i, low])}L${at([i, reach])}M${at([low, i])}L${at([reach, i])}`;
      const stroke = Math.abs(i) < 1e-9 ? "var(--soft)" : "var(--faint)";
      root.append(svg("path", { d, stroke, fill: "none", "aria-hidden": true }));
    }
    const p = { root, at, unit, low, reach };
    return { root, at, arrow: arrow.bind(null, p), drag: drag.bind(null, p) };
  }
  function arrow({ root, at }, colour, text = "") {
    const line = svg("path", { stroke: colour, "stroke-width": 3, fill: colour,
      "stroke-linejoin": "round" });
    const label = svg("text", { "aria-hidden": true, style: "font-weight: 600" }, text);
    const node = svg("g", {}, line, label);
    root.append(node);
    function point(to, from = [0, 0]) {
      const [x0, y0] = at(from);
      const [x, y] = at(to);
      const length = Math.hypot(x - x0, y - y0) || 1e-9;
      const [ux, uy] = [(x - x0) / length, (y - y0) / length];
      const h = Math.min(11, length);  // of its head
      const [bx, by] = [x - ux * h, y - uy * h];
      const left = `${bx - uy * h / 2} ${by + ux * h / 2}`;
      const right = `${bx + uy * h / 2} ${by - ux * h / 2}`;
      set(line, { d: `M${x0} ${y0}L${bx} ${by}M${x} ${y}L${left}L${right}Z` });
      set(label, { x: x + ux * 12 + (ux < 0 ? -7 * text.length : 0), y: y + uy * 12 + 5 });
    }
    return { node, label, point };
  }
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  function drag({ root, at, unit, low, reach }, name, value, moved, kinds = ["right", "up"]) {
    const by = 0.1;
    function move(to) {
      value = to.map((x) => Math.round(clamp(x, low, reach) / by) * by);
      const [cx, cy] = at(value);
      const said = value.map((n, i) => `${number(n, 1)} ${kinds[i]}`);
      set(node, { cx, cy, "aria-valuenow": value[0].toFixed(1),
        "aria-valuetext": said.join(", ") });
      moved(value);
    }
    const pulled = (x, y) => move([x / unit + low, reach - y / unit]);
    const keyed = (way, e) => move(value.map((n, i) => n + way[i] * by * (e.shiftKey ? 5 : 1)));
    const node = handle(root, name, {}, [low, reach], pulled, ways, keyed);
    root.append(node);
    move(value);
    return { node, move };
  }

  // What has `data-sym` is a query, a key, a value or a weight: pointed at or focused, it lights up
  // all that are the same. A finger that is lifted leaves them lit; so does the focus, when it goes
  // because one points at something else.
  const lit = document.documentElement?.dataset ?? {};
  const symbolOf = (node) => node.closest("[data-sym]")?.dataset.sym;
  function light({ target }) {
    const sym = symbolOf(target);
    if (sym) lit.lit = sym;
    else delete lit.lit;
  }
  for (const kind of ["pointerover", "focusin", "click"]) view.addEventListener(kind, light);
  view.addEventListener("pointerleave", ({ pointerType }) => {
    if (pointerType !== "touch") delete lit.lit;
  });
  view.addEventListener("focusout", ({ target }) => {
    if (symbolOf(target) === lit.lit) delete lit.lit;
  });

  // `state` is what the figure has computed, for the tests that hold it against the package.
  const expose = (state) => { figure.state = state; };
  return { figure, view, viewWidth, data, el, svg, set,
    sum, clamp, dot, matmul, softmax, mix, between,
    number, grouped, plural, listed, quoted, raised, vector, percent, rounded,
    said, say, slider, choices, button, toggle, more, legendOf, hatch, hatched, wash, player,
    byItself, tabulate, tween, motion, late, onkeys, handle, plane, expose, keep };
}
