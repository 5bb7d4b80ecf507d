r"""`sampler="auto"`: one table of rules, of which the first that holds decides. docs/choosing.md shows it.

The rules look at the target, at `batch_size` and at the size of theta. They never look at random numbers or
at the clock: the same call makes the same choice, also when a run goes on.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fokker._core.keys import checked_key, key_of_seed
from fokker._core.state import dimension, ravel, unravel
from fokker.gradients import control_variates
from fokker.integrators import Splitting
from fokker.rows import resident, stream_of
from fokker.run.call import Call
from fokker.run.minibatches import make_batches
from fokker.run.positions import PerChain, WarmedUp, differs, given_positions
from fokker.run.store import has_run, read_checkpoint
from fokker.samplers import mclmc, sgnht
from fokker.samplers.schedules import AUTOMATIC
from fokker.targets import find_mode
from fokker.targets.target import Target, TargetWithData, check_is_target, has_gradient

# The value of `sampler` that asks for a choice.
AUTO = "auto"
# The most parameters for which the curvature at the mode is a matrix that every step multiplies by.
MOST_CURVED = 200
# With more parameters than this the steps of `nuts` are short, and its trajectories long.
MOST_FOR_NUTS = 10_000
# A curvature whose smallest eigenvalue is below this share of the largest says too little about the target.
_FLAT = 1e-6


class Case(NamedTuple):
    """What the rules look at: the call, and the start of a chain in the sampler's coordinates."""

    call: Call
    position: PyTree[Array]

    @property
    def target(self) -> Target:
        """The target."""
        return self.call.target

    @property
    def size(self) -> int:
        """How many numbers a sampler moves."""
        return dimension(self.position)

    @property
    def takes_minibatches(self) -> bool:
        """Whether a step sees some of the rows: a batch as large as the data is the whole gradient."""
        options, target = self.call.options, self.target
        if options.batch_size is None:
            return False
        is_whole = isinstance(target, TargetWithData) and options.batch_size >= target.size
        return not is_whole or options.gradient is not None


class Rule(NamedTuple):
    """A row of the table: when it holds, which sampler it takes, and why.

    `decide` returns the call with that sampler, or None where the rule does not hold.
    """

    when: str
    sampler: str
    why: str
    decide: Callable[[Case], Call | None]


def chosen(call: Call) -> Call:
    """The call with a sampler in place of "auto", and the reason; another call as it is."""
    if call.sampler != AUTO:
        return call
    check_is_target(call.target)
    # Refused before a sampler is chosen for it.
    options = call.options
    make_batches(call.target, options.batch_size, options.batches, options.gradient, jax.random.key(0))
    case = Case(call, _start(call))
    for rule in RULES:
        decided = rule.decide(case)
        if decided is not None:
            return dataclasses.replace(decided, chosen=f"{rule.sampler}, since {rule.when}: {rule.why}")
    raise AssertionError("the last rule always holds")


def _start(call: Call) -> PyTree[Array]:
    """Where the first chain starts, in the coordinates that are sampled."""
    init = call.options.init
    if isinstance(init, WarmedUp):
        return jax.tree.map(lambda x: x[0], init.positions)
    keys = jax.random.split(_key(call), (init.number if isinstance(init, PerChain) else 1, 3))
    return call.target.unconstrain(jax.tree.map(lambda x: x[0], given_positions(init, keys)))


def _key(call: Call) -> Key[Array, ""]:
    key = checked_key(call.options.key)
    return key_of_seed(call.options.seed) if key is None else key


def _with(call: Call, sampler: Any, **options: Any) -> Call:
    return dataclasses.replace(call, sampler=sampler, options=dataclasses.replace(call.options, **options))


