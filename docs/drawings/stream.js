(() => {
// The residual stream through many blocks, once with each kind of norm: forward, the length of the hidden state after each block;
// then backward, the length of the gradient in each block.
function draw({ view, data, el, svg, set, number, say, said, slider, player, expose }) {
  const { runs } = data, n = runs[0].gradients.length, most = (key) => Math.max(...runs.flatMap((run) => run[key]));
  const tops = { lengths: most("lengths"), gradients: most("gradients") }, last = 2 * n - 1;
  let moment = data.moment;
  const back = () => moment >= n, block = () => (back() ? last - moment : moment);  // from 0
  const shown = (i) => ({ length: !back() ? i <= moment : true, gradient: back() && i >= block() });

  // ---- A panel for each run: bars up for hidden states, bars down for gradients, a column for each block ----
  const wide = view.clientWidth >= 600, up = wide ? 112 : 76, down = wide ? 78 : 54;
  const full = 340, left = 2, unit = (full - 2 * left) / n, head = 26, base = head + up, under = base + 20, deep = under + down + 16;
  const small = { "text-anchor": "middle", style: "font-size: 12px" };
  function panelOf(run) {
    const bars = run.gradients.map((_, i) => {
      const x = left + i * unit + 1, width = unit - 2;
      return { length: svg("rect", { x, width }), gradient: svg("rect", { x, width, y: under }) };
    });
    const frame = svg("rect", { y: head - 6, width: unit, height: deep - head, rx: 3, fill: "none", stroke: "var(--rose)", "stroke-width": 1.5 });
    const texts = { length: svg("text", { ...small }), gradient: svg("text", { ...small }) };
    const names = [1, n / 2, n].map((i) => svg("text", { ...small, x: left + (i - 0.5) * unit, y: base + 14, style: "font-size: 12px; fill: var(--soft)" }, i));
    const root = svg("svg", { width: full, height: deep, viewBox: `0 0 ${full} ${deep}`, role: "img", style: "height: auto", "aria-label": `${run.name}: bars up are lengths of hidden states, bars down are gradients` },
      ...bars.flatMap(({ length, gradient }) => [length, gradient]), ...names, frame, ...Object.values(texts));
    const formula = el("span", { style: "color: var(--soft)" }, run.formula);
    return { run, bars, frame, texts, node: el("div", { style: "min-width: 0; max-width: 100%" }, el("div", { style: "font-size: 14px" }, el("b", {}, run.name), " ", formula), root) };
  }
  const panels = runs.map(panelOf);
  const inside = (x) => Math.max(20, Math.min(full - 20, x));
  function showBar({ run, bars }, i) {
    const on = shown(i), now = i === block(), high = (up * run.lengths[i]) / tops.lengths, low = (down * run.gradients[i]) / tops.gradients;
    set(bars[i].length, { y: base - (on.length ? high : 1), height: on.length ? high : 1, fill: "var(--neutral)", "fill-opacity": now ? 1 : 0.6 });
    set(bars[i].gradient, { height: on.gradient ? low : 1, fill: "var(--rose)", "fill-opacity": now ? 1 : 0.6 });
  }
  function showPanel(panel) {
    const { run, bars, frame, texts } = panel, i = block(), middle = inside(left + (i + 0.5) * unit);
    bars.forEach((_, j) => showBar(panel, j));
    set(frame, { x: left + i * unit });
    set(texts.length, { x: middle, y: base - (up * run.lengths[i]) / tops.lengths - 6, class: "halo" }, number(run.lengths[i], 1));
    set(texts.gradient, { x: middle, y: under + (down * run.gradients[i]) / tops.gradients + 13, class: "halo", visibility: back() ? "visible" : "hidden" }, number(run.gradients[i], 3));
  }
  function tell() {
    const i = block(), each = (key, digits) => runs.map((run) => `${number(run[key][i], digits)} with ${run.name}`).join(", ");
    say(back() ? `Backward, block ${i + 1}: the gradient has the length ${each("gradients", 3)}.`
      : `Forward, after block ${i + 1}: a hidden state has the length ${each("lengths", 1)}.`);
  }
  function show() { panels.forEach(showPanel); tell(); }

  const text = (at) => (at < n ? `forward, block ${at + 1}` : `backward, block ${2 * n - at}`);
  const range = slider("Pass", { min: 0, max: last, step: 1, value: moment, text, input: (to) => { play.stop(); moment = to; show(); } });
  set(range.lastChild, { style: "min-width: 9.5rem" });
  const play = player({ at: () => moment, last: () => last, ms: () => 160, go: (to) => { moment = to; range.move(to, last); show(); } });
  const key = (colour, words) => el("span", { style: "display: inline-flex; gap: 6px; align-items: center" }, el("span", { style: `width: 12px; height: 12px; background: ${colour}` }), words);
  set(said, { style: `min-height: ${wide ? 2.8 : 4.2}em; margin-top: 0.4rem` });
  view.append(el("div", { class: "row", style: "margin-top: 0" }, play.node, range),
    el("div", { class: "beside", style: "gap: 0.4rem 1.5rem; align-items: flex-start; margin: 0" }, ...panels.map((panel) => panel.node)),
    el("div", { style: "display: flex; flex-wrap: wrap; gap: 2px 1.2rem; font-size: 13px" }, key("var(--neutral)", "up: length of a hidden state after the block"), key("var(--rose)", "down: length of the first gradient in the block")), said);
  show();
  expose(() => ({ moment, back: back(), block: block() + 1, lengths: runs.map((run) => run.lengths[block()]), gradients: runs.map((run) => run.gradients[block()]) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=stream]")) draw(stage(figure));
})();
