(() => {
function draw({ view, viewWidth, data, el, svg, set, sum, clamp, dot, number, grouped, said, say,
  slider, choices, more, handle, expose }) {
  const { token, vector, trained, factor } = data;
  const half = vector.length / 2;
  const all = [...Array(half).keys()];
  const pairs = all.map((i) => [vector[i], vector[i + half]]);
  const top = dot(vector, vector);
  const longest = 64;
  const halves = [...Array(longest * 2 + 1).keys()].map((i) => i / 2);
  let { position, distance, base } = data;
  let scaling = trained ? 1 : 0;

  const frequencies = (b) => all.map((i) => b ** (-i / half));
  function yarn() {
    const pairOf = (beta) => half * Math.log(trained / (beta * 2 * Math.PI)) / Math.log(base);
    const first = Math.max(Math.floor(pairOf(32)), 0);
    const last = Math.min(Math.ceil(pairOf(1)), 2 * half - 1);
    const keep = all.map((i) => 1 - clamp((i - first) / (last - first || 0.001), 0, 1));
    return frequencies(base).map((f, i) => f * (keep[i] + (1 - keep[i]) / factor));
  }
  const scalings = {
    "as trained": () => frequencies(base),
    "linear": () => frequencies(base).map((f) => f / factor),
    "NTK": () => frequencies(base * factor ** (half / (half - 1))),
    "YaRN": yarn,
  };
  const names = Object.keys(scalings);
  function rotate([x, y], angle) {
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    return [x * cos - y * sin, x * sin + y * cos];
  }
  const rotated = (at, how = scaling) =>
    scalings[names[how]]().map((f, i) => rotate(pairs[i], at * f));
  const score = (d, how) => sum(rotated(d, how).map((pair, i) => dot(pair, pairs[i])));

  const reach = Math.max(...pairs.map(([x, y]) => Math.hypot(x, y)));
  const line = (colour, width, sym) => svg("path", { "data-sym": sym, stroke: colour,
    "stroke-width": width, "stroke-linecap": "round", fill: "none" });
  const wide = Math.min(720, viewWidth || 350);
  const broad = wide < 600 ? (wide - 3 * 4) / 4 : 140;
  const tall = wide < 600 ? 28 : 40;  // of its part of the score
  const along = { fill: "none", "stroke-linejoin": "round" };
  function partOf(i) {
    const [path, mark] = [svg("path", { stroke: "var(--neutral)", "stroke-width": 1.5, ...along }),
      svg("circle", { r: 5, fill: "var(--neutral)", stroke: "var(--paper)",
        "stroke-width": 1.5 })];
    const size = dot(pairs[i], pairs[i]);
    const largest = Math.max(...pairs.map((pair) => dot(pair, pair)));
    const at = (d, f) => [6 + ((broad - 12) * d) / longest,
      tall / 2 - ((tall / 2 - 4) * size * Math.cos(d * f)) / largest];
    const node = svg("svg", { width: broad, height: tall, viewBox: `0 0 ${broad} ${tall}`,
      "aria-hidden": true, style: "margin-top: 4px" },
      svg("path", { d: `M0 ${tall / 2}H${broad}`, stroke: "var(--faint)" }), path, mark);
    function show(f) {
      const [cx, cy] = at(distance, f);
      const points = halves.map((d) => at(d, f).map((n) => n.toFixed(1)).join(" "));
      set(path, { d: `M${points.join("L")}` });
      set(mark, { cx, cy });
    }
    return { node, show };
  }
  const circles = all.map((i) => {
    const arc = line("var(--neutral)", 3);
    const key = line("var(--k)", 6, "k");
    const query = line("var(--q)", 3, "q");
    const text = el("div", { style: "font-size: 13px; text-align: center" });
    const box = { viewBox: "-56 -56 112 112", style: "width: 100%", "aria-hidden": true };
    const face = svg("svg", box,
      svg("circle", { r: 52, fill: "none", stroke: "var(--faint)" }),
      svg("path", { d: "M0 0H52", stroke: "var(--faint)" }),
      arc, key, query);
    const part = trained ? null : partOf(i);
    const dial = el("div", { style: "max-width: 120px; margin: 0 auto" }, face);
    const style = `flex: 0 1 ${broad}px; min-width: 0`;
    const node = el("div", { style }, dial, text, ...(part ? [part.node] : []));
    return { node, arc, key, query, text, part };
  });
  const ray = (pair) => `M0 0L${(pair[0] / reach) * 48} ${-(pair[1] / reach) * 48}`;
  function arc(from, to) {  // from the key to the query, the short way round
    const gap = Math.atan2(Math.sin(to - from), Math.cos(to - from));
    const at = (a) => `${26 * Math.cos(a)} ${-26 * Math.sin(a)}`;
    return `M${at(from)}A26 26 0 0 ${gap > 0 ? 0 : 1} ${at(from + gap)}`;
  }

  const high = wide < 600 ? 130 : 150;
  const lowest = -0.42 * top;  // with base 1,000
  const x = (d) => 14 + ((wide - 22) * d) / longest;
  const y = (s) => 24 + ((high - 34) * (top - s)) / (top - lowest);
  const full = { stroke: "var(--neutral)", "stroke-width": 2.5, ...along };
  const dashed = { stroke: "var(--soft)", "stroke-width": 1.5, "stroke-dasharray": "4 3",
    ...along };
  const curve = svg("path", full);
  const before = svg("path", dashed);
  const drop = svg("path", { stroke: "var(--soft)", "stroke-dasharray": "4 4" });
  const mark = svg("circle", { r: 8, fill: "var(--neutral)", stroke: "var(--paper)",
    "stroke-width": 2 });
  const small = { style: "font-size: 13px" };
  const value = svg("text", { y: 15, style: "font-size: 17px; font-weight: 600" });  // above all
  const write = (at, text, anchor) =>  // below all curves
    svg("text", { x: at, y: high + 10, "text-anchor": anchor, ...small }, text);
  function entry(at, like, says) {  // of the legend: a piece of the line, and its name
    const line = svg("path", { ...like, d: `M${at} ${high + 26}h22` });
    const text = svg("text", { x: at + 28, y: high + 31 }, says);
    return [line, set(text, small)];
  }
  const legend = trained ? [
    ...entry(x(0), full, "score at each distance"),
    ...entry(x(0) + 190, dashed, "as trained"),
  ] : [];
  const edge = x(trained ?? longest);
  const farthest = trained ? `beyond the trained length, to ${longest}` : `distance ${longest}`;
  const deep = high + (trained ? 36 : 14);
  const frame = { width: wide, height: deep, viewBox: `0 0 ${wide} ${deep}`,
    style: "margin-top: 8px" };
  const chart = svg("svg", { ...frame, role: "group", "aria-label": "The score at each distance" },
    svg("rect", { x: edge, y: 0, width: x(longest) - edge, height: high - 4, fill: "var(--faint)",
      opacity: 0.6 }),
    svg("path", { d: `M${x(0)} ${y(0)}H${x(longest)}`, stroke: "var(--soft)" }),
    svg("text", { x: x(0) - 4, y: y(0) + 5, "text-anchor": "end", ...small }, "0"),
    drop, before, curve, value, mark,
    write(x(0), "distance 0", "start"),
    write(x(longest), farthest, "end"),
    ...legend);
  for (const text of chart.querySelectorAll("text")) set(text, { "aria-hidden": true });
  function goTo(to) {
    distance = Math.round(clamp(to, 0, longest));
    apart.move(distance);
    show();
  }
  const keys = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
  const knob = handle(chart, "point on the curve", {}, [0, longest],
    (px) => goTo((longest * (px - x(0))) / (x(longest) - x(0))), keys, (by) => goTo(distance + by));
  set(knob, { r: 12 });
  chart.append(knob);
  const places = el("span", { style: "font-variant-numeric: tabular-nums" });

  function digitsOf(degrees) {
    if (degrees < 1) return 2;
    return degrees < 10 ? 1 : 0;
  }
  function showCircle(circle, i, frequency, key, query) {
    const start = Math.atan2(pairs[i][1], pairs[i][0]);
    const degrees = (frequency * 180) / Math.PI;
    const [from, to] = [position, position + distance].map((at) => start + at * frequency);
    set(circle.key, { d: ray(key) });
    set(circle.query, { d: ray(query) });
    set(circle.arc, { d: arc(from, to) });
    circle.text.textContent = `pair ${i}: ${number(degrees, digitsOf(degrees))}°`;
    circle.part?.show(frequency);
  }
  const pointOf = (d, s) => `${x(d).toFixed(1)} ${y(s).toFixed(1)}`;
  const through = (f) => `M${halves.map((d) => pointOf(d, f(d))).join("L")}`;
  const path = (how) => through((d) => score(d, how));
  function showCurve(s) {
    set(curve, { d: path(scaling) });
    if (trained) set(before, { d: path(0) });
    set(drop, { d: `M${x(distance)} ${y(0)}V18` });
    const at = { cx: x(distance), cy: y(s) };
    set(mark, at);
    set(value, { x: clamp(at.cx, 50, wide - 50), "text-anchor": "middle" });
    value.textContent = `score ${number(s)}`;
    set(knob, { ...at, "aria-valuenow": distance,
      "aria-valuetext": `distance ${distance}, score ${number(s)}` });
  }
  const underlined = (sym, text) =>
    el("b", { "data-sym": sym, style: `border-bottom: 3px solid var(--${sym})` }, text);
  function showPlaces() {
    places.replaceChildren(
      underlined("k", `key at ${position}`), "  ",
      underlined("q", `query at ${position + distance}`));
  }
  function show(moved) {
    const now = scalings[names[scaling]]();
    const key = rotated(position);
    const query = rotated(position + distance);
    const s = score(distance);
    circles.forEach((circle, i) => showCircle(circle, i, now[i], key[i], query[i]));
    showCurve(s);
    showPlaces();
    say(moved
      ? `Both positions have changed, the distance is still ${distance}: `
        + `the score is still ${number(s)}.`
      : `“${token}” at positions ${position} and ${position + distance}, distance ${distance}: `
        + `the score is ${number(s)}.`);
  }

  const after = (change, moved = false) => (to) => {
    change(to);
    show(moved);
  };
  const whole = (n) => number(n, 0);
  const tens = (n) => grouped(Math.round(10 ** n));
  const shift = slider("Shift both", { min: 0, max: 32, step: 1, value: position, text: whole,
    input: after((to) => { position = to; }, true) });
  const apart = slider("Distance", { min: 0, max: longest, step: 1, value: distance, text: whole,
    input: after((to) => { distance = to; }) });
  const slower = slider("Base", { min: 3, max: 6, step: 0.5, value: Math.log10(base), text: tens,
    input: after((to) => { base = 10 ** to; }) });
  const scaled = () => el("div", { class: "row" },
    el("span", {}, `For sequences ${factor} times as long`),
    choices("Scaling", names, scaling, after((i) => { scaling = i; })));
  for (const one of [shift, apart, slower]) one.firstChild.style.minWidth = "4.4rem";
  const both = (...nodes) => el("div", { class: "row", style: "gap: 0 2rem" }, ...nodes);
  const [first, rest] = trained ? [[scaled(), apart], [both(shift, slower)]]
    : [[both(shift, apart)], [slower]];
  const inLine = "display: flex; gap: 4px; justify-content: space-between";
  view.append(
    el("div", { class: "beside", style: "min-height: 2em; margin-top: 0; white-space: pre-wrap" },
      places),
    el("div", { style: inLine }, ...circles.map((circle) => circle.node)),
    chart,
    ...first,
    el("div", { style: `min-height: ${wide < 600 ? 2.8 : 1.4}em` }, said),
    more(...rest));
  show();
  expose(() => ({
    position,
    distance,
    base,
    scaling: names[scaling],
    key: rotated(position),
    query: rotated(position + distance),
    score: score(distance),
  }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=rotating]")) begin(figure, draw);
})();
