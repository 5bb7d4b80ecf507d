"""Plain text from the markup of a wiki."""

import re
from collections.abc import Iterator

# Elements whose contents are no prose.
_ELEMENTS = "ref|math|chem|gallery|timeline|score|imagemap|syntaxhighlight|source|templatedata|graph|mapframe"
_MARKS = re.compile(
    rf"""
    (?P<open>\{{\{{|\[\[|^[ \t:*\#;]*\{{\||<(?P<element>{_ELEMENTS})\b[^<>]*>)
    |(?P<close>^[ \t]*\|\}}(?!\}})|\}}\}}|\]\]|</(?P<ended>{_ELEMENTS})\s*>)
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# Dumps of before 2013 link to other languages so, in a line of their own.
_LANGUAGE_LINK = re.compile(r"^\[\[[a-z][a-z-]{1,11}:[^\[\]|]*\]\][ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^(?==)", re.MULTILINE)
_BEHAVIOUR = re.compile(r"__[A-Z]+__")
FILES_AND_CATEGORIES = frozenset({"file", "image", "media", "category"})


def pieces(markup: str, dropped: frozenset[str] = FILES_AND_CATEGORIES) -> Iterator[str]:
    """The prose of a page, section by section.

    Comments, templates, tables, references, formulas, and links to files and categories (by the names in
    `dropped`) go first, by one pass over the page: the parser, which takes links and the rest of the markup
    apart, can need seconds for a page of nested tables.
    """
    try:
        import mwparserfromhell
        from mwparserfromhell.parser import ParserError
    except ImportError:
        raise ImportError(
            "to read a MediaWiki dump, mwparserfromhell is needed: pip install 'fokker[wikipedia]' "
            "(or pip install mwparserfromhell)."
        ) from None
    prose = _without_blocks(_LANGUAGE_LINK.sub("", _COMMENT.sub("", markup)), dropped)
    for section in _HEADING.split(_BEHAVIOUR.sub("", prose)):
        try:
            # A blank that must not end a line is one all the same, which the tokeniser cannot know.
            yield str(mwparserfromhell.parse(section).strip_code()).replace("\xa0", " ")
        except ParserError:
            # A fault of the parser's in one section: its words are better than none.
            yield re.sub(r"[\[\]{}|'=<>]+", " ", section)


def _without_blocks(markup: str, dropped: frozenset[str]) -> str:
    """The page without whatever is between two marks that belong together and is not prose.

    A mark without its other half is left where it is; what it would have enclosed stays.
    """
    opened: list[tuple[str, int]] = []
    spans: list[tuple[int, int]] = []
    for mark in _MARKS.finditer(markup):
        if mark["open"]:
            kind = (mark["element"] or mark["open"].strip(" \t:*#;")).lower()
            if not mark["open"].endswith("/>"):
                opened.append((kind, mark.start()))
            else:
                spans.append(mark.span())
            continue
        closed = mark["close"].strip(" \t")
        kind = {"}}": "{{", "|}": "{|", "]]": "[["}.get(closed) or mark["ended"].lower()
        place = next((i for i in range(len(opened) - 1, -1, -1) if opened[i][0] == kind), None)
        if place is None:
            continue
        start = opened[place][1]
        del opened[place:]
        if kind != "[[" or _prefix(markup, start) in dropped:
            spans.append((start, mark.end()))
    kept, position = [], 0
    for start, stop in sorted(spans):
        if start > position:
            kept.append(markup[position:start])
        position = max(position, stop)
    return " ".join([*kept, markup[position:]])


def _prefix(markup: str, start: int) -> str:
    """What is before the colon of a link that begins there."""
    link = markup[start + 2 : start + 60]
    return link.partition(":")[0].strip().lower() if ":" in link else ""
