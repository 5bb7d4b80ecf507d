"""The targets that are offered, as formulas U(x, y) like those that people type."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BuiltIn:
    """A potential, where chains start and how far they are spread."""

    title: str
    formula: str
    start: tuple[float, float] = (0.0, 0.0)
    spread: float = 1.0


TARGETS = {
    "valley": BuiltIn("Bent valley (Ma et al. 2015)", "x^4/10 + (4*(y + 1.2) - x^2)^2/2", (0.0, -1.0), 0.5),
    "normal": BuiltIn("Standard normal", "(x^2 + y^2)/2"),
    "correlated": BuiltIn("Correlated normal, ρ = 0.95", "(x^2 - 1.9*x*y + y^2)/0.195"),
    "banana": BuiltIn("Banana", "x^2/8 + (y - x^2/4 + 1)^2*2"),
    "mixture": BuiltIn(
        "Three normals",
        "-log(0.3*exp(-((x + 2)^2 + (y + 1)^2)) + 0.3*exp(-((x - 2)^2 + (y + 1)^2)) "
        "+ 0.4*exp(-(x^2 + (y - 2)^2)) + 1e-30)",
        (0.0, 0.0),
        2.0,
    ),
    "ring": BuiltIn("Ring", "4*(sqrt(x^2 + y^2 + 0.01) - 2)^2", (0.0, 0.0), 2.0),
    "double-well": BuiltIn("Double well", "(x^2 - 2)^2/2 + y^2/2 + 0.2*x"),
    "funnel": BuiltIn("Funnel", "y^2/4.5 + y/2 + x^2*exp(-y)/2", (0.0, 0.0), 0.7),
    "student": BuiltIn("Student's t, 5 degrees of freedom", "3.5*log1p((x^2 + y^2)/5)"),
}
