// Decoding token by token: what each step computes, what it reads from the cache, and the weights of the newest token.
function draw({ view, viewWidth, data, el, set, dot, softmax, mix, number, plural, said, say, choices, slider, player, motion, expose }) {
  const { tokens, q, k, v } = data, n = tokens.length, all = [...tokens.keys()];
  const kinds = [["query", "var(--q)"], ["key", "var(--k)"], ["value", "var(--v)"]];
  let t = Math.min(3, n - 1), cached = true;

  // ---- What a step does: for each token and kind "computed", "read" or nothing ----
  const does = (i, kind, with_) => i > t ? "" : !with_ || i === t ? "computed" : kind === "query" ? "" : "read";
  function attend() {
    const scores = k.slice(0, t + 1).map((key) => dot(q[t], key) / Math.sqrt(key.length));
    const weights = softmax(scores);
    return { weights, context: mix(weights, v.slice(0, t + 1)) };
  }
  const sofar = () => ({ with: t + 1, without: (t + 1) * (t + 2) / 2 });

  // ---- The table ----
  const narrow = "padding: 0; font-size: 13px; text-align: center";
  const tops = all.map((i) => el("th", { scope: "col", style: narrow }, tokens[i]));
  const cells = kinds.map(() => all.map(() => el("td", { style: "padding: 2px" })));
  const boxes = kinds.map(([name], r) => all.map((i) => {
    const box = el("div", {});
    cells[r][i].append(box);
    return box;
  }));
  const high = 120, bars = all.map(() => ({ at: 0, text: el("div", { style: "font-size: 13px; text-align: center; line-height: 1.2" }), bar: el("div", { "data-sym": "w" }) }));
  const columns = bars.map(({ text, bar }) => el("td", { style: `padding: 2px; vertical-align: bottom; height: ${high + 22}px` }, text, bar));
  const side = (text, sym) => el("th", { scope: "row", "data-sym": sym, style: "padding: 0 4px 0 0; font-size: 13px; text-align: left" }, text);
  const board = el("table", {
    "aria-label": "Each column is a token; computed in this step, or read from the cache",
    style: "margin: 0; width: 100%; table-layout: fixed" },
    el("thead", {}, el("tr", {}, el("td", { style: "width: 50px; padding: 0" }), ...tops)),
    el("tbody", {}, ...kinds.map(([name], r) => el("tr", {}, side(name, name[0]), ...cells[r])), el("tr", {}, side("weight", "w"), ...columns)));
  const box = (state, colour) => `height: 26px; line-height: 24px; box-sizing: border-box; border-radius: 4px; text-align: center; font-size: 13px; color: inherit; `
    + (state === "computed" ? `border: 2px solid ${colour}; background: color-mix(in srgb, ${colour} 35%, transparent); font-weight: 600`
      : state === "read" ? `border: 2px dashed ${colour}` : "border: 2px solid transparent");

  // ---- How many keys were computed so far ----
  const most = n * (n + 1) / 2;
  const tally = ["with", "without"].map((name) => ({ name, bar: el("span", { "data-sym": "k", class: "moves" }), text: el("span", { style: "min-width: 1.6rem; font-weight: 600" }) }));
  const total = el("div", { style: "display: grid; grid-template-columns: 6.6rem 1fr; "
    + "gap: 3px 8px; align-items: center; margin-top: 0.6rem; font-size: 13px" },
    el("span", { style: "grid-column: 1 / -1" }, el("span", { "data-sym": "k" }, "keys"), " computed so far"),
    ...tally.flatMap(({ name, bar, text }) => [el("span", {}, `${name} a cache`), el("span", { style: "display: flex; align-items: center; gap: 6px" }, bar, text)]));

  // ---- What changes: the column of a token, the tally, the line that is read out ----
  function showToken(i, weight) {
    set(tops[i], { style: `${narrow}; ${i === t ? "font-weight: 700; box-shadow: inset 0 -3px 0 var(--q)" : i > t ? "opacity: 0.55; font-weight: 400" : "font-weight: 400"}` });
    kinds.forEach(([name, colour], r) => {
      const state = does(i, name, cached);
      set(boxes[r][i], { "data-sym": state ? name[0] : null, style: box(state, colour) });
      boxes[r][i].textContent = state === "computed" ? "new" : state && (viewWidth < 480 ? "read" : "cached");
    });
    bars[i].text.textContent = i > t ? "" : number(weight);
  }
  function rise(i, weight) {
    bars[i].at = weight;
    set(bars[i].bar, { style: `height: ${(high * weight).toFixed(1)}px; background: var(--w); border-radius: 2px` });
  }
  const glide = motion();
  function slide(weights, before) {  // bars go to their new heights; a key and a value that are new slide into the cache
    const from = bars.map(({ at }) => at), news = before < t ? [boxes[1][t], boxes[2][t]] : [];
    glide(450, (f) => {
      for (const i of all) rise(i, from[i] + ((weights[i] ?? 0) - from[i]) * f);
      for (const [r, box] of news.entries()) box.style.transform = f < 1 ? `translateY(${((f - 1) * 30 * (r + 1)).toFixed(1)}px)` : "";
    });
  }
  function showTally(computed) {
    for (const { name, bar, text } of tally) {
      set(bar, { style: `display: inline-block; height: 12px; border-radius: 2px; background: var(--k); width: ${(85 * computed[name] / most).toFixed(2)}%` });
      text.textContent = computed[name];
    }
  }
  let shown = t;
  function show() {
    const { weights } = attend();
    for (const i of all) showToken(i, weights[i]);
    slide(weights, shown);
    shown = t;
    showTally(sofar());
    say(cached ? `“${tokens[t]}”: one query, one key and one value are computed, ${plural(t, "old key")} and value${t === 1 ? "" : "s"} read from the cache.`
      : t ? `“${tokens[t]}”: queries, keys and values of all ${t + 1} tokens are computed again.`
      : `“${tokens[t]}”: its query, key and value are computed.`);
  }

  const range = slider("Tokens so far", { min: 1, max: n, step: 1, value: t + 1, text: (x) => number(x, 0),
    input: (x) => { play.stop(); t = x - 1; show(); } });
  const play = player({ at: () => t, last: () => n - 1, go: (i) => { t = i; range.move(t + 1); show(); } });
  set(said, { style: "min-height: 2.8em; margin-top: 0.4rem" });
  view.append(
    el("div", { class: "row", style: "margin-top: 0" },
      el("div", { class: "row steered" }, play.node, range),
      choices("Cache", ["with a cache", "without"], 0, (i) => { cached = i === 0; show(); })),
    board, total, said);
  show();
  expose(() => ({ step: t, cached, computed: kinds.map(([name]) => all.filter((i) => does(i, name, cached) === "computed").length),
    read: kinds.map(([name]) => all.filter((i) => does(i, name, cached) === "read").length), sofar: sofar(), ...attend() }));
}
