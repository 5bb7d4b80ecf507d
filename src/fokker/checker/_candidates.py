"""Terms that may be missing from a drift: friction, Γ, forces, thermostats."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker.checker._residual import divergence_of_matrix
from fokker.dynamics.problem import Problem, Vector


@dataclass(frozen=True)
class Candidate:
    """A vector field that may be missing from a drift; `describe` explains its coefficient in words.

    `coefficients`: those of a known mistake; empty where any number may be missing.
    """

    name: str
    field: Callable[[Vector], Vector]
    describe: Callable[[float], str]
    coefficients: tuple[float, ...] = ()


def number(value: float) -> str:
    rounded = round(value)
    if abs(value - rounded) < 1e-6:
        return str(rounded)
    return f"{value:.4g}" if abs(value - rounded) > 1e-3 else f"{value:.7g}"


def _friction_words(where: str) -> Callable[[float], str]:
    def describe(alpha: float) -> str:
        factor = 1 + alpha
        if abs(factor) < 1e-6:
            return f"the drift{where} lacks -D∇H: noise without the friction that balances it"
        if factor < 0:
            multiple = "" if abs(factor + 1) < 1e-6 else f"{number(-factor)} "
            return f"the drift{where} has D∇H with the wrong sign: +{multiple}D∇H where -D∇H is required"
        return (
            f"the friction does not match the noise{where}: the drift has {number(factor)} times the -D∇H "
            "that the noise requires"
        )

    return describe


def _gamma_words(symbol: str) -> Callable[[float], str]:
    def describe(alpha: float) -> str:
        factor = 1 - alpha
        if abs(factor) < 1e-6:
            return f"Γ is missing; adding {symbol} makes it stationary"
        if abs(factor + 1) < 1e-6:
            return f"Γ has the wrong sign; adding 2 {symbol} makes it stationary"
        return f"Γ is wrong: the drift has {number(factor)} times the {symbol} that is required"

    return describe


def _in_rows(c: Callable[[Vector], Vector], rows: slice) -> Callable[[Vector], Vector]:
    return lambda x: jnp.zeros_like(x).at[rows].set(c(x)[rows])


def _derived_curl(problem: Problem, a: slice, b: slice) -> Callable[[Vector], Vector]:
    r"""∇·Q̂ for the Q that the drift of variable a implies: Q̂_ab = -(∂f_a/∂z_b)(∂²H/∂z_b²)⁻¹, Q̂_ba = -Q̂_abᵀ.

    If f_a = -Q_ab(z_a) ∂H/∂z_b, its derivative with respect to z_b gives Q_ab.
    """

    def curl(x: Vector) -> Array:
        jacobian = jax.jacfwd(problem.drift)(x)[a, b]
        curvature = jax.hessian(problem.hamiltonian)(x)[b, b]
        block = -jnp.linalg.solve(curvature.T, jacobian.T).T
        return jnp.zeros((x.size, x.size)).at[a, b].set(block).at[b, a].set(-block.T)

    return lambda x: divergence_of_matrix(lambda y, v: curl(y) @ v, x)


def candidate_stages(problem: Problem) -> Iterator[list[Candidate]]:
    """Candidates for missing terms, the most likely first; later stages take longer to compile."""
    gradient = jax.grad(problem.hamiltonian)

    def friction(x: Vector) -> Vector:
        return problem.D_mv(x, gradient(x))

    def gamma(x: Vector) -> Vector:
        return divergence_of_matrix(problem.D_mv, x)

    first = [
        Candidate("friction", friction, _friction_words("")),
        Candidate("gamma", gamma, _gamma_words("Γ = ∇·D")),
    ]
    if problem.Q_mv is not None:
        curl = problem.Q_mv
        first.append(
            Candidate(
                "gamma of Q", lambda x: divergence_of_matrix(curl, x), _gamma_words("the part ∇·Q of Γ")
            )
        )
    yield first
    names = list(problem.variables.items())
    # Test the drifts of the auxiliaries before that of the position.
    auxiliaries_first = sorted(names, key=lambda item: item[0] == problem.position)
    pairs = [(a, b) for a in auxiliaries_first for b in names if a[0] != b[0]]
    rest = []
    if len(names) > 1:
        for name, rows in names:
            describe = _friction_words(f" of {name}")
            rest.append(Candidate(f"friction {name}", _in_rows(friction, rows), describe))
        for name, rows in names:
            describe = _unbalanced_words(name)
            rest.append(Candidate(f"unbalanced {name}", _force(gradient, rows, rows), describe))
    for (a, rows_a), (b, rows_b) in pairs:
        if rows_a.stop - rows_a.start == rows_b.stop - rows_b.start:
            rest.append(Candidate(f"force {a} {b}", _force(gradient, rows_a, rows_b), _force_words(a, b)))
    if len(names) > 1:
        sizes = {name: rows.stop - rows.start for name, rows in names}
        for name, rows in names:
            if name != problem.position:
                rest.append(_linear_friction(problem, gradient, name, rows))
        for name, rows in names:
            describe = _speed_words(name, {n: sizes[n] for (n, _) in auxiliaries_first if n != name})
            rest.append(Candidate(f"speed {name}", _in_rows(problem.drift, rows), describe))
        for (a, rows_a), (b, rows_b) in pairs:
            if problem.position not in (a, b) and sizes[a] == 1:
                rest += _thermostat(gradient, a, rows_a, b, rows_b)
    yield rest
    derived = []
    # The drift of the position usually consists of the curl term only, so that it determines Q.
    informative = [(a, b) for a, b in pairs if a[0] == problem.position] or pairs
    for (a, rows_a), (b, rows_b) in informative:
        describe = _gamma_words(f"Γ = ∇·Q in the drift of {b}, with Q[{a}, {b}] from the drift of {a},")
        derived.append(Candidate(f"curl {a} {b}", _derived_curl(problem, rows_a, rows_b), describe))
    yield derived


def _force(gradient: Callable[[Vector], Vector], rows: slice, source: slice) -> Callable[[Vector], Vector]:
    return lambda x: jnp.zeros_like(x).at[rows].set(gradient(x)[source])


def _force_words(a: str, b: str) -> Callable[[float], str]:
    return lambda alpha: (
        f"the drift of {a} needs another {number(alpha)} ∂H/∂{b}: the present drifts of {a} and {b} do not "
        "belong to a skew Q"
    )


def _unbalanced_words(name: str) -> Callable[[float], str]:
    return lambda alpha: (
        f"the drift of {name} has {number(-alpha)} ∂H/∂{name} that no noise balances: remove it, or add "
        f"{number(alpha)} to D[{name}, {name}]"
        if alpha > 0
        else f"the noise of {name} is not balanced: the drift needs another {number(alpha)} ∂H/∂{name}"
    )


def _speed_words(name: str, sizes: dict[str, int]) -> Callable[[float], str]:
    def describe(alpha: float) -> str:
        words = (
            f"the drift of {name} must be multiplied by {number(1 + alpha)}: H and the drift are "
            f"inconsistent in {name}"
        )
        for other, d in sizes.items():
            if d > 1 and any(abs(1 + alpha - d**k) < 1e-6 for k in (-2, -1, 1, 2)):
                return f"{words} (d = {d} is the number of coordinates of {other}: was it forgotten?)"
        return words

    return describe


def _linear_friction(
    problem: Problem, gradient: Callable[[Vector], Vector], name: str, rows: slice
) -> Candidate:
    """-Dr instead of -D∂H/∂r: these agree only for the kinetic energy r²/2."""

    def field(x: Vector) -> Vector:
        excess = jnp.zeros_like(x).at[rows].set(x[rows] - gradient(x)[rows])
        return problem.D_mv(x, excess)

    def describe(alpha: float) -> str:
        share = "" if abs(alpha - 1) < 1e-6 else f" (in a share of {number(alpha)})"
        return (
            f"the friction of {name} is -D {name} where -D ∂H/∂{name} is required{share}: for a kinetic "
            "energy that is not quadratic they differ"
        )

    return Candidate(f"linear friction {name}", field, describe)


def _thermostat(
    gradient: Callable[[Vector], Vector], a: str, rows_a: slice, b: str, rows_b: slice
) -> list[Candidate]:
    """A thermostat a on b, dξ ∝ r·∂H/∂r - d: its two terms, one of which may lack d."""
    d = rows_b.stop - rows_b.start
    term = f"{b}·∂H/∂{b}"

    def kinetic(x: Vector) -> Vector:
        return jnp.zeros_like(x).at[rows_a].set(x[rows_b] @ gradient(x)[rows_b])

    def constant(x: Vector) -> Vector:
        return jnp.zeros_like(x).at[rows_a].set(1.0)

    def describe(what: str) -> Callable[[float], str]:
        return lambda alpha: (
            f"the drift of {a} needs another {number(alpha)}{what}: a thermostat is driven by {term} - d, "
            f"whose mean is zero for d = {d}, the number of coordinates of {b}; was d forgotten?"
        )

    return [
        Candidate(f"thermostat {a} {b}", kinetic, describe(f" {term}")),
        Candidate(f"target {a} {b}", constant, describe("")),
    ]
