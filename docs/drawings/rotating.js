(() => {
function draw({ view, viewWidth, data, el, svg, set, sum, clamp, dot, number, grouped, said, say,
  slider, choices, more, handle, expose }) {
  const { token, vector, trained, factor } = data;
  const half = vector.length / 2;
  const all = [...Array(half).keys()];
  const pairs = all.map((i) => [vector[i], vector[i + half]]);
  const top = dot(vector, vector);
  const longest = 64;
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
  const dashes = [null, "9 4", "4 4", "1.5 4"];
  const inkOf = (i) => ({ stroke: "var(--soft)", "stroke-width": 1.5,
    "stroke-dasharray": dashes[i % dashes.length] });
  const circles = all.map((i) => {
    const arc = line("var(--neutral)", 3);
    const key = line("var(--k)", 6, "k");
    const query = line("var(--q)", 3, "q");
    const text = el("div", { style: "font-size: 13px; text-align: center" });
    const box = { viewBox: "-56 -56 112 112", style: "width: 100%", "aria-hidden": true };
    const rim = trained ? { stroke: "var(--faint)" } : inkOf(i);
    const face = svg("svg", box,
      svg("circle", { r: 52, fill: "none", ...rim }),
      svg("path", { d: "M0 0H52", stroke: "var(--faint)" }),
      arc, key, query);
    const node = el("div", { style: "flex: 1 1 0; min-width: 0; max-width: 132px" }, face, text);
    if (!trained) lights(node, i);
    return { node, arc, key, query, text };
  });
  function lights(node, i) {
    set(node, { tabindex: 0, role: "img", onpointerenter: () => light(i), onfocus: () => light(i),
      onpointerleave: () => light(null), onblur: () => light(null) });
  }
  const ray = (pair) => `M0 0L${(pair[0] / reach) * 48} ${-(pair[1] / reach) * 48}`;
  function arc(from, to) {  // from the key to the query, the short way round
    const gap = Math.atan2(Math.sin(to - from), Math.cos(to - from));
    const at = (a) => `${26 * Math.cos(a)} ${-26 * Math.sin(a)}`;
    return `M${at(from)}A26 26 0 0 ${gap > 0 ? 0 : 1} ${at(from + gap)}`;
  }

  const wide = Math.min(720, viewWidth || 350);
  const high = wide < 600 ? 130 : 150;
  const lowest = -0.42 * top;  // with base 1,000
  const beside = trained || wide < 600 ? 8 : 60;  // for the names of the curves
  const x = (d) => 14 + ((wide - 14 - beside) * d) / longest;
  const y = (s) => 24 + ((high - 34) * (top - s)) / (top - lowest);
  const along = { fill: "none", "stroke-linejoin": "round" };
  const full = { stroke: "var(--neutral)", "stroke-width": 2.5, ...along };
  const thin = { stroke: "var(--soft)", "stroke-width": 1.5 };
  const dashed = { ...thin, "stroke-dasharray": "4 3", ...along };
  const curve = svg("path", full);
  const parts = (trained ? [] : all).map((i) =>
    svg("path", { class: "moves", ...inkOf(i), ...along }));
  const ends = parts.map((_, i) => svg("text", { class: "moves", x: x(longest) + 6,
    style: "font-size: 13px" }, wide < 600 ? "" : `pair ${i}`));
  function light(chosen) {  // a circle is pointed at: its curve among the others
    [parts, ends].forEach((nodes) => nodes.forEach((node, i) =>
      set(node, { opacity: chosen === null || i === chosen ? 1 : 0.2 })));
    parts.forEach((part, i) => set(part, { "stroke-width": i === chosen ? 3 : 1.5 }));
  }
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
  const tall = high + (trained ? 36 : 14);
  const frame = { width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`,
    style: "margin-top: 8px" };
  const chart = svg("svg", { ...frame, role: "group", "aria-label": "The score at each distance" },
    svg("rect", { x: edge, y: 0, width: x(longest) - edge, height: high - 4, fill: "var(--faint)",
      opacity: 0.6 }),
    svg("path", { d: `M${x(0)} ${y(0)}H${x(longest)}`, stroke: "var(--soft)" }),
    svg("text", { x: x(0) - 4, y: y(0) + 5, "text-anchor": "end", ...small }, "0"),
    ...parts, ...ends, drop, before, curve, value, mark,
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
    const says = `pair ${i}: ${number(degrees, digitsOf(degrees))}°`;
    circle.text.textContent = says;
    if (!trained) set(circle.node, { "aria-label": `${says} per position` });
  }
  function placeEnds(now) {  // of two that would touch, the lower one moves down
    const sizes = ends.map((_, i) => y(dot(pairs[i], pairs[i]) * Math.cos(longest * now[i])) + 5);
    let last = -Infinity;
    for (const i of [...ends.keys()].sort((a, b) => sizes[a] - sizes[b] || b - a)) {
      last = Math.max(sizes[i], last + 15);
      set(ends[i], { y: last });
    }
  }
  const halves = [...Array(longest * 2 + 1).keys()].map((i) => i / 2);
  const pointOf = (d, s) => `${x(d).toFixed(1)} ${y(s).toFixed(1)}`;
  const through = (f) => `M${halves.map((d) => pointOf(d, f(d))).join("L")}`;
  const path = (how) => through((d) => score(d, how));
  function showCurve(s) {
    set(curve, { d: path(scaling) });
    const now = scalings[names[scaling]]();
    parts.forEach((part, i) => {  // what each pair adds to the score
      set(part, { d: through((d) => dot(pairs[i], pairs[i]) * Math.cos(d * now[i])) });
    });
    placeEnds(now);
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
  const inLine = "display: flex; gap: 8px; justify-content: space-between";
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
