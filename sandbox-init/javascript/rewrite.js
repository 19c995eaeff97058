'use strict';
/*
 * Rewrites the code of a cell, so that its names persist, can be declared again, and can be used after an await.
 *
 * A cell without await at its top level stays a script: `let`, `const` and `class` become `var` there. One with await becomes the body of an
 * async function; its declarations become assignments to names that run.js declares first, and its function declarations are a
 * script of their own, which runs before. No line moves: an edit contains as many line breaks as the text that it replaces.
 *
 * Each await is made to restore the cell that the code belongs to, and to end code of a cell that was interrupted (run.js): V8 can end what
 * runs, but not code that waits.
 */

const acorn = require('./acorn.js');

const RUN = '__cloister_run'; // in an async function: the cell to which this call of it belongs
const OURS = '__cloister'; // the global object of run.js

const OPTIONS = {
  ecmaVersion: 'latest',
  sourceType: 'script',
  allowAwaitOutsideFunction: true,
  allowImportExportEverywhere: true,
  allowHashBang: true,
};

/** The names that a pattern binds. */
function collectNames(pattern, names) {
  switch (pattern?.type) {
    case 'Identifier':
      names.add(pattern.name);
      break;
    case 'ObjectPattern':
      for (const property of pattern.properties) collectNames(property.value ?? property.argument, names);
      break;
    case 'ArrayPattern':
      for (const element of pattern.elements) collectNames(element, names);
      break;
    case 'RestElement':
      collectNames(pattern.argument, names);
      break;
    case 'AssignmentPattern':
      collectNames(pattern.left, names);
  }
}

function lineBreaks(text) {
  return text.replace(/[^\n]/g, '');
}

class Rewriter {
  constructor(source, isScript) {
    this._source = source;
    this._isScript = isScript;
    this._edits = []; // {start, end, text, rank}
    this._declarations = []; // at the top level: {node, parent}
    this._functions = []; // the same of functions
    this._catches = [];
    this._assigned = []; // identifiers that code assigns to
    this._inner = new Set(); // names that are not only those of the top level
    this.names = new Set();
    this.constants = new Set();
    this.isAsync = false;
  }

  run() {
    const options = this._isScript ? { ...OPTIONS, allowReturnOutsideFunction: true } : OPTIONS;
    const program = acorn.parse(this._source, options);
    for (const node of program.body) {
      this._visit(node, null, program);
    }
    if (this.isAsync) {
      this._mark(this._catches, RUN);
    }
    if (!this._isScript) {
      for (const { node, parent } of this._declarations) this._declare(node, parent);
      this._guardConstants();
      this._showLast(program.body[program.body.length - 1]);
    }
    this._edits.sort((a, b) => a.start - b.start || a.rank - b.rank);
  }

  _edit(start, end, text, rank = 0) {
    this._edits.push({ start, end, text, rank });
  }

  _replace(start, end, text, rank) {
    this._edit(start, end, text + lineBreaks(this._source.slice(start, end)), rank);
  }

  /* ---- the walk ---- */

  _visit(node, fn, parent) {
    switch (node.type) {
      case 'FunctionDeclaration':
        collectNames(node.id, this._inner);
        if (fn === null && (parent.type === 'Program' || parent.type.startsWith('Export'))) this._functions.push(node);
        return this._visitFunction(node);
      case 'FunctionExpression':
      case 'ArrowFunctionExpression':
        return this._visitFunction(node);
      case 'AwaitExpression':
        return this._visitAwait(node, fn);
      case 'ForOfStatement':
        if (node.await) this._visitForAwait(node, fn);
        break;
      case 'AssignmentExpression':
        if (node.left.type === 'Identifier') this._assigned.push(node.left);
        break;
      case 'UpdateExpression':
        if (node.argument.type === 'Identifier') this._assigned.push(node.argument);
        break;
      case 'MetaProperty':
        if (node.meta.name === 'import') this._edit(node.start, node.end, `${OURS}.meta(${this._isScript ? '__filename' : ''})`);
        break;
      case 'CatchClause':
        collectNames(node.param, this._inner);
        this._catchesOf(fn)?.push(node.body);
        break;
      case 'TryStatement':
        if (node.finalizer) this._catchesOf(fn)?.push(node.finalizer);
        break;
      case 'VariableDeclaration':
      case 'ClassDeclaration':
        if (fn === null) this._declarations.push({ node, parent });
        if (fn !== null || parent.type !== 'Program' && !parent.type.startsWith('Export')) this._collectInner(node);
        break;
      case 'ImportDeclaration':
        return this._import(node);
      case 'ImportExpression':
        this._edit(node.start, node.start + 'import'.length, `${OURS}.load`);
        break;
      case 'ExportNamedDeclaration':
      case 'ExportDefaultDeclaration':
        this._export(node);
    }
    this._visitChildren(node, fn);
  }

