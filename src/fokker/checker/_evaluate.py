"""H, f, S, D and Q of a problem at many points: compiled once, and used by all tests on the host."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fokker._core.quick import compile_once
from fokker.checker._residual import matrices_and_derivatives, sum_and_size, times
from fokker.dynamics.problem import Problem, Vector

# Above this many coordinates no full matrices are computed.
LARGEST_FULL_MATRIX = 512
_BATCH_BYTES = 2**26
_LARGEST_BATCH = 128

Values = dict[str, np.ndarray]


class Evaluator:
    """Evaluates batches of points with three small programs, each compiled at its first use.

    The tests (bisections, rays, eigenvalues) run in NumPy on the results: compiling them would take longer
    than running them.
    """

    def __init__(self, problem: Problem, rounding: float = 1e-10) -> None:
        self.problem, self.rounding = problem, rounding
        self._programs: dict[str, Callable[..., Any]] = {}

    def energy(self, x: np.ndarray) -> np.ndarray:
        """H at each row of x; infinite instead of NaN."""
        H = self.problem.hamiltonian
        values = self._run("energy", lambda y: {"H": H(y)}, x, self.problem.dimension)["H"]
        return np.where(np.isnan(values), np.inf, values)

    def fields(self, x: np.ndarray) -> Values:
        """H, ∇H, f and S = ∇·D - D∇H at each row of x; and D times a fixed vector, which shows jumps of D.

        S is f where they agree up to rounding errors of the terms of f and S, which may cancel: `size` is the
        sum of their absolute values.
        """
        return self._run("fields", self._fields, x, self.problem.dimension**2)

    def matrices(self, x: np.ndarray) -> Values:
        """The matrices D and, if known, Q and the covariance of the noise at each row of x."""
        return self._run("matrices", self._matrices, x, 3 * self.problem.dimension**2)

    def _fields(self, x: Vector) -> dict[str, Any]:
        problem = self.problem
        H, gradient = jax.value_and_grad(problem.hamiltonian)(x)
        S, f = -problem.D_mv(x, gradient), problem.drift(x)
        size = jnp.abs(S) + jnp.abs(f)
        if x.size <= LARGEST_FULL_MATRIX:
            columns, derivatives = matrices_and_derivatives(problem, x)
            S, size = sum_and_size(derivatives, -times(columns, gradient[:, None, None]))
            S = jnp.where(jnp.abs(f - S) <= self.rounding * size, f, S)
        direction = jnp.asarray(np.cos(1 + np.arange(x.size)))
        return {
            "H": H,
            "gradient": gradient,
            "f": f,
            "S": S,
            "size": size + jnp.abs(f),
            "D": problem.D_mv(x, direction),
        }

    def _matrices(self, x: Vector) -> dict[str, Any]:
        problem = self.problem
        matrices = {"D": problem.D_matrix(x)}
        if problem.Q_mv is not None:
            matrices["Q"] = problem.Q_matrix(x)
        if problem.noise_covariance is not None:
            matrices["noise"] = problem.noise_covariance(x)
        return matrices

    def _run(self, name: str, function: Callable[[Vector], Any], x: np.ndarray, numbers: int) -> Values:
        x = np.asarray(x, np.float64)
        batch = int(np.clip(_BATCH_BYTES // (64 * numbers), 1, _LARGEST_BATCH))
        program = self._programs.setdefault(name, compile_once(jax.vmap(function)))
        results: list[Values] = []
        # No rows at all give empty results, of the shapes of one row.
        for start in range(0, max(len(x), 1), batch):
            part = x[start : start + batch]
            # All calls have the same shape: another shape would be compiled again.
            last = part[-1:] if len(part) else np.zeros((1, self.problem.dimension))
            padded = np.concatenate([part, np.repeat(last, batch - len(part), axis=0)])
            values = program(padded)
            results.append({key: np.asarray(value)[: len(part)] for key, value in values.items()})
        return {key: np.concatenate([part[key] for part in results]) for key in results[0]}
