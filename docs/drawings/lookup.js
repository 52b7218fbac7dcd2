(() => {
// A token is looked up: its id picks a row of the table. Or: its one-hot vector is multiplied with the table.
function draw({ view, data, el, svg, set, mix, number, said, say, choices, player, motion, expose }) {
  const { tokens, ids, known, table } = data;
  const wide = table[0].length, cell = 31, high = 28, gap = 4;
  const from = 95, to = 356 - wide * cell - 1, line = (i) => 30 + i * (high + gap);
  let chosen = Math.min(2, tokens.length - 1), way = 0;
  const filled = tokens.map((_, i) => i < chosen);  // it begins in the middle of the sentence
  const top = Math.max(...table.flat().map(Math.abs));
  const paint = (x) => `color-mix(in srgb, var(--neutral) ${Math.round(75 * Math.abs(x) / top)}%, transparent)`;  // zero has no colour
  const text = (x, y, says, style = "", anchor = "middle") => svg("text", { x, y: y + 19, "text-anchor": anchor, style }, says);

  function block(x, y) {  // a row of cells
    const boxes = table[0].map((_, j) => svg("rect", { x: x + j * cell, y, width: cell - 2, height: high, rx: 3, stroke: "var(--faint)" }));
    const texts = table[0].map((_, j) => text(x + j * cell + cell / 2 - 1, y, ""));
    const put = (j, fill, dashes, says) => { set(boxes[j], { style: `fill: ${fill}`, "stroke-dasharray": dashes }); texts[j].textContent = says; };
    return { node: svg("g", {}, ...boxes, ...texts),
      write: (numbers) => numbers.forEach((n, j) => put(j, paint(n), null, n === 0 ? "0" : number(n, 1))),
      clear: () => boxes.forEach((_, j) => put(j, "none", "3 3", "")) };
  }
  const root = svg("svg", { width: 356, height: line(known.length) + 4, viewBox: `0 0 356 ${line(known.length) + 4}`, role: "img", "aria-label": "The table, and the sentence that is made of its rows", style: "font-variant-numeric: tabular-nums" });
  const head = [text(15, 0, ""), text(from + wide * cell / 2, 0, "the table", "font-weight: 600"), text(to + wide * cell / 2, 0, "the sentence", "font-weight: 600")];
  const frames = known.map((_, i) => svg("rect", { x: 1, y: line(i) - 2, width: from + wide * cell - 2, height: high + 4, rx: 5, fill: "none", stroke: "var(--rose)", "stroke-width": 2 }));
  const marks = known.map((_, i) => text(15, line(i), ""));
  const names = known.map((token, i) => text(33, line(i), token, "", "start"));
  const spoken = tokens.map((token, i) => text(to - 8, line(i), token, "", "end"));
  const left = known.map((_, i) => block(from, line(i)));
  const right = tokens.map((_, i) => block(to, line(i)));
  const frame = svg("rect", { width: wide * cell + 2, height: high + 4, rx: 5, fill: "none", stroke: "var(--rose)", "stroke-width": 2 });
  const copy = block(0, 0);
  root.append(...head, ...frames, ...marks, ...names, ...spoken, ...left.map((b) => b.node), ...right.map((b) => b.node), frame, copy.node);
  const rule = el("div", { style: "font-size: 16px; line-height: 1.7; min-height: 5.1em; font-variant-numeric: tabular-nums" });

  // A token that is pointed at, on either side or among the buttons, lights its row of the table.
  let near = -1;
  function light() {
    known.forEach((_, i) => {
      const id = ids[chosen];
      marks[i].style.fontWeight = names[i].style.fontWeight = i === id || i === near ? 700 : 400;
      set(frames[i], { visibility: i === id || i === near ? "visible" : "hidden", "stroke-dasharray": i === id ? null : "5 3" });
    });
    tokens.forEach((_, i) => { spoken[i].style.fontWeight = i === chosen || ids[i] === near ? 700 : 400; });
  }
  function lights(id, ...nodes) {
    for (const node of nodes) {
      node.addEventListener("pointerenter", (e) => { if (e.pointerType === "mouse") { near = id; light(); } });
      node.addEventListener("pointerleave", () => { near = -1; light(); });
    }
  }

  function now() {
    const hot = known.map((_, i) => +(i === ids[chosen]));
    return { hot, products: table.map((row, i) => row.map((x) => x * hot[i])), row: way ? mix(hot, table) : table[ids[chosen]] };
  }
  function show() {
    const { hot, products } = now();
    head[0].textContent = way ? "" : "id";
    known.forEach((_, i) => {
      marks[i].textContent = way ? `${hot[i]} ×` : i;
      left[i].write(way ? products[i] : table[i]);
    });
    light();
    tokens.forEach((_, i) => (filled[i] ? right[i].write(table[ids[i]]) : right[i].clear()));
    set(frame, { x: to - 2, y: line(chosen) - 2 });
  }
  function tell(id, word, row) {
    const list = `(${row.map((x) => number(x, 1)).join(", ")})`;
    rule.replaceChildren(...(way
      ? [el("div", {}, `1 × the row of “${word}”`), el("div", {}, "+ 0 × every other row"), el("div", {}, "= ", el("b", {}, list))]
      : [el("div", {}, `“${word}” has the id `, el("b", {}, String(id))), el("div", {}, `row ${id} = `, el("b", {}, list))]));
    say(way ? `The other rows turn to zero. Added up, only the row of “${word}” is left.` : `Row ${id} is copied to the position of “${word}”.`);
  }
  const fly = motion();
  async function look() {  // the row moves from the table to its position in the sentence
    const { row } = now(), position = chosen, id = ids[position];
    tell(id, tokens[position], row);
    filled[position] = false;
    show();
    copy.write(row);
    set(copy.node, { visibility: "visible" });
    const arrived = await fly(650, (t) => set(copy.node, { transform: `translate(${from + (to - from) * t} ${line(id) + (line(position) - line(id)) * t})` }));
    filled[position] = true;
    if (arrived) { set(copy.node, { visibility: "hidden" }); show(); }
  }
  const picks = choices("Word of the sentence", tokens, chosen, (i) => { all.stop(); chosen = i; look(); });
  const ways = choices("How", ["look up", "multiply"], way, (i) => { all.stop(); way = i; look(); });
  const all = player({ at: () => (all.playing() ? chosen : tokens.length), last: () => tokens.length - 1, ms: () => 900, go: (i) => {  // from the first token
    if (!i) filled.fill(false);
    chosen = i; picks.querySelectorAll("input")[i].checked = true;
    look();
  } });
  known.forEach((_, i) => lights(i, marks[i], names[i], left[i].node));
  tokens.forEach((_, i) => lights(ids[i], spoken[i], right[i].node, picks.children[i]));
  set(said, { style: "min-height: 2.8em" });
  view.append(el("div", { class: "row", style: "margin-top: 0" }, picks), el("div", { class: "row" }, ways, all.node),
    el("div", { class: "beside", style: "gap: 0.4rem 2rem; margin: 0" }, root, el("div", { style: "flex: 1 1 14rem" }, rule, said)));
  look();
  expose(() => ({ near, word: tokens[chosen], filled: [...filled], ...now() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=lookup]")) draw(stage(figure));
})();
