(() => {
"use strict";

const listed = (words) => new Set(words.trim().split(/\s+/));
const SILENT = listed(`
a an and are as at be been by can do does for from get has have how i if in is it its me my not
of on or our should so than that the their then there this to was we what when where which who
why will with you your
`);
const FILLERS = listed(`
basics beginner clearly detail easily easy example explain explanation explained guide intro
introduction intuition intuitive intuitively overview please plain plainly scratch simple simply
tutorial understand versus vs walkthrough work
`);
const WORTH = {
chapter: 2.2, lookup: 1, name: 1.3, checks: 1, home: 0.8, sources: 0.6, tools: 0.45 };


function clean(text) {
const spelled = text.toLowerCase().replace(/√(\w+)/g, " √d sqrt ");
return spelled.replace(/q k[ᵀt]/g, "qk").replace(/[“”"‘’]/g, "");
}
const WORD = /[\p{L}\p{N}_√]+(\.[\p{L}_][\p{L}\p{N}_]*)*/gu;
const tokens = (text) => clean(text).match(WORD) ?? [];
const parts = (word) => (/[_.]/.test(word) ? word.split(/[_.]/).filter(Boolean) : []);
const apart = (text) => tokens(text).flatMap((word) => [word, ...parts(word)]);
function american(word) {
const withZ = word.replace(/is(?=(e[drs]*|ing|ations?)$)/, "iz");
return withZ.replace(/our(?=(s|ed|ing|al)?$)/, "or");
}
const singular = (word) => word.replace(/(?<=[^s])s$/, "");
const stem = (word) => (word.length > 3 ? american(singular(word)) : word);
const ended = /(?<=..)(?<=[aeiouy].*)(?:ing|ed|e)$/;
const twice = /([^aeiouls])\1$/;
const root = (word) => stem(word).replace(ended, "").replace(twice, "$1");


const recordOf = (page, about, kind) =>
([anchor, title, text = "", own = "", terms = "", tables = "", asked = ""]) => ({
url: page + anchor, title, page: about, kind: own || kind, text, terms, tables, asked });
const records = SECTIONS.flatMap(([page, about, kind, found]) =>
found.map(recordOf(page, about, kind)));
const spread = new Map();
for (const { title, text, asked } of records) {
const words = apart(`${title} ${text} ${asked}`).map(stem);
for (const word of new Set(words)) spread.set(word, (spread.get(word) ?? 0) + 1);
}
const rarity = (n) => Math.log(1 + records.length / n);
const kin = new Map();
for (const word of spread.keys()) kin.set(root(word), [...kin.get(root(word)) ?? [], word]);
const isKnown = (word) => kin.has(root(word));
const ofTerm = (term) => Math.max(0.15, rarity(spread.get(term)) / rarity(20));
const engine = new MiniSearch({
fields: ["title", "page", "text", "terms", "tables", "asked"],
storeFields: ["url", "title", "page", "kind", "text"],
tokenize: apart, processTerm: stem,
searchOptions: {
tokenize: tokens,
boost: { title: 6, page: 2, terms: 1.5, tables: 0.3, asked: 3 },
prefix: (term) => term.length > 3,
fuzzy: (term) => (!isKnown(term) && term.length > 5 ? 0.15 : false),
boostTerm: (term) => (spread.has(term) ? ofTerm(term) : 1),
boostDocument: (id, term, record) => WORTH[record.kind],
combineWith: "OR",
},
});
engine.addAll(records.map((record, id) => ({ id, ...record })));


function edits(a, b) {
let before;
let last = [...Array(b.length + 1).keys()];
for (let i = 1; i <= a.length; i++) {
const now = [i];
for (let j = 1; j <= b.length; j++) {
const changed = a[i - 1] !== b[j - 1];
now[j] = Math.min(last[j] + 1, now[j - 1] + 1, last[j - 1] + changed);
const swapped = i > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
if (swapped) now[j] = Math.min(now[j], before[j - 2] + 1);
}
[before, last] = [last, now];
}
return last[b.length];
}

const meanings = new Map();
for (const [word, meaning] of Object.entries(SYNONYMS)) {
meanings.set(root(word), [...meanings.get(root(word)) ?? [], ...tokens(meaning)]);
}
const spellings = [...spread.keys(), ...Object.keys(SYNONYMS)];
function spelled(word) {
if (!/^[a-z]{5,}$/.test(word) || isKnown(word) || meanings.has(root(word))) return word;
const most = word.length > 7 ? 2 : 1;
const alike = spellings.filter((other) =>
other[0] === word[0] && Math.abs(other.length - word.length) <= most);
const near = alike
.map((other) => [edits(stem(word), other), -(spread.get(other) ?? 0), other])
.filter(([far]) => far <= most);
return near.sort((a, b) => a[0] - b[0] || a[1] - b[1])[0]?.[2] ?? word;
}

function but(idle, words) {
const left = words.filter((word) => !idle.has(stem(word)));
return left.length ? left : words;
}
const topic = (words) => but(FILLERS, but(SILENT, words));
const same = new Map(SAME.flatMap((words) =>
words.map((word) => [root(word), root(words[0])])));
const meant = (word) => same.get(root(word)) ?? root(word);
const heard = (words) => [...new Set(topic(words).map(meant))];

const asking = ({ title, asked }) => [title, ...asked.split("; ").filter(Boolean)];
const phrases = records.map((record) =>
asking(record).map((phrase) => new Set(heard(tokens(phrase)))));
function weightOf(root) {
const most = Math.max(...(kin.get(root) ?? []).map((word) => spread.get(word)), 1);
return rarity(most);
}
const weigh = (roots) => roots.reduce((sum, one) => sum + weightOf(one), 0);
function near(roots, phrase) {
const shared = roots.filter((one) => phrase.has(one));
return 2 * weigh(shared) / (weigh(roots) + weigh([...phrase]));
}
const nearest = (roots, all) => Math.max(...all.map((phrase) => near(roots, phrase)));

const DEFINE = /^\s*what('s| is| are| does| do)\b|\b(defin\w+|meanings?|means?|stands? for)\b/i;
const DEFINING = /^(defin\w+|meanings?|means?|stands?)$/;
const aliases = (text) => text.match(/Also: ([^.]*)/)?.[1].split(", ") ?? [];
const forms = ({ title, text }) => [title, ...aliases(text)];
function defines(query, words) {
const told = words.filter((word) => !DEFINING.test(word));
const term = DEFINE.test(query) && String(heard(told));
const names = (record) =>
forms(record).some((form) => String(heard(tokens(form))) === term);
return (record) => term && record.kind === "lookup" && names(record);
}


const inflected = (word) =>
[...new Set([stem(word), ...kin.get(root(word)) ?? [], ...parts(word)])];
const explained = (word) => (meanings.get(root(word)) ?? []).map(stem);
const joined = (words) => words.slice(1).map((word, i) => words[i] + word).filter(isKnown);
function covered(words, { queryTerms }) {
const found = new Set(queryTerms);
const any = (terms) => terms.some((term) => found.has(term));
const shareOf = (word) => (any(inflected(word)) ? 1 : any(explained(word)) ? 0.5 : 0);
const part = words.reduce((sum, word) => sum + weigh([root(word)]) * shareOf(word), 0);
return part / weigh(words.map(root));
}

const understood = (query) => tokens(query).map(spelled);
function others(words) {
const each = words.flatMap((word) => [...inflected(word).slice(1), ...explained(word)]);
return [...each, ...joined(words)];
}
function searched(words) {
const more = others(words);
const half = {
queries: [more.join(" ")],
boostDocument: (id, term, record) => 0.5 * WORTH[record.kind],
};
const queries = [words.join(" "), ...(more.length ? [half] : [])];
return engine.search({ combineWith: "OR", queries });
}
function find(query, read = understood(query)) {
const words = topic(read);
if (!words.length) return [];
const roots = heard(words);
const found = searched(words);
const first = defines(query, words);
for (const record of found) {
const alike = 1 + 4 * nearest(roots, phrases[record.id]) ** 2;
record.score *= covered(words, record) * alike * (first(record) ? 1000 : 1);
}
return found.sort((a, b) => b.score - a.score);
}


const escaped = (term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const startOf = (term) => new RegExp(`(?<![\\p{L}\\p{N}])${escaped(term)}`, "gu");
function bestPlace(low, terms) {
const found = (term) => [...low.matchAll(startOf(term))];
const places = terms.flatMap((term) => found(term).map(({ index }) => [index, term]));
function worth(from) {
const near = places.filter(([at]) => from <= at && at < from + 150);
const words = new Set(near.map(([, term]) => term));
return [...words].reduce((sum, term) => sum + rarity(spread.get(term) ?? 1), 0);
}
const rated = places.map(([at]) => [worth(at), at]);
return rated.sort((a, b) => b[0] - a[0] || a[1] - b[1])[0]?.[1] ?? 0;
}
function excerpt(text, terms) {
const low = text.toLowerCase();
const best = bestPlace(low, terms);
const first = Math.max(0, best - 60);
const from = first ? low.indexOf(" ", first) + 1 : 0;
const end = from + 180 < text.length ? text.lastIndexOf(" ", from + 180) : text.length;
return (from ? "… " : "") + text.slice(from, end) + (end < text.length ? " …" : "");
}

function marked(text, terms) {
const bold = (part) => Object.assign(document.createElement("b"), { textContent: part });
const found = new RegExp(`(${terms.map(escaped).join("|")})`, "iu");
return text.split(found).map((part, i) => (i % 2 ? bold(part) : part));
}

function place(record) {
const item = document.createElement("li");
const link = document.createElement("a");
const where = document.createElement("span");
const words = document.createElement("p");
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

function summary(query, said, n) {
const read = said.join(" ");
const mended = read === tokens(query).join(" ") ? "" : ` (read as “${read}”)`;
if (!n) {
return `Nothing was found for “${query}”${mended}. `
+ "Try one word of it, or look into the glossary.";
}
return `${n} places found for “${query}”${mended}${n > 20 ? "; the best 20:" : ":"}`;
}
function show(query) {
const said = understood(query);
const found = find(query, said);
const most = found.slice(0, 20);
document.querySelector(".search-summary").textContent = summary(query, said, found.length);
document.getElementById("search-results").replaceChildren(...most.map(place));
}

const query = new URLSearchParams(location.search).get("q").trim();
for (const box of document.querySelectorAll("input[name=q]")) box.value = query;
show(query);
const findSections = (asked) => find(asked);
Object.assign(window, { findSections, sections: records, placeOf: place });
})();
