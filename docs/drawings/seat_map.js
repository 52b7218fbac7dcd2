(() => {
function draw(stage) {
  const { view, viewWidth, data, el, svg, set, sum, grouped, plural, said, say } = stage;
  const { button, motion, expose, keep } = stage;
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
  const begun = (seq) => seq.n % size !== 0;
  function copied(seq) {
    const old = seq.table.at(-1);
    if (!begun(seq) || users(old).length < 2) return null;
    const copy = take();
    seq.table[seq.table.length - 1] = copy;
    return [old, copy];
  }
  const needs = (seq) => (begun(seq) ? +(users(seq.table.at(-1)).length > 1) : 1);
  function append(seq) {
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
  const middle = Math.ceil(size / 2), aisle = 8;
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
    const turn = y + (v < y ? -line / 2 : line / 2);
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

  const small = "padding: 0 16px 0 0; font-size: 13px; text-align: left";
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
  const ofCount = `${small}; text-align: right`;
  const inLine = "white-space: nowrap; font-variant-numeric: tabular-nums; min-width: 6rem";
  function rowOf(r) {
    const pick = pickOf(r);
    const count = el("td", { style: ofCount });
    const table = el("td", { style: `${small}; ${inLine}` });
    const name = el("label", { class: "choice" }, pick, letters[r]);
    const head = el("th", { scope: "row", style: small }, name);
    return { pick, count, table, row: el("tr", {}, head, count, table) };
  }
  const parts = rows.map(rowOf);
  const headings = ["sequence", "tokens", "block table"].map((text) =>
    el("th", { scope: "col", style: `${text === "tokens" ? ofCount : small}; color: var(--soft)` },
      text));
  const list = el("table", {
    style: "margin: 0; width: 100%; max-width: 360px",
    "aria-label": "The sequences and their block tables",
  },
    el("thead", {}, el("tr", {}, ...headings)),
    el("tbody", {}, ...parts.map((part) => part.row)));
  function showRow(r) {
    const { count, table, pick, row } = parts[r];
    const seq = seqs[r];
    count.textContent = seq ? grouped(seq.n) : "";
    table.textContent = seq ? seq.table.join(" · ") : "";
    set(table, { style: `${small}; ${inLine}${r === chosen && seq ? "; font-weight: 700" : ""}` });
    set(pick, { disabled: !seq });
    row.style.visibility = seq ? "" : "hidden";
    pick.checked = r === chosen;
  }

  const most = Math.max(rows.length * n_max, room);
  const begins = phone ? 0 : 140;
  const long = Math.min(viewWidth, 720) - begins;
  const slot = long / most;
  const broad = phone ? 24 : 28;
  const from = (first, n) => ({ x: (first * slot + 0.5).toFixed(1),
    width: Math.max(0, n * slot - 1).toFixed(1) });
  function boxOf() {
    const shape = { y: 1, height: broad - 2, rx: 3, class: "moves" };
    const dashed = { fill: "none", "stroke-dasharray": "4 3", stroke: "var(--soft)" };
    const used = svg("rect", shape), waste = svg("rect", { ...shape, ...dashed });
    const letter = svg("text", { y: broad / 2 + 5, style: "font-size: 13px" });
    return { used, waste, letter, node: svg("g", {}, used, waste, letter) };
  }
  function showBox({ used, waste, letter }, k, size, box) {
    const taken = box?.taken ?? 0;
    const fill = `var(--${box?.mine ? "rose" : "neutral"})`;
    set(used, { ...from(k * size, taken), fill, "fill-opacity": box?.out ? 0.25 : 0.5 });
    set(waste, { ...from(k * size + taken, size - taken),
      visibility: box && taken < size ? null : "hidden" });
    set(letter, { x: (k * size * slot + (phone ? 2 : 7)).toFixed(1) }, box?.name ?? "");
  }
  const blocks = () => upTo(n_blocks).filter((block) => users(block).length).map((block) =>
    ({ taken: filled(block), mine: users(block).includes(chosen), name: "" }));
  const buffers = () => live().map((r, k) => ({ taken: seqs[r].n, mine: r === chosen,
    name: letters[r], out: (k + 1) * n_max > room }));
  function barOf(name, size, most, count, held) {
    const boxes = upTo(most).map(boxOf);
    const bar = svg("svg", { width: long, height: broad, viewBox: `0 0 ${long} ${broad}`,
      "aria-hidden": true, style: phone ? "" : "margin: 8px 0" },
      ...boxes.map(({ node }) => node));
    const empty = el("b", { style: "font-size: 22px; line-height: 26px; white-space: nowrap"
      + (phone ? `; position: absolute; left: ${+edge + 8}px; top: -7px` : "") });
    const whole = el("span");
    const placed = phone ? "position: relative; margin-top: 12px"
      : "display: grid; margin-top: 4px";
    const text = el("div", { style: `${placed}; line-height: 18px` }, whole, empty);
    return { name, size, boxes, count, held, whole, empty, parts: [text, bar] };
  }
  const edge = (room * slot).toFixed(1);
  const bars = [barOf("in blocks", size, n_blocks, inBlocks, blocks),
    barOf("in buffers", n_max, rows.length, inBuffers, buffers)];
  const extent = svg("path", { d: `M1 2v8M1 6H${edge}`, stroke: "currentColor" });
  const limit = svg("path", { d: `M${edge} 0v200`, stroke: "currentColor", "stroke-width": 2 });
  const scale = svg("svg", { width: long, height: "100%", "aria-hidden": true,
    style: `position: absolute; top: 0; left: ${begins}px; overflow: hidden` }, extent, limit);
  const over = el("span", { style: `position: absolute; left: ${begins + +edge + 8}px; `
    + "font-weight: 600" });
  const memory = el("div", { style: "grid-column: -2; line-height: 20px; padding: 10px 0 0" },
    el("span", {}, `memory: ${grouped(room)} slots`), over);
  const tally = el("div", { style: "position: relative; overflow-x: clip; display: grid; "
    + `font-size: 13px; grid-template-columns: ${phone ? "" : `${begins}px `}1fr` },
    scale, memory, ...bars.flatMap(({ parts }) => parts));
  function showBar({ name, size, count, held, boxes, whole, empty }) {
    const { taken, reserved } = count();
    const now = held();
    boxes.forEach((box, k) => showBox(box, k, size, now[k]));
    whole.textContent = `${plural(reserved, "slot")} ${name}`;
    empty.textContent = `${grouped(reserved - taken)} empty`;
  }
  function showBars() {
    bars.forEach(showBar);
    const excess = inBuffers().reserved - room;
    over.textContent = excess > 0 ? `no room for ${plural(excess, "slot")}` : "";
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
    showBars();
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
  set(said, { style: `min-height: ${phone ? 4.2 : 2.8}em; margin-top: 8px` });
  const map = el("div", { style: "flex: 0 1 350px; min-width: 0" }, root);
  const side = el("div", { style: "flex: 1 1 300px; min-width: 0" }, pressed, list);
  view.append(phone ? el("div", { style: "display: grid; gap: 12px" }, map, tally, side)
    : el("div", {}, el("div", { class: "beside", style: beside }, map, side),
      el("div", { style: "margin: 16px 0 8px" }, tally)), said);
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
