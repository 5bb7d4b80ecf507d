"""A row of the table of verdicts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """`build` returns what is handed to `fk.check`; `quick`: in every test run; `reason`: words in one."""

    kind: str
    name: str
    verdict: str
    build: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)
    quick: bool = False
    reason: str = ""
