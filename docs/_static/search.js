// Finds sections: by their headings first, then by what people ask of them and what they say; chapters before tools. Works on a page from a disk.
(() => {
  "use strict";

  const SILENT = new Set("a an and are as at be been by can do does for from get has have how i if in is it its me my not of on or our should so than that the their then there this to was we what when where which who why will with you your".split(" "));
  // They say how one asks, not what about; where nothing else is asked they are looked for all the same.
  const FILLERS = new Set("basics beginner clearly detail easily easy example explain explanation explained guide intro introduction intuition intuitive intuitively overview please plain plainly scratch simple simply tutorial understand versus vs walkthrough work".split(" "));
  const WORTH = { chapter: 2.2, lookup: 1, name: 1.3, checks: 1, home: 0.8, sources: 0.6, tools: 0.45 };

  const clean = (text) => text.toLowerCase().replace(/√(\w+)/g, " √d sqrt ").replace(/q k[ᵀt]/g, "qk").replace(/[“”"‘’]/g, "");
  const tokens = (text) => clean(text).match(/[\p{L}\p{N}_√]+(\.[\p{L}_][\p{L}\p{N}_]*)*/gu) ?? [];  // nn.Embedding and scale.missing are words
  const parts = (word) => /[_.]/.test(word) ? word.split(/[_.]/).filter(Boolean) : [];  // merge_partials is found by its words, too
  const apart = (text) => tokens(text).flatMap((word) => [word, ...parts(word)]);
  const american = (word) => word.replace(/is(?=(e[drs]*|ing|ations?)$)/, "iz").replace(/our(?=(s|ed|ing|al)?$)/, "or");
  const stem = (word) => word.length > 3 ? american(word.replace(/(?<=[^s])s$/, "")) : word;
  const ended = /(?<=..)(?<=[aeiouy].*)(?:ing|ed|e)$/, twice = /([^aeiouls])\1$/;
  const root = (word) => stem(word).replace(ended, "").replace(twice, "$1");  // of mask, masked and masking

  const records = SECTIONS.flatMap(([page, about, kind, found]) => found.map(([anchor, title, text = "", own = "", terms = "", tables = "", asked = ""]) => (
    { url: page + anchor, title, page: about, kind: own || kind, text, terms, tables, asked })));
  const spread = new Map();  // in how many records a word stands: in a title it may be rare that is common in the book
  for (const { title, text, asked } of records) for (const word of new Set(apart(`${title} ${text} ${asked}`).map(stem))) spread.set(word, (spread.get(word) ?? 0) + 1);
  const rarity = (n) => Math.log(1 + records.length / n);
  const kin = new Map();
  for (const word of spread.keys()) kin.set(root(word), [...kin.get(root(word)) ?? [], word]);
  const engine = new MiniSearch({
    fields: ["title", "page", "text", "terms", "tables", "asked"], storeFields: ["url", "title", "page", "kind", "text"], tokenize: apart, processTerm: stem,
    searchOptions: { tokenize: tokens, boost: { title: 6, page: 2, terms: 1.5, tables: 0.3, asked: 3 }, prefix: (term) => term.length > 3, fuzzy: (term) => !kin.has(root(term)) && term.length > 5 ? 0.15 : false,
      boostTerm: (term) => spread.has(term) ? Math.max(0.15, rarity(spread.get(term)) / rarity(20)) : 1,
      boostDocument: (id, term, record) => WORTH[record.kind], combineWith: "OR" },
  });
  engine.addAll(records.map((record, id) => ({ id, ...record })));

  function edits(a, b) {  // letters to add, drop, change or swap
    let before, last = [...Array(b.length + 1).keys()];
    for (let i = 1; i <= a.length; i++) {
      const now = [i];
      for (let j = 1; j <= b.length; j++) {
        now[j] = Math.min(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] !== b[j - 1]));
        if (i > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) now[j] = Math.min(now[j], before[j - 2] + 1);
      }
      [before, last] = [last, now];
    }
    return last[b.length];
  }

  const meanings = new Map(), known = [...spread.keys(), ...Object.keys(SYNONYMS)];
  for (const [word, meaning] of Object.entries(SYNONYMS)) meanings.set(root(word), [...meanings.get(root(word)) ?? [], ...tokens(meaning)]);
  function spelled(word) {  // a word that stands nowhere, as the most frequent of those that it may be
    const most = word.length > 7 ? 2 : 1;
    if (!/^[a-z]{5,}$/.test(word) || kin.has(root(word)) || meanings.has(root(word))) return word;
    const near = known.filter((other) => other[0] === word[0] && Math.abs(other.length - word.length) <= most)
      .map((other) => [edits(stem(word), other), -(spread.get(other) ?? 0), other]).filter(([far]) => far <= most);
    return near.sort((a, b) => a[0] - b[0] || a[1] - b[1])[0]?.[2] ?? word;
  }

  // What a question is about: its words without idle ones, and then each by its root, or by that of another word for the same.
  const but = (idle, words) => { const left = words.filter((word) => !idle.has(stem(word))); return left.length ? left : words; };
  const topic = (words) => but(FILLERS, but(SILENT, words));
  const same = new Map(SAME.flatMap((words) => words.map((word) => [root(word), root(words[0])])));
  const heard = (words) => [...new Set(topic(words).map((word) => same.get(root(word)) ?? root(word)))];

  // A phrase in which people ask for a section, or its heading, may be nearly the question: 1 if it is, 0 if they share nothing.
  const phrases = records.map(({ title, asked }) => [title, ...asked.split("; ").filter(Boolean)].map((phrase) => new Set(heard(tokens(phrase)))));
  const weigh = (roots) => roots.reduce((sum, one) => sum + rarity(Math.max(...(kin.get(one) ?? []).map((word) => spread.get(word)), 1)), 0);
  const near = (roots, phrase) => 2 * weigh(roots.filter((one) => phrase.has(one))) / (weigh(roots) + weigh([...phrase]));
  const nearest = (roots, all) => Math.max(...all.map((phrase) => near(roots, phrase)));

  const DEFINE = /^\s*what('s| is| are| does| do)\b|\b(defin\w+|meanings?|means?|stands? for)\b/i;
  const forms = ({ title, text }) => [title, ...(text.match(/Also: ([^.]*)/)?.[1].split(", ") ?? [])];
  function defines(query, words) {  // "what is a key?" asks for the glossary's word
    const term = DEFINE.test(query) && String(heard(words.filter((word) => !/^(defin\w+|meanings?|means?|stands?)$/.test(word))));
    return (record) => term && record.kind === "lookup" && forms(record).some((form) => String(heard(tokens(form))) === term);
  }

  const inflected = (word) => [...new Set([stem(word), ...kin.get(root(word)) ?? [], ...parts(word)])];
  const meant = (word) => (meanings.get(root(word)) ?? []).map(stem);
  const joined = (words) => words.slice(1).map((word, i) => words[i] + word).filter((word) => kin.has(root(word)));  // layer norm: layernorm
  function covered(words, { queryTerms }) {  // how much of a question a section speaks of, from 0 to 1
    const found = new Set(queryTerms), any = (terms) => terms.some((term) => found.has(term));
    const shares = words.map((word) => [weigh([root(word)]), any(inflected(word)) ? 1 : any(meant(word)) ? 0.5 : 0]);
    return shares.reduce((sum, [weight, share]) => sum + weight * share, 0) / weigh(words.map(root));
  }

  const understood = (query) => tokens(query).map(spelled);
  function find(query, read = understood(query)) {
    const words = topic(read), roots = heard(words), more = [...words.flatMap((word) => [...inflected(word).slice(1), ...meant(word)]), ...joined(words)];
    if (!words.length) return [];
    const half = { queries: [more.join(" ")], boostDocument: (id, term, record) => 0.5 * WORTH[record.kind] };
    const found = engine.search({ combineWith: "OR", queries: [words.join(" "), ...(more.length ? [half] : [])] }), first = defines(query, words);
    for (const record of found) record.score *= covered(words, record) * (1 + 4 * nearest(roots, phrases[record.id]) ** 2) * (first(record) ? 1000 : 1);
    return found.sort((a, b) => b.score - a.score);
  }

  const escaped = (term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  function excerpt(text, terms) {  // from the place where most of the words stand, the rare ones first
    const low = text.toLowerCase(), places = terms.flatMap((term) => [...low.matchAll(new RegExp(`(?<![\\p{L}\\p{N}])${escaped(term)}`, "gu"))].map(({ index }) => [index, term]));
    const worth = (from) => [...new Set(places.filter(([at]) => from <= at && at < from + 150).map(([, term]) => term))].reduce((sum, term) => sum + rarity(spread.get(term) ?? 1), 0);
    const best = places.map(([at]) => [worth(at), at]).sort((a, b) => b[0] - a[0] || a[1] - b[1])[0]?.[1] ?? 0;
    const first = Math.max(0, best - 60), from = first ? low.indexOf(" ", first) + 1 : 0;
    const end = from + 180 < text.length ? text.lastIndexOf(" ", from + 180) : text.length;
    return (from ? "… " : "") + text.slice(from, end) + (end < text.length ? " …" : "");
  }

  function marked(text, terms) {  // the words that were found, in bold
    return text.split(new RegExp(`(${terms.map(escaped).join("|")})`, "iu")).map((part, i) => i % 2 ? Object.assign(document.createElement("b"), { textContent: part }) : part);
  }

  function place(record) {  // a line of the results: where it leads, on which page, and what is said there
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
  }

  function show(query) {
    const said = understood(query), found = find(query, said), most = found.slice(0, 20);
    const read = said.join(" "), mended = read === tokens(query).join(" ") ? "" : ` (read as “${read}”)`;
    document.querySelector(".search-summary").textContent = found.length ? `${found.length} places found for “${query}”${mended}${found.length > 20 ? "; the best 20:" : ":"}`
      : `Nothing was found for “${query}”${mended}. Try one word of it, or look into the glossary.`;
    document.getElementById("search-results").replaceChildren(...most.map(place));
  }

  const query = new URLSearchParams(location.search).get("q").trim();  // `search.html` brings this script for a question alone
  for (const box of document.querySelectorAll("input[name=q]")) box.value = query;
  show(query);
  Object.assign(window, { findSections: (asked) => find(asked), sections: records, placeOf: place });  // for the tests
})();
