"""Who follows the progress of a run."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fokker.models.topics.run import TopicRun

# Called during work that takes time, with its description, how much is done, how much there is, and the unit.
Show = Callable[[str, int, int, str], None]


class Watcher(Protocol):
    """Receives the progress of a run."""

    def update(self, run: "TopicRun") -> None:
        """Called after each minibatch."""

    def show(self, description: str, completed: int, total: int, unit: str) -> None:
        """A `Show`, for work besides the minibatches."""

    def notify(self, text: str) -> None:
        """Called with messages to the user."""


class Silent:
    """The `Watcher` of the processes that print nothing."""

    def update(self, run: "TopicRun") -> None:
        """Show nothing."""

    def show(self, description: str, completed: int, total: int, unit: str) -> None:
        """Show nothing."""

    def notify(self, text: str) -> None:
        """Say nothing."""
