"""`fokker.check`: is exp(-H) stationary under a sampler's dynamics, and if not, which term is wrong?"""

from collections.abc import Iterable, Mapping
from typing import Any

import jax

from fokker import samplers
from fokker._core.keys import checked_seed
from fokker.checker._dynamics import CheckOptions, check_dynamics
from fokker.checker._inputs import first_state
from fokker.checker._report import Report
from fokker.checker._samplers import check_sampler
from fokker.dynamics import Dynamics
from fokker.dynamics.problem import dynamics_of, make_problem, positive_temperature
from fokker.samplers.contract import Sampler


def check(
    drift: Any,
    diffusion: Any = None,
    hamiltonian: Any = None,
    *,
    state: Any = None,
    temperature: float = 1.0,
    points: Any = None,
    number_of_points: int | None = None,
    exact: bool | None = None,
    explain: bool = True,
    periodic: Mapping[str, Any] | None = None,
    sphere: str | Iterable[str] = (),
    seed: int = 0,
) -> Report:
    r"""Test whether exp(-H) is stationary under dz = f dt + √(2D) dW; if not, find the point and the error.

    The tests use float64, at points drawn from the target and around it: whether D is symmetric positive
    semidefinite and Q is skew; whether the stationary Fokker–Planck residual is zero,

        R = -∇·f + f·∇H + Σ_ij [∂_i∂_j D_ij - 2 ∂_iD_ij ∂_jH + D_ij(∂_iH ∂_jH - ∂_i∂_jH)] = 0,

    with derivatives by automatic differentiation; what the residual cannot detect: whether exp(-H) has an
    integral, whether probability flows through a jump or out to infinity, by the drift or by the noise alone,
    and whether the noise reaches every direction; whether theta's marginal is the target; and, if the
    residual is not zero, which term added to the drift makes it zero (Ma, Chen, Fox 2015, Theorem 1; Ding et
    al. 2014, Eq. 9).

    A sampler with a Metropolis correction is exact because of it, so that the correction is tested (detailed
    balance, reversibility, volume). Of another sampler the dynamics that it follows are tested, not its step
    size; one that says nothing about itself is undecided.

    Arguments:

    - `drift`: a `fk.Dynamics`, a `fk.SDE`, or a sampler on its target, which are given alone; or f, a
      function of named variables or of the whole state, with `diffusion` and `hamiltonian`. f returns the
      structure of the state, or a tuple with one entry per variable.
    - `diffusion`: D of a plain drift, with the temperature in it: a number, a diagonal in the structure of
      the state, a matrix, a dictionary of blocks, a field, or a function that returns one.
    - `hamiltonian`: H of a plain drift, a function of the state; or a `fk.Hamiltonian`, whose two parts are
      needed to test theta's marginal.
    - `state`: an example of the state, for its shapes and as a start for drawing points; of a sampler on a
      target, theta alone will do. With a list of states, chains start at each of them, so that all modes
      you know are tested. Without it, named variables are taken as single numbers; a function of one
      variable needs it.
    - `temperature`: T of a plain drift or a `fk.SDE`, whose target is exp(-H/T). Dynamics and samplers have
      their own.
    - `points`: states that replace the drawn points, in the structure of the state with a leading axis, or
      two for chains and draws. Draws of theta only, such as `trace.samples`, are starts for drawing points.
    - `number_of_points`: draws from the target, at least 2; half as many again are drawn from exp(-H/4),
      which is wider. None takes 512 up to 12 dimensions and 128 above, 32 where derivatives are not exact;
      for a correction it takes at least 1024.
    - `exact`: whether all derivatives are computed, or else traces are estimated from random probes. None
      computes all of them up to 64 dimensions.
    - `explain`: whether to search for the reason of an error, which takes longer than the verdict.
    - `periodic`: the periods of variables that are angles, as in `{"phi": 2 * jnp.pi}`; H need not grow in
      them.
    - `sphere`: the name of a variable that is a unit vector, or several names; exp(-H) is then a density on
      the sphere.
    - `seed`: of the points and probes.

    Returns a `fk.Report`: `.ok`, `.verdict` ("right", "wrong" or "undecided") and `.reasons`; `print(report)`
    explains them.

    ```python
    report = fk.check(
        drift=lambda theta, r: {"theta": r, "r": -theta},  # noise without friction
        diffusion={("r", "r"): 0.5},
        hamiltonian=lambda theta, r: (theta**2 + r**2) / 2,
    )
    report.ok  # False
    report.reasons  # ["the drift lacks -D∇H: noise without the friction that balances it"]
    ```
    """
    if isinstance(drift, str) and drift in samplers.__all__:
        raise TypeError(
            f"{drift!r} is a name of fk.samplers: give the sampler itself on its target, with your "
            f"settings, as fk.samplers.{drift}(…).on(target)."
        )
    options = CheckOptions(points, number_of_points, exact, explain, periodic, sphere, checked_seed(seed))
    temperature = positive_temperature(temperature)
    if number_of_points is not None and number_of_points < 2:
        raise ValueError(f"number_of_points must be at least 2; {number_of_points} was given.")
    if isinstance(drift, Sampler):
        if diffusion is not None or hamiltonian is not None:
            raise TypeError("diffusion and hamiltonian are only for a drift; a sampler has its own.")
        if temperature != 1.0:
            raise ValueError("a sampler has its own temperature: sampler.on(target, temperature).")
        return check_sampler(drift, state, options)
    if temperature != 1.0 and isinstance(dynamics_of(drift), Dynamics):
        raise ValueError("a Dynamics has its own temperature; temperature= is only for a plain drift.")
    example, states = first_state(state)
    with jax.enable_x64(True):
        problem = make_problem(drift, diffusion, hamiltonian, example, temperature)
        return check_dynamics(problem, states, options).report
