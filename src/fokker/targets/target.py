"""The base classes of all targets."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Key, PyTree

from fokker._core.draws import at_draws, with_draw_keys
from fokker._core.labels import NO_LABELS, Labels
from fokker._core.module import Module
from fokker._core.names import nearest
from fokker._core.required import check_compiled, require
from fokker._core.state import as_arrays, describe_shapes
from fokker._core.tracing import TRACING_ERRORS, hashable, untraceable
from fokker.rows import size_of, span, stream_of
from fokker.rows.table import ColumnError

# Rows that are searched together for one that is not usable, and characters of a row in a message.
_ROWS, _LINE = 8192, 80


class Target(Module):
    r"""A density p(theta) ∝ exp(-U(theta)), as the samplers see it. Only `potential` has to be defined.

    ```python
    class Normal(fk.Target):
        precision: jax.Array

        def potential(self, theta):
            return theta @ self.precision @ theta / 2
    ```

    A target with constraints is sampled in unconstrained coordinates y. Its `potential` and `validate` take
    y; `constrain` and `unconstrain` convert between y and the theta that the user sees.
    """

    is_constrained: ClassVar[bool] = False
    # Whether its functions may read values outside of themselves, which may be others in the next run.
    may_change: ClassVar[bool] = True

    @property
    def is_one_to_one(self) -> bool:
        """Whether theta determines y."""
        return True

    @abstractmethod
    def potential(self, theta: PyTree[Array]) -> Array:
        """U = -log p, up to a constant."""

    def validate(self, theta: PyTree[Array]) -> None:
        """Raise unless the potential is one finite number at theta."""
        check_number(self.potential, theta, "the potential")

    def constrain(self, y: PyTree[Array]) -> PyTree[Array]:
        """Theta, from the coordinates y that are sampled; here they are the same."""
        return y

    def unconstrain(self, theta: PyTree[Any]) -> PyTree[Array]:
        """The coordinates y that are sampled, from theta; here they are the same."""
        return as_arrays(theta)

    def redraw(self, y: PyTree[Array], key: Key[Array, ""]) -> PyTree[Array]:
        """A y with the same theta, from its density given theta; y itself if theta determines it."""
        return y

    def check(self, theta: PyTree[Array]) -> None:
        """Raise unless theta meets the constraints; here there are none."""

    def at_temperature(self, temperature: ArrayLike) -> "Target":
        """The target for sampling at a temperature; differs only if the potential contains a Jacobian."""
        return self

    def stored(self) -> "Target":
        """The target in the precision that is on, with the data as they were given; here itself.

        Raise where single precision would round them noticeably.
        """
        return self

    def on_first_rows(self) -> "Target":
        """The target to check a start with: itself, or that of the first rows of a file or a stream."""
        return self

    def derived(self, theta: PyTree[Array]) -> dict[str, Array]:
        """Quantities that the model computes from theta, by name."""
        return {}

    def labels(self) -> Labels:
        """Names of the axes of parameters and derived quantities, and of the entries along them."""
        return NO_LABELS

    def labelled(self, theta: PyTree[Array]) -> "Target":
        """The target with names of axes that it finds out at a theta; here there are none."""
        return self

    def known_data(self) -> dict[str, dict[str, Any]]:
        """What the model was given, by name: `observed_data` and `constant_data`, ArviZ's groups of them."""
        return {}

    def predictive(self, theta: PyTree[Array], key: Key[Array, ""]) -> dict[str, Array]:
        """A draw of the observed variables given theta, by name."""
        raise TypeError(_cannot_draw(self))

    def prior_predictive(self, key: Key[Array, ""]) -> dict[str, Array]:
        """A draw of the parameters from their prior, and of the observed variables given them, by name."""
        raise TypeError(_cannot_draw(self))

    def predictive_at(self, draws: PyTree[Any], key: Key[Array, ""]) -> dict[str, np.ndarray]:
        """Draws of the observed variables at every draw, with the leading axes chain and draw."""
        return at_draws(_predictive, with_draw_keys(draws, key), self)

    def prior_draws(self, number: int, key: Key[Array, ""]) -> dict[str, np.ndarray]:
        """So many draws of the parameters from their prior, and of the observed variables."""
        jax.eval_shape(self.prior_predictive, key)  # refused before anything is compiled
        return jax.tree.map(np.asarray, _prior_draws(self, jax.random.split(key, number)))

    def pointwise(self, theta: PyTree[Array]) -> dict[str, Array]:
        """The log likelihood of each entry of each observed variable, by name; empty where it is unknown."""
        return {}


