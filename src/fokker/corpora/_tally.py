"""Counts of the documents that were read, skipped or lost."""

from dataclasses import dataclass, field, fields

# Problems beyond this number are counted but not described.
_MAX_NOTES = 5


@dataclass
class Tally:
    """What one pass over a source has read so far; repeated passes add nothing.

    `documents`: those yielded. Skipped on purpose: `empty`, `without_known_word`, `too_short`, `redirects`,
    `other_namespaces`, `binary_files`. Lost because of errors: `bad_lines`, `bad_pages`, `lost_bytes` of a
    compressed file. `notes`: where the first few errors are.
    """

    documents: int = 0
    empty: int = 0
    without_known_word: int = 0
    too_short: int = 0
    redirects: int = 0
    other_namespaces: int = 0
    binary_files: int = 0
    invalid_utf8: int = 0
    bad_lines: int = 0
    bad_pages: int = 0
    lost_bytes: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, problem: str) -> None:
        """Record where a problem occurred, for the first few."""
        if len(self.notes) < _MAX_NOTES:
            self.notes.append(problem)

    def bad_line(self, problem: str) -> None:
        """Count a line that could not be read, and record why."""
        self.bad_lines += 1
        self.note(problem)

    def lose(self, size: int, problem: str) -> None:
        """Record that bytes of a file are lost, and where."""
        self.lost_bytes += size
        self.note(problem)

    def move_to(self, other: "Tally") -> None:
        """Add all counts to another tally and reset this one."""
        for name in (entry.name for entry in fields(self) if entry.name != "notes"):
            setattr(other, name, getattr(other, name) + getattr(self, name))
            setattr(self, name, 0)
        for problem in self.notes:
            other.note(problem)
        self.notes.clear()

    def sentence(self) -> str:
        """One sentence about what was skipped, lost or replaced; empty if nothing was."""
        parts = [
            text.format(number, "" if number == 1 else "s")
            for number, text in (
                (self.empty, "{:,} empty document{} skipped"),
                (self.without_known_word, "{:,} document{} without a known word skipped"),
                (self.too_short, "{:,} document{} skipped as too short"),
                (self.redirects, "{:,} redirect{} skipped"),
                (self.other_namespaces, "{:,} page{} of other namespaces skipped"),
                (self.binary_files, "{:,} file{} skipped as not text"),
                (
                    self.invalid_utf8,
                    "invalid UTF-8 replaced in {:,} place{} (convert the text to UTF-8: iconv)",
                ),
                (self.bad_lines, "{:,} line{} could not be read"),
                (self.bad_pages, "{:,} page{} could not be read"),
                (self.lost_bytes, "{:,} compressed byte{} lost"),
            )
            if number
        ]
        if not parts:
            return ""
        places = f" ({'; '.join(self.notes)})" if self.notes else ""
        noun = "document" if self.documents == 1 else "documents"
        return f"{self.documents:,} {noun} read; {', '.join(parts)}{places}."


def decoded(data: bytes, tally: Tally) -> str:
    """Decode UTF-8. Invalid bytes are replaced by �, and the tally counts the text once."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        tally.invalid_utf8 += 1
        return data.decode("utf-8", errors="replace")
