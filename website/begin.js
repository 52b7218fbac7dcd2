// The site's way to begin a drawing (notebooks.py puts it behind drawing.js). One whose model has
// weights loads them when it comes into view, or near it once the reader scrolls: by a script, as
// a page that is opened from a disk may load scripts, and no data.
function begin(figure, draw) {
  const weights = figure.querySelector("script.weights");
  const start = () => draw(stage(figure));
  if (!weights) {
    start();
    return;
  }
  const view = figure.querySelector(".view");
  const line = view.querySelector(".unscripted");
  const still = view.querySelector("noscript");
  let watch = null;
  function load() {
    watch.disconnect();
    watch = null;
    line.textContent = "The weights of the model are on their way.";
    line.style.visibility = "visible";
    const script = document.createElement("script");
    script.onload = start;
    script.src = weights.getAttribute("data-src");
    document.head.append(script);
  }
  const seen = (entries) => { if (watch && entries.some((one) => one.isIntersecting)) load(); };
  function look(rootMargin) {
    watch?.disconnect();
    watch = new IntersectionObserver(seen, { rootMargin });
    watch.observe(view);
  }
  function wait() {  // what the page itself needs comes first
    look("0px");
    addEventListener("scroll", () => { if (watch) look("500px"); }, { once: true, passive: true });
  }
  if (document.readyState === "complete") wait();
  else addEventListener("load", wait, { once: true });
  addEventListener("beforeprint", () => {
    if (!figure.state && still) view.innerHTML = still.textContent;
  });
}
