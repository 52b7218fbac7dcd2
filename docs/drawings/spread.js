(() => {
// Random scores at every width: their histogram, the weights of one query, and the gradient that gets through the softmax.
function draw({ view, data, el, svg, set, number, grouped, softmax, say, said, slider, toggle, button, expose }) {
  const { widths, counts, bin, deviation, scores, gradient } = data, kinds = ["plain", "scaled"], bins = counts.plain[0].length;
  let at = data.start, query = data.query, scaled = false;
  const kind = () => kinds[+scaled], scale = () => (scaled ? widths[at] ** -0.5 : 1);

  // ---- The histogram: its tallest bin has the full height, so that one sees its shape at every width ----
  const full = 350, deep = 150, low = deep + 6, unit = full / bins, middle = full / 2;
  const area = svg("path", { fill: "var(--neutral)", "fill-opacity": 0.55, stroke: "var(--neutral)", "stroke-width": 1 });
  const reach = svg("path", { stroke: "var(--rose)", "stroke-width": 3, fill: "none" }), name = svg("text", { "text-anchor": "middle", style: "font-size: 13px; font-weight: 600" });
  const tick = (x) => svg("text", { x: middle + (x / bin) * unit, y: low + 50, "text-anchor": x < 0 ? "start" : x > 0 ? "end" : "middle", style: "font-size: 12px; fill: var(--soft)" }, number(x, 0));
  const most = (bin * bins) / 2, picture = svg("svg", { width: full, height: low + 54, viewBox: `0 0 ${full} ${low + 54}`, role: "img", style: "height: auto; flex: none",
    "aria-label": "A histogram of the scores of random queries and keys" },
    area, svg("path", { d: `M0 ${low}H${full}M${middle} ${low}v6`, stroke: "var(--soft)" }), reach, name, ...[-most, 0, most].map(tick));
  function showScores() {
    const now = counts[kind()][at], top = Math.max(...now), wide = (deviation[kind()][at] / bin) * unit;
    set(area, { d: `M0 ${low}${now.map((n, i) => `V${(low - (deep * n) / top).toFixed(1)}H${((i + 1) * unit).toFixed(1)}`).join("")}V${low}Z` });
    set(reach, { d: `M${middle - wide} ${low + 11}v8M${middle + wide} ${low + 11}v8M${middle - wide} ${low + 15}H${middle + wide}` });
    set(name, { x: middle, y: low + 35 });
    name.textContent = `standard deviation ${number(deviation[kind()][at], 1)}`;
  }

  // ---- The weights of one query, and what is left of the gradient ----
  const high = 110, bars = scores[0][0].map(() => ({ bar: el("div", { "data-sym": "w" }), text: el("span", { style: "font-size: 12px" }), key: el("span", { style: "font-size: 12px; color: var(--soft)" }) }));
  const columns = el("div", { role: "img", "aria-label": "The weights that one query gives to its keys", style: `display: grid; grid-template-columns: repeat(${bars.length}, 1fr); gap: 4px; text-align: center` },
    ...bars.map(({ bar, text, key }, i) => {
      key.textContent = i + 1;
      return el("div", { style: "min-width: 0; line-height: 16px" }, el("div", { style: `display: flex; flex-direction: column; justify-content: flex-end; height: ${high + 16}px` }, text, bar), key);
    }));
  const fill = el("div", {}), left = el("span", { style: "min-width: 2.6rem; text-align: right; font-weight: 600" });
  const gauge = el("div", { style: "display: flex; gap: 8px; align-items: center; font-size: 13px; margin-top: 0.4rem" },
    el("span", {}, "gradient left"), el("div", { style: "flex: 1; height: 14px; box-sizing: border-box; border: 1px solid var(--soft); border-radius: 3px" }, fill), left);
  const weights = () => softmax(scores[at][query].map((x) => x * scale()));
  function showWeights() {
    const now = weights(), most = Math.max(...Object.values(gradient).flat()), part = gradient[kind()][at];
    bars.forEach(({ bar, text }, i) => {
      set(bar, { style: `height: ${(high * now[i]).toFixed(1)}px; background: var(--w); border-radius: 2px 2px 0 0; box-shadow: 0 1px 0 var(--soft)` });
      text.textContent = number(now[i]);
    });
    set(fill, { style: `height: 100%; width: ${((100 * part) / most).toFixed(1)}%; background: var(--neutral)` });
    left.textContent = number(part);
  }

  function show() {
    showScores();
    showWeights();
    const best = Math.max(...weights());
    say(`Width ${grouped(widths[at])}${scaled ? ", divided by √d" : ""}: a typical score is ${number(deviation[kind()][at], 1)} from 0. This query gives ${number(best)} of its weight to one key.`
      + ` The gradient through the softmax is ${number(gradient[kind()][at])} of what it is at width 1.`);
  }
  const title = (text, sym) => el("div", { "data-sym": sym, style: "font-size: 13px; font-weight: 600; margin-bottom: 2px" }, text);
  const range = slider("width d", { min: 0, max: widths.length - 1, step: 1, value: at, text: (i) => grouped(widths[i]), input: (i) => { at = i; show(); } });
  set(said, { style: `min-height: ${view.clientWidth < 600 ? 5.6 : 2.8}em; margin-top: 0.4rem` });
  view.append(
    el("div", { class: "row", style: "margin-top: 0" }, range, toggle("divide by √d", false, (on) => { scaled = on; show(); }),
      button("Another query", () => { query = (query + 1) % scores[0].length; show(); })),
    el("div", { class: "beside", style: "align-items: flex-start; gap: 0.5rem 1.6rem; margin: 0" },
      el("div", { style: "min-width: 0; max-width: 100%" }, title(`scores of ${grouped(data.pairs)} random pairs`), picture),
      el("div", { style: "flex: 1 1 240px; max-width: 330px" }, title(`weights of one query, ${bars.length} keys`, "w"), columns, gauge)),
    said);
  show();
  expose(() => ({ width: widths[at], query, scaled, weights: weights(), counts: counts[kind()][at], deviation: deviation[kind()][at], gradient: gradient[kind()][at] }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=spread]")) draw(stage(figure));
})();
