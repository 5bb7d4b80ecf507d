r"""Why a sampler is wrong: the correction of its drift or noise that makes exp(-H) stationary.

The residual is linear in the drift: R[f + αc] = R[f] + α L[c] with L[c] = -∇·c + c·∇H. A candidate c is
accepted only if one number α (or a few candidates with one number each) makes the residual zero at every
point: the reported reason has been verified there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.checker._residual import (
    difference,
    divergence_of_matrix,
    map_points,
    required_without_curl,
    stationarity_terms,
    typical,
)
from fokker.dynamics.problem import Problem, Vector

# Candidates need d×d matrices and their second derivatives, which are cheap up to this dimension.
LARGEST = 24


@dataclass(frozen=True)
class Candidate:
    """A vector field that may be missing from a drift; `describe` explains its coefficient in words."""

    name: str
    field: Callable[[Vector], Vector]
    describe: Callable[[float], str]


@dataclass(frozen=True)
class Diagnosis:
    """The reasons in words, and the correction to add to the drift, if one was found."""

    reasons: tuple[str, ...]
    correction: Callable[[Vector], Vector] | None


def _number(value: float) -> str:
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
            multiple = "" if abs(factor + 1) < 1e-6 else f"{_number(-factor)} "
            return f"the drift{where} has D∇H with the wrong sign: +{multiple}D∇H where -D∇H is required"
        return (
            f"the friction does not match the noise{where}: the drift has {_number(factor)} times the -D∇H "
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
        return f"Γ is wrong: the drift has {_number(factor)} times the {symbol} that is required"

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
        f"the drift of {a} needs another {_number(alpha)} ∂H/∂{b}: the present drifts of {a} and {b} do not "
        "belong to a skew Q"
    )


def _unbalanced_words(name: str) -> Callable[[float], str]:
    return lambda alpha: (
        f"the drift of {name} has {_number(-alpha)} ∂H/∂{name} that no noise balances: remove it, or add "
        f"{_number(alpha)} to D[{name}, {name}]"
        if alpha > 0
        else f"the noise of {name} is not balanced: the drift needs another {_number(alpha)} ∂H/∂{name}"
    )


def _speed_words(name: str, sizes: dict[str, int]) -> Callable[[float], str]:
    def describe(alpha: float) -> str:
        words = (
            f"the drift of {name} must be multiplied by {_number(1 + alpha)}: H and the drift are "
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
        share = "" if abs(alpha - 1) < 1e-6 else f" (in a share of {_number(alpha)})"
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
            f"the drift of {a} needs another {_number(alpha)}{what}: a thermostat is driven by {term} - d, "
            f"whose mean is zero for d = {d}, the number of coordinates of {b}; was d forgotten?"
        )

    return [
        Candidate(f"thermostat {a} {b}", kinetic, describe(f" {term}")),
        Candidate(f"target {a} {b}", constant, describe("")),
    ]


def diagnose(problem: Problem, points: np.ndarray, tolerance: float) -> Diagnosis:
    """The simplest correction that makes the residual zero at every point, if there is one."""
    points = points[: max(24, 4096 // problem.dimension**2)]
    declaration = _wrong_declaration(problem, points, tolerance)
    if declaration is not None:
        return declaration
    residual, of_S, scale = _residual_parts(problem, points)
    scale = np.maximum(scale, typical(scale))
    target = -residual / scale
    # The residual is also linear in D: scaling D by 1 + β adds -β L[S] to it.
    noise = Candidate("noise", problem.drift, _noise_words)
    candidates, columns = [noise], [-of_S / scale]
    for stage, new in enumerate(candidate_stages(problem)):
        candidates += new
        columns += list(_effects(problem, [c.field for c in new], points).T / scale)
        diagnosis = _explain(candidates, columns, target, tolerance, sizes=(1,))
        if diagnosis is None and stage == 0:
            diagnosis = _other_temperature(problem, points, tolerance, positive=True)
        if diagnosis is not None:
            return diagnosis
    diagnosis = _explain(candidates, columns, target, tolerance, sizes=(2, 3))
    diagnosis = diagnosis or _other_temperature(problem, points, tolerance, positive=False)
    return diagnosis or Diagnosis(
        (
            "no single missing term explains it; fk.complete measures the error and, in two and three "
            "dimensions, finds the nearest stationary drift",
        ),
        None,
    )


def _wrong_declaration(problem: Problem, points: np.ndarray, tolerance: float) -> Diagnosis | None:
    """The diagnosis if the drift of a Dynamics differs from its recipe: a field's Γ is not its divergence."""
    Q_mv = problem.Q_mv
    if Q_mv is None:
        return None

    def missing(x: Vector) -> Vector:
        gradient = jax.grad(problem.hamiltonian)(x)
        required = required_without_curl(problem, x) - Q_mv(x, gradient) + divergence_of_matrix(Q_mv, x)
        return required - problem.drift(x)

    gaps = np.asarray(map_points(missing, points, 8 * 6 * problem.dimension**2))
    drifts = np.asarray(map_points(problem.drift, points, 8 * problem.dimension))
    gaps = np.abs(difference(drifts + gaps, drifts, np.abs(drifts + gaps) + np.abs(drifts), 10 * tolerance))
    if not np.any(gaps):
        return None
    where = problem.coordinate_names()[int(np.argmax(np.max(gaps, axis=0)))]
    reason = (
        f"the Γ of a field is not its divergence, in the drift of {where}: an Elementwise field depends on "
        "other coordinates than its own (declare it Diagonal), or the gamma of an Operator is wrong"
    )
    return Diagnosis((reason,), missing)


