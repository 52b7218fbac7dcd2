(() => {
// The weights of the heads of a layer, at some steps of its training.
function draw({ view, data, el, set, sum, number, said, say, slider, player, expose }) {
  const { weights, steps, losses } = data, h = weights[0].length, n = weights[0][0].length;
  let frame = 0;
  const mean = (list) => sum(list) / list.length;
  const shown = (w) => [mean(w.slice(2).map((row) => row[0])), mean(w.slice(2).map((row, i) => row[i + 1]))];

  const box = "width: 29px; height: 28px; padding: 0; text-align: center; font-size: 13px";
  const head = (text) => el("th", { scope: "col", "data-sym": "k", style: box }, text);
  const heads = weights[0].map((_, k) => {
    const cells = weights[0][k].map((row) => row.map(() => el("td", { "data-sym": "w" })));
    const note = el("div", { style: "font-variant-numeric: tabular-nums; min-height: 2.8em" });
    const table = el("table", { "aria-label": `head ${k}: a row for each query, a column for each key`, style: "margin: 0.2rem 0" },
      el("thead", {}, el("tr", {}, el("td", {}), ...cells.map((_, j) => head(`${j}`)))),
      el("tbody", {}, ...cells.map((row, i) => el("tr", {}, el("th", { scope: "row", "data-sym": "q", style: `${box}; width: auto; padding-right: 6px` }, `token ${i}`), ...row))));
    return { cells, note, node: el("div", {}, el("b", { style: "font-weight: 600" }, `head ${k}`), table, note) };
  });
  const loss = el("span", { style: "font-variant-numeric: tabular-nums" });

  function showHead({ cells, note }, now) {
    const [first, before] = shown(now);
    note.replaceChildren(el("div", {}, `first token ${number(first)}`), el("div", {}, `previous token ${number(before)}`));
    cells.forEach((row, i) => row.forEach((cell, j) => {
      set(cell, { style: `${box}; border: 1px solid var(--faint); color: inherit; background: color-mix(in srgb, var(--w) ${(60 * now[i][j]).toFixed(1)}%, transparent)` });
      cell.textContent = number(100 * now[i][j], 0);
    }));
  }
  function favourite(now) {
    const [first, before] = shown(now);
    const most = Math.max(first, before), to = first > before ? "first token" : "previous token";
    return most < 1.5 / n ? "attends to all tokens about alike" : `${most < 0.5 ? "prefers" : "attends to"} the ${to}`;
  }
  function show() {
    heads.forEach((head, k) => showHead(head, weights[frame][k]));
    loss.textContent = `loss ${number(losses[frame], 3)}`;
    say(`Step ${steps[frame]}: ${weights[frame].map((now, k) => `head ${k} ${favourite(now)}`).join(", ")}.`);
  }
  const time = slider("step of training", { min: 0, max: steps.length - 1, step: 1, value: 0, text: (i) => `${steps[i]}`,
    input: (i) => { play.stop(); frame = i; show(); } });
  const play = player({ at: () => frame, last: () => steps.length - 1, ms: () => 600, go: (i) => { frame = i; time.move(i); show(); } });
  view.append(
    el("div", { class: "row", style: "margin-top: 0" }, play.node, time, loss),
    el("div", { style: "display: flex; flex-wrap: wrap; gap: 0.4rem 2rem" }, ...heads.map((k) => k.node)),
    el("div", { style: "min-height: 2.8em; margin-top: 0.5rem" }, said));
  show();
  expose(() => ({ step: steps[frame], loss: losses[frame], weights: weights[frame], means: weights[frame].map(shown), playing: play.playing() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=head_film]")) draw(stage(figure));
})();
