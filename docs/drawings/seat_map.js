(() => {
// A pool of blocks as a seat map: sequences that arrive, grow, fork and end; their block tables; and the slots that stay empty,
// in blocks and in one buffer for each sequence. Blocks are taken and freed in the order of `PagedCache`.
function draw({ view, data, el, svg, set, sum, grouped, plural, said, say, button, motion, expose, keep }) {
  const { n_blocks, size, n_max, prompt, sequences } = data, letters = [..."ABCDEF"], rows = [...letters.keys()];
  const seqs = rows.map((r) => sequences[r] ?? null), free = [...data.free], room = n_blocks * size;
  let chosen = 0, fresh = new Set(), flight = null;

  // ---- The cache ----
  const live = () => rows.filter((r) => seqs[r]);
  const users = (block) => live().filter((r) => seqs[r].table.includes(block));
  function take() { return free.pop(); }
  function release(block) { if (!users(block).length) free.push(block); }
  function begun(seq) { return seq.n % size !== 0; }  // is the last block half full?
  function copied(seq) {  // the first write to a shared block copies it: [from, to]
    const old = seq.table.at(-1);
    if (!begun(seq) || users(old).length < 2) return null;
    return [old, seq.table[seq.table.length - 1] = take()];
  }
  const needs = (seq) => (begun(seq) ? +(users(seq.table.at(-1)).length > 1) : 1);
  function append(seq) {  // one token; gives the copy that it took
    const copy = copied(seq);
    if (!begun(seq)) seq.table.push(take());
    fresh.add(`${seq.table.at(-1)} ${seq.n % size}`);
    seq.n += 1;
    return copy;
  }

  // ---- What is counted ----
  const tokens = () => sum(live().map((r) => seqs[r].n));
  const filled = (block) => Math.max(0, ...users(block).map((r) => Math.min(size, seqs[r].n - size * seqs[r].table.indexOf(block))));
  const inBlocks = () => ({ taken: sum([...Array(n_blocks).keys()].map(filled)), reserved: size * (n_blocks - free.length) });
  const inBuffers = () => ({ taken: tokens(), reserved: n_max * live().length });

  // ---- The seat map: a row of seats for each block ----
  const seat = 30, left = 24, wide = left + size * (seat + 2) + 14, columns = 2, deep = Math.ceil(n_blocks / columns), line = 36;
  const at = (block) => [Math.floor(block / deep) * wide, (block % deep) * line];
  const root = svg("svg", { width: columns * wide, height: deep * line, viewBox: `0 0 ${columns * wide} ${deep * line}`, role: "img",
    style: "height: auto; flex: none", "aria-label": "Blocks of the memory, each a row of slots; a letter says whose token is in a slot" });
  function seatOf(block, slot) {
    const [x, y] = at(block), left_ = x + left + slot * (seat + 2);
    return { box: svg("rect", { x: left_, y: y + 2, width: seat, height: seat, rx: 6 }),
      who: svg("text", { x: left_ + seat / 2, y: y + 22, "text-anchor": "middle", style: "font-size: 13px" }) };
  }
  const seats = [...Array(n_blocks).keys()].map((b) => [...Array(size).keys()].map((s) => seatOf(b, s)));
  const numbers = seats.map((_, b) => svg("text", { x: at(b)[0] + left - 7, y: at(b)[1] + 22, "text-anchor": "end", style: "font-size: 12px; fill: var(--soft)" }, b));
  const ghost = svg("g", { visibility: "hidden" }, ...[...Array(size).keys()].map((s) => svg("rect", { x: left + s * (seat + 2), y: 2, width: seat, height: seat, rx: 6, fill: "none", stroke: "var(--rose)", "stroke-width": 3 })));
  root.append(...numbers, ...seats.flat().flatMap(({ box, who }) => [box, who]), ghost);
  function showSeat(block, slot) {
    const { box, who } = seats[block][slot], of = users(block).filter((r) => seqs[r].n - size * seqs[r].table.indexOf(block) > slot);
    const mine = of.includes(chosen), empty = !of.length && users(block).length;
    const fill = mine ? "var(--rose)" : of.length ? "var(--neutral)" : "none", new_ = fresh.has(`${block} ${slot}`);
    set(box, { fill, "fill-opacity": mine ? 0.45 : 0.28, "stroke-dasharray": empty ? "4 3" : null, "stroke-width": new_ ? 3 : 1.2,
      stroke: new_ ? "currentColor" : of.length || empty ? "var(--soft)" : "var(--faint)" });
    who.textContent = of.map((r) => letters[r]).join("").slice(0, 3);
  }

  // ---- The sequences: a block table and a buffer for each ----
  const small = "padding: 1px 6px 1px 0; font-size: 13px; text-align: left", strip = 9, group = `seat-${Math.random()}`;
  function rowOf(r) {
    const pick = el("input", { type: "radio", name: group, value: r, checked: r === chosen, "aria-label": `sequence ${letters[r]}`, ...keep, onchange: () => { chosen = r; fresh = new Set(); show(); tell(""); } });
    const cells = [...Array(n_max).keys()].map((i) => svg("rect", { x: i * strip + 0.5, y: 3.5, width: strip, height: 18 }));
    const none = svg("text", { x: (n_max * strip) / 2, y: 17, "text-anchor": "middle", style: "font-size: 13px" }, "no room");
    const buffer = svg("svg", { width: n_max * strip + 2, height: 25, viewBox: `0 0 ${n_max * strip + 2} 25`, "aria-hidden": true }, ...cells, none);
    const count = el("td", { style: `${small}; text-align: right; padding-right: 14px` }), table = el("td", { style: `${small}; white-space: nowrap; font-variant-numeric: tabular-nums; min-width: 6.2rem` });
    return { pick, cells, none, count, table, row: el("tr", {}, el("th", { scope: "row", style: small }, el("label", { class: "choice" }, pick, letters[r])), count, table, el("td", { style: small }, buffer)) };
  }
  const parts = rows.map(rowOf);
  const list = el("table", { style: "margin: 0", "aria-label": "The sequences, their block tables, and a buffer for each" },
    el("thead", {}, el("tr", {}, ...["sequence", "tokens", "block table", `a buffer of ${n_max}`].map((text) => el("th", { scope: "col", style: `${small}; color: var(--soft)` }, text)))),
    el("tbody", {}, ...parts.map((part) => part.row)));
  function showRow(r) {
    const { cells, none, count, table, pick } = parts[r], seq = seqs[r], out = seq && (live().indexOf(r) + 1) * n_max > room;
    count.textContent = seq ? grouped(seq.n) : "";
    table.textContent = seq ? seq.table.join(" · ") : "–";
    set(pick, { disabled: !seq });
    set(pick.parentElement, { style: `min-width: 30px; justify-content: center; ${seq ? "" : "opacity: 0.45"}` });
    pick.checked = r === chosen;
    cells.forEach((cell, i) => set(cell, { fill: seq && !out && i < seq.n ? (r === chosen ? "var(--rose)" : "var(--neutral)") : "none", "fill-opacity": r === chosen ? 0.6 : 0.45,
      stroke: !seq || out ? "none" : "var(--soft)", "stroke-width": 1 }));
    set(none, { visibility: out ? "visible" : "hidden" });
  }

  // ---- The tally: two bars, to the same scale, and where the memory ends ----
  const most = rows.length * n_max;
  const bars = [["in blocks", inBlocks], ["in buffers", inBuffers]].map(([name, count]) => ({ name, count, used: el("div", {}), whole: el("div", {}), text: el("span", {}) }));
  const tally = el("div", { style: "display: grid; grid-template-columns: 4.6rem 1fr; gap: 3px 8px; align-items: center; max-width: 660px; margin-top: 0.5rem; font-size: 13px" },
    ...bars.flatMap(({ name, used, whole, text }) => [el("span", {}, name), el("div", {},
      el("div", { style: "position: relative; height: 15px" }, whole, used, el("div", { style: `position: absolute; left: ${(100 * room) / most}%; top: -2px; bottom: -2px; width: 2px; background: currentColor` })), text)]));
  bars[0].whole.parentElement.append(el("span", { style: `position: absolute; left: calc(${(100 * room) / most}% + 6px); line-height: 15px` }, `the memory: ${grouped(room)}`));
  function showBar({ count, used, whole, text }) {
    const { taken, reserved } = count(), part = (n) => `position: absolute; left: 0; top: 0; bottom: 0; box-sizing: border-box; width: ${((100 * n) / most).toFixed(2)}%`;
    set(whole, { style: `${part(reserved)}; border: 1px dashed var(--soft); border-radius: 3px` });
    set(used, { style: `${part(taken)}; background: color-mix(in srgb, var(--neutral) 60%, transparent); border-radius: 3px` });
    text.textContent = `${plural(reserved, "slot")} reserved, ${grouped(reserved - taken)} of them empty` + (reserved > room ? `; the memory has ${grouped(room)}` : "");
  }

  // ---- What a reader does ----
  function tell(what) {
    const [mine, theirs] = [inBlocks(), inBuffers()], shared = tokens() - mine.taken;
    say(`${what}${what ? " " : ""}${grouped(mine.reserved - mine.taken)} of ${plural(mine.reserved, "slot")} in blocks ${mine.reserved - mine.taken === 1 ? "is" : "are"} empty, `
      + `${grouped(theirs.reserved - theirs.taken)} of ${grouped(theirs.reserved)} in buffers.` + (shared ? ` ${plural(shared, "token")} ${shared === 1 ? "is" : "are"} shared.` : ""));
  }
  const fly = motion();
  function carry(copies) {
    if (!copies.length) return;
    const [[x, y], [u, v]] = copies.at(-1).map(at);
    set(ghost, { visibility: "visible" });
    fly(600, (t) => set(ghost, { transform: `translate(${x + (u - x) * t} ${y + (v - y) * t})`, visibility: t < 1 ? "visible" : "hidden" }));
  }
  function act(change) { fresh = new Set(); const what = change(); show(); tell(what); }
  function nextToken() {
    const copies = [], waiting = [], full = [];
    for (const r of live()) {
      if (seqs[r].n === n_max) full.push(letters[r]);
      else if (needs(seqs[r]) > free.length) waiting.push(letters[r]);
      else copies.push([letters[r], append(seqs[r])]);
    }
    const made = copies.filter(([, copy]) => copy);
    carry(made.map(([, copy]) => copy));
    return [`${plural(copies.length, "sequence")} got a token.`, ...made.map(([who, [from, to]]) => `Block ${from} was shared: ${who} writes to a copy, block ${to}.`),
      ...(waiting.length ? [`No block is free: ${waiting.join(", ")} must wait.`] : []), ...(full.length ? [`${full.join(", ")} is at ${n_max} tokens.`] : [])].join(" ");
  }
  const place = () => rows.find((r) => !seqs[r]);
  function arrive() {
    const r = place(), blocks = Math.ceil(prompt / size);
    if (r === undefined) return "The list has no place for a seventh sequence.";
    if (blocks > free.length) return `A prompt of ${prompt} tokens needs ${blocks} blocks, and ${plural(free.length, "block")} ${free.length === 1 ? "is" : "are"} free: it must wait.`;
    seqs[r] = { table: [], n: 0 };
    for (let i = 0; i < prompt; i++) append(seqs[r]);
    chosen = r;
    return `${letters[r]} arrives with a prompt of ${prompt} tokens.`;
  }
  function fork() {
    const r = place(), from = seqs[chosen];
    if (r === undefined || !from) return from ? "The list has no place for a seventh sequence." : "Choose a sequence first.";
    seqs[r] = { table: [...from.table], n: from.n };
    const what = `${letters[r]} continues ${letters[chosen]}: nothing is copied, both tables list the same blocks.`;
    chosen = r;
    return what;
  }
  function end() {
    const seq = seqs[chosen], who = letters[chosen], before = free.length;
    if (!seq) return "Choose a sequence first.";
    seqs[chosen] = null;
    seq.table.forEach(release);
    chosen = live()[0] ?? 0;
    return `${who} has ended: ${plural(free.length - before, "block")} ${free.length - before === 1 ? "is" : "are"} free again.`;
  }

  function show() {
    seats.forEach((of, b) => of.forEach((_, s) => showSeat(b, s)));
    rows.forEach(showRow);
    bars.forEach(showBar);
  }
  set(said, { style: `min-height: ${view.clientWidth < 600 ? 7 : 2.8}em; margin-top: 0.4rem` });
  view.append(
    el("div", { class: "row", style: "margin-top: 0" }, ...[["Next token", nextToken], ["New sequence", arrive], ["Fork", fork], ["End", end]].map(([text, change]) => button(text, () => act(change)))),
    el("div", { class: "beside", style: "gap: 0.6rem 1.5rem; align-items: flex-start; margin: 0" }, root, list), tally, said);
  show();
  tell("");
  expose(() => ({ chosen, tables: rows.map((r) => seqs[r]?.table ?? null), lengths: rows.map((r) => seqs[r]?.n ?? null), free: [...free],
    counts: seats.map((_, b) => users(b).length), blocks: inBlocks(), buffers: inBuffers() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=seat_map]")) draw(stage(figure));
})();
