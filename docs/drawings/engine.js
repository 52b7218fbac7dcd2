// The small trained models of the book, run in the page: an encoder-decoder, or a language model, from the weights that the
// package has. A list of vectors is a list of lists of numbers. Parameters have the names that they have in Python.
function engine(figure, { data, sum, softmax }) {
  const { parts, steps, heads, rotary } = data.model;
  function dot(a, b) {  // a plain loop, since it is called a hundred thousand times
    let total = 0;
    for (let i = 0; i < a.length; i++) total += a[i] * b[i];
    return total;
  }
  function mix(weights, values) {  // the sum of the values, each times its weight
    const total = values[0].map(() => 0);
    values.forEach((value, j) => value.forEach((n, i) => { total[i] += weights[j] * n; }));
    return total;
  }

  // ---- Weights: scales of 32 bits, one for each row; then whole numbers of 8 bits; both step after step ----
  const product = (sizes) => sizes.reduce((a, b) => a * b, 1), rowsOf = (shape) => product(shape.slice(0, -1));
  const [rows, size] = [rowsOf, product].map((count) => sum(parts.map(([, shape]) => count(shape))));
  const holder = figure.querySelector("script.weights");  // in JupyterLab it holds them; on the site a file of its own does
  const packed = holder.textContent || globalThis.weights[holder.getAttribute("data-name")];
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const scales = new Float32Array(bytes.buffer, 0, steps.length * rows), whole = new Int8Array(bytes.buffer, scales.byteLength);
  function weightsAt(step) {
    let row = step * rows, at = step * size;
    function nextRow(width) {
      const scale = scales[row++];
      return Array.from(whole.subarray(at, at += width), (n) => Math.fround(n * scale));  // rounded as Python does
    }
    return Object.fromEntries(parts.map(([name, shape]) => {
      const matrix = Array.from({ length: rowsOf(shape) }, () => nextRow(shape.at(-1)));
      return [name, shape.length > 1 ? matrix : matrix[0]];
    }));
  }

  // ---- The parts of a model. `run` holds its weights `w`; `seen` takes what each head attends to, `passed` what it passes on;
  // `off` says what heads that are switched off pass on instead ----
  const plus = (x, y) => x.map((vector, i) => vector.map((n, j) => n + y[i][j]));
  function linear({ w }, name, x) {
    const matrix = w[`${name}.weight`], bias = w[`${name}.bias`];
    return x.map((vector) => matrix.map((row, i) => dot(row, vector) + (bias ? bias[i] : 0)));
  }
  function norm({ w }, name, x) {  // a layer norm; where a model has none, nothing happens
    const gain = w[`${name}.weight`], shift = w[`${name}.bias`];
    return gain ? x.map((vector) => {
      const mean = sum(vector) / vector.length, around = vector.map((n) => n - mean);
      const deviation = Math.sqrt(dot(around, around) / vector.length + 1e-5);
      return around.map((n, i) => n / deviation * gain[i] + shift[i]);
    }) : x;
  }
  function split(x) {  // (n, d_model) → (h, n, d_head)
    const width = x[0].length / heads;
    return Array.from({ length: heads }, (_, h) => x.map((vector) => vector.slice(h * width, (h + 1) * width)));
  }
  const turns = new Map();  // position → cosine and sine of the angle of each pair
  function turnsAt(position, pairs) {
    if (!turns.has(position)) turns.set(position, Array.from({ length: pairs }, (_, i) => {
      const angle = position * rotary ** (-i / pairs);
      return [Math.cos(angle), Math.sin(angle)];
    }));
    return turns.get(position);
  }
  function rotated(vector, position) {  // number i of the first half and number i of the second are a pair
    const half = vector.length / 2, by = turnsAt(position, half), [a, b] = [vector.slice(0, half), vector.slice(half)];
    return [...by.map(([cos, sin], i) => a[i] * cos - b[i] * sin), ...by.map(([cos, sin], i) => a[i] * sin + b[i] * cos)];
  }
  const placed = (head) => (rotary ? head.map(rotated) : head);
  function attention(run, name, x, memory, causal) {
    const [q, k, v] = [["q", x], ["k", memory], ["v", memory]].map(([kind, from]) => split(linear(run, `${name}.${kind}_proj`, from)).map(kind === "v" ? (head) => head : placed));
    const score = (query, key) => dot(query, key) / Math.sqrt(key.length);
    const weights = q.map((queries, h) => queries.map((query, i) => softmax(k[h].map((key, j) => (causal && j > i ? -Infinity : score(query, key))))));
    const contexts = weights.map((head, h) => head.map((row) => run.off.get(`${name} ${h}`) ?? mix(row, v[h])));
    run.seen[name] = weights;
    run.passed[name] = contexts;
    return linear(run, `${name}.out_proj`, x.map((_, i) => contexts.flatMap((head) => head[i])));
  }
  function feedForward(run, name, x) {
    const wide = linear(run, `${name}.up_proj`, x).map((vector) => vector.map((n) => Math.max(0, n)));
    return linear(run, `${name}.down_proj`, wide);
  }

  // ---- Blocks and stacks ----
  function block(run, name, x, memory, causal) {
    const has = (part) => `${name}.${part}.weight` in run.w, normed = (part, x) => norm(run, `${name}.${part}_norm`, x);
    const own = normed("attention", x);
    x = plus(x, attention(run, `${name}.attention`, own, own, causal));
    if (has("cross.q_proj")) x = plus(x, attention(run, `${name}.cross`, normed("cross", x), memory, false));
    if (has("feed_forward.up_proj")) x = plus(x, feedForward(run, `${name}.feed_forward`, normed("feed_forward", x)));
    return x;
  }
  function stack(run, name, x, memory, causal) {
    for (let i = 0; `${name}.blocks.${i}.attention.q_proj.weight` in run.w; i++) x = block(run, `${name}.blocks.${i}`, x, memory, causal);
    return norm(run, `${name}.norm`, x);
  }
  function embed({ w }, name, ids) {
    const x = ids.map((id) => w[`${name}.table.weight`][id]), positions = w[`${name}.positions.weight`];
    return positions ? plus(x, positions) : x;
  }

  // ---- Both kinds of models. What they give are logits of the next token, at each position ----
  const known = new Map();  // steps whose weights were read already
  function start(step, off = new Map()) {
    if (!known.has(step)) known.set(step, weightsAt(step));
    return { w: known.get(step), seen: {}, passed: {}, off };
  }
  const encode = (run, ids) => stack(run, "encoder", embed(run, "source", ids), null, false);
  function decode(run, memory, ids) {
    const x = stack(run, "decoder", embed(run, "target", ids), memory, true);
    return x.map((vector) => run.w["target.table.weight"].map((row) => dot(row, vector)));
  }
  function read(run, ids) {
    return linear(run, "lm_head", stack(run, "stack", embed(run, "embed", ids), null, true));
  }
  return { start, encode, decode, read, parts: { linear, norm, attention, embed } };
}
