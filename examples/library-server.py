#!/usr/bin/env python3
"""An MCP server over stdio for a small public library: books, members, loans, waiting lists, reminders.

Standard library only. The database is SQLite in memory, seeded the same way at every start, so that the report
of overdue.py is always the same. One JSON-RPC message a line, as the MCP specification's stdio transport has it.
"""

import datetime
import json
import random
import sqlite3
import sys

TODAY = datetime.date(2026, 3, 2)
PAGE = 20
LOAN_DAYS = 28

BRANCHES = ["Harbour", "Market Square", "Old Mill", "Station Road"]

BOOKS = [
    ("Middlemarch", "George Eliot", 1871),
    ("The Left Hand of Darkness", "Ursula K. Le Guin", 1969),
    ("Moby-Dick", "Herman Melville", 1851),
    ("A Room of One's Own", "Virginia Woolf", 1929),
    ("The Master and Margarita", "Mikhail Bulgakov", 1967),
    ("Things Fall Apart", "Chinua Achebe", 1958),
    ("Invisible Cities", "Italo Calvino", 1972),
    ("Kokoro", "Natsume Sōseki", 1914),
    ("Pedro Páramo", "Juan Rulfo", 1955),
    ("The Summer Book", "Tove Jansson", 1972),
    ("Frankenstein", "Mary Shelley", 1818),
    ("The Code Book", "Simon Singh", 1999),
    ("Silent Spring", "Rachel Carson", 1962),
    ("The Periodic Table", "Primo Levi", 1975),
    ("Gödel, Escher, Bach", "Douglas Hofstadter", 1979),
    ("The Book of Disquiet", "Fernando Pessoa", 1982),
    ("Beloved", "Toni Morrison", 1987),
    ("The Leopard", "Giuseppe Tomasi di Lampedusa", 1958),
    ("Season of Migration to the North", "Tayeb Salih", 1966),
    ("The Name of the Rose", "Umberto Eco", 1980),
    ("Never Let Me Go", "Kazuo Ishiguro", 2005),
    ("The Mezzanine", "Nicholson Baker", 1988),
    ("Austerlitz", "W. G. Sebald", 2001),
    ("My Brilliant Friend", "Elena Ferrante", 2011),
]

FIRST_NAMES = "Ada Bruno Carmen Dmitri Esther Farid Grace Hiro Ines Jonas Kofi Lena Mateo Noor Oscar Priya".split()
LAST_NAMES = "Abara Brandt Costa Dufour Eriksen Fontaine Grigorov Haddad Ito Jansen Kowalski Lindqvist".split()

TABLES = """
CREATE TABLE branches (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, author TEXT, year INTEGER, copies INTEGER);
CREATE TABLE members (id INTEGER PRIMARY KEY, name TEXT, branch_id INTEGER REFERENCES branches);
CREATE TABLE loans (id INTEGER PRIMARY KEY, member_id INTEGER REFERENCES members,
                    book_id INTEGER REFERENCES books, due TEXT, returned TEXT);
CREATE TABLE waiting (book_id INTEGER REFERENCES books, member_id INTEGER REFERENCES members, since TEXT);
CREATE TABLE reminders (id INTEGER PRIMARY KEY, member_id INTEGER REFERENCES members, text TEXT);
"""


def seed(db):
    """Fills the database: about 140 members, 500 loans, 60 places on waiting lists."""
    rng = random.Random(1871)
    db.executescript(TABLES)
    db.executemany("INSERT INTO branches (name) VALUES (?)", [(name,) for name in BRANCHES])
    db.executemany("INSERT INTO books (title, author, year) VALUES (?, ?, ?)", BOOKS)
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    for name in rng.sample(names, 140):
        db.execute("INSERT INTO members (name, branch_id) VALUES (?, ?)", (name, rng.randint(1, len(BRANCHES))))
    for member_id in range(1, 141):
        for book_id in rng.sample(range(1, len(BOOKS) + 1), rng.randint(1, 6)):
            taken = TODAY - datetime.timedelta(days=rng.randint(1, 200))
            due = taken + datetime.timedelta(days=LOAN_DAYS)
            late = rng.random() < 0.12
            back = None if due > TODAY or late else due - datetime.timedelta(days=rng.randint(0, 20))
            db.execute(
                "INSERT INTO loans (member_id, book_id, due, returned) VALUES (?, ?, ?, ?)",
                (member_id, book_id, due.isoformat(), back and back.isoformat()),
            )
    # As many copies as are on loan, and up to two more.
    db.execute("UPDATE books SET copies = (SELECT count(*) FROM loans WHERE book_id = books.id AND returned IS NULL)")
    for book_id in range(1, len(BOOKS) + 1):
        db.execute("UPDATE books SET copies = copies + ? WHERE id = ?", (rng.randint(0, 2), book_id))
    for _ in range(60):
        since = TODAY - datetime.timedelta(days=rng.randint(1, 90))
        place = (rng.randint(1, len(BOOKS)), rng.randint(1, 140), since.isoformat())
        db.execute("INSERT INTO waiting VALUES (?, ?, ?)", place)


class BadArguments(Exception):
    """The call failed; the text is the reason."""


