"""What the page asks for, validated: a target, a sampler, mistakes made on purpose, settings.

A `Design` is all that a run depends on: the same design gives the same draws, and a link to the page has it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from fokker.studio.formulas import FormulaError, Node, parse
from fokker.studio.formulas.derivative import add, negative
from fokker.studio.formulas.tree import Binary, Name, Negative, Number, is_zero, names
from fokker.studio.named import SAMPLERS, Dynamics
from fokker.studio.targets import TARGETS

# Named variables of the state, the letters of their coordinates, and the example that the library is given.
LETTERS = {"theta": ("x", "y"), "r": ("p", "q"), "xi": ("s",)}
VARIABLES = {2: ("theta",), 4: ("theta", "r"), 5: ("theta", "r", "xi")}

MAX_CHAINS = 10_000
MAX_STEPS_PER_FRAME = 500
MAX_STEPS = 1_000_000
# Moves of all chains in one frame: an answer comes within a second or so.
MAX_MOVES = 200_000

Integrator = Literal[
    "EulerMaruyama", "SymplecticEuler", "Splitting", "ExactOU", "Leapfrog", "GeneralisedLeapfrog"
]
Correction = Literal["none", "Metropolis", "Tree"]


class DesignError(ValueError):
    """A part of a design that cannot be used: which, why, and where in a formula."""

    def __init__(self, part: str, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.part = part
        self.position = position

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        return {"part": self.part, "message": str(self), "position": self.position}


@dataclass(frozen=True)
class Named:
    """A sampler of `fk.samplers`."""

    name: str


@dataclass(frozen=True)
class Parts:
    """Dynamics × integrator × correction, from three menus."""

    dynamics: Dynamics
    integrator: Integrator
    correction: Correction


@dataclass(frozen=True)
class Typed:
    """H = U + g with D and Q, or with a drift f and D, over x, y and p, q and s as far as they are used."""

    size: int
    energy: Node
    D: tuple[tuple[Node, ...], ...]
    Q: tuple[tuple[Node, ...], ...] | None = None
    drift: tuple[Node, ...] | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """theta, r and xi, as far as they are used."""
        return VARIABLES[self.size]

    @property
    def letters(self) -> tuple[str, ...]:
        """The coordinates in the order of rows and columns."""
        return letters_of(self.variables)


def letters_of(variables: Sequence[str]) -> tuple[str, ...]:
    """The coordinates of these variables."""
    return tuple(letter for name in variables for letter in LETTERS[name])


@dataclass(frozen=True)
class SamplerSettings:
    """The sliders. `noise` is the standard deviation of the gradient of one row, in batches of `batch`."""

    step_size: float = 0.05
    friction: float = 1.0
    temperature: float = 1.0
    noise: float = 0.0
    batch: int = 1
    leaps: int = 10


@dataclass(frozen=True)
class RunSettings:
    """How much is run: steps of all chains per frame, and steps that are not counted."""

    seed: int = 0
    chains: int = 200
    steps: int = 20
    burn_in: int = 200


@dataclass(frozen=True)
class DesignedTarget:
    """U(x, y), where chains start and how far they are spread."""

    potential: Node
    start: tuple[float, float]
    spread: float


@dataclass(frozen=True)
class Design:
    """All that a run depends on. `gamma` and `drag` multiply Γ and the friction D∇H: 1 is right."""

    target: DesignedTarget
    sampler: Named | Parts | Typed
    metric: Node
    gamma: float = 1.0
    drag: float = 1.0
    metropolis: bool = False
    settings: SamplerSettings = field(default_factory=SamplerSettings)
    run: RunSettings = field(default_factory=RunSettings)

    @property
    def is_altered(self) -> bool:
        """Whether a mistake was made on purpose."""
        return self.gamma != 1 or self.drag != 1


def _mapping(value: Any, part: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DesignError(part, f"{part} must be an object, not {type(value).__name__}.")
    return value


def _number(data: Mapping[str, Any], part: str, name: str, default: float, low: float, high: float) -> float:
    value = data.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DesignError(f"{part}.{name}", f"{name} must be a number, not {value!r}.")
    if not low <= value <= high:
        raise DesignError(
            f"{part}.{name}", f"{name} must be between {low:g} and {high:g}; {value:g} was given."
        )
    return float(value)


def _whole(data: Mapping[str, Any], part: str, name: str, default: int, low: int, high: int) -> int:
    value = _number(data, part, name, default, low, high)
    if value != int(value):
        raise DesignError(f"{part}.{name}", f"{name} must be a whole number; {value:g} was given.")
    return int(value)


def _choice(data: Mapping[str, Any], part: str, name: str, choices: Sequence[Any], default: Any) -> Any:
    value = data.get(name, default)
    if value not in choices:
        offered = ", ".join(map(str, choices))
        raise DesignError(f"{part}.{name}" if part else name, f"{name} is one of {offered}, not {value!r}.")
    return value


def formula(text: Any, part: str, variables: Sequence[str]) -> Node:
    """A formula of the page; an empty one is 0."""
    if not isinstance(text, str):
        raise DesignError(part, f"a formula must be text, not {type(text).__name__}.")
    try:
        return parse(text if text.strip() else "0", variables)
    except FormulaError as error:
        raise DesignError(part, str(error), error.position) from None


def target_of(data: Any) -> DesignedTarget:
    """A target of the menu, or one that was typed."""
    target = _mapping(data, "target")
    if "formula" in target:
        tree = formula(target["formula"], "target.formula", ("x", "y"))
        if not names(tree):
            raise DesignError(
                "target.formula",
                "U(x, y) has neither x nor y: exp(-U) would have no integral. Write one that grows, such as "
                "(x^2 + y^2)/2.",
            )
        x = _number(target, "target", "x", 0.0, -100, 100)
        y = _number(target, "target", "y", 0.0, -100, 100)
        return DesignedTarget(tree, (x, y), _number(target, "target", "spread", 1.0, 0, 20))
    built_in = TARGETS[_choice(target, "target", "name", list(TARGETS), "valley")]
    return DesignedTarget(parse(built_in.formula, ("x", "y")), built_in.start, built_in.spread)


def _matrix(value: Any, part: str, size: int, variables: Sequence[str]) -> tuple[tuple[Node, ...], ...]:
    is_square = isinstance(value, list) and len(value) == size
    if not is_square or not all(isinstance(row, list) and len(row) == size for row in value):
        raise DesignError(part, f"{part} must have {size} rows of {size} formulas.")
    return tuple(
        tuple(formula(cell, f"{part}.{i}.{j}", variables) for j, cell in enumerate(row))
        for i, row in enumerate(value)
    )


def _auxiliary(tree: Node, part: str) -> Node:
    """g of H = U + g: the sum without its term U; raise where U is anything but one term of it."""
    terms = _terms(tree)
    if sum(term == Name("U") for term in terms) != 1 or any(
        "U" in names(term) for term in terms if term != Name("U")
    ):
        raise DesignError(
            part,
            "H must be U plus a part of your own, so that the target is the marginal: write it as "
            "U + (p^2 + q^2)/2.",
        )
    rest: Node = Number(0.0)
    for term in terms:
        rest = rest if term == Name("U") else add(rest, term)
    return rest


def _terms(tree: Node) -> list[Node]:
    match tree:
        case Binary("+", left, right):
            return [*_terms(left), *_terms(right)]
        case Binary("-", left, right):
            return [*_terms(left), *(negative(term) for term in _terms(right))]
        case Negative(operand):
            return [negative(term) for term in _terms(operand)]
        case _:
            return [tree]


def _typed(data: Mapping[str, Any], has_drift: bool) -> Typed:
    size = _choice(data, "sampler", "size", list(VARIABLES), 4)
    letters = letters_of(VARIABLES[size])
    energy = _auxiliary(formula(data.get("H", "U"), "sampler.H", (*letters, "U")), "sampler.H")
    if size == 2 and not is_zero(energy):
        raise DesignError("sampler.H", "without momenta H is the target's potential: write U.")
    D = _matrix(data.get("D"), "sampler.D", size, (*letters, "U"))
    if not has_drift:
        return Typed(size, energy, D, Q=_matrix(data.get("Q"), "sampler.Q", size, (*letters, "U")))
    drift = data.get("drift")
    if not isinstance(drift, list) or len(drift) != size:
        raise DesignError("sampler.drift", f"the drift must have {size} formulas.")
    known = (*letters, "U", "Ux", "Uy")
    cells = tuple(formula(cell, f"sampler.drift.{i}", known) for i, cell in enumerate(drift))
    return Typed(size, energy, D, drift=cells)


def _sampler(data: Any) -> Named | Parts | Typed:
    sampler = _mapping(data, "sampler")
    kind = _choice(sampler, "sampler", "kind", ("named", "parts", "typed", "drift"), "named")
    if kind == "named":
        return Named(_choice(sampler, "sampler", "name", list(SAMPLERS), "sghmc"))
    if kind == "parts":
        return Parts(
            _choice(sampler, "sampler", "dynamics", get_args(Dynamics), "langevin"),
            _choice(sampler, "sampler", "integrator", get_args(Integrator), "EulerMaruyama"),
            _choice(sampler, "sampler", "correction", get_args(Correction), "none"),
        )
    return _typed(sampler, kind == "drift")


def _run(data: Mapping[str, Any]) -> RunSettings:
    run = RunSettings(
        _whole(data, "run", "seed", 0, 0, 2**31 - 1),
        _whole(data, "run", "chains", 200, 1, MAX_CHAINS),
        _whole(data, "run", "steps", 20, 1, MAX_STEPS_PER_FRAME),
        _whole(data, "run", "burn_in", 200, 0, MAX_STEPS),
    )
    if run.chains * run.steps > MAX_MOVES:
        raise DesignError(
            "run.steps",
            f"a frame has at most {MAX_MOVES:,} moves, and {run.chains} chains of {run.steps} steps are "
            f"{run.chains * run.steps:,}: take fewer chains or fewer steps per frame.",
        )
    return run


def design_of(data: Any) -> Design:
    """The design that the page sent; raise a `DesignError` for the first part that cannot be used."""
    whole = _mapping(data, "design")
    values = _mapping(whole.get("settings", {}), "settings")
    settings = SamplerSettings(
        _number(values, "settings", "step_size", 0.05, 1e-5, 10),
        _number(values, "settings", "friction", 1.0, 0, 1_000),
        _number(values, "settings", "temperature", 1.0, 0.01, 100),
        _number(values, "settings", "noise", 0.0, 0, 1_000),
        _whole(values, "settings", "batch", 1, 1, 256),
        _whole(values, "settings", "leaps", 10, 1, 100),
    )
    metropolis = whole.get("metropolis", False)
    if not isinstance(metropolis, bool):
        raise DesignError("metropolis", f"metropolis is true or false, not {metropolis!r}.")
    return Design(
        target_of(whole.get("target", {})),
        _sampler(whole.get("sampler", {})),
        formula(whole.get("metric", "0.25 + x^2"), "metric", ("x", "y", "U")),
        float(_choice(whole, "", "gamma", (1, 0, -1), 1)),
        float(_choice(whole, "", "drag", (1, 0, 2), 1)),
        metropolis,
        settings,
        _run(_mapping(whole.get("run", {}), "run")),
    )
