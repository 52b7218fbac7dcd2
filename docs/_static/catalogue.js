(() => {
"use strict";

const place = document.getElementById("find-bug");
place.innerHTML = '<label>Find a bug <input type="search" placeholder="a word, or a code" '
+ 'autocomplete="off" spellcheck="false"></label><output aria-live="polite"></output>';
const box = place.querySelector("input");
const said = place.querySelector("output");
const textOf = (row) => [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
const rows = [...document.querySelectorAll("article tr[id]")];
const lines = rows.map((row) => ({ row, text: textOf(row) }));
const around = document.querySelectorAll("article section section, article tbody:has(tr[id])");

function show() {
const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
for (const { row, text } of lines) row.hidden = !words.every((word) => text.includes(word));
const shown = (part) => part.querySelector("tr[id]:not([hidden])");
for (const part of around) part.hidden = words.length && !shown(part);
place.parentElement.classList.toggle("finding", words.length);
const left = rows.filter((row) => !row.hidden).length;
said.value = words.length ? `${left} of ${rows.length}` : "";
}

function clear() {
box.value = "";
show();
}

function reveal(hash) {
const target = document.getElementById(decodeURIComponent(hash.slice(1)));
if (!target?.checkVisibility() && place.parentElement.contains(target)) clear();
return target;
}

box.addEventListener("input", show);
box.addEventListener("keydown", ({ key }) => { if (key === "Escape") clear(); });
document.addEventListener("click", ({ target }) => {
const link = target.closest("a[href^='#']");
if (link) reveal(link.hash);
});
addEventListener("hashchange", () => reveal(location.hash)?.scrollIntoView());
})();
