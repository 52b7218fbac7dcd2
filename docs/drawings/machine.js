(() => {
// A whole decoder-only transformer: each part is a box, each arrow has its shape, and the part that is chosen says what it does.
function draw({ view, data, el, svg, set, grouped, said, say, slider, expose }) {
  const { tokens, next, n_blocks, parts } = data, wide = view.clientWidth >= 600;
  const width = 356, height = 574, stream = 124, arm = 248;  // x of the residual stream, and of the parts beside it
  const text = (x, y, says, more = {}) => svg("text", { x, y, "aria-hidden": true, "pointer-events": "none", ...more }, says);
  const line = (d, more = {}) => svg("path", { d, fill: "none", stroke: "currentColor", "stroke-width": 1.5, ...more });
  const head = (x, y, way) => {  // of an arrow that ends here: down, left
    const points = { down: [[-4, -8], [4, -8]], left: [[8, -4], [8, 4]] }[way].map(([a, b]) => `${x + a} ${y + b}`);
    return svg("path", { d: `M${x} ${y}L${points.join("L")}Z`, fill: "currentColor", stroke: "none" });
  };
  let chosen = 0;

  // ---- The parts, and where each stands: its middle, its height, its width ----
  const places = [[stream, 18, 28, 172], [stream, 68, 28, 172], [arm, 108, 26, 132], [arm, 186, 24, 132], [arm, 220, 28, 132], [stream, 250],
    [arm, 288, 24, 132], [arm, 322, 28, 132], [stream, 352], [stream, 410, 26, 172], [stream, 456, 28, 172], [stream, 508, 26, 172], [stream, 554, 28, 44]];
  const choose = (i) => ({ style: "cursor: pointer", onclick: () => { pick.move(i); go(i); } });
  const node = ([x, y, high, broad], i) => (high
    ? svg("rect", { x: x - broad / 2, y: y - high / 2, width: broad, height: high, rx: 5, ...choose(i) })
    : svg("circle", { cx: x, cy: y, r: 10, ...choose(i) }));
  const nodes = places.map(node), root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", style: "min-width: 0; max-width: calc(100vw - 3rem); height: auto" });
  const names = places.flatMap(([x, y, high], i) => (i && i < 12 ? [text(x, y + 5, high ? parts[i].label : "+", { "text-anchor": "middle" })] : []));

  // ---- The arrows, with the shape of what flows ----
  const shape = (x, y, says, anchor = "start") => text(x, y, says, { "text-anchor": anchor, style: "font-size: 13px; fill: var(--soft)" });
  const down = (from, to) => [line(`M${stream} ${from}V${to - 4}`), head(stream, to, "down")];
  const aside = (from, top, bottom, to) => [line(`M${stream} ${from}H${arm}V${top - 4}`), head(arm, top, "down"), line(`M${arm} ${bottom}V${to}H${stream + 14}`), head(stream + 10, to, "left")];
  const hidden = "(b, n, d_model)", scores = "(b, n, vocabulary)", left = stream - 14;
  root.append(
    svg("rect", { x: 4, y: 144, width: 322, height: 226, rx: 8, fill: "none", stroke: "var(--soft)", "stroke-dasharray": "5 3" }),
    text(318, 160, `${n_blocks} blocks`, { "text-anchor": "end", style: "font-weight: 600" }),
    ...down(32, 54), shape(stream + 10, 47, "(b, n)"), ...down(82, 98), line(`M${arm - 66} 108H${stream + 14}`), head(stream + 10, 108, "left"), svg("circle", { cx: stream, cy: 108, r: 10, fill: "none", stroke: "currentColor" }), text(stream, 113, "+", { "text-anchor": "middle" }),
    ...down(118, 240), shape(stream + 10, 136, hidden), ...aside(166, 174, 234, 250), line(`M${arm} 198V206`), ...down(260, 342), shape(left, 254, hidden, "end"),
    ...aside(268, 276, 336, 352), line(`M${arm} 300V308`), ...down(362, 397), shape(left, 356, hidden, "end"), shape(stream + 10, 387, hidden), ...down(423, 442), shape(stream + 10, 436, hidden),
    ...down(470, 495), shape(stream + 10, 486, scores), ...down(521, 540), shape(stream + 10, 534, scores),
    line(`M${stream + 22} 554H346V18H${stream + 94}`, { "stroke-dasharray": "3 4" }), head(stream + 90, 18, "left"), shape(stream + 30, 570, "append, and again"), ...nodes, ...names,
    ...tokens.map((token, i) => text(stream - 66 + 44 * i, 23, token, { "text-anchor": "middle", style: "font-weight: 600" })),
    text(stream, 559, next, { "text-anchor": "middle", style: "font-weight: 600" }));

  // ---- What is chosen ----
  function go(i) {
    chosen = i;
    const { name, says, parameters, shape } = parts[i];
    nodes.forEach((node, j) => set(node, { fill: "var(--neutral)", "fill-opacity": j === i ? 0.4 : 0.16, stroke: j === i ? "var(--rose)" : "var(--neutral)", "stroke-width": j === i ? 3 : 1 }));
    set(root, { "aria-label": `A decoder-only transformer from token ids to the next token; marked: ${name}` });
    say(`${i + 1}. ${name}. ${says} Shape: ${shape}.${parameters ? ` Parameters: ${grouped(parameters)}.` : ""}`);
  }
  const pick = slider("Part", { min: 0, max: parts.length - 1, step: 1, value: 0, text: (i) => `${i + 1} of ${parts.length}`, input: go });
  set(said, { style: `min-height: ${wide ? 9.8 : 7}em` });
  view.append(el("div", { class: "beside", style: "align-items: flex-start; flex-wrap: nowrap; gap: 1.5rem" + (wide ? "" : "; flex-direction: column") },
    el("div", { style: wide ? "flex: 1 1 14rem; min-width: 0" : "width: 100%" }, pick, said), root));
  go(0);
  expose(() => ({ chosen, name: parts[chosen].name, parameters: parts.map(({ parameters }) => parameters) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=machine]")) draw(stage(figure));
})();
