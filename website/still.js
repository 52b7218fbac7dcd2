// Draws the first state of a drawing without a browser (stills.py):
//     node still.js attention_nb/figures NAME full|page [NAME-OF-WEIGHTS SCRIPT...] < DATA
// The scripts of the drawings run as they are, on a small stand-in for the page: elements that can be made, filled and
// written out. Nothing is laid out and nothing moves. What one moves or presses is left out. Colours are written in `full`, or
// are those of the `page` around it.
"use strict";
const { readFileSync } = require("node:fs");
const [folder, name, ink, nameOfWeights, ...more] = process.argv.slice(2), SVG = "http://www.w3.org/2000/svg", WIDTH = 390;  // a phone's: it fits every reader
const text = (file) => readFileSync(`${folder}/${file}`, "utf-8");

class Element {
  constructor(tag, space) {
    Object.assign(this, { tag, space, attributes: new Map(), childNodes: [], own: {}, parentElement: null });
    this.style = new Proxy(this.own, { set: (own, key, value) => { own[key.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)] = value; return true; } });
  }
  setAttribute(key, value) {
    if (key === "style") for (const old of Object.keys(this.own)) delete this.own[old];
    this.attributes.set(key, String(value));
  }
  removeAttribute(key) { this.attributes.delete(key); }
  getAttribute(key) { return this.attributes.get(key) ?? null; }
  append(...nodes) {
    for (const node of nodes) {
      if (node instanceof Element) { node.remove(); node.parentElement = this; }
      this.childNodes.push(node instanceof Element ? node : String(node));
    }
  }
  replaceChildren(...nodes) { this.childNodes = []; this.append(...nodes); }
  remove() {
    const beside = this.parentElement?.childNodes;
    if (beside) beside.splice(beside.indexOf(this), 1);
    this.parentElement = null;
  }
  get children() { return this.childNodes.filter((node) => node instanceof Element); }
  get firstChild() { return this.childNodes[0] ?? null; }
  get lastChild() { return this.childNodes.at(-1) ?? null; }
  get textContent() { return this.childNodes.map((node) => node.textContent ?? node).join(""); }
  set textContent(value) { this.childNodes = value === "" ? [] : [String(value)]; }
  querySelectorAll(tag) { return this.children.flatMap((node) => [...(node.tag === tag ? [node] : []), ...node.querySelectorAll(tag)]); }
  querySelector(tag) { return this.querySelectorAll(tag)[0] ?? null; }
  getBoundingClientRect() { return { left: 0, top: 0, width: 0, height: 0 }; }
  addEventListener() { }
  get clientWidth() { return WIDTH; }
}

// ---- Writing out ----
const hues = { faint: "#c8c8c8", soft: "#767676", paper: "none", accent: "#1f6fb5", ...Object.fromEntries([...text("drawing.css").matchAll(/--([\w-]+): (?:var\(--sym-\w, )?(#\w{6})/g)].reverse().map(([, key, hue]) => [key, hue])) };
const mixed = (colour, share) => {
  const parts = colour === "currentColor" ? [128, 128, 128] : [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgba(${parts.join(", ")}, ${+(share / 100).toFixed(3)})`;
};
const full = (value) => ink === "page" ? value : value.replace(/var\(--([\w-]+)\)/g, (found, key) => hues[key] ?? found)
  .replace(/color-mix\(in srgb, (#\w{6}|currentColor) ([\d.]+)%, (?:transparent|none)\)/g, (_, colour, share) => mixed(colour, +share));
const short = (value) => value.replace(/\d+\.\d{3,}/g, (n) => +(+n).toFixed(2));
const safe = (value) => value.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
const KEPT = /^(style|class|colspan|rowspan|scope)$/, FOR_EARS = /^(role|tabindex|title|aria-.*|data-.*)$/;
const PLAIN = { button: "span", output: "p", label: "span", form: "div" };

function written(node) {
  if (!(node instanceof Element)) return safe(node);
  const classes = (node.getAttribute("class") ?? "").split(" ");
  if (node.getAttribute("type") === "number") return safe(node.getAttribute("value"));
  if (["input", "details"].includes(node.tag) || classes.includes("row") || classes.includes("handle")) return "";
  const drawn = node.space === SVG, tag = drawn ? node.tag : PLAIN[node.tag] ?? node.tag;
  const sym = node.getAttribute("data-sym"), hue = sym && `${tag === "text" ? "fill" : "color"}: var(--ink-${sym})`;
  const style = [hue, node.getAttribute("style"), ...Object.entries(node.own).filter(([, value]) => value !== "").map(([key, value]) => `${key}: ${value}`)].filter(Boolean).join("; ");
  const kept = [...node.attributes].filter(([key]) => key !== "style" && (drawn ? !FOR_EARS.test(key) : KEPT.test(key)));
  const all = [...(drawn && node.tag === "svg" ? [["xmlns", SVG], ...(ink === "page" ? [["aria-hidden", "true"]] : [])] : []), ...kept, ...(style ? [["style", style]] : [])];
  const inside = node.childNodes.map(written).join("");
  return `<${tag}${all.map(([key, value]) => ` ${key}="${safe(short(full(value)))}"`).join("")}>${inside}</${tag}>`;
}

// ---- What the scripts find around them ----
const view = new Element("div"), data = new Element("script"), weights = new Element("script");
weights.setAttribute("data-name", nameOfWeights);
data.textContent = readFileSync(0, "utf-8");
const found = { ".view": view, "script.weights": weights };
const figure = { querySelector: (wanted) => found[wanted] ?? data };
const document = {
  createElement: (tag) => new Element(tag), createElementNS: (space, tag) => new Element(tag, space),
  querySelectorAll: () => [],
};
const matchMedia = () => ({ matches: true });  // no motion
class ResizeObserver { observe() { } }
const draw = new Function("figure", "document", "matchMedia", "ResizeObserver", `${text("drawing.js")}${more.map((file) => readFileSync(file, "utf-8")).join("")}${text(`${name}.js`)}draw(stage(figure));`);
draw(figure, document, matchMedia, ResizeObserver);
process.stdout.write(view.childNodes.map(written).join("\n"));
