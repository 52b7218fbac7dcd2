// Prints, as JSON, how long the functions of scripts are: [script, line, name, lines of code] of each.
//     node --expose-internals functions.js SCRIPT...
// What is read is JavaScript's grammar, by the parser that Node has inside for its prompt; blank lines and comments do not
// count. If a script is one function and nothing else, that function is its scope, as a module is Python's: it has no length.
"use strict";
const { readFileSync } = require("node:fs");
const { parse } = require("internal/deps/acorn/acorn/dist/acorn");
const scopeOf = ({ body: [first, ...rest] }) => !rest.length && (first.expression?.callee ?? first);

function* functions(node, name = "") {  // each with the name that it has, or that of what it is given to
  if (Array.isArray(node)) for (const part of node) yield* functions(part, name);
  if (!node?.type) return;
  const named = (node.id ?? (node.computed ? null : node.key))?.name ?? name;
  if (/Function/.test(node.type)) yield [node, named];
  for (const part of Object.values(node)) yield* functions(part, named);
}

// Of two functions with one name in one block, JavaScript takes the last without a word.
function refuseTwins(file, node) {
  if (!node?.type && !Array.isArray(node)) return;
  const named = [node.body ?? []].flat().filter(({ type }) => type === "FunctionDeclaration");
  const names = named.map(({ id }) => id.name);
  const twin = names.find((name, i) => names.indexOf(name) !== i);
  if (twin) throw new Error(`${file}: two functions are called ${twin}`);
  for (const part of Object.values(node)) refuseTwins(file, part);
}

function measured(file) {
  const tokens = [], program = parse(readFileSync(file, "utf-8"), { ecmaVersion: "latest", locations: true, onToken: tokens });
  refuseTwins(file, program);
  const lines = (node) => new Set(tokens.filter(({ start, end }) => node.start <= start && end <= node.end)
    .flatMap(({ loc: { start, end } }) => Array.from({ length: end.line - start.line + 1 }, (_, i) => start.line + i))).size;
  return [...functions(program)].filter(([node]) => node !== scopeOf(program)).map(([node, name]) => [file, node.loc.start.line, name, lines(node)]);
}

console.log(JSON.stringify(process.argv.slice(2).flatMap(measured)));
