"""One result of a test of a sampler's steps."""

from dataclasses import dataclass

# Of an identity.
TOLERANCE = 1e-6
# Standard errors of an average; of two hundred averages one exceeds this once in fifty million checks.
ALARM = 6.5


@dataclass(frozen=True)
class Finding:
    """One check: its error and tolerance, and in words what holds or what failed."""

    words: str
    reason: str
    error: float
    tolerance: float = TOLERANCE
    power: str = ""
    # Why it shows nothing although it holds.
    doubt: str = ""
    # How large an error, as a share of the largest possible, it may miss.
    missed: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the error is no larger than allowed; NaN does not hold."""
        return self.error <= self.tolerance
