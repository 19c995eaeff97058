'use strict';
/* Text that a result can carry. */

const kept = require('./intrinsics.js');

const LONE = /[\ud800-\udfff]/gu;

/** The text with lone surrogates, which UTF-8 cannot encode, replaced by their escapes. */
function printable(text) {
  return kept.isWellFormed(text) ? text : kept.replace(text, LONE, (one) => `\\u${one.charCodeAt(0).toString(16)}`);
}

/** The beginning and the end of a text that is too long. */
function cut(text, limit) {
  if (text.length <= limit) {
    return text;
  }
  const head = kept.floor((limit * 2) / 3);
  const tail = kept.floor(limit / 3);
  return `${kept.slice(text, 0, head)}\n[… ${text.length - head - tail} characters cut …]\n${kept.slice(text, text.length - tail)}`;
}

/** A text of one line, shortened. */
function shorten(text, limit) {
  return text.length <= limit ? text : `${kept.slice(text, 0, limit - 1)}…`;
}

module.exports = { printable, cut, shorten };
