# ruff: noqa: E501
"""The house as a picture, from the list of layers in CONTRIBUTING.md, so that it stays true."""

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

__all__ = ["Layer", "layers", "pages", "picture"]

_CONTRIBUTING = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
_ITEM = re.compile(r"^(\d+)\. (.+?)(?=^\d+\. |^\S|\Z)", re.MULTILINE | re.DOTALL)
_HEIGHT, _WIDTH, _GAP = 46, 760, 8


class Layer(NamedTuple):
    """A storey: its parts, and what they are for."""

    number: int
    parts: tuple[str, ...]
    text: str


def layers(text: str | None = None) -> list[Layer]:
    """The layers in the order of CONTRIBUTING.md, the lowest first."""
    text = _CONTRIBUTING.read_text(encoding="utf-8") if text is None else text
    section = text.split("## Where things are")[1].split("\n## ")[0]
    found = []
    for number, item in _ITEM.findall(section):
        head, _, rest = item.partition(":")
        parts = tuple(re.findall(r"`([^`]+)`", head))
        found.append(Layer(int(number), parts, " ".join(rest.split())))
    return found


def picture(storeys: list[Layer]) -> str:
    """The storeys as SVG, the lowest at the bottom, in the colours of the page."""
    height = len(storeys) * (_HEIGHT + _GAP) + _GAP
    rows = []
    for place, layer in enumerate(reversed(storeys)):
        y = _GAP + place * (_HEIGHT + _GAP)
        width = (_WIDTH - 60) / len(layer.parts)
        rows.append(f'<text x="14" y="{y + 29}" class="house-number">{layer.number}</text>')
        for k, part in enumerate(layer.parts):
            x = 48 + k * width
            rows.append(
                f'<rect x="{x:.0f}" y="{y}" width="{width - 6:.0f}" height="{_HEIGHT}" rx="6" class="house-room"/>'
                f'<text x="{x + width / 2 - 3:.0f}" y="{y + 29}" text-anchor="middle">{escape(part)}</text>'
            )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" class="house" role="img" '
        f'aria-label="The parts of the library in {len(storeys)} storeys">{"".join(rows)}</svg>'
    )


def pages() -> dict[str, str]:
    """The page of the house."""
    storeys = layers()
    table = "\n".join(
        f"| {layer.number} | {', '.join(f'`{part}`' for part in layer.parts)} | {layer.text} |"
        for layer in reversed(storeys)
    )
    text = (
        "# The house\n\nThe library is a house of storeys: a part imports nothing from above it or beside it, and a test "
        "reads the imports. The mathematics is at the bottom, what people call is further up. This picture and the "
        "table are made from CONTRIBUTING.md when the site is built.\n\n"
        f"```{{raw}} html\n{picture(storeys)}\n```\n\n| storey | parts | what they are for |\n| --- | --- | --- |\n{table}\n"
    )
    return {"house.md": text}
