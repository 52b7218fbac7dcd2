// The site's way to begin a drawing (notebooks.py puts it behind drawing.js). One whose model has
// weights loads them when it comes into view, or near it once the reader scrolls: by a script, as
// a page that is opened from a disk may load scripts, and no data.
function nearing(view, act) {
  let watch = null;
  let done = false;
  function seen(entries) {
    if (done || !entries.some((one) => one.isIntersecting)) return;
    done = true;
    watch.disconnect();
    act();
  }
  function look(rootMargin) {
    if (done) return;
    watch?.disconnect();
    watch = new IntersectionObserver(seen, { rootMargin });
    watch.observe(view);
  }
  function wait() {  // what the page itself needs comes first
    look("0px");
    addEventListener("scroll", () => look("500px"), { once: true, passive: true });
  }
  if (document.readyState === "complete") wait();
  else addEventListener("load", wait, { once: true });
}

function loadWeights(address, line, start) {
  const script = document.createElement("script");
  line.textContent = "The weights of the model are on their way.";
  line.style.visibility = "visible";
  script.onload = start;
  script.onerror = () => {
    line.textContent = "The weights of the model did not come: load the page again.";
  };
  script.src = address;
  document.head.append(script);
}

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
  nearing(view, () => loadWeights(weights.getAttribute("data-src"), line, start));
  addEventListener("beforeprint", () => {
    if (!figure.state && still) view.innerHTML = still.textContent;
  });
}
