"""What of a source was read, and what was not."""

from dataclasses import dataclass, field, fields

# So many accidents are told one by one; of the others only the number is known.
_TOLD = 5


@dataclass
class Tally:
    """What one pass over a source has seen so far; a repeated pass adds nothing.

    `documents` are those that were given. The others are not lost by accident (`empty`, without a known
    word, too short, redirects, other namespaces) or are (`bad_lines`, `bad_pages`, `lost_bytes` of a
    compressed file); `notes` says of the first few where.
    """

    documents: int = 0
    empty: int = 0
    without_known_word: int = 0
    too_short: int = 0
    redirects: int = 0
    other_namespaces: int = 0
    invalid_utf8: int = 0
    bad_lines: int = 0
    bad_pages: int = 0
    lost_bytes: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, accident: str) -> None:
        """Keep where an accident happened, for the first few."""
        if len(self.notes) < _TOLD:
            self.notes.append(accident)

    def hand_over(self, other: "Tally") -> None:
        """Add all that is counted here to another tally, and begin anew."""
        for name in (entry.name for entry in fields(self) if entry.name != "notes"):
            setattr(other, name, getattr(other, name) + getattr(self, name))
            setattr(self, name, 0)
        for accident in self.notes:
            other.note(accident)
        self.notes.clear()

    def sentence(self) -> str:
        """What was skipped, lost or mended, in one sentence; empty if nothing was."""
        parts = [
            text.format(number, "" if number == 1 else "s")
            for number, text in (
                (self.empty, "{:,} empty document{} skipped"),
                (self.without_known_word, "{:,} document{} without a known word skipped"),
                (self.too_short, "{:,} document{} skipped as too short"),
                (self.redirects, "{:,} redirect{} skipped"),
                (self.other_namespaces, "{:,} page{} of other namespaces skipped"),
                (self.invalid_utf8, "invalid UTF-8 replaced in {:,} place{}"),
                (self.bad_lines, "{:,} line{} could not be read"),
                (self.bad_pages, "{:,} page{} could not be read"),
                (self.lost_bytes, "{:,} compressed byte{} lost"),
            )
            if number
        ]
        if not parts:
            return ""
        where = f" ({'; '.join(self.notes)})" if self.notes else ""
        return f"{self.documents:,} documents read; {', '.join(parts)}{where}."
