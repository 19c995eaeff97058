"use strict";
// Shows the events of /ui/events. Text of others goes into the page by textContent only.

const RETRY_MS = 2000;
const ROWS_MAX = 1000; // the filter and the order choose which
const token = decodeURIComponent(location.hash.slice(1));
const shown = { state: null, key: "memory", rows: new Map(), principals: new Map() };

const element = (id) => document.getElementById(id);

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n < 10 && i > 0 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

function time(ms) {
  if (ms < 10000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120000) return `${Math.round(ms / 1000)} s`;
  return ms < 7200000 ? `${Math.round(ms / 60000)} min` : `${Math.round(ms / 3600000)} h`;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A row of a table, made once for each key: only what has changed is written again.
function rowOf(rows, key, kinds) {
  let row = rows.get(key);
  if (!row) {
    row = document.createElement("tr");
    for (const kind of kinds) row.insertCell().className = kind;
    rows.set(key, row);
  }
  return row;
}

// Puts rows into this order. A row that is where it belongs is not touched. Many that are not are put in at once.
function place(body, rows) {
  let next = body.firstChild, moved = 0;
  for (const row of rows) {
    if (row === next) next = next.nextSibling;
    else moved++;
  }
  if (moved > 0 || next) body.replaceChildren(...rows);
}

function forget(rows, seen) {
  for (const key of rows.keys()) if (!seen.has(key)) rows.delete(key);
}

function code(session) {
  const calls = (session.calls ?? []).map((call) => `waits for ${call}`);
  const running = session.running_ms === undefined ? "" : ` (${time(session.running_ms)})`;
  return [`${session.code ?? ""}${running}`, ...calls, session.line ?? ""];
}

function showSession(session) {
  const row = rowOf(shown.rows, keyOf(session), ["", "", "", "number", "number", "number", "number", "number", "code"]);
  const texts = [session.principal, session.name, session.state, time(session.age_ms), bytes(session.memory),
    time(session.cpu_ms), `${session.cells}`, `${session.tool_calls}`];
  texts.forEach((text, i) => setText(row.cells[i], text));
  const last = row.cells[texts.length];
  const lines = code(session).filter((line) => line !== "");
  while (last.children.length > lines.length) last.lastChild.remove();
  while (last.children.length < lines.length) last.append(document.createElement("span"));
  lines.forEach((line, i) => {
    last.children[i].className = i > 0 ? "line" : "";
    setText(last.children[i], line);
  });
  row.classList.toggle("running", session.running_ms !== undefined);
  return row;
}

const keyOf = (session) => `${session.principal}:${session.name}`;

function compare(a, b) {
  const [x, y] = [a[shown.key], b[shown.key]];
  if (typeof x === "number" && x !== y) return y - x;
  if (typeof x === "string" && x !== y) return x < y ? -1 : 1;
  return keyOf(a) < keyOf(b) ? -1 : 1;
}

function showPrincipals(sessions) {
  const sums = new Map();
  for (const s of sessions) {
    const sum = sums.get(s.principal) ?? [0, 0, 0, 0, 0];
    [1, s.running_ms === undefined ? 0 : 1, s.memory, s.cpu_ms, s.cells].forEach((n, i) => { sum[i] += n; });
    sums.set(s.principal, sum);
  }
  const rows = [...sums].sort().map(([name, [n, running, memory, cpu, cells]]) => {
    const row = rowOf(shown.principals, name, ["", "number", "number", "number", "number", "number"]);
    [name || "(everybody)", `${n}`, `${running}`, bytes(memory), time(cpu), `${cells}`].forEach((text, i) => setText(row.cells[i], text));
    return row;
  });
  place(element("principals").tBodies[0], rows);
  forget(shown.principals, sums);
}

function show() {
  const state = shown.state;
  if (!state) return;
  const wanted = element("filter").value.toLowerCase();
  const chosen = state.sessions
    .filter((s) => !wanted || `${keyOf(s)} ${s.state} ${s.code ?? ""}`.toLowerCase().includes(wanted))
    .sort(compare).slice(0, ROWS_MAX);
  setText(element("state"), `${state.phase}: ${state.live} of ${state.places} places in use, ${state.ready} sandboxes ready, ${chosen.length} sessions shown`);
  element("state").className = state.phase === "draining" ? "broken" : "";
  place(element("sessions").tBodies[0], chosen.map(showSession));
  showPrincipals(state.sessions);
  forget(shown.rows, new Set(state.sessions.map(keyOf)));
}

function take(block) {
  const data = block.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
  if (!data) return;
  shown.state = JSON.parse(data);
  if (!document.hidden) requestAnimationFrame(show);
}

// Not EventSource: it sends no token.
async function follow() {
  const response = await fetch("/ui/events", { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store" });
  if (!response.ok) throw new Error(`${response.status}: ${(await response.text()).trim()}. The token is behind the # of the address`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the server has ended the stream");
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    blocks.forEach(take);
  }
}

async function main() {
  for (;;) {
    try {
      await follow();
    } catch (error) {
      setText(element("state"), `not connected: ${error.message}`);
      element("state").className = "broken";
    }
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    shown.key = button.dataset.key;
    for (const other of document.querySelectorAll("th button")) other.setAttribute("aria-pressed", other === button);
    show();
  });
}
element("filter").addEventListener("input", show);
document.addEventListener("visibilitychange", show);
main();
