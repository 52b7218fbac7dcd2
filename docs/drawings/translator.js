(() => {
// A trained encoder-decoder in the page: a number in words becomes digits, at each of many steps of its training. Lines show
// what every head attends to while it generates.
function draw({ figure, view, viewWidth, data, el, svg, set, number, grouped, listed, plural, said, say, softmax, sum, tween, slider, choices, player, expose, keep }) {
  const { source, target, exact, examples } = data, { steps, parts, heads } = data.model;
  const { start, encode, decode } = engine(figure, { data, sum, softmax });
  const [begin, end] = ["<start>", "<end>"].map((token) => target.indexOf(token)), bare = (token) => token.replace(/[<>]/g, "");
  let words = examples[0].split(" "), note = "", step = steps.length - 1, layer = 0, head = 0, chosen = 0, shown, found;

  // ---- Numbers in words, as the corpus writes them ----
  const values = new Map(data.values), named = [...values].filter(([, value]) => value < 100).reverse();
  function below100(n) {
    const [word, value] = named.find(([, value]) => value <= n);
    return n === value ? [word] : [word, ...below100(n - value)];
  }
  function below1000(n) {
    const hundreds = Math.floor(n / 100), rest = n % 100;
    return !hundreds ? below100(n) : [...below100(hundreds), "hundred", ...(rest ? ["and", ...below100(rest)] : [])];
  }
  function spelled(n) {
    const thousands = Math.floor(n / 1000), rest = n % 1000;
    if (!thousands) return below1000(n);
    return [...below1000(thousands), "thousand", ...(rest && rest < 100 ? ["and"] : []), ...(rest ? below1000(rest) : [])];
  }
  const without = (list) => list.filter((word) => word !== "and");
  function meant(typed) {  // the number that these words stand for, or null
    let thousands = 0, n = 0;
    for (const word of without(typed)) {
      if (word === "thousand") [thousands, n] = [1000 * n, 0];
      else n = word === "hundred" ? 100 * n : n + (values.get(word) ?? NaN);
    }
    const value = thousands + n;
    return value < 1e6 && without(spelled(value)).join() === without(typed).join() ? value : null;
  }

  // ---- What a reader types: words or digits, with hyphens, commas and capitals as they come ----
  const knows = (word) => source.indexOf(word) > source.indexOf("<pad>"), [atMost, longest] = data.most;
  function edits(a, b) {  // letters to add, to drop or to change between two words
    let row = [...b, ""].map((_, j) => j);
    for (const [i, letter] of [...a].entries()) {
      const next = [i + 1];
      for (let j = 0; j < b.length; j++) next.push(Math.min(next[j] + 1, row[j + 1] + 1, row[j] + (letter !== b[j])));
      row = next;
    }
    return row[b.length];
  }
  function refusal(typed) {
    if (!typed.length) return "Type a number in words, such as “forty two”.";
    const unknown = typed.filter((word) => !knows(word));
    if (!unknown.length) return "";
    const near = source.filter(knows).map((word) => [edits(unknown[0], word), word]).sort(([a], [b]) => a - b)[0];
    const idea = near[0] <= 2 && near[0] < unknown[0].length - 1 ? ` Did you mean “${near[1]}”?` : "";
    return `The model has no token for ${listed(unknown.slice(0, 3))}.${idea} It translates whole numbers below a million.`;
  }
  function read(text) {
    const digits = text.replace(/[\s,]/g, ""), isNumber = /^\d{1,6}$/.test(digits);
    const typed = isNumber ? spelled(+digits) : text.toLowerCase().match(/[\p{L}\d]+/gu) ?? [], why = refusal(typed);
    play.stop();
    if (why) { stop(); return say(why); }
    const value = meant(typed), usual = value === null ? typed : spelled(value);
    note = usual.join() !== typed.join() ? "Spelled as in the corpus. " : typed.length > atMost ? `The first ${atMost} words are used. ` : "";
    words = usual.slice(0, atMost);
    own.value = words.join(" ");
    picker.querySelectorAll("input").forEach((radio, i) => { radio.checked = examples[i] === own.value; });
    translate(true);
  }

  // ---- The model generates: each time the most probable token ----
  function written() {
    const run = start(step), ids = [begin], shares = [], memory = encode(run, words.map((word) => source.indexOf(word)));
    let logits;
    while (ids.at(-1) !== end && ids.length < longest) {
      logits = decode(run, memory, ids);
      const p = softmax(logits.at(-1)), best = p.indexOf(Math.max(...p));
      ids.push(best);
      shares.push(p[best]);
    }
    return { out: ids.slice(1).map((id) => bare(target[id])), shares, logits, seen: run.seen };
  }
  function stop() {
    turn++;
    shown = found.out.length;
    show();
  }
  let turn = 0;  // of what is shown step by step: a newer one ends it
  async function translate(slowly) {
    const mine = ++turn;
    found = written();
    if (slowly) chosen = 0;
    for (shown = slowly ? 1 : found.out.length; shown < found.out.length; shown++) {
      show();
      await tween(450, () => { });
      if (mine !== turn) return;
    }
    show();
  }

  // ---- Which attention is shown: who has the queries, and who the keys ----
  const kinds = { "decoder cross": ["Cross-attention", "words", "out"], "encoder attention": ["Encoder", "words", "words"], "decoder attention": ["Decoder", "past", "out"] };
  const layers = Object.entries(kinds).flatMap(([kind, [title, keys, queries]]) => parts.map(([name]) => name.match(/^(\w+)\.blocks\.(\d+)\.(\w+)\.q_proj\.weight$/))
    .filter((match) => match && `${match[1]} ${match[3]}` === kind).map(([name, , i]) => ({ name: name.replace(".q_proj.weight", ""), title: +i ? `${title}, block ${+i + 1}` : title, keys, queries })));
  function attended() {
    const { name, keys, queries } = layers[layer], out = found.out.slice(0, shown);
    const lists = { words, out, past: ["start", ...found.out].slice(0, shown) }, all = found.seen[name];
    const mean = all[0].map((row, i) => row.map((_, j) => sum(all.map((one) => one[i][j])) / heads));
    return { keys: lists[keys], queries: lists[queries], weights: (head ? all[head - 1] : mean).slice(0, lists[queries].length) };
  }

  // ---- The picture: keys on the left, queries on the right ----
  const width = 340, height = 336, left = 130, right = 270, most = Math.max(atMost, longest);
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" }), lines = svg("g");
  const text = (x, anchor, sym) => svg("text", { x, "text-anchor": anchor, "data-sym": sym, "aria-hidden": true, "pointer-events": "none" });
  const rows = Array.from({ length: most }, (_, i) => ({
    key: text(left - 8, "end", "k"), share: text(40, "end", "w"), query: text(right + 8, "start", "q"),
    area: svg("rect", { x: right, width: width - right, fill: "transparent", style: "cursor: pointer", onclick: () => choose(chosen === i + 1 ? 0 : i + 1) }),
  }));
  root.append(lines, ...rows.flatMap((row) => [row.key, row.share, row.area, row.query]));
  const gapOf = (n) => Math.min(78, height / n),
    heights = (n) => Array.from({ length: n }, (_, i) => height / 2 + (i - (n - 1) / 2) * gapOf(n));
  const curve = (y, z) => `M${left} ${y}C${(left + right) / 2} ${y},${(left + right) / 2} ${z},${right} ${z}`;
  function drawLines({ keys, queries, weights }) {
    const [from, to] = [heights(keys.length), heights(queries.length)];
    const seen = weights.flatMap((row, i) => row.map((w, j) => ({ w, i, j })).filter(({ w, i }) => w > 0.02));
    lines.replaceChildren(...seen.map(({ w, i, j }) => svg("path", { d: curve(from[j], to[i]), fill: "none", stroke: "var(--w)", "data-sym": "w", "stroke-linecap": "round",
      "stroke-width": 0.6 + 7 * w, opacity: !chosen ? 0.15 + 0.7 * w : chosen === i + 1 ? 0.9 : 0.08 })));
    rows.forEach(({ key, share, query, area }, i) => {
      const gap = Math.min(36, gapOf(queries.length)), here = i < queries.length;
      key.textContent = keys[i] ?? "";
      query.textContent = queries[i] ?? "";
      share.textContent = chosen && weights[chosen - 1][i] >= 0.005 ? `${number(100 * weights[chosen - 1][i], 0)} %` : "";
      for (const node of [key, share]) set(node, { y: (from[i] ?? 0) + 5 });
      set(query, { y: (to[i] ?? 0) + 5, style: chosen === i + 1 ? "font-weight: 700" : "" });
      set(area, { y: (to[i] ?? 0) - gap / 2, height: here ? gap : 0, stroke: here && chosen === i + 1 ? "var(--rose)" : "none", "stroke-width": 2, rx: 5 });
    });
  }

  // ---- The answer, and what is said ----
  const tiles = el("div", { "aria-hidden": true, style: "display: flex; gap: 4px; height: 3rem" });
  const tile = (token, i) => el("span", { style: `flex: 0 1 2rem; min-width: 0; overflow: hidden; text-align: center; opacity: ${token === "end" ? 0.75 : 1}` },
    el("b", { style: `display: block; font-size: ${token.length > 1 ? 13 : 22}px; line-height: 34px; font-weight: 600` }, token),
    el("span", { style: `display: block; margin: auto; height: 5px; border-radius: 3px; background: var(--neutral); width: ${100 * found.shares[i]}%` }));
  function reads({ keys, queries, weights }) {
    if (!chosen) return "";
    const best = weights[chosen - 1].map((w, j) => [w, j]).sort(([a], [b]) => b - a).filter(([w], i) => i < 3 && (!i || w >= 0.1));
    const position = (j) => (keys.filter((key) => key === keys[j]).length > 1 ? `, position ${j + 1}` : "");
    const list = best.map(([w, j]) => `“${keys[j]}” (${number(100 * w, 0)} %${position(j)})`).join(", ");
    const at = layers[layer].queries === "out" ? `For “${queries[chosen - 1]}” (probability ${number(100 * found.shares[chosen - 1], 0)} %)` : `At “${queries[chosen - 1]}”`;
    return `${at}, ${head ? `head ${head} attends to` : "the heads on average attend to"} ${list}.`;
  }
  function explain(now) {
    const out = found.out.slice(0, shown), meanings = words.join(" ").split(" is ").map((one) => meant(one.split(" ")));
    const wanted = meanings.includes(null) ? null : meanings.map((value) => [...String(value)].join(" ")).join(" la ");
    const answer = out.filter((token) => token !== "end").join(" ") || "nothing", done = shown === found.out.length;
    const verdict = wanted === null ? "These words are not a number." : answer === wanted && out.at(-1) === "end" ? "That is right." : `That is wrong: it should be ${wanted}.`;
    say(`${note}After ${plural(steps[step], "step")} of training the model generates ${answer}${done ? `. ${verdict}` : " …"} ${reads(now)}`);
  }
  function show() {
    const now = attended();
    chosen = Math.min(chosen, now.queries.length);  // at another step it may generate less
    token.move(chosen, now.queries.length);
    drawLines(now);
    tiles.replaceChildren(...found.out.slice(0, shown).map(tile));
    const right = `${number(100 * exact[step], 1)} % of unseen numbers`;
    share.textContent = `At this step ${right} are translated without a mistake.`;
    set(root, { "aria-label": `${layers[layer].title}, ${head ? `head ${head}` : "mean of all heads"}: ${now.queries.join(" ")} on the right attend to ${now.keys.join(" ")} on the left` });
    explain(now);
  }

  // ---- Controls ----
  function choose(i) { if (i !== chosen) { chosen = i; show(); } }
  const own = el("input", { type: "text", value: words.join(" "), "aria-label": "A number in words", autocomplete: "off", autocapitalize: "none", spellcheck: "false", style: "flex: 1 1 12rem; min-width: 0", ...keep });
  const form = el("form", { class: "row", onsubmit: (e) => { e.preventDefault(); read(own.value); } }, own, el("button", { type: "submit", ...keep }, "Translate"));
  const picker = choices("Examples", examples, 0, (i) => read(examples[i]));
  const go = (i) => { step = i; translate(false); };
  const long = (node) => {  // a slider that takes the room that there is
    set(node.children[1], { style: "flex: 1 1 4rem; width: auto; min-width: 4rem" });
    return set(node, { style: "flex-wrap: nowrap" });
  };
  const at = long(slider("Training step", { min: 0, max: steps.length - 1, step: 1, value: step, text: (i) => grouped(steps[i]), input: (i) => { play.stop(); go(i); } }));
  const play = player({ at: () => step, last: () => steps.length - 1, go: (i) => { at.move(i); go(i); } });
  const token = long(slider("Token", { min: 0, max: 1, step: 1, value: 0, text: (i) => (i ? `${i}: ${attended().queries[i - 1]}` : "all"), input: choose }));
  const pick = (name, options, go) => choices(name, options, 0, (i) => { go(i); show(); });
  const headOf = pick("Head", ["all heads", ...Array.from({ length: heads }, (_, i) => i + 1)], (i) => { head = i; });
  const share = el("div", { style: "flex: 1; min-width: 0" });
  const typed = el("div", {}, form, picker, tiles, at, el("div", { class: "row", style: "flex-wrap: nowrap" }, play.node, share));
  const chooses = el("div", {}, pick("Attention", layers.map(({ title }) => title), (i) => { layer = i; chosen = 0; }), headOf, token);

  // ---- Where all stands: on a phone the picture comes below the answer ----
  const wide = viewWidth >= 600, columns = "minmax(0, 1fr) minmax(0, 47%)";
  const grid = `display: grid; grid-template: auto auto 1fr / ${columns}; `
    + "column-gap: 1.5rem; align-items: start";
  const beside = "grid-area: 1 / 2 / 4 / 3; width: 100%; height: auto";
  set(root, { style: `max-width: 100%; ${wide ? beside : "margin: 0 auto"}` });
  set(said, { style: `min-height: ${wide ? 5.6 : 7}em; grid-column: 1` });
  set(chooses, wide ? { style: "grid-area: 2 / 1 / 3 / 2" } : {});
  view.append(el("div", wide ? { style: grid } : {}, typed, root, chooses, said));
  translate(false);
  expose(() => ({ words, step: steps[step], ...found, chosen, attended: attended() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=translator]")) draw(stage(figure));
})();
