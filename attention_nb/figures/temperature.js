// The probabilities of the next token: at every temperature, and cut by top-k and top-p as
// `generate` cuts them.
function draw(stage) {
  const { view, viewWidth, data, el, set, sum, softmax, number, plural, said, say } = stage;
  const { choices, slider, button, motion, expose } = stage;
  const { tokens, prefixes, logits } = data;
  const all = [...tokens.keys()];
  const size = tokens.length;
  let at = data.start;
  let temperature = 2;
  let k = size;
  let p = 1;
  let seed = 1;
  let chances = [];
  let seen = 100;  // of the hundred that are drawn

  // ---- What is computed ----
  const highest = (list) => list.indexOf(Math.max(...list));
  const ranked = (row) => [...all].sort((i, j) => row[j] - row[i]);
  function topK(row) {
    const least = [...row].sort((a, b) => b - a)[k - 1];
    return row.map((x) => (x < least ? -Infinity : x));
  }
  function topP(row) {  // as few of the most probable as sum to p
    if (p === 1) return row;
    let before = 0;
    const kept = ranked(row).filter((i, rank) => {
      const keep = rank === 0 || before < p;
      before += row[i];
      return keep;
    });
    const total = sum(kept.map((i) => row[i]));
    return row.map((x, i) => (kept.includes(i) ? x / total : 0));
  }
  const plain = () => softmax(logits[at]);
  const warmed = (row) => softmax(row.map((x) => x / temperature));
  function probabilities() {
    if (temperature === 0) return all.map((i) => +(i === highest(logits[at])));
    return topP(warmed(topK(logits[at])));
  }
  function chance() {  // a number from 0 to 1, the same in every browser: mulberry32
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  // The same hundred numbers draw from every row of probabilities: what one moves changes only as
  // many tokens as it must.
  function drawnFrom(row) {
    const order = ranked(logits[at]).filter((i) => row[i] > 0);
    return chances.map((left) => order.find((i) => (left -= row[i]) < 0) ?? order.at(-1));
  }
  const counted = (drawn) => all.map((i) => drawn.filter((one) => one === i).length);

  // ---- A row for each token, the most probable first: its name, a bar and its probability;
  // dashed, its number grey: the probability at temperature 1; a rose dot: one of the hundred that
  // were drawn. Two stand above each other, so that one is as broad as 0.01 of a bar ----
  const wide = viewWidth >= 600;
  const [high, head, round] = wide ? [27, 22, 5.5] : [24, 22, 4.5];
  const text = "font-size: 13px; line-height: 17px; white-space: nowrap";
  const columns = "display: grid; grid-template-columns: 3.6rem minmax(0, 1fr); gap: 0 8px";
  const right = "text-align: right";
  const rows = all.map((i) => {
    const row = { name: el("span", {}, tokens[i]), bar: el("div", { class: "moves" }),
      plainly: el("div", { class: "moves" }), value: el("span", { class: "moves" }),
      before: el("span", { class: "moves" }), dots: [el("div"), el("div")], times: el("span") };
    const { name, bar, plainly, dots, times, value, before } = row;
    const room = `position: relative; height: ${high}px; margin-right: 2.8rem`;  // of its number
    const bars = el("div", { style: room }, bar, plainly, ...dots, times, value, before);
    return { ...row, node: el("div", { class: "moves" }, name, bars) };
  });
  const dashes = "1.5px dashed currentColor";
  const marked = (mark, words) => el("span", { style: "display: inline-flex; gap: 5px; "
    + "align-items: center" }, el("span", { style: `width: 16px; ${mark}` }), words);
  const atOne = marked(`border-top: ${dashes}`, wide ? "at temperature 1" : "temperature 1");
  const ofDrawn = marked("width: 7px; height: 7px; border-radius: 50%; background: var(--rose)",
    wide ? "one of 100 drawn" : "drawn");
  const heading = el("div", { style: `${columns}; ${text}; height: ${head}px` },
    el("span", { style: `${right}; color: var(--soft)` }, "token"),
    el("span", { style: "display: flex; align-items: start; gap: 8px; "
      + "color: var(--soft); overflow: clip" },
      el("span", {}, "probability"), atOne, ofDrawn));
  const line = el("div", { class: "moves" });  // below it all tokens are cut

  const board = el("div", {
    role: "group",
    "aria-label": "The probability of each next token",
    style: `position: relative; height: ${head + high * size}px; flex: 1 1 20rem; min-width: 0`,
  }, heading, ...rows.map(({ node }) => node), line);
  const reaching = (x) => `width: ${(100 * x).toFixed(2)}%; box-sizing: border-box`;
  const rounded = "border-radius: 0 3px 3px 0";
  const differs = (now, was) => Math.abs(now - was) > 1e-9;  // else one bar hides the other
  const dashed = (now, was) => was > 0.015 && differs(now, was);
  function showBars({ bar, plainly }, now, was) {
    const from = (top, high) => `position: absolute; left: 0; top: ${top}px; height: ${high}px`;
    const shown = dashed(now, was) ? "visible" : "hidden";
    const bold = `background: var(--neutral); ${rounded}`;
    set(bar, { style: `${from(1, 13)}; ${reaching(now < 0.005 ? 0 : now)}; ${bold}` });
    set(plainly, { style: `${from(1, 13)}; ${reaching(was)}; border: ${dashes}; border-left: 0; `
      + `visibility: ${shown}` });
  }
  function showDots({ dots, times }, count) {
    dots.forEach((node, below) => {
      const across = Math.ceil((count - below) / 2);
      const dot = "radial-gradient(circle closest-side, var(--rose) 82%, transparent)";
      set(node, { style: `position: absolute; left: 0; top: ${15 + round * below}px; `
        + `height: ${round}px; ${reaching(across / 50)}; `
        + `background: ${dot} 0 0 / calc(100% / ${across || 1})` });
    });
    times.textContent = count || "";
    set(times, { style: `position: absolute; left: ${2 * Math.ceil(count / 2)}%; top: 15px; `
      + `font-size: 11px; line-height: ${2 * round}px; padding-left: 5px; color: var(--soft)` });
  }
  // A number stands behind its bar; in it, where the dashed one goes on. Grey: that one's number.
  const numeral = wide ? 0.13 : 0.2;  // so long is it, as part of the longest bar
  function showNumbers({ value, before }, now, was) {
    const at = (x) => `${text}; position: absolute; top: -1px; left: ${(100 * x).toFixed(2)}%`;
    const beyond = dashed(now, was) && was > now;
    const inside = beyond && now >= numeral;
    const apart = inside || was - now >= numeral;
    const behind = `${at(beyond && !apart ? was : now)}; padding-left: 6px`;
    const within = `${at(now)}; transform: translateX(calc(-100% - 5px)); color: #fff`;
    set(value, { style: inside ? within : behind });
    value.textContent = now < 0.005 ? "" : number(now);
    const start = apart || now < 0.005 ? 6 : 44;
    set(before, { style: `${at(was)}; padding-left: ${start}px; color: var(--soft)` });
    before.textContent = beyond && was > 0.1 ? number(was) : "";
  }
  function showToken(i, rank, now, was) {
    const { node, name } = rows[i];
    const cut = now === 0;
    const small = !cut && now < 0.005;  // its bar is not to be seen
    set(node, { style: `${columns}; position: absolute; inset: 0 0 auto; height: ${high}px; `
      + `transform: translateY(${head + high * rank}px)` });
    showBars(rows[i], now, was);
    showNumbers(rows[i], now, was);
    set(name, { style: `${text}; ${right}; font-weight: ${rank ? 400 : 700}; `
      + `color: ${cut || small ? "var(--soft)" : "inherit"}; `
      + `text-decoration: ${cut ? "line-through" : "none"}` });
  }
  function showLine(left) {  // above the first token that is cut
    const y = head + high * left - 2;
    const shown = left < size ? "visible" : "hidden";
    set(line, { style: "position: absolute; inset: 0 0 auto; "
      + `transform: translateY(${y}px); visibility: ${shown}; border-top: 1.5px solid` });
  }

  // ---- What is said ----
  function cutting(row) {
    if (temperature === 0) return "Temperature 0 takes the most probable.";
    const left = row.filter((x) => x > 0).length;
    if (left === size) return "Every token can be drawn.";
    const lost = number(sum(warmed(logits[at]).filter((_, i) => row[i] === 0)));
    const only = `Only ${plural(left, "token")} can be drawn`;
    return `${only}; the others lost ${lost}.`;
  }
  function tell(row, counts) {
    const best = highest(logits[at]);
    const often = `“${tokens[best]}” has ${number(row[best])}; drawn: ${counts[best]} of 100`;
    say(`After “${prefixes[at]}”, ${often}. ${cutting(row)}`);
  }
  function show() {
    const row = probabilities();
    const was = plain();
    const drawn = drawnFrom(row);
    const counts = counted(drawn.slice(0, seen));
    ranked(logits[at]).forEach((i, rank) => showToken(i, rank, row[i], was[i]));
    rows.forEach((one, i) => showDots(one, counts[i]));
    showLine(row.filter((x) => x > 0).length);
    atOne.style.visibility = all.some((i) => differs(row[i], was[i])) ? "visible" : "hidden";
    tell(row, counted(drawn));
  }

  // ---- What a reader does ----
  const fall = motion();
  function showFirst(count) {  // of the hundred
    seen = count;
    show();
  }
  const changing = (take) => (x) => {
    take(x);
    fall(0, () => showFirst(100));
  };
  function draws(ms) {  // one after the other
    chances = Array.from({ length: 100 }, chance);
    fall(ms, (t) => showFirst(Math.round(100 * t)));
  }
  // Its name and its value stand above it, where the controls are a column.
  function labelled(name, how) {
    const node = slider(name, how);
    const [label, range, value] = node.children;
    set(label, { style: `flex: ${wide ? 1 : "0 0 5.6rem"}` });
    Object.assign(range.style,
      wide ? { order: 1, flex: "0 0 100%", width: "100%" } : { flex: "1 1 6rem" });
    set(value, { style: "min-width: 2.2em; text-align: right" });
    return set(node, { style: "gap: 0 0.5rem; margin: 0; justify-self: stretch; "
      + `flex-wrap: ${wide ? "wrap" : "nowrap"}` });
  }
  const off = (x, is, words) => (x === is ? "off" : words);
  const after = choices("Tokens so far", prefixes, at, changing((i) => { at = i; }));
  const heat = labelled("temperature", {
    min: 0, max: 3, step: 0.1, value: temperature,
    text: (x) => number(x, 1),
    input: changing((x) => { temperature = x; }),
  });
  const ofK = labelled("top-k", {
    min: 1, max: size, step: 1, value: k,
    text: (x) => off(x, size, String(x)),
    input: changing((x) => { k = x; }),
  });
  const ofP = labelled("top-p", {
    min: 0.05, max: 1, step: 0.05, value: p,
    text: (x) => off(x, 1, number(x)),
    input: changing((x) => { p = x; }),
  });
  set(after, { style: "margin: 0" });
  const beginning = el("span", { style: "display: inline-flex; gap: 8px; align-items: center" },
    "after", after);
  const again = set(button("Draw 100 tokens", () => draws(2000)), { style: "justify-self: start" });
  const first = el("div", { class: "row", style: "margin: 0; gap: 4px 8px" }, beginning);
  set(said, { style: `min-height: ${wide ? 4.2 : 2.8}em; margin-top: ${wide ? 4 : 8}px` });
  const controls = el("div", { style: "display: grid; align-content: start; justify-items: "
    + `${wide ? "start; gap: 8px; flex: 0 0 15rem" : "stretch; gap: 4px; flex: 1 1 100%"}` },
  first, heat, ofK, ofP, again, ...(wide ? [said] : []));
  view.append(el("div", { style: "display: flex; flex-wrap: wrap; gap: 12px 24px" },
    controls, board), ...(wide ? [] : [said]));
  draws(0);
  expose(() => ({ at, temperature, k, p, probabilities: probabilities(), plain: plain(),
    drawn: counted(drawnFrom(probabilities())) }));
}
