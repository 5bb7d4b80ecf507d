"""Samplers as optimisers of Optax: `fk.optax`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Key, PyTree

from fokker._core.count import Count
from fokker._core.keys import checked_key
from fokker._core.random import split
from fokker._core.rounding import raised
from fokker._core.state import State, as_arrays, describe_shapes, inner, same_shapes
from fokker.samplers.contract import Sampler, SamplerState
from fokker.targets.target import TargetWithData

if TYPE_CHECKING:
    from optax import GradientTransformation

LogPrior = Callable[[PyTree[Array]], Array]


class OptaxState(NamedTuple):
    """What a sampler keeps in the state of an optimiser; theta itself is the parameters of the caller.

    `auxiliaries`: the variables beside theta, such as the momentum `r`. `step`: the number of steps taken.
    `is_sound`: whether all numbers were finite and 2TD - εB̂ positive semidefinite at every step so far.
    """

    key: Key[Array, ""]
    auxiliaries: State
    step: Count
    is_sound: Bool[Array, ""]


class GivenGradient(TargetWithData):
    r"""A target known only by a gradient g of the mean loss that the caller computed: the batch is g.

        Ũ(θ) = N gᵀθ - log p(θ),   whose gradient is N g - ∇log p(θ)

    N is applied here only.
    """

    prior: LogPrior | None
    number: Any

    @property
    def size(self) -> Any:
        """N."""
        return self.number

    def log_prior(self, theta: PyTree[Array]) -> Array:
        """log p(θ), 0 where there is none."""
        if self.prior is None:
            return jnp.zeros(())
        value = self.prior(theta)
        if jnp.shape(value) != ():
            raise ValueError(
                f"log_prior must return one number; it returned the shape {jnp.shape(value)}: sum over all "
                "parameters, as in jnp.sum(…)."
            )
        return value

    def potential(self, theta: PyTree[Array]) -> Array:
        """-log p(θ), all that is known without a gradient."""
        return -self.log_prior(theta)

    def minibatch_potential(self, theta: PyTree[Array], batch: PyTree[Array]) -> Array:
        """N gᵀθ - log p(θ)."""
        return self.number * inner(batch, theta) - self.log_prior(theta)

    @property
    def data(self) -> PyTree[Array]:
        """None are known."""
        return ()

    def log_likelihood(self, theta: PyTree[Array], datum: PyTree[Array]) -> Array:
        """Not known."""
        raise TypeError("the likelihood of single data is not known, only the gradient of a mean loss.")

    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """The gradient and its weight."""
        return batch, self.number


def optax(
    sampler: Sampler,
    *,
    size: float | Array,
    log_prior: LogPrior | None,
    key: Key[Array, ""],
    temperature: float | Array = 1.0,
) -> "GradientTransformation":
    r"""A stochastic-gradient sampler as an `optax.GradientTransformation`, for a training loop that you have.

    ```python
    optimizer = optax.adam(1e-3)                                            # before
    optimizer = fk.optax(fk.samplers.sghmc(1e-4, 100.0), size=60_000,       # after
                         log_prior=log_prior, key=jax.random.key(0))

    state = optimizer.init(params)
    updates, state = optimizer.update(gradient, state, params)
    params = optax.apply_updates(params, updates)                           # a draw
    ```

    `gradient` is that of the MEAN loss over the minibatch, with the loss -log p(x|θ) in nats, as
    cross-entropy is. A squared error must be divided by 2σ². With N = `size` data the sampler uses

        ∇Ũ(θ) = N gradient - ∇log p(θ)

    and its draws are of exp(-U/T). An update is a whole step with its sign, step size and noise: put nothing
    after it in `optax.chain` (no learning rate), and before it nothing that changes the mean of the gradient,
    such as clipping.

    Arguments:

    - `sampler`: one of `fk.samplers`. The step size, or a schedule of it, is the sampler's.
    - `size`: N. Where `gradient` is already that of U, give `size=1` and `log_prior=None`.
    - `log_prior`: log p(θ), a function of the parameters. With None there is NO prior other than what the
      loss has: a weight decay of λ‖θ‖²/2 in the mean loss, or `optax.add_decayed_weights(λ)` before this in
      `optax.chain`, is a normal prior of precision Nλ. With neither, the prior is flat and the posterior of
      most networks is improper.
    - `key`: required, as two chains with the same key are one. It is kept in the state: for several chains
      `jax.vmap(lambda key: fk.optax(…, key=key).init(params))(keys)` makes the states, and `jax.vmap` of
      `update` moves them.
    - `temperature`: T.

    Returns an `optax.GradientTransformation`. The step with number t is
    `sampler.step(state.step.fold_into(state.key), …)`, up to rounding: Optax adds the difference, and
    θ + (θ' - θ) is θ' where neither is more than twice the other, else θ' to within 3/2 units in the last
    place of the larger. Rounding does not add up, since every step starts from the parameters that it is
    given.

    Only samplers whose step needs one gradient at the present parameters: `sgld`, `sgrld`, `sgfs` with B̂
    given, `sghmc`, `sgnht`, `gsgrhmc`, `ula`, `ulmc` with their default integrators. Others are refused with
    the reason.
    """
    try:
        import optax as package
    except ImportError as error:
        raise ImportError(
            "fk.optax needs Optax, which is not installed: pip install 'fokker[optax]'."
        ) from error
    _check_sampler(sampler)
    if key is None or isinstance(key, int):
        raise TypeError(f"key must be a JAX key, such as jax.random.key(0), not {key!r}.")
    checked: Any = checked_key(key)
    if log_prior is not None and not callable(log_prior):
        raise TypeError(
            f"log_prior must be a function of the parameters, or None where the loss has the prior, not "
            f"{type(log_prior).__name__}."
        )
    placed = sampler.on(GivenGradient(log_prior, _checked_size(size)), temperature)

    def init(params: PyTree[Any]) -> OptaxState:
        start_key, step_key = split(checked)
        state = placed.init(params, key=start_key)
        auxiliaries = {name: value for name, value in state.z.items() if name != "theta"}
        return OptaxState(step_key, auxiliaries, state.step, jnp.ones((), bool))

    def update(
        gradient: PyTree[Array], state: OptaxState, params: PyTree[Array] | None = None
    ) -> tuple[PyTree[Array], OptaxState]:
        if params is None:
            raise ValueError(
                "a sampler's step depends on the parameters: call update(gradient, state, params)."
            )
        theta = as_arrays(params)
        if not same_shapes(gradient, theta):
            raise ValueError(
                f"the gradient has the shapes {describe_shapes(gradient)}, but the parameters have "
                f"{describe_shapes(theta)}: give the gradient of the loss by these parameters."
            )
        before = SamplerState({"theta": theta, **state.auxiliaries}, state.step)
        after, info = placed.step(state.step.fold_into(state.key), before, gradient)
        # In single precision, where half precision would round a second time.
        updates = jax.tree.map(jnp.subtract, raised(after.position), raised(theta))
        sound = state.is_sound & info.is_finite
        if info.noise_shortfall is not None:
            sound &= info.noise_shortfall >= 0
        auxiliaries = {name: after.z[name] for name in state.auxiliaries}
        return updates, OptaxState(state.key, auxiliaries, after.step, sound)

    return package.GradientTransformation(init, update)


def _checked_size(size: float | Array) -> Any:
    """N; raise unless it is one positive number."""
    if isinstance(size, jax.core.Tracer):
        return size
    if np.ndim(size) != 0 or not np.issubdtype(np.asarray(size).dtype, np.number) or not 0 < size < np.inf:
        raise ValueError(
            f"size must be the number of data N, one positive number; {size!r} was given. Where the gradient "
            "is already that of the sum over all data, give size=1."
        )
    return as_arrays(size)


def _check_sampler(sampler: object) -> None:
    """Raise unless a step of the sampler needs one gradient at the present parameters, and nothing else."""
    if not isinstance(sampler, Sampler):
        raise TypeError(
            "the sampler must be one of fk.samplers, as fk.samplers.sgld(1e-3), not "
            f"{type(sampler).__name__}."
        )
    use = "Use fk.samplers.sgld, sghmc or sgnht, or fk.sample with a target."
    if sampler.needs_more_than_gradient:
        raise ValueError(
            f"fk.optax cannot serve fk.samplers.{sampler.name}: {sampler.needs_more_than_gradient}. {use}"
        )
    if sampler.is_automatic:
        raise ValueError(
            "fk.optax cannot find the step size, as it does not call the target: give a number or a schedule."
        )
