"""Read the pages of a MediaWiki dump one by one."""

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from fokker.corpora import _markup
from fokker.corpora._source import FileSource, Text
from fokker.corpora._tally import Tally, decoded
from fokker.rows.compressed import blocks

_PAGE_START = re.compile(rb"<page[\s>]")
_PAGE_END = b"</page>"
_NAMESPACE = re.compile(rb'<namespace key="(-?\d+)"[^>]*>([^<]+)</namespace>')
# The namespaces of files and categories: links to them are not prose.
_NOT_PROSE = {b"-2", b"6", b"14"}
_REDIRECT = re.compile(r"\s*#\s*redirect\b", re.IGNORECASE)


class MediaWiki(FileSource):
    """Dumps of current pages (pages-articles), plain or compressed, multistream or not.

    Each page is extracted and parsed separately. Memory holds one page at a time, and damage in the
    compression or the XML loses only the pages it affects.
    """

    def texts_of(self, path: Path, tally: Tally) -> Iterator[Text]:
        """The articles of one dump. Redirects and pages of other namespaces are skipped and counted."""
        site = _Site()
        for page in _pages(blocks(path, tally.lose), site, path.name, tally):
            yield from _article(page, site, path.name, tally)


class _Article:
    """The text of a page; its pieces are generated on demand."""

    def __init__(self, markup: str, dropped_prefixes: frozenset[str]) -> None:
        self.markup, self.dropped_prefixes = markup, dropped_prefixes

    def __iter__(self) -> Iterator[str]:
        return _markup.pieces(self.markup, self.dropped_prefixes)


class _Site:
    """The namespace names of a wiki, read from the header before its first page."""

    def __init__(self) -> None:
        self.namespaces: frozenset[str] = frozenset()
        self.dropped_prefixes = _markup.FILES_AND_CATEGORIES

    def read_namespaces(self, header: bytes) -> None:
        """Read the names, if the header has them."""
        names = {key: name.decode("utf-8", "replace").lower() for key, name in _NAMESPACE.findall(header)}
        self.namespaces = frozenset(names.values())
        self.dropped_prefixes |= {name for key, name in names.items() if key in _NOT_PROSE}


def _pages(source: Iterable[bytes | None], site: _Site, name: str, tally: Tally) -> Iterator[bytes]:
    """The bytes of each `<page>…</page>`. Pages cut by a gap (None) or by the end of the file are counted."""

    def count_cut_page(rest: bytes) -> None:
        if start := _PAGE_START.search(rest):
            tally.bad_pages += 1
            title = re.search(rb"<title>([^<]*)", rest[start.start() :])
            quoted_title = f" {title[1].decode('utf-8', 'replace')!r}" if title else ""
            tally.note(f"page{quoted_title} of {name} is cut short")

    rest, search_start, is_header = b"", 0, True
    for block in source:
        if block is None:
            count_cut_page(rest)
            rest, search_start = b"", 0
            continue
        rest += block
        position = 0  # all pages before it have been yielded
        while (end := rest.find(_PAGE_END, search_start)) >= 0:
            starts = [match.start() for match in _PAGE_START.finditer(rest, position, end)]
            if is_header:
                site.read_namespaces(rest[: starts[0] if starts else end])
                is_header = False
            for cut_start, following in itertools.pairwise(starts):
                count_cut_page(rest[cut_start:following])
            position = search_start = end + len(_PAGE_END)
            if starts:
                yield rest[starts[-1] : position]
        rest = rest[position:]
        search_start = max(len(rest) - len(_PAGE_END), 0)
    count_cut_page(rest)


def _article(page: bytes, site: _Site, name: str, tally: Tally) -> Iterator[Text]:
    try:
        root = ElementTree.fromstring(decoded(page, tally))
    except ElementTree.ParseError as error:
        tally.bad_pages += 1
        title = re.search(rb"<title>([^<]*)", page)
        title_shown = title[1].decode("utf-8", "replace") if title else "without title"
        tally.note(f"page {title_shown!r} of {name}: {error}")
        return
    title_text = root.findtext("title") or ""
    namespace = root.findtext("ns")
    if namespace is None:  # dumps from before 2012 do not state it
        prefix = title_text.partition(":")[0].lower() if ":" in title_text else ""
        namespace = "1" if prefix in site.namespaces else "0"
    revisions = root.findall("revision")
    text = (revisions[-1].findtext("text") or "") if revisions else ""
    if root.find("redirect") is not None or _REDIRECT.match(text):
        tally.redirects += 1
    elif namespace.strip() != "0":
        tally.other_namespaces += 1
    else:
        yield title_text, _Article(text, site.dropped_prefixes)
