(() => {
// The same word at two places: the hands of its pairs turn with the place, and the score sees only how far they are apart.
function draw({ view, data, el, svg, set, sum, clamp, dot, number, grouped, said, say, slider, choices, expose }) {
  const { word, row, trained, factor } = data, half = row.length / 2, all = [...Array(half).keys()];
  const pairs = all.map((i) => [row[i], row[i + half]]), top = dot(row, row), longest = 64;
  let { place, apart, base } = data, way = 0;

  // ---- What is computed: how far each pair turns a step, and what becomes of it for a longer text ----
  const speeds = (b) => all.map((i) => b ** (-i / half));
  function yarn() {
    const [low, high] = [32, 1].map((beta) => half * Math.log(trained / (beta * 2 * Math.PI)) / Math.log(base));
    const a = Math.max(Math.floor(low), 0), z = Math.min(Math.ceil(high), 2 * half - 1);
    const keep = all.map((i) => 1 - clamp((i - a) / (z - a || 0.001), 0, 1));
    return speeds(base).map((f, i) => f * (keep[i] + (1 - keep[i]) / factor));
  }
  const ways = {
    "as trained": () => speeds(base), "linear": () => speeds(base).map((f) => f / factor),
    "NTK": () => speeds(base * factor ** (half / (half - 1))), "YaRN": yarn,
  };
  const names = Object.keys(ways);
  const turn = ([x, y], angle) => [x * Math.cos(angle) - y * Math.sin(angle), x * Math.sin(angle) + y * Math.cos(angle)];
  const turned = (at) => ways[names[way]]().map((f, i) => turn(pairs[i], at * f));
  const score = (distance) => sum(turned(distance).map((hand, i) => dot(hand, pairs[i])));

  // ---- A dial for each pair: an orange hand for the key, a blue one for the query ----
  const reach = Math.max(...pairs.map(([x, y]) => Math.hypot(x, y)));
  const dials = all.map((i) => {
    const hand = (colour, width, sym) => svg("path", { "data-sym": sym, stroke: colour, "stroke-width": width, "stroke-linecap": "round", fill: "none" });
    const dial = { arc: hand("var(--neutral)", 3), key: hand("var(--k)", 6, "k"), query: hand("var(--q)", 3, "q"), text: el("div", { style: "font-size: 13px; text-align: center" }) };
    const face = svg("svg", { viewBox: "-56 -56 112 112", style: "width: 100%", "aria-hidden": true },
      svg("circle", { r: 52, fill: "none", stroke: "var(--faint)" }), svg("path", { d: "M0 0H52", stroke: "var(--faint)" }), dial.arc, dial.key, dial.query);
    dial.node = el("div", { style: "flex: 1 1 0; min-width: 0; max-width: 120px" }, face, dial.text);
    return dial;
  });
  const line = (pair) => `M0 0L${(pair[0] / reach) * 48} ${-(pair[1] / reach) * 48}`;
  function arc(from, to) {  // from the key's hand to the query's, the short way round
    const gap = Math.atan2(Math.sin(to - from), Math.cos(to - from)), at = (a) => `${26 * Math.cos(a)} ${-26 * Math.sin(a)}`;
    return `M${at(from)}A26 26 0 0 ${gap > 0 ? 0 : 1} ${at(from + gap)}`;
  }

  // ---- The score at each distance ----
  const wide = Math.min(620, view.clientWidth || 350), high = 130;
  const x = (distance) => 8 + ((wide - 16) * distance) / longest, y = (s) => 10 + ((high - 20) * (top - s)) / (2 * top);
  const curve = svg("path", { stroke: "var(--neutral)", "stroke-width": 2, fill: "none", "stroke-linejoin": "round" });
  const drop = svg("path", { stroke: "var(--soft)", "stroke-dasharray": "4 4" }), mark = svg("circle", { r: 7, fill: "var(--neutral)" });
  const write = (at, text, anchor) => svg("text", { x: at, y: high + 14, "text-anchor": anchor, style: "font-size: 13px" }, text);
  const chart = svg("svg", { width: wide, height: high + 20, viewBox: `0 0 ${wide} ${high + 20}`, "aria-hidden": true },
    svg("rect", { x: x(trained), y: 0, width: x(longest) - x(trained), height: high, fill: "var(--faint)", opacity: 0.6 }),
    svg("path", { d: `M${x(0)} ${y(0)}H${x(longest)}`, stroke: "var(--soft)" }), drop, curve, mark,
    write(x(0), "0 apart", "start"), write(x(longest), `further than in training, to ${longest}`, "end"));
  const result = el("span", { style: "font-variant-numeric: tabular-nums" });

  function showDial(dial, i, speed, key, query) {
    const start = Math.atan2(pairs[i][1], pairs[i][0]), degrees = (speed * 180) / Math.PI;
    set(dial.key, { d: line(key) });
    set(dial.query, { d: line(query) });
    set(dial.arc, { d: arc(start + place * speed, start + (place + apart) * speed) });
    dial.text.textContent = `${number(degrees, degrees < 1 ? 2 : degrees < 10 ? 1 : 0)}° a step`;
  }
  function showCurve(s) {
    const dots = [...Array(longest * 2 + 1).keys()].map((i) => `${x(i / 2).toFixed(1)} ${y(score(i / 2)).toFixed(1)}`);
    set(curve, { d: `M${dots.join("L")}` });
    set(drop, { d: `M${x(apart)} ${y(0)}V${y(s)}` });
    set(mark, { cx: x(apart), cy: y(s) });
  }
  function show(moved) {
    const now = ways[names[way]](), key = turned(place), query = turned(place + apart), s = score(apart);
    dials.forEach((dial, i) => showDial(dial, i, now[i], key[i], query[i]));
    showCurve(s);
    result.replaceChildren(el("b", { "data-sym": "k", style: "border-bottom: 3px solid var(--k)" }, `key at ${place}`), "  ",
      el("b", { "data-sym": "q", style: "border-bottom: 3px solid var(--q)" }, `query at ${place + apart}`), "  score ", el("b", { style: "font-size: 20px" }, number(s)));
    say(moved ? `Both stand at other places, still ${apart} apart: the score is still ${number(s)}.`
      : `“${word}” at places ${place} and ${place + apart}, ${apart} apart: the score is ${number(s)}.`);
  }
  const whole = (n) => number(n, 0), tens = (n) => grouped(Math.round(10 ** n));
  view.append(
    el("div", { class: "beside", style: "min-height: 2em; margin-top: 0; white-space: pre-wrap" }, result),
    el("div", { style: "display: flex; gap: 8px; justify-content: space-between; max-width: 620px" }, ...dials.map((dial) => dial.node)),
    chart,
    slider("Shift both", { min: 0, max: 32, step: 1, value: place, text: whole, input: (to) => { place = to; show(true); } }),
    slider("How far apart", { min: 0, max: longest, step: 1, value: apart, text: whole, input: (to) => { apart = to; show(); } }),
    slider("Base", { min: 1, max: 6, step: 0.5, value: Math.log10(base), text: tens, input: (to) => { base = 10 ** to; show(); } }),
    el("div", { class: "row" }, el("span", {}, `For texts ${factor} times as long`), choices("Scaling", names, way, (i) => { way = i; show(); })),
    el("div", { style: "min-height: 2.8em" }, said));
  show();
  expose(() => ({ place, apart, base, way: names[way], key: turned(place), query: turned(place + apart), score: score(apart) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=turning]")) draw(stage(figure));
})();
