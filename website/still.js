// Draws the first state of a drawing without a browser (stills.py):
//     node still.js attention_nb/figures NAME full|page [NAME-OF-WEIGHTS SCRIPT...] < DATA
// The scripts of the drawings run as they are, on a small stand-in for the page: elements that can
// be made, filled and written out. Nothing is laid out and nothing moves. What one moves or presses
// is left out. Colours are written in `full`, or are those of the `page` around it.
"use strict";
const { readFileSync } = require("node:fs");
const [folder, name, ink, nameOfWeights, ...more] = process.argv.slice(2);
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 390;  // a phone's: it fits every reader
const text = (file) => readFileSync(`${folder}/${file}`, "utf-8");

const hyphenated = (key) => key.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);
function setStyle(own, key, value) {
  own[hyphenated(key)] = value;
  return true;
}
const getStyle = (own, key) =>
  (key === "setProperty" ? setStyle.bind(null, own) : own[hyphenated(key)]);

class Element {
  constructor(tag, space) {
    const parts = { attributes: new Map(), childNodes: [], own: {}, parentElement: null };
    Object.assign(this, { tag, space, ...parts });
    this.style = new Proxy(this.own, { set: setStyle, get: getStyle });
  }
  setAttribute(key, value) {
    if (key === "style") for (const old of Object.keys(this.own)) delete this.own[old];
    this.attributes.set(key, String(value));
  }
  removeAttribute(key) { this.attributes.delete(key); }
  getAttribute(key) { return this.attributes.get(key) ?? null; }
  append(...nodes) {
    for (const node of nodes) {
      if (node instanceof Element) {
        node.remove();
        node.parentElement = this;
      }
      this.childNodes.push(node instanceof Element ? node : String(node));
    }
  }
  replaceChildren(...nodes) {
    this.childNodes = [];
    this.append(...nodes);
  }
  remove() {
    const beside = this.parentElement?.childNodes;
    if (beside) beside.splice(beside.indexOf(this), 1);
    this.parentElement = null;
  }
  get children() { return this.childNodes.filter((node) => node instanceof Element); }
  get firstChild() { return this.childNodes[0] ?? null; }
  get lastChild() { return this.childNodes.at(-1) ?? null; }
  get textContent() {
    return this.childNodes.map((node) => node.textContent ?? node).join("");
  }
  set textContent(value) { this.childNodes = value === "" ? [] : [String(value)]; }
  querySelectorAll(tag) {
    const own = (node) => (node.tag === tag ? [node] : []);
    return this.children.flatMap((node) => [...own(node), ...node.querySelectorAll(tag)]);
  }
  querySelector(tag) { return this.querySelectorAll(tag)[0] ?? null; }
  getBoundingClientRect() { return { left: 0, top: 0, width: 0, height: 0 }; }
  addEventListener() { }
  get clientWidth() { return WIDTH; }
}

// ---- Writing out ----
const named = [...text("drawing.css").matchAll(/--([\w-]+): (?:var\(--sym-\w, )?(#\w{6})/g)];
const hues = {
  faint: "#c8c8c8", soft: "#767676", paper: "none", accent: "#1f6fb5", control: "#3c3c3c",
  rest: "#ebebeb", edge: "#8b8b8b",
  ...Object.fromEntries(named.reverse().map(([, key, hue]) => [key, hue])),
};
const mixed = (colour, share) => {
  const parts = colour === "currentColor" ? [128, 128, 128]
    : [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgba(${parts.join(", ")}, ${+(share / 100).toFixed(3)})`;
};
const MIXED = /color-mix\(in srgb, (#\w{6}|currentColor) ([\d.]+)%, (?:transparent|none)\)/g;
const INKED = /color-mix\(in srgb, (#\w{6}) [\d.]+%, currentColor\)/g;  // a hue, darkened
function full(value) {
  if (ink === "page") return value;
  const coloured = value.replace(/var\(--([\w-]+)\)/g, (found, key) => hues[key] ?? found);
  const plain = coloured.replace(INKED, "$1");
  return plain.replace(MIXED, (_, colour, share) => mixed(colour, +share));
}
const short = (value) => value.replace(/\d+\.\d{3,}/g, (n) => +(+n).toFixed(2));
const safe = (value) =>
  value.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
const KEPT = /^(style|class|colspan|rowspan|scope)$/;
const FOR_EARS = /^(role|tabindex|title|aria-.*|data-.*)$/;
const PLAIN = { button: "span", output: "p", label: "span", form: "div" };

function isControl(node) {
  const classes = (node.getAttribute("class") ?? "").split(" ");
  return ["input", "details"].includes(node.tag) || classes.includes("row")
    || classes.includes("handle");
}
function styleOf(node, tag) {
  const sym = node.getAttribute("data-sym");
  const hue = sym && `${tag === "text" ? "fill" : "color"}: var(--ink-${sym})`;
  const own = Object.entries(node.own).filter(([, value]) => value !== "");
  const set = own.map(([key, value]) => `${key}: ${value}`);
  return [hue, node.getAttribute("style"), ...set].filter(Boolean).join("; ");
}
function attributesOf(node, tag) {
  const drawn = node.space === SVG;
  const stays = (key) => (drawn ? !FOR_EARS.test(key) : KEPT.test(key));
  const kept = [...node.attributes].filter(([key]) => key !== "style" && stays(key));
  const silent = ink === "page" ? [["aria-hidden", "true"]] : [];
  const root = drawn && node.tag === "svg" ? [["xmlns", SVG], ...silent] : [];
  const style = styleOf(node, tag);
  return [...root, ...kept, ...(style ? [["style", style]] : [])];
}
function written(node) {
  if (!(node instanceof Element)) return safe(node);
  if (node.getAttribute("type") === "number") return safe(node.getAttribute("value"));
  if (isControl(node)) return "";
  const tag = node.space === SVG ? node.tag : PLAIN[node.tag] ?? node.tag;
  const attribute = ([key, value]) => ` ${key}="${safe(short(full(value)))}"`;
  const inside = node.childNodes.map(written).join("");
  return `<${tag}${attributesOf(node, tag).map(attribute).join("")}>${inside}</${tag}>`;
}

// ---- What the scripts find around them ----
const view = new Element("div");
const data = new Element("script");
const weights = new Element("script");
weights.setAttribute("data-name", nameOfWeights);
data.textContent = readFileSync(0, "utf-8");
const found = { ".view": view, "script.weights": weights };
const figure = { querySelector: (wanted) => found[wanted] ?? data };
const document = {
  createElement: (tag) => new Element(tag),
  createElementNS: (space, tag) => new Element(tag, space),
  querySelectorAll: () => [],
};
const matchMedia = () => ({ matches: true });  // no motion
class ResizeObserver { observe() { } }
const before = more.map((file) => readFileSync(file, "utf-8"));
const script = [text("drawing.js"), ...before, text(`${name}.js`), "draw(stage(figure));"].join("");
const draw = new Function("figure", "document", "matchMedia", "ResizeObserver", script);
draw(figure, document, matchMedia, ResizeObserver);
process.stdout.write(view.childNodes.map(written).join("\n"));
