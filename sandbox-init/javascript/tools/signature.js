'use strict';
/* A tool's schemas as one line of TypeScript: list-events({calendarId: string, limit?: number}): object[] */

const { objectIn, listIn, isObject, resolve, show } = require('./schema.js');
const { shorten } = require('./text.js');

const TYPE_MAX = 160; // characters of one type
const LINE_MAX = 600;
const NAMES = { __proto__: null, string: 'string', integer: 'number', number: 'number', boolean: 'boolean', null: 'null', array: 'any[]', object: 'object' };

function keyText(key) {
  return /^[\p{ID_Start}_$][\p{ID_Continue}$]*$/u.test(key) ? key : JSON.stringify(key);
}

function union(texts) {
  return shorten([...new Set(texts)].join(' | '), TYPE_MAX) || 'any';
}

function typeText(schema, root, depth = 0) {
  if (!isObject(schema) || depth > 5) return 'any';
  if (schema.$ref !== undefined) return typeText(resolve(schema.$ref, root), root, depth + 1);
  if (schema.const !== undefined) return show(schema.const);
  const choices = listIn(schema, 'enum');
  if (choices.length > 0) return union([...choices.slice(0, 8).map((item) => show(item)), ...(choices.length > 8 ? ['…'] : [])]);
  for (const keyword of ['anyOf', 'oneOf']) {
    if (Array.isArray(schema[keyword])) return union(schema[keyword].map((of) => typeText(of, root, depth + 1)));
  }
  const all = listIn(schema, 'allOf');
  if (all.length === 1) return typeText(all[0], root, depth + 1);
  if (Array.isArray(schema.type)) return union(schema.type.map((name) => namedText(name, schema, root, depth)));
  return namedText(schema.type ?? (isObject(schema.properties) ? 'object' : undefined), schema, root, depth);
}

function namedText(name, schema, root, depth) {
  if (name === 'array' && isObject(schema.items)) {
    const item = typeText(schema.items, root, depth + 1);
    return shorten(/[|]/.test(item) ? `(${item})[]` : `${item}[]`, TYPE_MAX);
  }
  if (name === 'object' && depth < 3 && Object.keys(objectIn(schema, 'properties')).length > 0) {
    return shorten(membersText(schema, root, depth), TYPE_MAX);
  }
  return NAMES[name] ?? 'any';
}

function membersText(schema, root, depth) {
  const members = objectIn(schema, 'properties');
  const required = listIn(schema, 'required').filter((key) => Object.hasOwn(members, key));
  const names = [...required, ...Object.keys(members).filter((key) => !required.includes(key))];
  const parts = names.map((key) => `${keyText(key)}${required.includes(key) ? '' : '?'}: ${typeText(members[key], root, depth + 1)}`);
  const more = schema.additionalProperties;
  if (more === true || isObject(more)) parts.push('[key: string]: any');
  return `{${parts.join(', ')}}`;
}

/** Whether the SDK wraps results in {"result": …}, as it does for values that are not objects. FastMCP marks such schemas; the official
 * Python SDK gives them the tool's name and "Output" as their title. */
function isWrapped(outputSchema, tool) {
  if (!isObject(outputSchema)) return false;
  if (outputSchema['x-fastmcp-wrap-result'] === true) return true;
  const names = Object.keys(objectIn(outputSchema, 'properties'));
  return names.length === 1 && names[0] === 'result' && outputSchema.title === `${tool}Output`;
}

function line(name, inputSchema, outputSchema) {
  const members = isObject(inputSchema) ? membersText(inputSchema, inputSchema, 0) : '{}';
  let text = `${name}(${members === '{}' ? '' : members})`;
  if (isObject(outputSchema)) {
    const returned = isWrapped(outputSchema, name) ? objectIn(outputSchema, 'properties').result ?? true : outputSchema;
    text += `: ${typeText(returned, outputSchema)}`;
  }
  return shorten(text, LINE_MAX);
}

module.exports = { line, isWrapped };
