// Scores as bars to drag, their exponentials, and the weights: softmax in 32 bits, with its repair and without.
function draw({ view, viewWidth, data, el, svg, set, clamp, number, said, say, slider, choices, toggle, handle, expose }) {
  const { tokens, scores: given, reach } = data, f32 = Math.fround, wide = viewWidth >= 600;
  const scores = [...given], added = [0, 10, 100];
  let shift = 0, temperature = 1, repaired = false, exps = [], weights = [];
  const [width, zero, unit, powers, bar, full] = wide ? [640, 235, 22, 440, 460, 125] : [346, 130, 9.5, 246, 256, 48];
  const high = 40, top = 26, base = top + high * tokens.length;
  const root = svg("svg", { width, height: base + 24, viewBox: `0 0 ${width} ${base + 24}`, role: "group", style: "height: auto",
    "aria-label": "Scores to drag, and their weights" });
  const text = (x, y, anchor, says = "", more = {}) => svg("text", { x, y, "text-anchor": anchor, "aria-hidden": true, ...more }, says);
  const bold = { style: "font-weight: 600" };
  root.append(text(zero, 14, "middle", "score", bold), text(powers, 14, "end", wide ? "exponential" : "exp", bold), text(bar, 14, "start", "weight", { ...bold, "data-sym": "w" }));
  const ticks = [-reach, 0, reach].map((x) => {
    const label = text(zero + x * unit, base + 18, "middle");
    root.append(svg("path", { d: `M${zero + x * unit} ${top}V${base}`, stroke: x ? "var(--faint)" : "var(--soft)" }), label);
    return { x, label };
  });

  function compute() {  // in float32, as the package does: each step is rounded
    const x = scores.map((s) => f32(f32(s + shift) / f32(temperature)));
    const most = repaired ? Math.max(...x) : 0;
    exps = x.map((s) => f32(Math.exp(f32(s - most))));
    const sum = exps.reduce((a, b) => f32(a + b), 0);
    weights = exps.map((e) => f32(e / sum));
  }
  const raised = (n) => [...String(n)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[+c] ?? "⁻").join("");
  function short(x) {
    if (x === Infinity) return "∞";
    if (x && (x >= 1e4 || x < 0.005)) { const [m, e] = x.toExponential(1).split("e"); return `${m}·10${raised(+e)}`; }
    return number(x, x >= 100 ? 0 : 2);
  }

  const keys = { ArrowLeft: -0.1, ArrowDown: -0.1, ArrowRight: 0.1, ArrowUp: 0.1, PageDown: -1, PageUp: 1 };
  const rows = tokens.map((word, i) => {
    const y = top + high * (i + 0.5), move = (to) => { scores[i] = Math.round(clamp(to, -reach, reach) * 10) / 10; show(); };
    const part = { value: text(wide ? 100 : 78, y + 5, "end"), exp: text(powers, y + 5, "end"), weight: text(0, y + 5, "start", "", { "data-sym": "w" }),
      score: svg("rect", { y: y - 9, height: 18, fill: "var(--soft)", opacity: 0.55 }), dot: svg("circle", { cy: y, r: 6, fill: "currentColor" }),
      share: svg("rect", { x: bar, y: y - 9, height: 18, fill: "var(--w)", "data-sym": "w" }),
      cross: svg("path", { d: `M${bar} ${y - 9}l36 18m-36 0l36 -18`, stroke: "currentColor", "stroke-width": 2 }),
      knob: handle(root, `score of ${word}`, { cy: y }, [-reach, reach], (x) => move((x - zero) / unit), keys, (by, e) => move(scores[i] + by * (e.shiftKey ? 10 : 1))) };
    root.append(text(0, y + 5, "start", word, bold), ...Object.values(part));
    return part;
  });

  function showRow(part, i, broken) {
    const x = zero + scores[i] * unit, w = broken ? 0 : weights[i], score = number(scores[i] + shift, 1), weight = broken ? "NaN" : number(w);
    part.value.textContent = score;
    set(part.score, { x: Math.min(x, zero), width: Math.abs(x - zero) });
    set(part.dot, { cx: x });
    set(part.knob, { cx: x, "aria-valuenow": scores[i], "aria-valuetext": `${score}, weight ${weight}` });
    part.exp.textContent = short(exps[i]);
    set(part.share, { width: full * w });
    set(part.cross, { visibility: broken ? "visible" : "hidden" });
    set(part.weight, { x: broken ? bar + 44 : bar + full * w + 6 });
    part.weight.textContent = weight;
  }
  function show() {
    compute();
    const broken = weights.some(Number.isNaN), lost = !weights.some(Boolean) && !broken, list = tokens.map((word, i) => `${word} ${number(weights[i])}`).join(", ");
    for (const { x, label } of ticks) label.textContent = number(x + shift, 0);
    rows.forEach((part, i) => showRow(part, i, Number.isNaN(weights[i])));
    say(lost ? "The sum of the exponentials is beyond float32, so it is infinite, and every weight is 0."
      : !broken ? `${repaired ? "No exponential is above 1. " : ""}Weights: ${list}.` : exps.includes(Infinity) ?
      "An exponential is beyond float32, so it is infinite. Infinity ÷ infinity is not a number." :
      "Every exponential is 0 in float32. 0 ÷ 0 is not a number.");
  }

  view.append(root, said,
    choices("What is added to every score", ["as they are", "+10 to all", "+100 to all"], 0, (i) => { shift = added[i]; show(); }),
    el("div", { class: "row" }, toggle("subtract the maximum first", false, (on) => { repaired = on; show(); })),
    slider("temperature", { min: -1, max: 1, step: 0.05, value: 0, text: (x) => number(10 ** x, 2), input: (x) => { temperature = 10 ** x; show(); } }));
  if (!wide) set(said, { style: "min-height: 2.8em" });
  show();
  expose(() => ({ scores: scores.map((s) => s + shift), temperature, repaired, exps: exps.map(String), weights: weights.map(String) }));
}
