(() => {
function draw(stage) {
  const { view, viewWidth, data, el, svg, set, sum, grouped, plural, said, say } = stage;
  const { wash, button, motion, expose, keep } = stage;
  const { n_blocks, size, n_max, prompt, sequences } = data;
  const letters = [..."ABCDEF"];
  const rows = [...letters.keys()];
  const seqs = rows.map((r) => sequences[r] ?? null);
  const free = [...data.free];
  const room = n_blocks * size;
  const upTo = (n) => [...Array(n).keys()];
  let chosen = 0;
  let fresh = new Set();

  const live = () => rows.filter((r) => seqs[r]);
  const users = (block) => live().filter((r) => seqs[r].table.includes(block));
  const take = () => free.pop();
  function release(block) {
    if (!users(block).length) free.push(block);
  }
  const begun = (seq) => seq.n % size !== 0;  // is the last block half full?
  function copied(seq) {  // the first write to a shared block copies it: [from, to]
    const old = seq.table.at(-1);
    if (!begun(seq) || users(old).length < 2) return null;
    const copy = take();
    seq.table[seq.table.length - 1] = copy;
    return [old, copy];
  }
  const needs = (seq) => (begun(seq) ? +(users(seq.table.at(-1)).length > 1) : 1);
  function append(seq) {  // one token; gives the copy that it took
    const copy = copied(seq);
    if (!begun(seq)) seq.table.push(take());
    fresh.add(`${seq.table.at(-1)} ${seq.n % size}`);
    seq.n += 1;
    return copy;
  }

  const tokens = () => sum(live().map((r) => seqs[r].n));
  const within = (r, block) => seqs[r].n - size * seqs[r].table.indexOf(block);
  const filled = (block) =>
    Math.max(0, ...users(block).map((r) => Math.min(size, within(r, block))));
  const inBlocks = () => ({
    taken: sum(upTo(n_blocks).map(filled)),
    reserved: size * (n_blocks - free.length),
  });
  const inBuffers = () => ({ taken: tokens(), reserved: n_max * live().length });

  const phone = viewWidth < 600;
  const seat = 32, left = 24, line = phone ? 34 : 36, columns = 2;
  const middle = Math.ceil(size / 2), aisle = 8;  // an aisle in the middle of each block
  const seatX = (slot) => left + slot * (seat + 2) + (slot < middle ? 0 : aisle);
  const across = seatX(size) + 16, deep = Math.ceil(n_blocks / columns);
  const whole = columns * across - 18;
  const at = (block) => [Math.floor(block / deep) * across, (block % deep) * line];
  const shape = { width: seat, height: seat, rx: 6 };
  const root = svg("svg", {
    width: whole,
    height: deep * line - 4,
    viewBox: `0 0 ${whole} ${deep * line - 4}`,
    role: "img",
    style: "height: auto; flex: none",
    "aria-label":
      "Blocks of the memory, each a row of slots; a letter says whose token is in a slot",
  });
  function seatOf(block, slot) {
    const [x, y] = at(block);
    const from = x + seatX(slot);
    return {
      box: svg("rect", { x: from, y: y + 2, ...shape }),
      who: svg("g", {}, ...[0, 1].map(() =>
        svg("text", { x: from + seat / 2, "text-anchor": "middle" }))),
    };
  }
  function numberOf(block) {
    const [x, y] = at(block);
    return svg("text", { x: x + left - 7, y: y + 23, "text-anchor": "end" }, block);
  }
  const marked = { fill: "none", stroke: "currentColor", "stroke-width": 3 };
  const outline = (slot) =>
    svg("rect", { x: seatX(slot), y: 2, ...shape, ...marked });
  const inAisle = (block) => {
    const [x, y] = at(block);
    return [x + seatX(middle) - aisle / 2 - 1, y + 2 + seat / 2];
  };
  function wayOf(from, to) {
    const [[x, y], [u, v]] = [from, to].map(inAisle);
    const turn = y + (v < y ? -line / 2 : line / 2);  // between two rows of blocks
    return x === u ? `V${v}` : `V${turn}H${u}V${v}`;
  }
  const way = svg("path", { fill: "none", stroke: "var(--rose)", "stroke-width": 2 });
  const stops = svg("g", { fill: "var(--rose)" });
  function showWay(table) {
    const [first] = table.map(inAisle);
    const on = table.slice(1).map((block, i) => wayOf(table[i], block)).join("");
    set(way, { d: first ? `M${first}${on}` : "" });
    stops.replaceChildren(...table.map(inAisle).map(([cx, cy], i) =>
      svg("circle", { cx, cy, r: i ? 3 : 5 })));
  }
  const seats = upTo(n_blocks).map((b) => upTo(size).map((s) => seatOf(b, s)));
  const numbers = upTo(n_blocks).map(numberOf);
  const ghost = svg("g", { visibility: "hidden" }, ...upTo(size).map(outline));
  root.append(way, stops, ...numbers, ...seats.flat().flatMap(({ box, who }) => [box, who]), ghost);
  function showSeat(block, slot) {
    const { box, who } = seats[block][slot];
    const of = users(block).filter((r) => within(r, block) > slot);
    const mine = of.includes(chosen);
    const isNew = fresh.has(`${block} ${slot}`);
    const empty = !of.length && users(block).length;
    set(box, {
      fill: mine ? "var(--rose)" : of.length ? "var(--neutral)" : "none",
      "fill-opacity": mine ? 0.4 : 0.25,
      "stroke-dasharray": empty ? "4 3" : null,
      "stroke-width": isNew ? 3 : 1,
      stroke: isNew ? "currentColor" : mine ? "var(--rose)" : of.length ? "var(--neutral)"
        : empty ? "var(--soft)" : "var(--faint)",
    });
    name(who, of.map((r) => letters[r]).join(""), at(block)[1]);
  }
  function showNumber(block) {
    const mine = users(block).includes(chosen);
    set(numbers[block], { style: mine ? "font-size: 13px; font-weight: 700"
      : "font-size: 13px; fill: var(--soft)" });
  }
  function name(who, names, y) {
    const half = names.length > 3 ? Math.ceil(names.length / 2) : names.length;
    const lines = [names.slice(0, half), names.slice(half)];
    [...who.children].forEach((line, i) => {
      line.textContent = lines[i];
      const size = half < names.length ? 12 : 13;
      set(line, { y: y + (lines[1] ? 16 + 12 * i : 23), style: `font-size: ${size}px` });
    });
  }

  const small = "padding: 0 8px 0 0; font-size: 13px; text-align: left";
  const strip = phone ? 7.5 : 8;
  const long = n_max * strip;
  const group = `seat-${Math.random()}`;
  function choose(r) {
    chosen = r;
    fresh = new Set();
    show();
    tell("");
  }
  const pickOf = (r) => el("input", {
    type: "radio",
    name: group,
    value: r,
    checked: r === chosen,
    "aria-label": `sequence ${letters[r]}`,
    ...keep,
    onchange: () => choose(r),
  });
  const cellAt = (i) =>
    svg("rect", { x: i * strip + 1, y: 4, width: strip - 1, height: 16, rx: 1 });
  function bufferOf() {  // what is taken of it, within what is reserved
    const cells = upTo(n_max).map(cellAt);
    const frame = svg("rect", { x: 0.5, y: 2.5, width: long, height: 19, rx: 3, fill: "none" });
    const words = { x: long / 2, y: 17, "text-anchor": "middle",
      style: "font-size: 13px; fill: var(--paper)" };
    const none = svg("g", {},
      svg("rect", { x: 0.5, y: 2.5, width: long, height: 19, rx: 3, fill: "var(--soft)" }),
      svg("text", words, "no room"));
    const size = { width: long + 1, height: 24, viewBox: `0 0 ${long + 1} 24` };
    const buffer = svg("svg", { ...size, "aria-hidden": true }, ...cells, frame, none);
    return { cells, frame, none, buffer };
  }
  const ofCount = `${small}; text-align: right; padding-right: 16px`;
  const inLine = "white-space: nowrap; font-variant-numeric: tabular-nums; min-width: 6rem";
  function rowOf(r) {
    const pick = pickOf(r);
    const { cells, frame, none, buffer } = bufferOf();
    const count = el("td", { style: ofCount });
    const table = el("td", { style: `${small}; ${inLine}` });
    const name = el("label", { class: "choice" }, pick, letters[r]);
    const head = el("th", { scope: "row", style: small }, name);
    const row = el("tr", {}, head, count, table, el("td", { style: "padding: 0" }, buffer));
    return { pick, cells, frame, none, count, table, row };
  }
  const parts = rows.map(rowOf);
  const headings = ["sequence", "tokens", "block table", `a buffer of ${n_max}`].map((text) =>
    el("th", { scope: "col", style: `${small}; color: var(--soft)` }, text));
  const list = el("table", {
    style: "margin: 0",
    "aria-label": "The sequences, their block tables, and a buffer for each",
  },
    el("thead", {}, el("tr", {}, ...headings)),
    el("tbody", {}, ...parts.map((part) => part.row)));
  function showCells(cells, seq, isChosen) {  // `seq` is null where the buffer has no room
    const hue = isChosen ? "var(--rose)" : "var(--neutral)";
    cells.forEach((cell, i) => set(cell, {
      fill: seq && i < seq.n ? hue : "none",
      "fill-opacity": isChosen ? 0.7 : 0.55,
    }));
  }
  function showRow(r) {
    const { cells, frame, none, count, table, pick, row } = parts[r];
    const seq = seqs[r];
    const out = seq && (live().indexOf(r) + 1) * n_max > room;
    count.textContent = seq ? grouped(seq.n) : "";
    table.textContent = seq ? seq.table.join(" · ") : "";
    set(table, { style: `${small}; ${inLine}${r === chosen && seq ? "; font-weight: 700" : ""}` });
    set(pick, { disabled: !seq });
    row.style.visibility = seq ? "" : "hidden";  // no name before it is used
    pick.checked = r === chosen;
    showCells(cells, out ? null : seq, r === chosen);
    set(none, { visibility: out ? "visible" : "hidden" });
    set(frame, { stroke: seq && !out ? "var(--soft)" : "none", "stroke-dasharray": "4 3" });
  }

  const most = rows.length * n_max;
  const ends = `${(100 * room) / most}%`;
  const fromEdge = "position: absolute; left: 0; top: 0; bottom: 0; box-sizing: border-box";
  const barOf = (name, count) =>
    ({ name, count, ...Object.fromEntries(["used", "whole", "excess"].map((part) =>
      [part, el("div", {})])), text: el("span", { style: "line-height: 18px" }),
    empty: el("b", { style: "font-size: 22px; line-height: 36px; white-space: nowrap; "
      + "text-align: right" }) });
  const bars = [barOf("in blocks", inBlocks), barOf("in buffers", inBuffers)];
  const atEnd = `position: absolute; left: ${ends}; top: -2px; bottom: -2px`;
  function tallyOf({ used, whole, excess, text, empty }) {
    const end = el("div", { style: `${atEnd}; width: 2px; background: currentColor` });
    const track = el("div", { style: "position: relative; height: 18px" },
      whole, used, excess, end);
    return [el("div", {}, track, text), empty];
  }
  const twoColumns = "display: grid; grid-template-columns: 1fr 118px; gap: 4px 12px; "
    + `max-width: ${whole}px`;
  const ofTally = "margin-top: 12px; font-size: 13px";
  const tally = el("div", { style: `${twoColumns}; ${ofTally}` }, ...bars.flatMap(tallyOf));
  const besideEnd = `position: absolute; left: calc(${ends} + 6px); line-height: 18px`;
  const memory = el("span", { style: besideEnd }, `memory: ${grouped(room)}`);
  bars[0].whole.parentElement.append(memory);
  function showBar({ name, count, used, whole, excess, text, empty }) {
    const { taken, reserved } = count();
    const part = (n) => `${fromEdge}; width: ${((100 * n) / most).toFixed(2)}%`;
    set(whole, { style: `${part(reserved)}; border: 1px dashed var(--soft); border-radius: 3px` });
    set(used, { style: `${part(taken)}; background: ${wash("neutral")}; border-radius: 3px` });
    const over = Math.max(0, reserved - room);
    const beyond = `${part(over)}; left: ${ends}; background: var(--soft); `
      + "border-radius: 0 3px 3px 0";
    set(excess, { style: over ? beyond : "display: none" });
    empty.textContent = `${grouped(reserved - taken)} empty`;
    const excessive = over ? `, ${grouped(over)} too many` : "";
    text.textContent = `${name}: ${grouped(reserved)}${over ? "" : " slots"}${excessive}`;
  }

  const are = (n) => (n === 1 ? "is" : "are");
  function tell(what) {
    const shared = tokens() - inBlocks().taken;
    const both = shared ? `${plural(shared, "token")} ${are(shared)} shared.` : "";
    say(what || both);
  }
  const fly = motion();
  function carry(copies) {
    if (!copies.length) return;
    const [[x, y], [u, v]] = copies.at(-1).map(at);
    set(ghost, { visibility: "visible" });
    fly(600, (t) => set(ghost, {
      transform: `translate(${x + (u - x) * t} ${y + (v - y) * t})`,
      visibility: t < 1 ? "visible" : "hidden",
    }));
  }
  function act(change) {
    fresh = new Set();
    const what = change();
    show();
    tell(what);
  }
  function nextToken() {
    const copies = [];
    const waiting = [];
    const full = [];
    for (const r of live()) {
      if (seqs[r].n === n_max) full.push(letters[r]);
      else if (needs(seqs[r]) > free.length) waiting.push(letters[r]);
      else copies.push([letters[r], append(seqs[r])]);
    }
    const made = copies.filter(([, copy]) => copy);
    carry(made.map(([, copy]) => copy));
    const who = made.map(([who]) => who).join(", ");
    const [from, to] = made[0]?.[1] ?? [];
    const written = made.length > 1 ? `${who} get copies of a block that was shared.`
      : `Block ${from} was shared: ${who} gets a copy, block ${to}.`;
    return [
      `${plural(copies.length, "sequence")} got a token.`,
      ...(made.length ? [written] : []),
      ...(waiting.length ? [`No block is free: ${waiting.join(", ")} must wait.`] : []),
      ...(full.length ? [`${full.join(", ")} is at ${n_max} tokens.`] : []),
    ].join(" ");
  }
  const place = () => rows.find((r) => !seqs[r]);
  const noPlace = "The list has no place for a seventh sequence.";
  const noChoice = "Choose a sequence first.";
  const freeBlocks = (n) => `${plural(n, "block")} ${are(n)} free`;
  function arrive() {
    const r = place();
    const blocks = Math.ceil(prompt / size);
    if (r === undefined) return noPlace;
    if (blocks > free.length) {
      const wanted = `A prompt of ${prompt} tokens needs ${blocks} blocks`;
      return `${wanted}, and ${freeBlocks(free.length)}: it must wait.`;
    }
    seqs[r] = { table: [], n: 0 };
    for (let i = 0; i < prompt; i++) append(seqs[r]);
    chosen = r;
    return `${letters[r]} arrives with a prompt of ${prompt} tokens.`;
  }
  function fork() {
    const r = place();
    const from = seqs[chosen];
    if (!from) return noChoice;
    if (r === undefined) return noPlace;
    seqs[r] = { table: [...from.table], n: from.n };
    const what = `${letters[r]} continues ${letters[chosen]}`;
    chosen = r;
    return `${what}: nothing is copied, both tables are the same.`;
  }
  function end() {
    const seq = seqs[chosen];
    const who = letters[chosen];
    const before = free.length;
    if (!seq) return noChoice;
    seqs[chosen] = null;
    seq.table.forEach(release);
    chosen = live()[0] ?? 0;
    return `${who} has ended: ${freeBlocks(free.length - before)} again.`;
  }

  function show() {
    seats.forEach((of, b) => of.forEach((_, s) => showSeat(b, s)));
    numbers.forEach((_, b) => showNumber(b));
    showWay(seqs[chosen]?.table ?? []);
    rows.forEach(showRow);
    bars.forEach(showBar);
    const who = seqs[chosen] ? ` ${letters[chosen]}` : "";
    acts[2].textContent = `Fork${who}`;
    acts[3].textContent = `End${who}`;
  }
  const acts = [
    button("Next token", () => act(nextToken)),
    button("New sequence", () => act(arrive)),
    button("Fork", () => act(fork)),
    button("End", () => act(end)),
  ];
  const slim = "justify-content: center; padding-inline: 0.35rem";
  const fixed = `${slim}; width: 64px; padding-inline: 0; white-space: nowrap`;
  acts.forEach((one, i) => set(one, { style: i < 2 ? slim : fixed }));
  const apart = "gap: 4px; margin: 0 0 12px";
  const pressed = el("div", { class: "row", style: apart }, ...acts);
  const beside = "gap: 12px 20px; align-items: flex-start; margin: 0";
  set(said, { style: "min-height: 4.2em; margin-top: 12px" });
  view.append(
    el("div", { class: "beside", style: beside },
      el("div", { style: "flex: 0 1 350px; min-width: 0" }, root, tally),
      el("div", { style: "flex: 1 1 300px; min-width: 0" }, pressed, list, said)),
  );
  show();
  tell("");
  expose(() => ({
    chosen,
    tables: rows.map((r) => seqs[r]?.table ?? null),
    lengths: rows.map((r) => seqs[r]?.n ?? null),
    free: [...free],
    counts: seats.map((_, b) => users(b).length),
    blocks: inBlocks(),
    buffers: inBuffers(),
  }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=seat_map]")) begin(figure, draw);
})();
