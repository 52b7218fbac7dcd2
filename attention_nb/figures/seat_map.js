// A memory in blocks. Sequences arrive, grow, fork and end; their block tables; the slots that stay
// empty, and those that would in a buffer for each sequence, and who would find no room there.
// Blocks are taken and freed in the order of `PagedCache`.
function draw(stage) {
  const { view, viewWidth, data, el, svg, set, sum, grouped, plural, listed, said, say } = stage;
  const { button, clamp, wash, motion, expose, keep } = stage;
  const { n_blocks, size, n_max, prompt, sequences } = data;
  const letters = [..."ABCDEF"];
  const rows = [...letters.keys()];
  const seqs = rows.map((r) => sequences[r] ?? null);
  const free = [...data.free];
  const room = n_blocks * size;
  const upTo = (n) => [...Array(n).keys()];
  let fresh = new Set();
  let flights = [];  // the copies that the last step took

  // ---- The cache ----
  const live = () => rows.filter((r) => seqs[r]);
  const users = (block) => live().filter((r) => seqs[r].table.includes(block));
  const shared = (block) => users(block).length > 1;
  // at first the last that shares a block, or the last
  let chosen = Math.max(0, rows.findLastIndex((r) => seqs[r]?.table.some(shared)) + 1
    || sequences.length) - 1;
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

  // ---- What is counted ----
  const tokens = () => sum(live().map((r) => seqs[r].n));
  const within = (r, block) => seqs[r].n - size * seqs[r].table.indexOf(block);
  const filled = (block) =>
    Math.max(0, ...users(block).map((r) => Math.min(size, within(r, block))));
  const inBlocks = () => ({
    taken: sum(upTo(n_blocks).map(filled)),
    reserved: size * (n_blocks - free.length),
  });
  const placed = () => live().slice(0, Math.floor(room / n_max));  // those whose buffer fits
  const inBuffers = () => ({
    taken: sum(placed().map((r) => seqs[r].n)),
    reserved: n_max * placed().length,
  });

  // ---- The board: a column for each block, a square for each slot ----
  const phone = viewWidth < 600;
  const between = phone ? 0 : 24;
  const pitch = Math.min(30, ((viewWidth + between) / (phone ? 1 : 2) - between) / n_blocks);
  const high = phone ? 22 : 34, foot = 26;
  const head = 46;  // of blocks: who shares them, and from where to where one is copied
  const across = n_blocks * pitch;
  const centre = (block) => (block + 0.5) * pitch;
  // A colour for each sequence, and how much of it.
  const hueOf = (r, part = 1) => `hsl(${(205 + 137 * r) % 360} 60% 50% / ${part})`;
  const text = (x, y, says, more = {}) =>
    svg("text", { x, y, "text-anchor": "middle", style: "font-size: 13px", ...more }, says);
  const soft = "font-size: 13px; fill: var(--soft)", bold = "font-size: 13px; font-weight: 700";
  const square = (block, slot) => ({ x: (block * pitch + 1).toFixed(1),
    y: head + slot * high + 1, width: (pitch - 2).toFixed(1), height: high - 2, rx: 4 });
  function cellOf(block, slot) {
    const box = svg("rect", { ...square(block, slot), class: "moves" });
    return { box, who: text(centre(block), head + slot * high + high / 2 + 5, "") };
  }
  const cells = upTo(n_blocks).map((b) => upTo(size).map((slot) => cellOf(b, slot)));
  const base = head + size * high;
  const root = svg("svg", { width: across, height: base + foot, role: "img",
    viewBox: `0 0 ${across} ${base + foot}`, style: "height: auto",
    "aria-label": "The memory in blocks; a letter says whose token is in a slot" },
  ...cells.flat().flatMap(({ box, who }) => [box, who]));
  function counted(title) {  // how many slots stay empty, below a title
    const count = el("b", { style: "font-size: 24px; line-height: 28px" });
    const of = el("span", { style: "font-size: 13px" });
    return { count, of, node: el("div", { style: "white-space: nowrap" },
      el("div", { style: "font-weight: 600" }, title), count, of) };
  }
  const paged = counted("In blocks, taken as they are needed");
  const buffered = counted("In one buffer for each sequence");
  // Who has a slot, or keeps it empty: a letter, two letters, or how many; what is shared is grey.
  function paint({ box, who }, of, how) {
    paintSlot(box, of, how);
    who.textContent = of.length > 2 ? `×${of.length}` : of.map((r) => letters[r]).join("");
  }
  function paintSlot(box, of, { reserved, isNew = false }) {
    const hue = of.length === 1 ? hueOf(of[0]) : "var(--neutral)";
    const empty = reserved && !of.length;
    set(box, {
      fill: of.length ? hue : "none",
      "fill-opacity": 0.35,
      "stroke-dasharray": empty ? "4 3" : null,
      "stroke-width": isNew ? 3 : 1,
      stroke: isNew ? "currentColor" : of.length ? hue : empty ? "var(--soft)" : "var(--faint)",
    });
  }
  function showCount({ count, of }, { taken, reserved }) {
    count.textContent = `${grouped(reserved - taken)} empty`;
    of.textContent = ` of ${plural(reserved, "slot")}`;
  }

  // ---- In blocks: their numbers, and the way of the chosen sequence through its table ----
  const numbers = upTo(n_blocks).map((b) => text(centre(b), head - 6, b));
  const way = svg("path", { fill: "none", "stroke-width": 2, class: "moves" });
  const stops = svg("g");
  const frames = svg("g", { fill: "none", stroke: "var(--neutral)", "stroke-width": 2.5 });
  const event = svg("g");  // a copy that is made
  root.append(...numbers, way, stops, frames, event);
  function showWay(table) {
    const y = base + 6, low = base + foot;
    const hop = (to, i) => `M${centre(table[i])} ${y}C${centre(table[i])} ${low} `
      + `${centre(to)} ${low} ${centre(to)} ${y + 4}`;
    set(way, { d: table.slice(1).map(hop).join(""), stroke: hueOf(chosen) });
    set(stops, { fill: hueOf(chosen) });
    const tip = (b) => svg("path", { d: `M${centre(b) - 5} ${y + 5}h10l-5 -7z` });
    stops.replaceChildren(...table.map((b, i) =>
      (i ? tip(b) : svg("circle", { cx: centre(b), cy: y, r: 4 }))));
  }
  const frameOf = (b) =>
    svg("rect", { x: b * pitch, y: head - 1, width: pitch, height: size * high + 2, rx: 6 });
  function paintBlock(b, of, held = (r) => within(r, b)) {
    cells[b].forEach((cell, slot) => paint(cell, of.filter((r) => held(r) > slot),
      { reserved: of.length > 0, isNew: of.length > 0 && fresh.has(`${b} ${slot}`) }));
    set(numbers[b], { style: of.includes(chosen) ? bold : soft });
  }
  function showPaged() {
    for (const b of upTo(n_blocks)) paintBlock(b, users(b));
    frames.replaceChildren(...upTo(n_blocks).filter(shared).map(frameOf));
    showWay(seqs[chosen]?.table ?? []);
    showCount(paged, inBlocks());
  }

  // ---- A copy: who writes to a shared block first takes its tokens to a free one ----
  const [lift, land] = [0.25, 0.75];  // when the copy leaves, and when it is there
  const part = (t, from, to) => clamp((t - from) / (to - from), 0, 1);
  const copyOf = (r, from, n) => upTo(n).flatMap((slot) => [
    svg("rect", { ...square(from, slot), fill: "var(--paper)" }),
    svg("rect", { ...square(from, slot), fill: "var(--neutral)", "fill-opacity": 0.45,
      stroke: "currentColor", "stroke-width": 2 }),
    text(centre(from), head + slot * high + high / 2 + 5, letters[r])]);
  function arrowOf(from, to, t) {  // it grows with t, above the board
    const [y, top] = [head - 22, 12];
    const [a, b] = [centre(from), centre(to)];
    const curve = svg("path", { d: `M${a} ${y}C${a} ${top} ${b} ${top} ${b} ${y - 2}`, fill: "none",
      stroke: "currentColor", "stroke-width": 2, pathLength: 1, "stroke-dasharray": `${t} 1` });
    const tip = svg("path", { d: `M${b - 5} ${y - 3}h10l-5 7z`, fill: "currentColor" });
    return t < 1 ? [curve] : [curve, tip];
  }
  function flightAt({ r, from, to, slot }, t) {
    const [flown, written] = [part(t, lift, land), part(t, land, 1)];
    const x = pitch * (to - from) * flown;
    const y = -14 * Math.sin(Math.PI * flown);
    const copy = svg("g", { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` },
      ...copyOf(r, from, slot));
    const white = { style: "fill: var(--paper)" };
    const drop = svg("g", { transform: `translate(0 ${(-40 * (1 - written)).toFixed(1)})` },
      svg("rect", { ...square(to, slot), fill: "var(--control)" }),
      text(centre(to), head + slot * high + high / 2 + 5, letters[r], white));
    const moving = t < 1 && [...(t > lift ? [copy] : []), ...(written > 0 ? [drop] : [])];
    return [...arrowOf(from, to, flown), ...(moving || [])];
  }
  const fly = motion();
  function flyAt(t) {
    for (const { r, from, to, slot } of flights) {
      const still = t > lift ? [] : [r];
      paintBlock(from, [...still, ...users(from)].sort(),
        (one) => (one === r ? slot : within(one, from)));
      paintBlock(to, t < 1 ? [] : users(to));
    }
    const says = `copy for ${listed(flights.map(({ r }) => letters[r]), String)}`;
    const [{ from, to }] = flights;
    const middle = clamp((centre(from) + centre(to)) / 2, 50, across - 50);
    const label = text(middle, 9, says, { style: "font-size: 12px" });
    event.replaceChildren(...flights.flatMap((one) => flightAt(one, t)), label);
  }
  function carry() {
    event.replaceChildren();
    fly(flights.length ? 2200 : 0, flights.length ? flyAt : () => { });
  }

  // ---- In buffers: a row of slots for each sequence that finds room ----
  const lacking = el("div", { style: "min-height: 1.4em; font-size: 13px; font-weight: 600" });
  const buffers = upTo(Math.min(rows.length, Math.floor(room / n_max)));
  const named = 18, beyond = (phone ? viewWidth : viewWidth - across - 2 * between) - named;
  const broad = Math.min(20, beyond / n_max), tall = phone ? 17 : 20;
  const slotAt = (row, slot) => svg("rect", { x: (named + slot * broad + 1).toFixed(1),
    y: row * tall + 1, width: (broad - 2).toFixed(1), height: tall - 3, rx: 3, class: "moves" });
  const rowAt = (row) => ({ name: text(6, row * tall + tall / 2 + 4, ""),
    slots: upTo(n_max).map((slot) => slotAt(row, slot)) });
  const inRows = buffers.map(rowAt);
  const wide = named + n_max * broad;
  const strips = svg("svg", { width: wide, height: buffers.length * tall, role: "img",
    viewBox: `0 0 ${wide} ${buffers.length * tall}`, style: "height: auto",
    "aria-label": "The same memory in buffers; a row for each sequence that finds room" },
  ...inRows.flatMap(({ name, slots }) => [name, ...slots]));
  function showRowOf({ name, slots }, r) {
    name.textContent = r === undefined ? "" : letters[r];
    slots.forEach((slot, at) => paintSlot(slot, r !== undefined && at < seqs[r].n ? [r] : [],
      { reserved: r !== undefined }));
  }
  function showBuffered() {
    const out = live().slice(placed().length);
    lacking.textContent = out.length ? `no room for ${listed(out, (r) => letters[r])}` : "";
    inRows.forEach((row, i) => showRowOf(row, placed()[i]));
    showCount(buffered, inBuffers());
  }

  // ---- The sequences and their block tables ----
  const group = `seat-${Math.random()}`;
  function choose(r) {
    chosen = r;
    act(() => "");
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
  const ofTable = `display: inline-block; box-sizing: border-box; width: ${phone ? 24 : 22}px; `
    + "height: 22px; border-radius: 4px; text-align: center; line-height: 20px; font-size: 13px; "
    + "font-variant-numeric: tabular-nums";
  function chipOf(block, r) {  // a block in a table, as it looks on the board
    const [hue, pale] = shared(block) ? ["var(--neutral)", wash("neutral", 35)]
      : [hueOf(r), hueOf(r, 0.35)];
    const edge = `${shared(block) ? 2.5 : 1}px solid ${hue}`;
    return el("span", { style: `${ofTable}; border: ${edge}; background: ${pale}` },
      String(block));
  }
  function rowOf(r) {
    const pick = pickOf(r);
    const table = el("span", { style: "display: flex; gap: 3px" });
    const swatch = el("span", { style: "width: 10px; height: 10px; border-radius: 3px; "
      + `margin-right: 6px; background: ${hueOf(r)}` });
    const name = el("label", { class: "choice" }, pick, swatch, letters[r]);
    const row = el("div", { style: "display: flex; align-items: center; gap: 8px; height: 30px" },
      name, table);
    return { pick, table, row };
  }
  const parts = rows.map(rowOf);
  const list = el("div", { role: "group", "aria-label": "The sequences and their block tables",
    style: `display: grid; grid-template-columns: repeat(2, minmax(0, 1fr))` },
  ...parts.map(({ row }) => row));
  function showRow(r) {
    const { table, pick, row } = parts[r];
    const seq = seqs[r];
    table.replaceChildren(...(seq?.table ?? []).map((block) => chipOf(block, r)));
    set(pick, { disabled: !seq });
    row.style.visibility = seq ? "" : "hidden";  // no name before it is used
    row.style.order = seq ? r : r + rows.length;  // the room that is kept stands last
    pick.checked = r === chosen;
  }

  // ---- What a reader does ----
  const are = (n) => (n === 1 ? "is" : "are");
  function tell(what) {
    const shared = tokens() - inBlocks().taken;
    const both = shared ? `${plural(shared, "token")} ${are(shared)} shared.` : "";
    say(what || both);
  }
  function act(change) {
    fresh = new Set();
    flights = [];
    const what = change();
    show();
    carry();
    tell(what);
  }
  function nextToken() {
    const copies = [];
    const waiting = [];
    const full = [];
    for (const r of live()) {
      if (seqs[r].n === n_max) full.push(letters[r]);
      else if (needs(seqs[r]) > free.length) waiting.push(letters[r]);
      else copies.push({ r, copy: append(seqs[r]), slot: (seqs[r].n - 1) % size });
    }
    flights = copies.filter(({ copy }) => copy)
      .map(({ r, copy: [from, to], slot }) => ({ r, from, to, slot }));
    const who = flights.map(({ r }) => letters[r]).join(", ");
    const [{ from, to } = {}] = flights;
    const written = flights.length > 1 ? `${who} get copies of a block that was shared.`
      : `Block ${from} was shared: ${who} gets a copy, block ${to}.`;
    return [
      `${plural(copies.length, "sequence")} got a token.`,
      ...(flights.length ? [written] : []),
      ...(waiting.length ? [`No block is free: ${waiting.join(", ")} must wait.`] : []),
      ...(full.length ? [`${full.join(", ")} is at ${n_max} tokens.`] : []),
    ].join(" ");
  }
  const place = () => rows.find((r) => !seqs[r]);
  const noPlace = "The list has no place for a seventh sequence.";
  const noChoice = "Choose a sequence first.";
  const freeBlocks = (n) => `${plural(n, "block")} ${are(n)} free`;
  const blocksOf = (list) =>
    `block${list.length > 1 ? "s" : ""} ${listed([...list].sort((a, b) => a - b), String)}`;
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
    if (!seq) return noChoice;
    seqs[chosen] = null;
    seq.table.forEach(release);
    chosen = live()[0] ?? 0;
    return `${who} has ended: ${left(seq.table)}.`;
  }
  function left(table) {  // what becomes of the blocks of a sequence that has ended
    const shared = table.filter((block) => users(block).length);
    const freed = table.filter((block) => !users(block).length);
    const by = rows.filter((r) => shared.some((block) => users(block).includes(r)));
    return [
      ...(freed.length ? [`${blocksOf(freed)} ${are(freed.length)} free again`] : []),
      ...(by.length ? [`${listed(by, (r) => letters[r])} still `
        + `${by.length > 1 ? "use" : "uses"} ${blocksOf(shared)}`] : []),
    ].join("; ");
  }

  function show() {
    showPaged();
    showBuffered();
    rows.forEach(showRow);
  }
  const acts = [
    set(button("Next token", () => act(nextToken)), { class: "play" }),
    button("Fork", () => act(fork)),
    button("End", () => act(end)),
    button("New sequence", () => act(arrive)),
  ];
  // All in one line.
  acts.forEach((one) => set(one, { style: "white-space: nowrap; "
    + `font-size: ${phone ? 13 : 14}px; padding-inline: ${phone ? 6 : 11}px` }));
  const pressed = el("div", { class: "row", style: "gap: 6px; margin: 0; flex-wrap: nowrap" },
    ...acts);
  set(said, { style: `min-height: ${phone ? 4.2 : 2.8}em; max-width: none; margin: 0` });
  const columns = phone ? "minmax(0, 1fr)" : `${across}px minmax(0, 1fr)`;
  const places = "display: grid; align-items: start; grid-template-columns: "
    + `${columns}; gap: 8px ${2 * between}px`;
  const narrowed = "overflow: clip; overflow-clip-margin: 4px"; // a page that becomes narrow
  const tables = el("div", {}, el("div", { style: "font-weight: 600" }, "Block tables"), list);
  const inBuffer = el("div", {}, buffered.node, lacking, strips);
  const board = el("div", { style: "min-width: 0" }, paged.node, root);
  const beside = el("div", { style: "display: flex; flex-direction: column; gap: 10px" },
    ...(phone ? [tables, inBuffer] : [inBuffer, tables]));
  view.append(el("div", { style: `display: grid; gap: 8px; ${narrowed}` }, pressed,
    el("div", { style: places }, board, beside), said));
  show();
  tell("");
  expose(() => ({
    chosen,
    tables: rows.map((r) => seqs[r]?.table ?? null),
    lengths: rows.map((r) => seqs[r]?.n ?? null),
    free: [...free],
    counts: upTo(n_blocks).map((b) => users(b).length),
    blocks: inBlocks(),
    buffers: inBuffers(),
  }));
}
