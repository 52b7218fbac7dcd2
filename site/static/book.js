// Draws the charts of a page when they come near, and mends two things for readers without a server or a mouse.
(() => {
  "use strict";

  // Search excerpts are fetched, which a page opened from disk may not do. Titles come with the index.
  if (location.protocol === "file:" && window.DOCUMENTATION_OPTIONS !== undefined)
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  // ---- Charts ----

  const here = document.currentScript.src;
  let loading;
  const library = () => (loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL("vega.js", here);  // a script, not a module: those do not load from file://
    script.onload = resolve;
    script.onerror = () => reject(new Error("vega.js did not load; the tables remain"));
    document.head.append(script);
  }));

  // Everything that is not data is drawn in currentColor: CSS gives it the page's colour, in light and dark.
  const ink = "currentColor";
  const config = {
    background: "transparent",
    axis: { domainColor: ink, domainOpacity: 0.4, tickColor: ink, tickOpacity: 0.4, gridColor: ink, gridOpacity: 0.12,
            labelColor: ink, titleColor: ink, titleFontWeight: "normal" },
    header: { labelColor: ink, titleColor: ink },
    legend: { labelColor: ink, titleColor: ink },
    style: { "guide-label": { fill: ink }, "guide-title": { fill: ink } },
    text: { color: ink },
    rule: { color: ink },
    title: { color: ink, subtitleColor: ink },
    view: { stroke: null },
  };

  async function draw(figure) {
    const place = figure.querySelector(".chart-view");
    try {
      const spec = JSON.parse(figure.querySelector("script").textContent);
      await library();
      const font = getComputedStyle(document.body).fontFamily;
      figure.classList.add("drawn");
      await vegaEmbed(place, spec, { mode: "vega-lite", renderer: "svg", actions: false, defaultStyle: false,
                                     config: { font, ...config } });
      figure.querySelector(".chart-data").open = false;
    } catch (error) {
      figure.classList.replace("drawn", "failed") || figure.classList.add("failed");
      console.error(error);
    }
  }

  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target);
    }
  }, { rootMargin: "600px 0px" });
  for (const figure of document.querySelectorAll("figure.chart")) near.observe(figure);
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll(".chart-data")) details.open = true;
  });

  // ---- Keyboard ----

  // What scrolls sideways must be reachable by keyboard, and what does not must not be a stop.
  const scrollers = "pre, .table-wrapper, .chart-view, .chart-data .scroll, .katex-display > .katex";
  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const scrolls = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
      if (scrolls) target.tabIndex = 0; else target.removeAttribute("tabindex");
    }
  });
  for (const box of document.querySelectorAll(scrollers)) sized.observe(box);
})();
