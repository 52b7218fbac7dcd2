(() => {
// Two arrows to drag, and their dot product.
function draw({ view, data, el, svg, set, dot, number, said, say, plane, expose }) {
  const [a, b] = data.arrows.map((arrow) => [...arrow]);
  const { root, arrow, drag, at } = plane(300, 3);
  set(root, { "aria-label": "Two arrows from the middle" });
  const shadow = svg("path", { stroke: "var(--neutral)", "stroke-width": 7, opacity: 0.55, "stroke-linecap": "round" });
  const drop = svg("path", { stroke: "var(--soft)", "stroke-dasharray": "4 4" });
  root.append(shadow, drop);
  const arrows = [arrow("var(--q)", "a"), arrow("var(--k)", "b")];
  for (const i of [0, 1]) set(arrows[i].node, { "data-sym": "qk"[i] });
  const sum = el("div", { style: "font-size: 17px; line-height: 1.9; font-variant-numeric: tabular-nums" });

  function show() {
    const product = dot(a, b), share = product / Math.max(dot(b, b), 1e-9);
    arrows[0].point(a); arrows[1].point(b);
    const foot = b.map((x) => x * share);
    set(shadow, { d: `M${at([0, 0])}L${at(foot)}` });
    set(drop, { d: `M${at(a)}L${at(foot)}` });
    const parts = a.map((x, i) => `${number(x, 1)} · ${number(b[i], 1)}`).join(" + ");
    sum.replaceChildren(el("div", {}, "a · b = ", parts), el("div", {}, "= ", el("b", { style: "font-size: 24px" }, number(product))));
    const long = [a, b].every((arrow) => arrow.some(Boolean));
    say(!long ? "An arrow of length 0 has no direction: the product is 0." : Math.abs(product) < 0.005 ? "A right angle: the product is 0." :
      product > 0 ? "They point the same way: the product is positive." : "They point apart: the product is negative.");
  }
  view.append(el("div", { class: "beside", style: "gap: 1.5rem; align-items: center" }, root, el("div", { style: "min-width: 15rem" }, sum, said)));
  set(drag("arrow a", a, (to) => { [a[0], a[1]] = to; show(); }).node, { "data-sym": "q" });
  set(drag("arrow b", b, (to) => { [b[0], b[1]] = to; show(); }).node, { "data-sym": "k" });
  expose(() => ({ arrows: [a, b], product: dot(a, b) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=arrows]")) draw(stage(figure));
})();