  _visitChildren(node, fn) {
    for (const key of Object.keys(node)) {
      const value = node[key];
      if (Array.isArray(value)) {
        for (const item of value) if (typeof item?.type === 'string') this._visit(item, fn, node);
      } else if (typeof value?.type === 'string') {
        this._visit(value, fn, node);
      }
    }
  }

  _collectInner(node) {
    if (node.type === 'ClassDeclaration') collectNames(node.id, this._inner);
    else for (const { id } of node.declarations) collectNames(id, this._inner);
  }

  _visitFunction(node) {
    for (const parameter of node.params) collectNames(parameter, this._inner);
    if (node.type !== 'ArrowFunctionExpression') collectNames(node.id, this._inner);
    const fn = { hasRun: node.async && node.body.type === 'BlockStatement', waits: false, catches: [] };
    this._visitChildren(node, fn);
    if (!fn.waits || !fn.hasRun) return;
    // A directive such as 'use strict' stays the first statement.
    let at = node.body.start + 1;
    for (const statement of node.body.body) {
      if (statement.directive === undefined) break;
      at = statement.end;
    }
    this._edit(at, at, `;const ${RUN}=${OURS}.run;`, -2);
    this._mark(fn.catches, RUN);
  }

  _catchesOf(fn) {
    if (fn === null) return this._catches;
    return fn.hasRun ? fn.catches : null;
  }

  _mark(blocks, run) {
    for (const block of blocks) this._edit(block.start + 1, block.start + 1, `${OURS}.resume(${run});`, -1);
  }

  _runOf(fn) {
    if (fn === null) {
      this.isAsync = true;
      return RUN;
    }
    fn.waits = true;
    return fn.hasRun ? RUN : `${OURS}.run`;
  }

  _visitAwait(node, fn) {
    this._edit(node.start, node.start, `${OURS}.resume(${this._runOf(fn)},`);
    this._visitChildren(node, fn);
    this._edit(node.end, node.end, ')', 1);
  }

  _visitForAwait(node, fn) {
    const mark = `${OURS}.resume(${this._runOf(fn)});`;
    if (node.body.type === 'BlockStatement') {
      this._edit(node.body.start + 1, node.body.start + 1, mark, -1);
    } else {
      this._edit(node.body.start, node.body.start, `{${mark}`, -2);
      this._edit(node.body.end, node.body.end, '}', 2);
    }
  }

  /* ---- modules ---- */

  _import(node) {
    this.isAsync = true;
    const members = [];
    let space = null;
    for (const specifier of node.specifiers) {
      collectNames(specifier.local, this.names);
      const local = specifier.local.name;
      if (specifier.type === 'ImportNamespaceSpecifier') {
        space = local;
      } else {
        const imported = specifier.imported ? this._source.slice(specifier.imported.start, specifier.imported.end) : 'default';
        members.push(`${imported}:${local}`);
      }
    }
    const load = `${OURS}.resume(${RUN},await ${OURS}.load(${node.source.raw}))`;
    const start = this._isScript ? 'const ' : '(';
    const end = this._isScript ? ';' : ');';
    const texts = [];
    if (members.length > 0) texts.push(`;${start}{${members}}=${load}${end}`);
    if (space !== null) texts.push(`;${start}${space}=${load}${end}`);
    this._replace(node.start, node.end, texts.join('') || `;${load};`);
  }

  _export(node) {
    const declared = node.declaration;
    if (!declared) {
      if (!node.source) this._replace(node.start, node.end, ';');
    } else {
      const isValue = !/Declaration$/.test(declared.type) || !declared.id && declared.type !== 'VariableDeclaration';
      this._replace(node.start, declared.start, isValue ? ';(' : '', -2);
      if (isValue) this._edit(declared.end, declared.end, ')', 2);
    }
  }

  /* ---- names ---- */

