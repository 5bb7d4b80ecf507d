"""Extract plain text from wiki markup."""

import re
from collections.abc import Iterator

# Elements whose contents are not prose.
_ELEMENTS = "ref|math|chem|gallery|timeline|score|imagemap|syntaxhighlight|source|templatedata|graph|mapframe"
_MARKS = re.compile(
    rf"""
    (?P<open>\{{\{{|\[\[|^[ \t:*\#;]*\{{\||<(?P<element>{_ELEMENTS})\b[^<>]*>)
    |(?P<close>^[ \t]*\|\}}(?!\}})|\}}\}}|\]\]|</(?P<ended>{_ELEMENTS})\s*>)
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# Dumps from before 2013 link to other languages like this, on separate lines.
_LANGUAGE_LINK = re.compile(r"^\[\[[a-z][a-z-]{1,11}:[^\[\]|]*\]\][ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^(?==)", re.MULTILINE)
_BEHAVIOUR_SWITCH = re.compile(r"__[A-Z]+__")
FILES_AND_CATEGORIES = frozenset({"file", "image", "media", "category"})


def pieces(markup: str, dropped_prefixes: frozenset[str] = FILES_AND_CATEGORIES) -> Iterator[str]:
    """The prose of a page, section by section.

    Comments, templates, tables, references, formulas, and links to files and categories (with the prefixes in
    `dropped_prefixes`) are removed first, in one pass over the page. The parser handles links and the rest of
    the markup; it can need seconds for a page of nested tables.
    """
    try:
        import mwparserfromhell
        from mwparserfromhell.parser import ParserError
    except ImportError:
        raise ImportError(
            "reading a MediaWiki dump needs mwparserfromhell: pip install 'fokker[wikipedia]' "
            "(or pip install mwparserfromhell)."
        ) from None
    prose = _without_blocks(_LANGUAGE_LINK.sub("", _COMMENT.sub("", markup)), dropped_prefixes)
    for section in _HEADING.split(_BEHAVIOUR_SWITCH.sub("", prose)):
        try:
            # The tokeniser would remove a no-break space and join the words.
            yield str(mwparserfromhell.parse(section).strip_code()).replace("\xa0", " ")
        except ParserError:
            # The parser failed on this section: keep its words without the markup characters.
            yield re.sub(r"[\[\]{}|'=<>]+", " ", section)


def _without_blocks(markup: str, dropped_prefixes: frozenset[str]) -> str:
    """The page without the blocks between matching marks that are not prose.

    A mark without a matching one is kept, with the text after it.
    """
    open_marks: list[tuple[str, int]] = []
    spans: list[tuple[int, int]] = []
    for mark in _MARKS.finditer(markup):
        if mark["open"]:
            kind = (mark["element"] or mark["open"].strip(" \t:*#;")).lower()
            if not mark["open"].endswith("/>"):
                open_marks.append((kind, mark.start()))
            else:
                spans.append(mark.span())
            continue
        closing_mark = mark["close"].strip(" \t")
        kind = {"}}": "{{", "|}": "{|", "]]": "[["}.get(closing_mark) or mark["ended"].lower()
        match_index = next((i for i in range(len(open_marks) - 1, -1, -1) if open_marks[i][0] == kind), None)
        if match_index is None:
            continue
        start = open_marks[match_index][1]
        del open_marks[match_index:]
        if kind != "[[" or _link_prefix(markup, start) in dropped_prefixes:
            spans.append((start, mark.end()))
    prose, position = [], 0
    for start, stop in sorted(spans):
        if start > position:
            prose.append(markup[position:start])
        position = max(position, stop)
    return " ".join([*prose, markup[position:]])


def _link_prefix(markup: str, start: int) -> str:
    """The text before the colon of the link that starts at this position."""
    link = markup[start + 2 : start + 60]
    return link.partition(":")[0].strip().lower() if ":" in link else ""