class Library:
    """The tools, one method each: keyword arguments in, a JSON object out."""

    def __init__(self):
        self.db = sqlite3.connect(":memory:")
        self.db.row_factory = sqlite3.Row
        seed(self.db)

    def rows(self, query, *args):
        return [dict(row) for row in self.db.execute(query, args)]

    def one(self, what, query, key):
        found = self.rows(query, key)
        if not found:
            raise BadArguments(f"no {what} with id {key}")
        return found[0]

    def list_branches(self):
        return {"today": TODAY.isoformat(), "branches": self.rows("SELECT id, name FROM branches")}

    def list_members(self, branch_id, page=1):
        self.one("branch", "SELECT id FROM branches WHERE id = ?", branch_id)
        found = self.rows(
            "SELECT id, name FROM members WHERE branch_id = ? ORDER BY id LIMIT ? OFFSET ?",
            branch_id, PAGE + 1, PAGE * (page - 1),
        )
        answer = {"members": found[:PAGE]}
        if len(found) > PAGE:
            answer["next_page"] = page + 1
        return answer

    def list_loans(self, member_id, open_only=True):
        self.one("member", "SELECT id FROM members WHERE id = ?", member_id)
        query = "SELECT id, book_id, due, returned FROM loans WHERE member_id = ?"
        return {"loans": self.rows(query + (" AND returned IS NULL" if open_only else ""), member_id)}

    def get_book(self, book_id):
        return self.one("book", "SELECT * FROM books WHERE id = ?", book_id)

    def search_books(self, query):
        pattern = f"%{query}%"
        found = self.rows("SELECT * FROM books WHERE title LIKE ? OR author LIKE ?", pattern, pattern)
        return {"books": found}

    def waiting_list(self, book_id):
        self.one("book", "SELECT id FROM books WHERE id = ?", book_id)
        return {"waiting": self.rows("SELECT member_id, since FROM waiting WHERE book_id = ? ORDER BY since", book_id)}

    def send_reminder(self, member_id, text):
        member = self.one("member", "SELECT id, name FROM members WHERE id = ?", member_id)
        cursor = self.db.execute("INSERT INTO reminders (member_id, text) VALUES (?, ?)", (member_id, text))
        return {"reminder_id": cursor.lastrowid, "to": member["name"]}


def obj(optional=(), **properties):
    """A JSON Schema for an object with these properties, all required except the optional ones."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def array(items):
    return {"type": "array", "items": items}


INTEGER = {"type": "integer"}
STRING = {"type": "string"}
DATE = {"type": "string", "format": "date"}
BOOK = obj(id=INTEGER, title=STRING, author=STRING, year=INTEGER, copies=INTEGER)
LOAN = obj(id=INTEGER, book_id=INTEGER, due=DATE, returned={"type": ["string", "null"], "format": "date"})

TOOLS = {
    "list_branches": (
        "The branches of the library, and today's date.",
        obj(),
        obj(today=DATE, branches=array(obj(id=INTEGER, name=STRING))),
    ),
    "list_members": (
        f"The members of a branch, {PAGE} a page. next_page is absent on the last page.",
        obj(("page",), branch_id=INTEGER, page={"type": "integer", "minimum": 1, "default": 1}),
        obj(("next_page",), members=array(obj(id=INTEGER, name=STRING)), next_page=INTEGER),
    ),
    "list_loans": (
        "What a member has borrowed; by default only what is not returned yet.",
        obj(("open_only",), member_id=INTEGER, open_only={"type": "boolean", "default": True}),
        obj(loans=array(LOAN)),
    ),
    "get_book": ("One book, with the number of copies.", obj(book_id=INTEGER), BOOK),
    "search_books": ("Books whose title or author contains the text.", obj(query=STRING), obj(books=array(BOOK))),
    "waiting_list": (
        "Who waits for a book, the longest first.",
        obj(book_id=INTEGER),
        obj(waiting=array(obj(member_id=INTEGER, since=DATE))),
    ),
    "send_reminder": (
        "Sends a member a letter.",
        obj(member_id=INTEGER, text={"type": "string", "minLength": 1, "maxLength": 2000}),
        obj(reminder_id=INTEGER, to=STRING),
    ),
}


def describe(name):
    description, takes, gives = TOOLS[name]
    reads = name != "send_reminder"
    return {
        "name": name,
        "description": description,
        "inputSchema": takes,
        "outputSchema": gives,
        "annotations": {"readOnlyHint": reads, "destructiveHint": False, "openWorldHint": False},
    }


def call(library, name, arguments):
    """Carries out tools/call; an error of the caller is a result with isError, as the specification requires."""
    try:
        answer = getattr(library, name)(**arguments)
    except (BadArguments, TypeError) as e:
        return {"content": [{"type": "text", "text": str(e)}], "isError": True}
    text = json.dumps(answer, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": answer}


def handle(library, method, params):
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-11-25"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "library", "version": "1.0.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [describe(name) for name in TOOLS]}
    if method == "tools/call" and params.get("name") in TOOLS:
        return call(library, params["name"], params.get("arguments") or {})
    return None


def main():
    library = Library()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue  # a notification, or an answer to a question that this server never asks
        result = handle(library, message["method"], message.get("params") or {})
        if result is None:
            code = -32602 if message["method"] == "tools/call" else -32601
            answer = {"error": {"code": code, "message": f"unknown: {message['method']}"}}
        else:
            answer = {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
