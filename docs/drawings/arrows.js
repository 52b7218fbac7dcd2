(() => {
function draw({ view, data, el, svg, set, dot, number, said, say, plane, wash, expose }) {
  const [a, b] = data.arrows.map((arrow) => [...arrow]);
  const { root, arrow, drag, at } = plane(300, 3);
  set(root, { "aria-label": "Two arrows from the middle" });

  const halves = [0.18, 0].map((part) =>
    svg("path", { fill: "var(--neutral)", "fill-opacity": part }));
  const words = ["alike", "opposed"].map((word) =>
    svg("text", { class: "halo", "text-anchor": "middle", "aria-hidden": true,
      style: "font-size: 13px" }, word));
  const edge = svg("path", { stroke: "var(--soft)", "stroke-width": 1.5 });
  root.append(svg("svg", { width: 300, height: 300, style: "overflow: hidden",
    "aria-hidden": true }, ...halves, edge));
  root.append(...words);
  const far = 9;  // outside of the plane
  function divide() {
    const long = Math.hypot(...b);
    const [x, y] = b.map((n) => n / long);
    const visibility = long ? "visible" : "hidden";
    for (const node of [...halves, edge, ...words]) set(node, { visibility });
    if (!long) return;
    const ends = [[-y * far, x * far], [y * far, -x * far]];
    const line = ends.map(at).join("L");
    set(edge, { d: `M${line}` });
    [1, -1].forEach((way, i) => {
      const outer = ends.map(([u, v]) => at([u + way * x * far, v + way * y * far])).reverse();
      set(halves[i], { d: `M${line}L${outer.join("L")}Z` });
    });
    placeWords([x, y]);
  }
  function placeWords([x, y]) {  // along the edge, on the side of it where a is not
    const side = -y * a[0] + x * a[1] > 0 ? -1 : 1;
    const [wide, high] = [Math.abs(x), Math.abs(y)];
    const off = 0.72 * wide + 0.32 * high;  // from it, wider and higher than half a word
    const across = (2.35 - off * wide) / (high || 1e-9);  // so far that both are inside
    const along = side * Math.min(across, (2.75 - off * high) / (wide || 1e-9));
    [1, -1].forEach((way, i) => {
      const u = -y * along + way * x * off;
      const v = x * along + way * y * off;
      const [left, top] = at([u, v]);
      set(words[i], { x: left, y: top + 5 });
    });
  }
  const shadow = svg("path", { stroke: "var(--neutral)", "stroke-width": 12, opacity: 0.5,
    "stroke-linecap": "round" });
  const drop = svg("path", { stroke: "var(--soft)", "stroke-dasharray": "4 4" });
  root.append(shadow, drop);
  const arrows = [arrow("var(--q)", "a"), arrow("var(--k)", "b")];
  for (const i of [0, 1]) set(arrows[i].node, { "data-sym": "qk"[i] });

  const line17 = "font-size: 17px; font-variant-numeric: tabular-nums";
  const sum = el("div", { style: line17 });
  const lengths = el("div", { style: `margin-top: 4px; ${line17}` });
  const total = el("div", { style: "margin: 0.2rem 0 0.4rem; font-size: 32px; font-weight: 600" });
  const most = 18;  // two arrows into the same corner
  const bar = el("div");
  const track = "position: relative; height: 14px; margin-bottom: 0.8rem; "
    + `background: linear-gradient(90deg, var(--rest) 50%, ${wash("neutral", 22)} 50%)`;
  const zero = el("div", { style: "position: absolute; left: 50%; top: -4px; bottom: -4px; "
    + "border-left: 1.5px solid var(--soft)" });
  const coloured = (sym, text) => el("span", { "data-sym": sym, style: "font-weight: 600" }, text);
  function measure(product) {
    const side = product < 0 ? "right" : "left";
    set(bar, { style: `position: absolute; ${side}: 50%; top: 0; bottom: 0; `
      + `width: ${(50 * Math.abs(product) / most).toFixed(2)}%; background: var(--neutral)` });
  }
  function told(product) {
    const long = [a, b].every((arrow) => arrow.some(Boolean));
    if (!long) return "An arrow of length 0 has no direction: the product is 0.";
    if (Math.abs(product) < 0.005) return "A right angle: the product is 0.";
    return product > 0 ? "They are alike: the product is positive."
      : "They are opposed: the product is negative.";
  }

  function show() {
    divide();
    const product = dot(a, b);
    const share = product / Math.max(dot(b, b), 1e-9);
    arrows[0].point(a);
    arrows[1].point(b);
    const foot = b.map((x) => x * share);
    set(shadow, { d: `M${at([0, 0])}L${at(foot)}` });
    set(drop, { d: `M${at(a)}L${at(foot)}` });
    const parts = a.flatMap((x, i) => [i ? " + " : " = ", coloured("q", number(x, 1)), " · ",
      coloured("k", number(b[i], 1))]);
    sum.replaceChildren(coloured("q", "a"), " · ", coloured("k", "b"), ...parts);
    const long = Math.hypot(...b);
    const shade = el("span", { style: `border-bottom: 5px solid ${wash("neutral", 50)}` },
      `shadow ${number(share * long)}`);
    lengths.replaceChildren("= ", shade, " × ", coloured("k", `length of b ${number(long)}`));
    total.textContent = `= ${number(product)}`;
    measure(product);
    say(told(product));
  }
  const moves = (arrow) => (to) => {
    [arrow[0], arrow[1]] = to;
    show();
  };
  const right = el("div", { style: "flex: 1 1 15rem; max-width: 22rem" }, sum, lengths, total,
    el("div", { "aria-hidden": true, style: track }, bar, zero), said);
  view.append(el("div", { class: "beside", style: "gap: 0.75rem 2rem; margin: 0" }, root, right));
  set(drag("arrow a", a, moves(a)).node, { "data-sym": "q" });
  set(drag("arrow b", b, moves(b)).node, { "data-sym": "k" });
  expose(() => ({ arrows: [a, b], product: dot(a, b) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=arrows]")) begin(figure, draw);
})();
