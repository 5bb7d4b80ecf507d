"""H, D, Q and Γ of a design as mathematics: Γ is derived from D and Q as formulas."""

from dataclasses import dataclass
from typing import Any

from fokker.studio.design import Design, Named, Parts, Typed, letters_of
from fokker.studio.formulas import Node, parse, text
from fokker.studio.formulas.derivative import ZERO, add, derivative
from fokker.studio.formulas.mathml import equation, mathml, matrix
from fokker.studio.formulas.tree import Apply, Name, Negative, Number, is_zero
from fokker.studio.named import PAIR, SAMPLERS, THERMOSTAT, THETA
from fokker.studio.program import LENGTH

Matrix = tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Recipe:
    """The variables of the state, H, D and Q as formulas."""

    variables: tuple[str, ...]
    energy: Node
    D: Matrix
    Q: Matrix

    @property
    def letters(self) -> tuple[str, ...]:
        """The coordinates."""
        return letters_of(self.variables)

    @property
    def gamma(self) -> tuple[Node, ...]:
        """Γ_i = Σ_j ∂_j (D_ij + Q_ij)."""
        rows = []
        for d_row, q_row in zip(self.D, self.Q, strict=True):
            total: Node = ZERO
            for letter, d, q in zip(self.letters, d_row, q_row, strict=True):
                total = add(total, add(derivative(d, letter), derivative(q, letter)))
            rows.append(total)
        return tuple(rows)


def _sparse(size: int, entries: dict[tuple[int, int], Node]) -> Matrix:
    return tuple(tuple(entries.get((i, j), ZERO) for j in range(size)) for i in range(size))


def _signed(number: float) -> Node:
    return Number(number) if number >= 0 else Negative(Number(-number))


def recipe_of(design: Design) -> Recipe | None:
    """The recipe of a design; None where its dynamics are not over x, y, p, q and ξ, or are a drift."""
    sampler = design.sampler
    if isinstance(sampler, Typed):
        if sampler.Q is None:
            return None
        energy = Name("U") if is_zero(sampler.energy) else add(Name("U"), sampler.energy)
        return Recipe(sampler.variables, energy, sampler.D, sampler.Q)
    name = sampler.dynamics if isinstance(sampler, Parts) else SAMPLERS[sampler.name].dynamics
    return None if name is None else _of_dynamics(name, design)


def _of_dynamics(name: str, design: Design) -> Recipe:
    g, settings = design.metric, design.settings
    if name in ("langevin", "riemannian langevin"):
        D = Number(1.0) if name == "langevin" else g
        return Recipe(THETA, Name("U"), _sparse(2, {(0, 0): D, (1, 1): D}), _sparse(2, {}))
    friction: Node = {"hamiltonian": ZERO, "riemann": g}.get(name, _signed(settings.friction))
    turn: Node = Apply("sqrt", (g,)) if name == "riemann" else Number(1.0)
    kinetic = "U + (p^2 + q^2)/2"
    D_entries: dict[tuple[int, int], Node] = {(2, 2): friction, (3, 3): friction}
    Q_entries: dict[tuple[int, int], Node] = {
        (2, 0): turn,
        (3, 1): turn,
        (0, 2): Negative(turn),
        (1, 3): Negative(turn),
    }
    if name != "thermostat":
        return Recipe(PAIR, parse(kinetic, ("U", "p", "q")), _sparse(4, D_entries), _sparse(4, Q_entries))
    inertia = LENGTH * settings.temperature
    for row, letter in ((2, "p"), (3, "q")):
        share = parse(f"{letter}/{2 * inertia!r}", (letter,))
        Q_entries |= {(row, 4): share, (4, row): Negative(share)}
    energy = parse(f"{kinetic} + {inertia!r}*(s - {settings.friction!r})^2", ("U", "p", "q", "s"))
    return Recipe(THERMOSTAT, energy, _sparse(5, D_entries), _sparse(5, Q_entries))


def recipe_view(design: Design) -> dict[str, Any]:
    """The equations for the page, and the cells of D and Q as text, to go on from by typing."""
    U = equation("U", mathml(design.target.potential))
    recipe = recipe_of(design)
    if recipe is None:
        sampler = design.sampler
        if isinstance(sampler, Typed) and sampler.drift is not None:
            f = equation("f", matrix([[cell] for cell in sampler.drift]))
            return {
                "equations": [U, f, equation("D", matrix(sampler.D))],
                "letters": sampler.letters,
                "note": "",
            }
        name = sampler.name if isinstance(sampler, Named) else ""
        note = f"{name} is not written as D and Q over x, y, p and q."
        return {"equations": [U], "letters": [], "note": note}
    try:
        gamma = recipe.gamma
        shown = equation("Γ", matrix([[row] for row in gamma]))
        note = (
            "" if any(not is_zero(row) for row in gamma) else "Γ is zero: D and Q do not depend on the state."
        )
    except ValueError as error:
        shown, note = "", f"Γ is not shown: {error}"
    if design.gamma != 1:
        note += " Γ is dropped." if design.gamma == 0 else " Γ is subtracted, as printed."
    if design.drag != 1:
        note += " The friction is forgotten." if design.drag == 0 else " The friction is doubled."
    return {
        "equations": [
            U,
            equation("H", mathml(recipe.energy)),
            equation("D", matrix(recipe.D)),
            equation("Q", matrix(recipe.Q)),
            shown,
        ],
        "letters": recipe.letters,
        "note": note.strip(),
        "typed": {
            "size": len(recipe.letters),
            "H": text(recipe.energy),
            "D": [[text(cell) for cell in row] for row in recipe.D],
            "Q": [[text(cell) for cell in row] for row in recipe.Q],
        },
    }
