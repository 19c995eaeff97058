'use strict';
/* Errors as the agent sees them: with the lines of its own code, and without frames of Node's or of ours. */

const kept = require('./intrinsics.js');
const { printable, cut } = require('./text.js');
const { describeShortly } = require('./values.js');

const TEXT_MAX = 64 * 1024;
const MESSAGE_MAX = 8 * 1024;
const NAME_MAX = 200;
const CELLS_MAX = 500; // whose source is kept
const OURS = __dirname + '/';

const cells = new kept.Map(); // file name -> {lines, edits}
const names = []; // of them, the oldest first

/** Keeps the source of a cell, and returns the name that it gets: a number follows if an earlier cell has that name. */
function addSource(name, source) {
  let unique = name;
  for (let n = 2; cells.has(unique); n++) {
    unique = `${name} (${n})`;
  }
  cells.set(unique, { source, edits: null });
  kept.push(names, unique);
  if (names.length > CELLS_MAX) {
    cells.delete(kept.shift(names));
  }
  return unique;
}

/** edits: those of rewrite.js, sorted by their start. */
function addEdits(name, edits) {
  const cell = cells.get(name);
  if (cell !== undefined) {
    cell.edits = edits;
  }
}

/** The text of a line, and the column in it that a column of the rewritten code has. Both begin at 1. */
function locate(name, line, column) {
  const cell = cells.get(name);
  const lines = kept.split(cell.source, '\n');
  if (line > lines.length) {
    return { text: '', column };
  }
  let start = 0;
  for (let i = 0; i < line - 1; i++) {
    start += lines[i].length + 1;
  }
  let shift = 0;
  const edits = cell.edits ?? [];
  for (let i = 0; i < edits.length; i++) {
    const edit = edits[i];
    if (edit.start < start || edit.start > start + lines[line - 1].length) {
      continue;
    }
    const at = edit.start - start + shift + 1; // the column of its text
    if (column < at) {
      break;
    }
    if (column < at + edit.text.length) {
      return { text: lines[line - 1], column: edit.start - start + 1 };
    }
    shift += edit.text.length - (edit.end - edit.start);
  }
  return { text: lines[line - 1], column: column - shift };
}

const PLACE = /(<[^<>\n]*>(?: \(\d+\))?|[^\s()]+(?: \(\d+\))?):(\d+):(\d+)(\)?(?: \{)?)$/;

/** {line, place} of a frame of the stack that is kept, or null. first: gets the place of the first one in a cell. */
function readFrame(text, first) {
  if (/\(?node:/.test(text) || text.includes(OURS) || /\(<anonymous>\)(?: \{)?$/.test(text)) {
    return null;
  }
  return text.replace(PLACE, (whole, name, line, column, end) => {
    if (!cells.has(name)) {
      return whole;
    }
    const found = locate(name, Number(line), Number(column));
    first.place ??= { name, line: Number(line), ...found };
    return `${name}:${line}:${found.column}${end}`;
  });
}

/** The lines of an error, without frames that are not of the code. */
function cleanStack(text, first) {
  const lines = [];
  for (const line of text.split('\n')) {
    const frame = /^\s+at /.test(line) ? readFrame(line, first) : line;
    if (frame !== null) {
      lines.push(frame);
    } else if (line.endsWith(' {')) {
      lines[lines.length - 1] += ' {'; // properties of the error follow
    }
  }
  return lines.join('\n');
}

function snippet({ name, line, text, column }) {
  if (text.length > 500) {
    return `${name}:${line}\n\n`;
  }
  return `${name}:${line}\n${text}\n${' '.repeat(Math.max(0, column - 1))}^\n\n`;
}

/** An error of the parser, where the code is. */
class CellSyntaxError extends SyntaxError {
  constructor(message, name, line, column) {
    super(message);
    this.place = { name, line, text: kept.split(cells.get(name).source, '\n')[line - 1] ?? '', column };
  }
}

/** An error of Python in Pyodide, which describes itself. */
class PythonError extends Error {
  constructor(described) {
    super(described.message);
    this.described = described;
  }
}

function describeError(error) {
  if (error instanceof PythonError) {
    return error.described;
  }
  if (error instanceof CellSyntaxError) {
    const text = `${snippet(error.place)}SyntaxError: ${error.message}\n`;
    return { type: 'SyntaxError', message: error.message, traceback: text, line: error.place.line };
  }
  const first = { place: null };
  const text = cleanStack(kept.inspect(error, { depth: 4, maxStringLength: MESSAGE_MAX, maxArrayLength: 50 }), first);
  const isError = kept.isError(error);
  const described = {
    type: isError ? kept.String(error.name || 'Error') : 'Uncaught',
    message: isError ? kept.String(error.message) : text,
    traceback: `${first.place ? snippet(first.place) : ''}${isError ? '' : 'Uncaught '}${text}\n`,
    line: first.place?.line,
  };
  return described;
}

/** The member `error` of a RESULT, as JSON. May run code of the guest: getters of the error. */
function describe(error) {
  let described;
  try {
    described = describeError(error);
  } catch (second) {
    const text = describeShortly(error);
    described = { type: 'Error', message: text, traceback: `${text}\n`, line: undefined };
  }
  const { type, message, traceback, line } = described;
  const at = line === undefined ? '' : `,"line":${line}`;
  const text = (value, limit) => kept.stringify(printable(cut(value, limit)));
  return `{"type":${text(type, NAME_MAX)},"message":${text(message, MESSAGE_MAX)},"traceback":${text(traceback, TEXT_MAX)}${at}}`;
}

module.exports = { addSource, addEdits, describe, CellSyntaxError, PythonError };
