"""Python identifiers for the names of tools and servers."""

import keyword
import unicodedata


def identifier(name):
    """Characters other than letters, digits and _ become _. A leading digit gets the prefix _, a keyword the suffix _.

    The result is in NFKC, the form to which the compiler normalizes identifiers.
    """
    text = "".join(c if ("a" + c).isidentifier() else "_" for c in unicodedata.normalize("NFKC", name))
    if not text.isidentifier():
        text = "_" + text
    return text + "_" if keyword.iskeyword(text) else text


def server_identifiers(name):
    """mcp_calendar for the server "calendar". A server whose name has capitals has a second name in lower case."""
    text = "mcp_" + identifier("_" + name)[1:]
    return list(dict.fromkeys((text.lower(), text)))


def by_identifier(names):
    """identifier -> name, without ambiguous identifiers. A name that equals its identifier takes precedence."""
    shared = {}
    for name in names:
        shared.setdefault(identifier(name), []).append(name)
    return {
        text: text if text in group else group[0]
        for text, group in shared.items()
        if len(group) == 1 or text in group
    }


def closest(name, known, limit=3):
    """The known names that are most similar to a name."""
    folded = {}
    for other in known:
        folded.setdefault(identifier(other).lower().replace("_", ""), other)
    wanted = identifier(str(name)).lower().replace("_", "")
    from difflib import get_close_matches

    close = get_close_matches(wanted, list(folded), limit, 0.6)
    if not close:
        close = [text for text in folded if len(wanted) > 3 and (wanted in text or text in wanted)][:limit]
    return [folded[text] for text in close]


def did_you_mean(name, known, limit=3):
    """"; did you mean "a" or "b"?", or nothing."""
    close = closest(name, known, limit)
    return "; did you mean %s?" % " or ".join('"%s"' % other for other in close) if close else ""
