// A box that leaves, of the catalogue of bugs, the lines that hold what is typed.
(() => {
  "use strict";

  const place = document.getElementById("find-bug");
  place.innerHTML = '<label>Find a bug <input type="search" placeholder="a word, or a code" autocomplete="off" spellcheck="false"></label><output aria-live="polite"></output>';
  const box = place.querySelector("input"), said = place.querySelector("output");
  const lines = [...document.querySelectorAll("article tr[id]")].map((row) => (
    { row, text: [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase() }));
  const around = document.querySelectorAll("article section section, article tbody:has(tr[id])");

  function show() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { row, text } of lines) row.hidden = !words.every((word) => text.includes(word));
    for (const part of around) part.hidden = words.length && !part.querySelector("tr[id]:not([hidden])");
    place.parentElement.classList.toggle("finding", words.length);  // the list of sections and the code step aside
    said.value = words.length ? `${lines.filter(({ row }) => !row.hidden).length} of ${lines.length}` : "";
  }

  function clear() {
    box.value = "";
    show();
  }

  // Where a link leads is shown, whatever was typed.
  function reveal(hash) {
    const target = document.getElementById(decodeURIComponent(hash.slice(1)));
    if (!target?.checkVisibility() && place.parentElement.contains(target)) clear();
    return target;
  }

  box.addEventListener("input", show);
  box.addEventListener("keydown", ({ key }) => { if (key === "Escape") clear(); });
  document.addEventListener("click", ({ target }) => { const link = target.closest("a[href^='#']"); if (link) reveal(link.hash); });
  addEventListener("hashchange", () => reveal(location.hash)?.scrollIntoView());
})();
