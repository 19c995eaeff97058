'use strict';
/* Identifiers for the names of tools and servers, and the names that a wrong one may mean. */

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

function pairs(text) {
  return Array.from({ length: Math.max(1, text.length - 1) }, (_, i) => text.slice(i, i + 2));
}

/** How similar two texts are, 0 to 1: by the pairs of characters that they share. */
function similarity(a, b) {
  const rest = pairs(b);
  let common = 0;
  for (const pair of pairs(a)) {
    const at = rest.indexOf(pair);
    if (at >= 0) {
      common++;
      rest.splice(at, 1);
    }
  }
  return (2 * common) / (Math.max(1, a.length - 1) + Math.max(1, b.length - 1));
}

/** '; did you mean "a" or "b"?', or nothing. */
function didYouMean(name, known, limit = 3) {
  const wanted = fold(String(name)).slice(0, 100);
  const scored = [...known].slice(0, 5000).map((other) => ({ other, score: similarity(wanted, fold(other).slice(0, 100)) }));
  let close = scored.filter(({ score }) => score >= 0.5).sort((a, b) => b.score - a.score);
  if (close.length === 0 && wanted.length > 3) close = scored.filter(({ other }) => fold(other).includes(wanted));
  const shown = [...new Set(close.map(({ other }) => `"${other}"`))].slice(0, limit);
  return shown.length > 0 ? `; did you mean ${shown.join(' or ')}?` : '';
}

module.exports = { identifier, serverIdentifiers, byIdentifier, didYouMean };
