'use strict';
/* Identifiers for the names of tools and servers, and the names that a wrong one may mean. */

const CLOSE = 0.7; // similarity of a name that is offered
const KNOWN_MAX = 5000;
const LENGTH_MAX = 60; // characters that are compared

/** Characters other than letters, digits and _ become _. A leading digit gets the prefix _. */
function identifier(name) {
  const text = name.normalize('NFKC').replace(/[^\p{ID_Continue}$]/gu, '_');
  return /^[\p{ID_Start}_$]/u.test(text) ? text : `_${text}`;
}

/** mcp_calendar for the server "calendar". A server whose name has capitals has a second name in lower case. */
function serverIdentifiers(name) {
  const text = `mcp_${identifier(`_${name}`).slice(1)}`;
  return [...new Set([text.toLowerCase(), text])];
}

/** Map: identifier -> name, without ambiguous identifiers. A name that equals its identifier takes precedence. */
function byIdentifier(names) {
  const shared = new Map();
  for (const name of names) {
    const text = identifier(name);
    shared.set(text, [...(shared.get(text) ?? []), name]);
  }
  const found = new Map();
  for (const [text, group] of shared) {
    if (group.length === 1 || group.includes(text)) found.set(text, group.includes(text) ? text : group[0]);
  }
  return found;
}

function fold(name) {
  return identifier(name).toLowerCase().replaceAll('_', '');
}

/** How similar two texts are, 0 to 1: by the longest sequence of characters that both contain. */
function similarity(a, b) {
  let row = new Uint16Array(b.length + 1);
  for (const character of a) {
    const next = new Uint16Array(b.length + 1);
    for (let i = 0; i < b.length; i++) {
      next[i + 1] = character === b[i] ? row[i] + 1 : Math.max(row[i + 1], next[i]);
    }
    row = next;
  }
  return (2 * row[b.length]) / (a.length + b.length);
}

/** '; did you mean "a" or "b"?', or nothing. */
function didYouMean(name, known, limit = 3) {
  const wanted = fold(String(name)).slice(0, LENGTH_MAX);
  const scored = [...known].slice(0, KNOWN_MAX).map((other) => ({ other, score: similarity(wanted, fold(other).slice(0, LENGTH_MAX)) }));
  let close = scored.filter(({ score }) => score >= CLOSE).sort((a, b) => b.score - a.score);
  if (close.length === 0 && wanted.length > 3) close = scored.filter(({ other }) => fold(other).includes(wanted));
  const shown = [...new Set(close.map(({ other }) => `"${other}"`))].slice(0, limit);
  return shown.length > 0 ? `; did you mean ${shown.join(' or ')}?` : '';
}

module.exports = { identifier, serverIdentifiers, byIdentifier, didYouMean };