def _explain(
    candidates: list[Candidate],
    columns: list[np.ndarray],
    target: np.ndarray,
    tolerance: float,
    sizes: tuple[int, ...],
) -> Diagnosis | None:
    """The first combination of candidates, with one number each, that explains all of the residual."""
    usable = [
        k
        for k, column in enumerate(columns)
        if np.all(np.isfinite(column)) and np.max(np.abs(column)) > 10 * tolerance
    ]
    # Candidates are tested in the order of the stages, the noise after the first stage.
    usable.sort(key=lambda k: 2.5 if candidates[k].name == "noise" else k)
    for size in sizes:
        for subset in combinations(usable, size):
            matrix = np.stack([columns[k] for k in subset], axis=1)
            alphas, *_ = np.linalg.lstsq(matrix, target, rcond=None)
            remainder = np.max(np.abs(matrix @ alphas - target))
            if remainder > 10 * tolerance or np.any(np.abs(alphas) < 1e-6):
                continue
            # Removing a variable's drift completely and replacing it by the recipe's explains nothing.
            speeds = [
                alpha for k, alpha in zip(subset, alphas, strict=True) if candidates[k].name[:5] == "speed"
            ]
            if speeds and (size > 1 or abs(1 + speeds[0]) < 1e-6):
                continue
            # A covariance cannot be negative.
            if any(
                candidates[k].name == "noise" and alpha <= -1 for k, alpha in zip(subset, alphas, strict=True)
            ):
                continue
            parts = [(candidates[k], float(alpha)) for k, alpha in zip(subset, alphas, strict=True)]
            reasons = tuple(candidate.describe(alpha) for candidate, alpha in parts)
            of_drift = all(candidate.name != "noise" for candidate, _ in parts)
            return Diagnosis(reasons, _combine(parts) if of_drift else None)
    return None


def _residual_parts(problem: Problem, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    def at(x: Vector) -> tuple[Array, Array, Array]:
        gradient = jax.grad(problem.hamiltonian)(x)
        drift, drift_size = stationarity_terms(problem.drift, gradient, x)
        S, S_size = stationarity_terms(lambda y: required_without_curl(problem, y), gradient, x)
        return drift - S, S, drift_size + S_size

    residual, of_S, scale = map_points(at, points, 8 * 6 * problem.dimension**3)
    return np.asarray(residual), np.asarray(of_S), np.asarray(scale)


def _effects(
    problem: Problem, vector_fields: list[Callable[[Vector], Vector]], points: np.ndarray
) -> np.ndarray:
    """L[c] for each c at each point."""
    if not vector_fields:
        return np.zeros((len(points), 0))

    def at(x: Vector) -> Array:
        gradient = jax.grad(problem.hamiltonian)(x)
        return jnp.stack([stationarity_terms(c, gradient, x)[0] for c in vector_fields])

    return np.asarray(map_points(at, points, 8 * 20 * problem.dimension**3))


def _noise_words(beta: float) -> str:
    return (
        f"the noise does not match the drift: D must be multiplied by {_number(1 + beta)} for exp(-H) to be "
        "stationary"
    )


def _combine(parts: list[tuple[Candidate, float]]) -> Callable[[Vector], Vector]:
    return lambda x: sum((alpha * c.field(x) for c, alpha in parts), jnp.zeros_like(x))


def _other_temperature(
    problem: Problem, points: np.ndarray, tolerance: float, positive: bool
) -> Diagnosis | None:
    r"""The diagnosis if exp(-βH) is stationary for another β: R(β) is quadratic in β at every point."""
    gradient_of = jax.grad(problem.hamiltonian)

    def at(x: Vector) -> Array:
        gradient = gradient_of(x)
        D, Hessian = problem.D_matrix(x), jax.hessian(problem.hamiltonian)(x)
        divergence = divergence_of_matrix(problem.D_mv, x)
        twice = jnp.trace(jax.jacfwd(lambda y: divergence_of_matrix(problem.D_mv, y))(x))
        zeroth = twice - jnp.trace(jax.jacfwd(problem.drift)(x))
        first = problem.drift(x) @ gradient - 2 * divergence @ gradient - jnp.sum(D * Hessian)
        return jnp.stack([zeroth, first, gradient @ D @ gradient])

    zeroth, first, second = np.asarray(map_points(at, points, 8 * 12 * problem.dimension**3)).T
    scale = np.abs(zeroth) + np.abs(first) + np.abs(second)
    best = int(np.argmax(scale))
    for root in np.roots([second[best], first[best], zeroth[best]]):
        beta = float(np.real(root))
        if (
            abs(np.imag(root)) > 1e-6
            or abs(beta - 1) < 1e-6
            or (beta > 0) is not positive
            or not 1e-3 < abs(beta) < 1e3
        ):
            continue
        remainder = np.abs(zeroth + beta * first + beta**2 * second)
        if np.all(remainder <= 100 * tolerance * np.maximum(scale, 1e-3 * np.max(scale))):
            if beta < 0:
                return Diagnosis((f"exp({_number(-beta)} H) is stationary: the sign of H is wrong",), None)
            reason = (
                f"exp(-{_number(beta)} H) is stationary, not exp(-H): the temperature is {_number(1 / beta)} "
                "times the required one"
            )
            return Diagnosis((reason,), None)
    return None