  _declare(node, parent) {
    const isTop = parent.type === 'Program' || parent.type.startsWith('Export');
    if (node.type === 'ClassDeclaration') {
      if (isTop && node.id) this._declareClass(node);
      return;
    }
    if (node.kind !== 'var' && !isTop) return;
    for (const declarator of node.declarations) collectNames(declarator.id, this.names);
    if (node.kind === 'const') for (const declarator of node.declarations) collectNames(declarator.id, this.constants);
    if (!this.isAsync) {
      if (node.kind !== 'var') this._makeVar(node);
    } else if (isTop || !parent.type.startsWith('For') || parent.body === node) {
      this._assign(node);
    } else {
      this._replace(node.start, node.declarations[0].start, '');
    }
  }

  /** An assignment to a constant of this cell throws. Not where another variable may be meant, which has the same name further inside. */
  _guardConstants() {
    for (const { name, start, end } of this._assigned) {
      if (this.constants.has(name) && !this._inner.has(name)) this._edit(start, end, `${OURS}.constant`);
    }
  }

  _declareClass(node) {
    this.names.add(node.id.name);
    this._edit(node.start, node.start, this.isAsync ? `;(${node.id.name}=` : `var ${node.id.name}=`, -1);
    this._edit(node.end, node.end, this.isAsync ? ');' : ';', 2);
  }

  _makeVar(node) {
    this._edit(node.start, node.start + node.kind.length, 'var'.padEnd(node.kind.length));
    for (const { init, end } of node.declarations) if (!init) this._edit(end, end, '=void 0', 2);
  }

  _assign(node) {
    const [first] = node.declarations;
    this._replace(node.start, first.start, ';', -3);
    for (const { id, init, start, end } of node.declarations) {
      if (init) {
        this._edit(start, start, '(', -2);
        this._edit(end, end, ')', 2);
      } else if (node.kind === 'var') {
        this._replace(start, end, 'void 0');
      } else {
        this._edit(start, start, '(', -2);
        this._edit(id.end, id.end, '=void 0)', 2);
      }
    }
    if (this._source[node.end - 1] !== ';') this._edit(node.end, node.end, ';', 3);
  }

  /** The value of a cell is that of its last statement, if that is an expression. */
  _showLast(last) {
    if (last === undefined || last.type !== 'ExpressionStatement') {
      if (!this.isAsync) this._edit(this._source.length, this._source.length, '\n;void 0', 4);
    } else if (this.isAsync) {
      const end = this._source[last.end - 1] === ';' ? last.end - 1 : last.end;
      this._edit(last.start, last.start, 'return (', -3);
      this._edit(end, end, ')', 3);
    }
  }

  /* ---- the text ---- */

  /** The new text. keep(start): whether the text and the edits from there on are kept; else they become spaces. */
  _render(keeps) {
    const parts = [];
    let at = 0;
    for (const { start, end, text } of this._edits) {
      if (start < at) continue; // in a text that is replaced
      parts.push(keeps(this._source.slice(at, start), at), keeps(text, start, end));
      at = end;
    }
    parts.push(keeps(this._source.slice(at), at));
    return parts.join('');
  }

  /** {functions, body}: scripts; functions is '' without declarations that must run before an async body. */
  render() {
    if (!this.isAsync || this._isScript || this._functions.length === 0) {
      return { functions: '', body: this._render((text) => text) };
    }
    return { functions: this._split(true), body: this._split(false) };
  }

  _split(isFunctions) {
    const ranges = this._functions;
    const isIn = (at, end) => ranges.some((range) => range.start <= at && end <= range.end);
    const blank = (text) => text.replace(/[^\n]/g, ' ');
    return this._render((text, at, end) => {
      if (end !== undefined) return isIn(at, end) === isFunctions ? text : lineBreaks(text);
      // A piece of source may cross the borders of functions.
      let out = '';
      for (let from = 0; from < text.length; ) {
        const inside = ranges.find((range) => range.start <= at + from && at + from < range.end);
        const next = ranges.map((range) => range.start).filter((start) => start > at + from);
        const to = Math.min(text.length, (inside ? inside.end : Math.min(...next, Infinity)) - at);
        const piece = text.slice(from, to);
        out += (inside !== undefined) === isFunctions ? piece : blank(piece);
        from = to;
      }
      return out;
    });
  }

  get edits() {
    return this._edits;
  }
}

/** {names, constants, isAsync, functions, body, edits} of the code. Throws acorn's SyntaxError. isScript: the code is a file, and declares its names
 * for itself. */
function rewrite(source, isScript) {
  const rewriter = new Rewriter(source, isScript);
  rewriter.run();
  return { names: [...rewriter.names], constants: [...rewriter.constants], isAsync: rewriter.isAsync, edits: rewriter.edits, ...rewriter.render() };
}

module.exports = { rewrite, RUN, OURS };
