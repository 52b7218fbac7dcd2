(() => {
// The same token at two positions: its pairs rotate with the position, and the score depends only on the distance.
function draw({ view, viewWidth, data, el, svg, set, sum, clamp, dot, number, grouped, said, say, slider, choices, more, expose }) {
  const { token, vector, trained, factor } = data, half = vector.length / 2, all = [...Array(half).keys()];
  const pairs = all.map((i) => [vector[i], vector[i + half]]), top = dot(vector, vector), longest = 64;
  let { position, distance, base } = data, scaling = trained ? 1 : 0;

  // ---- What is computed: the frequency of each pair, and what a scaling makes of it ----
  const frequencies = (b) => all.map((i) => b ** (-i / half));
  function yarn() {
    const [low, high] = [32, 1].map((beta) => half * Math.log(trained / (beta * 2 * Math.PI)) / Math.log(base));
    const a = Math.max(Math.floor(low), 0), z = Math.min(Math.ceil(high), 2 * half - 1);
    const keep = all.map((i) => 1 - clamp((i - a) / (z - a || 0.001), 0, 1));
    return frequencies(base).map((f, i) => f * (keep[i] + (1 - keep[i]) / factor));
  }
  const scalings = {
    "as trained": () => frequencies(base), "linear": () => frequencies(base).map((f) => f / factor),
    "NTK": () => frequencies(base * factor ** (half / (half - 1))), "YaRN": yarn,
  };
  const names = Object.keys(scalings);
  const rotate = ([x, y], angle) => [x * Math.cos(angle) - y * Math.sin(angle), x * Math.sin(angle) + y * Math.cos(angle)];
  const rotated = (at, how = scaling) =>
    scalings[names[how]]().map((f, i) => rotate(pairs[i], at * f));
  const score = (d, how) => sum(rotated(d, how).map((pair, i) => dot(pair, pairs[i])));

  // ---- A circle for each pair: an orange line for the key, a blue one for the query ----
  const reach = Math.max(...pairs.map(([x, y]) => Math.hypot(x, y)));
  const circles = all.map((i) => {
    const line = (colour, width, sym) => svg("path", { "data-sym": sym, stroke: colour, "stroke-width": width, "stroke-linecap": "round", fill: "none" });
    const circle = { arc: line("var(--neutral)", 3), key: line("var(--k)", 6, "k"), query: line("var(--q)", 3, "q"), text: el("div", { style: "font-size: 13px; text-align: center" }) };
    const face = svg("svg", { viewBox: "-56 -56 112 112", style: "width: 100%", "aria-hidden": true },
      svg("circle", { r: 52, fill: "none", stroke: "var(--faint)" }), svg("path", { d: "M0 0H52", stroke: "var(--faint)" }), circle.arc, circle.key, circle.query);
    circle.node = el("div", { style: "flex: 1 1 0; min-width: 0; max-width: 120px" }, face, circle.text);
    return circle;
  });
  const ray = (pair) => `M0 0L${(pair[0] / reach) * 48} ${-(pair[1] / reach) * 48}`;
  function arc(from, to) {  // from the key to the query, the short way round
    const gap = Math.atan2(Math.sin(to - from), Math.cos(to - from)), at = (a) => `${26 * Math.cos(a)} ${-26 * Math.sin(a)}`;
    return `M${at(from)}A26 26 0 0 ${gap > 0 ? 0 : 1} ${at(from + gap)}`;
  }

  // ---- The score at each distance; grey: beyond the trained length ----
  const wide = Math.min(620, viewWidth || 350), high = 130;
  const x = (d) => 8 + ((wide - 16) * d) / longest, lowest = -0.42 * top;  // with base 1,000
  const y = (s) => 10 + ((high - 20) * (top - s)) / (top - lowest);
  const along = { fill: "none", "stroke-linejoin": "round" };
  const full = { stroke: "var(--neutral)", "stroke-width": 2.5, ...along };
  const thin = { stroke: "var(--soft)", "stroke-width": 1.5 };
  const dashed = { ...thin, "stroke-dasharray": "4 3", ...along };
  const curve = svg("path", full), before = svg("path", dashed);
  const drop = svg("path", { stroke: "var(--soft)", "stroke-dasharray": "4 4" }), mark = svg("circle", { r: 7, fill: "var(--neutral)" });
  const write = (at, text, anchor) => svg("text", { x: at, y: y(0) + 18, "text-anchor": anchor, style: "font-size: 13px" }, text);
  function entry(at, like, says) {  // of the legend: a piece of the line, and its name
    const line = svg("path", { ...like, d: `M${at} ${high + 12}h22` });
    const text = svg("text", { x: at + 28, y: high + 17 }, says);
    return [line, set(text, { style: "font-size: 13px" })];
  }
  const drawn = [entry(x(0), full, "score at each distance"),
    ...(trained ? [entry(x(0) + 190, dashed, "as trained")] : [])].flat();
  const chart = svg("svg", { width: wide, height: high + 20, viewBox: `0 0 ${wide} ${high + 20}`, "aria-hidden": true },
    svg("rect", { x: x(trained ?? longest), y: 0, width: x(longest) - x(trained ?? longest), height: high, fill: "var(--faint)", opacity: 0.6 }),
    svg("path", { d: `M${x(0)} ${y(0)}H${x(longest)}`, stroke: "var(--soft)" }), drop, before,
      curve, mark,
    write(x(0), "distance 0", "start"),
      write(x(longest), trained ? `beyond the trained length, to ${longest}`
      : `distance ${longest}`, "end"), ...drawn);
  const result = el("span", { style: "font-variant-numeric: tabular-nums" });

  function showCircle(circle, i, frequency, key, query) {
    const start = Math.atan2(pairs[i][1], pairs[i][0]), degrees = (frequency * 180) / Math.PI;
    set(circle.key, { d: ray(key) });
    set(circle.query, { d: ray(query) });
    set(circle.arc, { d: arc(start + position * frequency, start + (position + distance) * frequency) });
    circle.text.textContent = `pair ${i}: ${number(degrees, degrees < 1 ? 2 : degrees < 10 ? 1 : 0)}°`;
  }
  const halves = [...Array(longest * 2 + 1).keys()].map((i) => i / 2);
  const path = (how) =>
    `M${halves.map((d) => `${x(d).toFixed(1)} ${y(score(d, how)).toFixed(1)}`).join("L")}`;
  function showCurve(s) {
    set(curve, { d: path(scaling) });
    if (trained) set(before, { d: path(0) });
    set(drop, { d: `M${x(distance)} ${y(0)}V${y(s)}` });
    set(mark, { cx: x(distance), cy: y(s) });
  }
  function show(moved) {
    const now = scalings[names[scaling]](), key = rotated(position), query = rotated(position + distance), s = score(distance);
    circles.forEach((circle, i) => showCircle(circle, i, now[i], key[i], query[i]));
    showCurve(s);
    result.replaceChildren(el("b", { "data-sym": "k", style: "border-bottom: 3px solid var(--k)" }, `key at ${position}`), "  ",
      el("b", { "data-sym": "q", style: "border-bottom: 3px solid var(--q)" }, `query at ${position + distance}`), "  score ", el("b", { style: "font-size: 20px" }, number(s)));
    say(moved ? `Both positions have changed, the distance is still ${distance}: the score is still ${number(s)}.`
      : `“${token}” at positions ${position} and ${position + distance}, distance ${distance}: the score is ${number(s)}.`);
  }
  const whole = (n) => number(n, 0), tens = (n) => grouped(Math.round(10 ** n));
  const shift = slider("Shift both", { min: 0, max: 32, step: 1, value: position, text: whole, input: (to) => { position = to; show(true); } });
  const apart = slider("Distance", { min: 0, max: longest, step: 1, value: distance, text: whole, input: (to) => { distance = to; show(); } });
  const slower = slider("Base", { min: 3, max: 6, step: 0.5, value: Math.log10(base), text: tens,
    input: (to) => { base = 10 ** to; show(); } });
  const scaled = () => el("div", { class: "row" }, el("span", {}, `For sequences ${factor} times as long`), choices("Scaling", names, scaling, (i) => { scaling = i; show(); }));
  const [first, rest] = trained ? [[scaled(), apart], [shift, slower]] : [[shift, apart], [slower]];  // what the chapter is about comes first
  view.append(
    el("div", { class: "beside", style: "min-height: 2em; margin-top: 0; white-space: pre-wrap" }, result),
    el("div", { style: "display: flex; gap: 8px; justify-content: space-between; max-width: 620px" }, ...circles.map((circle) => circle.node)),
    chart, ...first, el("div", { style: "min-height: 2.8em" }, said), more(...rest));
  show();
  expose(() => ({ position, distance, base, scaling: names[scaling], key: rotated(position), query: rotated(position + distance), score: score(distance) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=rotating]")) draw(stage(figure));
})();
