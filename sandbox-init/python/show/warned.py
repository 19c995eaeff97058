"""Warnings: name the user's line, not one of Cloister; many about glyphs that a font lacks are one line."""

import re
import sys

from cloister import sources, stdio
from cloister.tracebacks import is_ours

GLYPHS_SHOWN = 20
SAME_MAX = 3  # of one kind, of drawing and showing, in a cell

_GLYPH = r"Glyph (\d+) \(.*\) missing from (?:current font|font\(s\) (.*?))\.?$"
_lacking = {}  # name of the fonts: (file name, line, {number of a glyph: None})
_kinds = {}  # (category, text without numbers): how many
_originals = []


def _users_line():
    """Of the code that runs, or of the end of the cell, after which figures are drawn."""
    frame = sys._getframe(1)
    while frame is not None:
        if sources.is_cell(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return sources.last_line()


def _show(message):
    text = str(message.message)
    is_own = is_ours(message.filename)
    if is_own:
        message.filename, message.lineno = _users_line()
        message.line = None
    glyph = re.match(_GLYPH, text)
    if glyph is not None:
        _lacking.setdefault(glyph[2] or "", (message.filename, message.lineno, {}))[2][int(glyph[1])] = None
        return
    if is_own:
        kind = message.category, re.sub(r"\d+", "", text)
        _kinds[kind] = _kinds.get(kind, 0) + 1
        if _kinds[kind] > SAME_MAX:
            return
    _originals[0](message)


def install(warnings):
    """Code that replaces showwarning() or catches warnings gets them unchanged."""
    _originals[:] = [warnings._showwarnmsg_impl]
    warnings._showwarnmsg_impl = _show


def finish():
    """At the end of a cell: what was counted."""
    for fonts, (filename, line, numbers) in _lacking.items():
        glyphs = [chr(number) for number in numbers if number <= sys.maxunicode]
        more = len(glyphs) - GLYPHS_SHOWN
        stdio.complain(
            "%s:%d: UserWarning: the font%s lacks %d character%s: %s%s; to show them, put a font file that has them into /workspace, then: "
            "matplotlib.font_manager.fontManager.addfont(PATH); plt.rcParams[\"font.family\"] = its name\n"
            % (filename, line, " " + fonts if fonts else "", len(glyphs), "s" * (len(glyphs) != 1), "".join(glyphs[:GLYPHS_SHOWN]),
               " and %d more" % more if more > 0 else ""))
    for (category, _), count in _kinds.items():
        if count > SAME_MAX:
            stdio.complain("cloister: %d more warnings of this kind: %s\n" % (count - SAME_MAX, category.__name__))
    _lacking.clear()
    _kinds.clear()


def waits():
    return bool(_lacking or _kinds)
