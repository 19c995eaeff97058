'use strict';
/* Compiles the code of a cell or of a script: JavaScript, or TypeScript whose types are removed. */

const vm = require('vm');
const nodeModule = require('module');
const { rewrite, RUN } = require('./rewrite.js');
const { IMPORTS, quietly } = require('./modules.js');
const { addEdits, CellSyntaxError } = require('./tracebacks.js');

const { Script } = vm;
const strip = nodeModule.stripTypeScriptTypes;

const MODULE_ARGUMENTS = 'exports, require, module, __filename, __dirname';
const NO_TYPESCRIPT = `TypeScript needs Node 22.13 or later; this one is ${process.versions.node}`;
// What V8 says about code that a rewrite makes valid, or that it cannot parse as a script.
const ABOUT_SCRIPTS = /await is only valid|import statement|Unexpected token 'export'|import\.meta|Illegal return/;
// An error of JavaScript's parser in code that is probably TypeScript.
const TYPES = /^\s*(?:export\s+)?(?:interface|type|enum|declare|namespace|abstract\s+class)\s+\w|[\w)\]]\??\s*:\s*[A-Za-z_$][\w$<>[\]|. ]*\s*[,)=;{]|\bas\s+\w|\w<\w/m;

function isTypeScriptName(name) {
  return /\.[cm]?ts$/.test(name);
}

/** Removes types; positions stay. Node warns that the function may change. */
function stripTypes(source) {
  return quietly(() => strip(source, { mode: 'strip' }));
}

function syntaxError(error, name) {
  const { line, column } = error.loc;
  return new CellSyntaxError(error.message.replace(/ \(\d+:\d+\)$/, ''), name, line, column + 1);
}

function parse(source, name, isScript) {
  try {
    return rewrite(source, isScript);
  } catch (error) {
    if (!error.loc) throw error; // nested too deeply
    return syntaxError(error, name);
  }
}

/** The rewritten code, after its types were removed where it is not JavaScript. */
function parseEither(source, name, isScript) {
  const isTypeScript = isTypeScriptName(name);
  const parsed = isTypeScript ? null : parse(source, name, isScript);
  if (parsed !== null && !(parsed instanceof Error)) return parsed;
  if (strip === undefined) {
    if (isTypeScript) throw new Error(NO_TYPESCRIPT);
    if (TYPES.test(source)) parsed.message += ` (${NO_TYPESCRIPT})`;
    return parsed;
  }
  let stripped;
  try {
    stripped = stripTypes(source);
  } catch (error) {
    if (!isTypeScript && error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') return parsed;
    throw new SyntaxError(error.message);
  }
  const again = parse(stripped, name, isScript);
  return again instanceof Error && parsed !== null ? parsed : again;
}

/** What V8 says about code that our parser does not accept: it may know newer syntax. Returns a script, or throws. */
function compileAsItIs(source, name, wrong) {
  try {
    return new Script(source, { filename: name, ...IMPORTS });
  } catch (error) {
    throw ABOUT_SCRIPTS.test(error.message) || wrong.message.includes(NO_TYPESCRIPT) ? wrong : withPlace(error, name, wrong);
  }
}

/** V8's message is the better one, and stands at the same place in most cases. */
function withPlace(error, name, wrong) {
  const place = /:(\d+)\n[^\n]*\n( *)\^/.exec(error.stack);
  if (place === null) return wrong;
  return new CellSyntaxError(error.message, name, Number(place[1]), place[2].length + 1);
}

/**
 * A cell: {names, constants, functions, script, isAsync}. functions: a Script that runs first, or null. The value of `script` is that of the cell, or,
 * if the cell is async, a function of the cell's number that returns a promise of the value.
 */
function compileCell(source, name) {
  const parsed = parseEither(source, name, false);
  if (parsed instanceof Error) {
    return { names: [], constants: [], functions: null, script: compileAsItIs(source, name, parsed), isAsync: false };
  }
  addEdits(name, parsed.edits);
  const { names, constants, isAsync } = parsed;
  const options = { filename: name, ...IMPORTS };
  const functions = parsed.functions ? new Script(parsed.functions, options) : null;
  if (!isAsync) return { names, constants, functions, script: new Script(parsed.body, options), isAsync };
  const text = `(async ${RUN} => {\n${parsed.body}\n})`;
  return { names, constants, functions, script: new Script(text, { ...options, lineOffset: -1 }), isAsync };
}

/** A script: a function of its cell's number and the arguments of a CommonJS module, which returns a promise if the script awaits. */
function compileScript(source, name) {
  const parsed = parseEither(source, name, true);
  if (parsed instanceof Error) {
    throw parsed;
  }
  addEdits(name, parsed.edits);
  const text = `(${parsed.isAsync ? 'async ' : ''}function (${RUN}, ${MODULE_ARGUMENTS}) {\n${parsed.body}\n})`;
  return new Script(text, { filename: name, lineOffset: -1, ...IMPORTS });
}

/** Does what takes long at its first use. */
function prepare() {
  rewrite('const { a } = await f(1);\nasync () => `${a}`', false);
}

module.exports = { compileCell, compileScript, prepare };