def _predictive(draw: tuple[PyTree[Any], Any], target: Target) -> dict[str, Array]:
    theta, key = draw
    return target.predictive(theta, jax.random.wrap_key_data(key))


@eqx.filter_jit
def _prior_draws(target: Target, keys: Key[Array, " draws"]) -> dict[str, Array]:
    return jax.lax.map(target.prior_predictive, keys)


class TargetWithData(Target):
    """A target that is a prior and a sum over data, so that it can be estimated from a minibatch."""

    # A subclass has these as fields or as methods; type checkers do not accept eqx.AbstractVar for both.
    if TYPE_CHECKING:

        @property
        def data(self) -> PyTree[Array]:
            """Arrays, or sources of rows (`fokker.rows`), whose first axis runs over the data."""

        def log_prior(self, theta: PyTree[Array], /) -> Array:
            """log p(θ)."""
            ...

        def log_likelihood(self, theta: PyTree[Array], datum: PyTree[Array], /) -> Array:
            """log p(datum|θ)."""
            ...
    else:
        data: eqx.AbstractVar[PyTree[Array]]
        log_prior: eqx.AbstractVar[Callable[[PyTree[Array]], Array]]
        log_likelihood: eqx.AbstractVar[Callable[[PyTree[Array], PyTree[Array]], Array]]

    @property
    def size(self) -> int:
        """N, the number of data."""
        return size_of(self.data)

    def log_likelihood_of_theta(self, theta: PyTree[Array], datum: PyTree[Array]) -> Array:
        """log p(datum|θ) at a draw: `log_likelihood` takes the coordinates that are sampled."""
        return self.log_likelihood(self.unconstrain(theta) if self.is_constrained else theta, datum)

    @abstractmethod
    def minibatch_potential(self, theta: PyTree[Array], batch: PyTree[Array]) -> Array:
        """An unbiased estimate of U from a batch."""

    @abstractmethod
    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """The rows of a batch and their weights in the sum over all data."""

    def all_rows(self, by_row: PyTree[Array]) -> PyTree[Array]:
        """What was computed for the rows of a batch, of all devices that have some of them; here of one."""
        return by_row

    def datum_gradients(self, theta: PyTree[Array], rows: PyTree[Array]) -> PyTree[Array]:
        """-∇log p(x|θ) of each datum in `rows`, along a new first axis."""
        return jax.vmap(jax.grad(lambda t, datum: -self.log_likelihood(t, datum)), (None, 0))(theta, rows)

    def unusable_row(self, theta: PyTree[Array]) -> str | None:
        """The first datum whose log likelihood, or its gradient, is not finite at theta, in words."""
        stream = stream_of(self.data)
        known = self.size if stream is None else stream.batch_size
        for first in range(0, known, _ROWS):
            rows = span(self.data, first, min(_ROWS, known - first))
            values, finite = (np.asarray(x) for x in _likelihoods(self, theta, rows))
            if not finite.all():
                place = int(np.argmin(finite))
                datum = jax.tree.map(lambda x, p=place: np.asarray(x[p]), rows)
                what = f"the log likelihood of row {first + place} is {values[place]}"
                if np.isfinite(values[place]):
                    what = f"the gradient of the log likelihood of row {first + place} is not finite"
                return (
                    f"{what} at the initial position (the row is {_short(datum)}): correct or remove the "
                    "row, or start elsewhere"
                )
        return None


@eqx.filter_jit
def _likelihoods(target: TargetWithData, theta: PyTree[Array], rows: PyTree[Array]) -> tuple[Array, Array]:
    """The log likelihood of each row, and whether it and its gradient are finite."""

    def one(datum: PyTree[Array]) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(target.log_likelihood)(theta, datum)
        finite = [jnp.all(jnp.isfinite(x)) for x in (value, *jax.tree.leaves(gradient))]
        return value, jnp.all(jnp.stack(finite))

    return jax.lax.map(one, rows, batch_size=32)


def _short(datum: PyTree[Any]) -> str:
    """A datum in at most a line."""
    text = " ".join(str(jax.tree.map(lambda x: np.asarray(x).tolist(), datum)).split())
    return text if len(text) <= _LINE else f"{text[:_LINE]}…"


def _cannot_draw(target: Target) -> str:
    return (
        f"{type(target).__name__} has a density alone and cannot draw data: give trace.predict a function of "
        "theta, rows and keys, or make the target by fk.from_numpyro or fk.from_pymc."
    )


