// Finds sections: by their headings first, then by what they say; chapters before tools. Works on a page from a disk.
(() => {
  "use strict";

  // What people type, and the words of the book for it.
  const SYNONYMS = {
    sqrt: "root √d", squareroot: "root √d", "√d": "root", scaling: "scale divide root", scaled: "scale", dividing: "divide",
    kv: "cache keys", kvcache: "cache", decoding: "cache", corner: "last query last key is_causal lower upper", is_causal: "causal corner",
    nan: "overflow hundred repair largest", inf: "overflow infinite", overflow: "repair largest hundred", leak: "look ahead test matters", leaks: "look ahead test matters", future: "ahead test matters", empty: "nothing left", fully: "nothing left",
    convert: "conversions pytorch", several: "one head badly",
    lookahead: "future causal", autoregressive: "causal future", transpose: "mT transposed", reshape: "view split heads", permute: "transpose",
    dim: "dimension", axis: "dimension", token: "word", tokens: "words", encoder: "layer", padding: "padding", pad: "padding",
    mha: "multi-head", multihead: "multi-head", qkv: "queries keys values", context: "mixture", logits: "scores", lse: "log-sum-exp", logsumexp: "log-sum-exp",
    cross: "cross-attention memory", onehot: "one-hot", oov: "unknown", loss: "learns gradient", backprop: "gradient", test: "check", tests: "checks",
    online: "pieces running largest", slow: "slower reading writing waits", verify: "check", terminal: "command", cli: "command terminal", cost: "costs", flops: "costs", complexity: "costs", memory: "memory costs" };
  const SILENT = new Set("a an and are as at be been by can do does for from get has have how i if in is it its me my not of on or our should so than that the their then there this to was we what when where which who why will with you your".split(" "));
  const WORTH = { chapter: 2.7, lookup: 1, name: 1.3, checks: 1, home: 0.8, tools: 0.45 };

  const clean = (text) => text.toLowerCase().replace(/√(\w+)/g, " √d sqrt ").replace(/q k[ᵀt]/g, "qk").replace(/[“”"‘’]/g, "");
  const tokens = (text) => clean(text).split(/[^\p{L}\p{N}_√]+/u).filter(Boolean);
  const apart = (text) => tokens(text).flatMap((word) => [word, ...(word.includes("_") ? word.split("_").filter(Boolean) : [])]);  // merge_partials is found by its words, too
  const stem = (word) => word.length > 4 ? word.replace(/(?<=[^s])s$/, "") : word;
  const engine = new MiniSearch({
    fields: ["title", "page", "text"], storeFields: ["url", "title", "page", "kind", "text"], tokenize: apart, processTerm: stem,
    searchOptions: { tokenize: tokens, boost: { title: 5, page: 2 }, prefix: (term) => term.length > 3, fuzzy: (term) => term.length > 5 ? 0.15 : false,
      boostDocument: (id, term, record) => WORTH[record.kind], combineWith: "OR" },
  });
  const records = SECTIONS.flatMap(([page, about, kind, found]) => found.map(([anchor, title, text, own]) => (
    { url: page + anchor, title, page: about, kind: own ?? kind, text })));
  engine.addAll(records.map((record, id) => ({ id, ...record })));

  function find(query) {
    const said = tokens(query), words = said.filter((word) => !SILENT.has(word));
    const asked = (words.length ? words : said).join(" "), meant = words.flatMap((word) => tokens(SYNONYMS[word] ?? ""));
    if (!asked) return [];
    return engine.search({ combineWith: "OR", queries: [asked, ...(meant.length ? [{ queries: [meant.join(" ")], boostDocument: (id, term, record) => 0.5 * WORTH[record.kind] }] : [])] });
  }

  function excerpt(text, terms) {
    const low = text.toLowerCase(), places = terms.map((term) => low.indexOf(term)).filter((at) => at >= 0);
    const first = Math.max(0, (places.length ? Math.min(...places) : 0) - 60), from = first ? low.indexOf(" ", first) + 1 : 0;
    const end = from + 180 < text.length ? text.lastIndexOf(" ", from + 180) : text.length;
    return (from ? "… " : "") + text.slice(from, end) + (end < text.length ? " …" : "");
  }

  function marked(text, terms) {  // the words that were found, in bold
    const parts = text.split(new RegExp(`(${terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "iu"));
    return parts.map((part, i) => i % 2 ? Object.assign(document.createElement("b"), { textContent: part }) : part);
  }

  function show(query) {
    const found = find(query), most = found.slice(0, 20);
    document.querySelector(".search-summary").textContent = !query ? "Type what you look for into the box."
      : found.length ? `${found.length} places found for “${query}”${found.length > 20 ? "; the best 20:" : ":"}`
      : `Nothing was found for “${query}”. Try one word of it, or look into the glossary.`;
    document.getElementById("search-results").replaceChildren(...most.map((record) => {
      const item = document.createElement("li"), link = document.createElement("a"), where = document.createElement("span"), words = document.createElement("p");
      const terms = Object.keys(record.match).sort((a, b) => b.length - a.length);
      link.href = record.url;
      link.append(...marked(record.title, terms));
      where.className = "where";
      where.textContent = record.title === record.page ? "" : ` ${record.page}`;
      words.className = "context";
      words.append(...marked(excerpt(record.text, terms), terms));
      item.append(link, where, words);
      return item;
    }));
  }

  const query = new URLSearchParams(location.search).get("q") ?? "";
  for (const box of document.querySelectorAll("input[name=q]")) box.value = query;
  show(query.trim());
  window.findSections = find;  // for the tests
})();
