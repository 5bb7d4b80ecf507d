"""The pages of a MediaWiki dump, one by one."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from fokker.corpora import _markup
from fokker.corpora._compressed import blocks
from fokker.corpora._lines import decoded
from fokker.corpora._source import Text, TextSource
from fokker.corpora._tally import Tally

_BEGIN = re.compile(rb"<page[\s>]")
_END = b"</page>"
_NAMESPACE = re.compile(rb'<namespace key="(-?\d+)"[^>]*>([^<]+)</namespace>')
# Files and categories, whose links are not prose.
_NOT_PROSE = {b"-2", b"6", b"14"}
_REDIRECT = re.compile(r"\s*#\s*redirect\b", re.IGNORECASE)


class MediaWiki(TextSource):
    """Dumps of current pages (pages-articles), plain or compressed, multistream or not.

    Each page is cut out and parsed by itself, so that memory holds one at a time, and what is damaged, in the
    compression or in the XML, costs only the pages it touches.
    """

    def __init__(self, label: str, paths: Sequence[Path]) -> None:
        self.label, self.paths = label, tuple(paths)

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The articles: neither redirects nor pages of other namespaces, which are counted."""
        for path in self.paths:
            site = _Site()
            for page in _pages(blocks(path, tally), site, path.name, tally):
                yield from _article(page, site, path.name, tally)


class _Article:
    """The pieces of a page's text, made when they are asked for."""

    def __init__(self, markup: str, dropped: frozenset[str]) -> None:
        self.markup, self.dropped = markup, dropped

    def __iter__(self) -> Iterator[str]:
        return _markup.pieces(self.markup, self.dropped)


class _Site:
    """The names of a wiki's namespaces, from what comes before its first page."""

    def __init__(self) -> None:
        self.others: frozenset[str] = frozenset()
        self.dropped = _markup.FILES_AND_CATEGORIES

    def learn(self, header: bytes) -> None:
        """Read the names, if they are there."""
        names = {key: name.decode("utf-8", "replace").lower() for key, name in _NAMESPACE.findall(header)}
        self.others = frozenset(names.values())
        self.dropped |= {name for key, name in names.items() if key in _NOT_PROSE}


def _pages(source: Iterable[bytes | None], site: _Site, name: str, tally: Tally) -> Iterator[bytes]:
    """The bytes of each `<page>…</page>`. A page that is cut by a gap (None) or by the end is counted."""

    def cut(rest: bytes) -> None:
        if begin := _BEGIN.search(rest):
            tally.bad_pages += 1
            title = re.search(rb"<title>([^<]*)", rest[begin.start() :])
            shown = f" {title[1].decode('utf-8', 'replace')!r}" if title else ""
            tally.note(f"page{shown} of {name} is cut short")

    rest, looked, header = b"", 0, True
    for block in source:
        if block is None:
            cut(rest)
            rest, looked = b"", 0
            continue
        rest += block
        position = 0  # up to here the pages have been given
        while (end := rest.find(_END, looked)) >= 0:
            begins = [found.start() for found in _BEGIN.finditer(rest, position, end)]
            if header:
                site.learn(rest[: begins[0] if begins else end])
                header = False
            for unfinished, following in itertools.pairwise(begins):
                cut(rest[unfinished:following])
            position = looked = end + len(_END)
            if begins:
                yield rest[begins[-1] : position]
        rest = rest[position:]
        looked = max(len(rest) - len(_END), 0)
    cut(rest)


def _article(page: bytes, site: _Site, name: str, tally: Tally) -> Iterator[Text]:
    try:
        root = ElementTree.fromstring(decoded(page, tally))
    except ElementTree.ParseError as error:
        tally.bad_pages += 1
        title = re.search(rb"<title>([^<]*)", page)
        shown = title[1].decode("utf-8", "replace") if title else "without title"
        tally.note(f"page {shown!r} of {name}: {error}")
        return
    title_text = root.findtext("title") or ""
    namespace = root.findtext("ns")
    if namespace is None:  # dumps of before 2012 do not say it
        prefix = title_text.partition(":")[0].lower() if ":" in title_text else ""
        namespace = "1" if prefix in site.others else "0"
    revisions = root.findall("revision")
    text = (revisions[-1].findtext("text") or "") if revisions else ""
    if root.find("redirect") is not None or _REDIRECT.match(text):
        tally.redirects += 1
    elif namespace.strip() != "0":
        tally.other_namespaces += 1
    else:
        yield title_text, _Article(text, site.dropped)