def labels_of(target: object) -> Labels:
    """The names of axes that a target has; none without a target."""
    return target.labels() if isinstance(target, Target) else NO_LABELS


def has_gradient(target: Target, theta: PyTree[Array]) -> bool:
    """Whether JAX differentiates the potential; functions of the host, for one, have no derivative.

    It is traced and not computed. A potential that cannot be evaluated at all is left to other checks.
    """
    potential = target.on_first_rows().potential
    try:
        jax.eval_shape(jax.grad(potential), theta)
    except (TypeError, ValueError, LookupError, NotImplementedError):
        try:
            jax.eval_shape(potential, theta)
        except Exception:
            return True
        return False
    return True


def check_is_target(target: object) -> None:
    """Raise unless `target` derives from `Target`."""
    if not isinstance(target, Target):
        raise TypeError(
            f"the target must be a fk.Density, a fk.Posterior or another subclass of fk.Target, not "
            f"{type(target).__name__}. Wrap a function as fk.Density(log_density)."
        )


def checked_function(function: Any, name: str, example: str) -> Callable[..., Any]:
    """A function by which JAX knows its programs; raise unless it can be called."""
    if not callable(function):
        raise TypeError(f"{name} must be a function, as in {name}={example}, not {function!r}.")
    return hashable(function)


def refuse_unknown(theta: Iterable[str], known: Collection[str], what: str, of: str = "model") -> None:
    """Raise for a name in theta that is not among those known; `what` they are, and of what."""
    for name in theta:
        if name not in known:
            raise ValueError(
                f"theta has {name!r}, but the {what}s of the {of} are {', '.join(known)}."
                f"{nearest(str(name), list(known))}"
            )


def check_variables(
    theta: PyTree[Array], shapes: Mapping[str, tuple[int, ...]], what: str, of: str = "model"
) -> None:
    """Raise unless theta is a dictionary of these names and shapes; `what` they are, and of what."""
    if not isinstance(theta, Mapping):
        raise ValueError(f"theta must be a dictionary of the {of}'s {what}s, {', '.join(shapes)}.")
    refuse_unknown(theta, shapes, what, of)
    for name, shape in shapes.items():
        if name not in theta:
            raise ValueError(f"theta lacks {name!r}, a {what} of the {of}.")
        own = jnp.shape(theta[name])
        if own != shape:
            raise ValueError(f"theta[{name!r}] has the shape {own}; the {what} has {shape}.")


def _unknown_name(error: KeyError, theta: PyTree[Array], *rest: PyTree[Array]) -> str:
    """The key of an error, with the names that theta and a datum have."""
    trees = {"theta, by init,": theta, "a datum": rest[0] if rest else None}
    known = {what: [str(name) for name in tree] for what, tree in trees.items() if isinstance(tree, Mapping)}
    names = "; ".join(f"{what} has {', '.join(own)}" for what, own in known.items())
    key = str(error) or "of a KeyError"
    others = [name for own in known.values() for name in own]
    wanted = key.strip("'")
    hint = " The other one has it: look for it there." if wanted in others else nearest(wanted, others)
    return f"the name {key}, which is missing: {names or 'theta has no names'}.{hint}"


def check_number(function: Callable[..., Any], theta: PyTree[Array], name: str, *rest: PyTree[Array]) -> None:
    """Raise unless `function(theta, *rest)` is one number, and a finite one unless it is traced."""
    try:
        shape = jax.eval_shape(function, theta, *rest)
    except TRACING_ERRORS as error:
        raise untraceable(name, error) from error
    except ColumnError as error:
        raise ValueError(str(error)) from error
    except KeyError as error:
        raise ValueError(f"{name} uses {_unknown_name(error, theta, *rest)}") from error
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"{name} could not be evaluated at a position of shapes {describe_shapes(theta)}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    if getattr(shape, "shape", None) != ():
        raise ValueError(
            f"{name} must return one number, not {describe_shapes(shape)}. Sum over what it returns; the "
            "library itself sums over the data."
        )
    check_compiled(_check_finite, name, function, theta, *rest)


def _check_finite(
    name: str, function: Callable[..., Any], theta: PyTree[Array], *rest: PyTree[Array]
) -> None:
    value = function(theta, *rest)
    require(
        jnp.isfinite(value),
        lambda value: ValueError(
            f"{name} is {float(value)} at the initial position. Start inside the support of the target: give "
            "another init, or draw one for each chain, as in init=lambda key: jax.random.normal(key, shape)."
        ),
        value,
    )