def _with_burn_in(call: Call, sampler: Any, **options: Any) -> Call:
    """With half as many steps before the first draw as after it, where none are given."""
    burn_in = _burn_in_before(call) if call.options.burn_in is None else call.options.burn_in
    return _with(call, sampler, burn_in=call.options.steps // 2 if burn_in is None else burn_in, **options)


def _burn_in_before(call: Call) -> int | None:
    """That of the run that goes on, which may be for more steps than at first; None where there is none."""
    if call.resumed is not None:
        return int(call.resumed.settings["burn_in"])
    if (folder := call.options.folder) is None:
        return None
    return call.devices.by_first(
        lambda: read_checkpoint(folder).description["settings"]["burn_in"] if has_run(folder) else None
    )


def _with_all_rows(call: Call, sampler: Any) -> Call:
    """A batch as large as the data is all of them, however it is drawn."""
    options = (
        {} if call.options.batch_size is None else {"batch_size": None, "batches": None, "batch_repeats": 1}
    )
    return _with(call, sampler, **options)


def _refused_stream(case: Case) -> Call | None:
    if not isinstance(case.target, TargetWithData) or stream_of(case.target.data) is None:
        return None
    raise ValueError(
        "sampler='auto' finds a step size from all the data, and these come as a stream of batches: give a "
        "sampler with a step size, such as fk.samplers.sgnht(1e-3), or the data as arrays or files."
    )


def _without_gradient(case: Case) -> Call | None:
    return None if has_gradient(case.target, case.position) else _with(case.call, "rwm")


def _around_mode(case: Case) -> Call | None:
    """Control variates at the mode, the curvature there as mass matrix; one start becomes draws by both."""
    options = case.call.options
    if not case.takes_minibatches or case.size > MOST_CURVED:
        return None
    target = resident(case.target)
    try:
        mode = find_mode(target, target.constrain(case.position))
    except ValueError:  # it has none that can be found from here
        return None
    y = target.unconstrain(mode)
    precision = _curvature(target.at_temperature(options.temperature), y) / options.temperature
    scales = np.linalg.eigvalsh(precision) if np.isfinite(precision).all() else np.zeros(1)
    if scales[0] <= _FLAT * scales[-1]:
        return None
    mass = jnp.asarray(precision, ravel(y).dtype)
    factor = jnp.asarray(np.linalg.inv(np.linalg.cholesky(precision)).T, mass.dtype)

    def around(key: Key[Array, ""]) -> PyTree[Array]:
        shift = factor @ jax.random.normal(key, (case.size,), mass.dtype)
        return target.constrain(unravel(ravel(y) + shift, y))

    gradient = control_variates(mode) if options.gradient is None else options.gradient
    sampler = sgnht(AUTOMATIC, mass_matrix=mass, integrator=Splitting())
    # Starts of one's own may be in several modes, which draws around one would hide from R-hat.
    if differs(options.init):
        return _with_burn_in(case.call, sampler, gradient=gradient)
    return _with(case.call, sampler, init=around, gradient=gradient)


def _curvature(target: Target, y: PyTree[Array]) -> Float[np.ndarray, "d d"]:
    """∇²U, a column at a time: each is a pass over the data."""
    gradient = jax.grad(lambda x: target.potential(unravel(x, y)))
    x = ravel(y)
    columns = jax.jit(lambda x: jax.lax.map(lambda v: jax.jvp(gradient, (x,), (v,))[1], jnp.eye(x.size)))
    matrix = np.asarray(columns(x), float)
    return (matrix + matrix.T) / 2


def _by_minibatches(case: Case) -> Call | None:
    return _with_burn_in(case.call, "sgnht") if case.takes_minibatches else None


def _of_many(case: Case) -> Call | None:
    if case.size <= MOST_FOR_NUTS:
        return None
    return _with_all_rows(case.call, mclmc(adjusted=True))


def _by_default(case: Case) -> Call:
    return _with_all_rows(case.call, "nuts")


RULES = (
    Rule(
        "the data are a stream of batches",
        "none",
        "a step size is found from all the data, which are not there; give a sampler with a step size",
        _refused_stream,
    ),
    Rule(
        "the density has no gradient",
        "rwm",
        "it uses values of the density alone, and learns its scale in warm-up",
        _without_gradient,
    ),
    Rule(
        f"a batch is a part of the rows, theta has at most {MOST_CURVED} numbers, and it has a mode with "
        "curvature",
        "sgnht with control variates",
        "around the mode the gradient has little noise, its curvature makes all directions equally fast, and "
        "a thermostat absorbs the rest",
        _around_mode,
    ),
    Rule(
        "a batch is a part of the rows",
        "sgnht",
        "its thermostat absorbs the noise of the minibatches, which is not known; step size and friction are "
        "tuned by short runs",
        _by_minibatches,
    ),
    Rule(
        f"theta has more than {MOST_FOR_NUTS:,} numbers",
        "mclmc(adjusted=True)",
        "its cost grows least with the number of parameters, and it is exact; a step takes one or two "
        "gradients, so take twenty times as many and keep every twentieth",
        _of_many,
    ),
    Rule(
        "every step sees all the data",
        "nuts",
        "it is exact, and learns its step size, path lengths and scales in warm-up",
        _by_default,
    ),
)
