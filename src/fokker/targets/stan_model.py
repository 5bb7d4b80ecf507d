"""Targets from Stan programs, with BridgeStan."""

import functools
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key, PyTree

from fokker._core.files import write_text
from fokker._core.state import as_arrays
from fokker.targets.target import Target, check_number, check_variables

if TYPE_CHECKING:
    from bridgestan import StanModel

# Chains start uniformly between -2 and 2 in each unconstrained coordinate, as in Stan.
_RADIUS = 2.0
_NEEDED = ("param_unc_num", "param_names", "log_density_gradient", "param_constrain", "param_unconstrain")

# A dictionary, JSON, or the path of a .json file.
Data = Mapping[str, Any] | str | os.PathLike[str] | None
# The variables of a program in order, with their shapes.
Blocks = tuple[tuple[str, tuple[int, ...]], ...]


class StanTarget(Target):
    r"""The density of a Stan program's unconstrained parameters y, as `from_stan` returns it.

    U_y(y) = -log p(x(y)) - T log|det dx/dy|,   values and gradients computed by Stan
    """

    is_constrained: ClassVar[bool] = True
    model: Any
    blocks: Blocks = eqx.field(static=True)
    derived_blocks: Blocks = eqx.field(static=True)
    temperature: Any = 1.0
    tempered: bool = eqx.field(static=True, default=False)

    def at_temperature(self, temperature: ArrayLike) -> "StanTarget":
        """The target for sampling at a temperature; the change of variables is not tempered."""
        # For T ≠ 1 Stan is called twice, with its Jacobian and without.
        plain = not isinstance(temperature, jax.core.Tracer) and float(np.asarray(temperature)) == 1.0
        return StanTarget(self.model, self.blocks, self.derived_blocks, temperature, not plain)

    @property
    def dimension(self) -> int:
        """The number of unconstrained parameters."""
        return self.model.param_unc_num()

    def potential(self, y: Float[Array, " d"]) -> Array:
        """U_y."""
        with_jacobian = _log_density(self.model, True, y)
        if not self.tempered:
            return -with_jacobian
        without = _log_density(self.model, False, y)
        return -without - self.temperature * (with_jacobian - without)

    def constrain(self, y: Float[Array, " d"]) -> dict[str, Array]:
        """The parameters, by their names in the program."""
        return _unpacked(self._constrained(y, self.blocks, False), self.blocks)

    def derived(self, theta: PyTree[Array]) -> dict[str, Array]:
        """The transformed parameters at theta."""
        if not self.derived_blocks:
            return {}
        flat = self._constrained(self.unconstrain(theta), self.blocks + self.derived_blocks, True)
        values = _unpacked(flat, self.blocks + self.derived_blocks)
        return {name: values[name] for name, _ in self.derived_blocks}

    def _constrained(self, y: Array, blocks: Blocks, transformed: bool) -> Array:
        def call(y: np.ndarray) -> np.ndarray:
            # A model without transformed parameters need not accept the option.
            options = {"include_tp": True} if transformed else {}
            return np.asarray(self.model.param_constrain(_as_doubles(y), **options), y.dtype)

        shape = jax.ShapeDtypeStruct((_length(blocks),), y.dtype)
        return jax.pure_callback(call, shape, y, vmap_method="sequential")

    def unconstrain(self, theta: PyTree[Any]) -> Float[Array, " d"]:
        """y(θ). Raise if theta does not meet the constraints of the program."""
        theta = as_arrays(theta)
        self.check(theta)
        flat = _packed(theta, self.blocks)

        def call(x: np.ndarray) -> np.ndarray:
            return np.asarray(self.model.param_unconstrain(_as_doubles(x)), x.dtype)

        shape = jax.ShapeDtypeStruct((self.dimension,), flat.dtype)
        return jax.pure_callback(call, shape, flat, vmap_method="sequential")

    def check(self, theta: PyTree[Array]) -> None:
        """Raise unless theta has the program's parameters and meets its constraints."""
        check_variables(theta, dict(self.blocks), "parameter", "program")
        flat = _packed(theta, self.blocks)
        if isinstance(flat, jax.core.Tracer):
            return
        try:
            y = self.model.param_unconstrain(_as_doubles(flat))
        except RuntimeError as error:
            raise ValueError(f"theta does not meet the constraints of the program: {error}") from error
        if not np.all(np.isfinite(y)):
            raise ValueError("theta is on the boundary of the support: start inside it.")

    def validate(self, y: Float[Array, " d"]) -> None:
        """Raise unless y is a vector of the right length and the density is finite there."""
        if jnp.shape(y) != (self.dimension,):
            raise ValueError(
                f"y has the shape {jnp.shape(y)}; the program has {self.dimension} unconstrained parameters."
            )
        check_number(self._log_density, y, "the program's log density")

    def _log_density(self, y: PyTree[Array]) -> Array:
        return -self.potential(y)

    def init(self, key: Key[Array, ""]) -> dict[str, Array]:
        """A theta to start from, uniform in the unconstrained space: `fk.sample(…, init=target.init)`."""
        return self.constrain(jax.random.uniform(key, (self.dimension,), minval=-_RADIUS, maxval=_RADIUS))


def from_stan(
    program: "str | os.PathLike[str] | StanModel",
    data: Data = None,
) -> StanTarget:
    r"""A Stan program as a target over a dictionary of its parameters.

    ```python
    target = fk.from_stan("schools.stan", {"J": 8, "y": y, "sigma": sigma})
    trace = fk.sample(target, fk.samplers.sghmc(0.1), init=target.init, steps=10_000, chains=4)
    trace.samples["tau"]
    ```

    Arguments:

    - `program`: the path of a .stan file or of a library that BridgeStan compiled, the text of a program, or
      a `bridgestan.StanModel`.
    - `data`: a dictionary, JSON, or the path of a .json file; not with a `StanModel`, which has its data.

    Returns a target whose `init(key)` draws a start. Compiling needs a C++
    compiler and, the first time, network access. Stan computes values, gradients and transforms; compiled JAX
    code calls it on the CPU, one chain after another. Every step uses all the data.
    """
    if isinstance(program, str | os.PathLike):
        model = _compiled(program, data)
    elif data is not None:
        raise ValueError("data must be left out here: a bridgestan.StanModel already has its data.")
    else:
        model = program
    if not all(hasattr(model, name) for name in _NEEDED):
        raise TypeError(
            "the program must be the path of a .stan file, the text of one, or a bridgestan.StanModel, not "
            f"{type(program).__name__}."
        )
    if model.param_unc_num() == 0:
        raise ValueError("the program has no parameters: there is nothing to sample.")
    names = list(model.param_names())
    return StanTarget(model, _blocks(names), _blocks(list(model.param_names(include_tp=True))[len(names) :]))


def _compiled(program: str | os.PathLike[str], data: Data) -> "StanModel":
    is_text = isinstance(program, str) and "{" in program
    path = _stored(str(program)) if is_text else Path(program)
    if not path.exists():
        raise FileNotFoundError(
            f"there is no file {str(path)!r}: give the path of a .stan file, or its text."
        )
    try:
        import bridgestan
    except ImportError as error:
        raise ImportError(
            "fk.from_stan needs BridgeStan, which is not installed: pip install 'fokker[stan]'."
        ) from error
    try:
        return bridgestan.StanModel(path, data, warn=False)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"the program could not be compiled, or does not take these data: {error}"
        ) from error


def _stored(text: str) -> Path:
    """A file with the program; the same text gives the same file, so that it is compiled once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fokker" / "stan"
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"program_{hashlib.sha256(text.encode()).hexdigest()[:16]}.stan"
    if not path.exists():
        write_text(path, text)
    return path


def _blocks(names: list[str]) -> Blocks:
    """Variables with their shapes, from names of scalars such as a, b.1, b.2, c.1.1, c.2.1."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name in names:
        stem, *places = name.split(".")
        if not all(
            place.isdigit() for place in places
        ):  # parts of complex numbers and of tuples stay separate
            stem, places = name, []
        # The last name of a variable holds the indices of its last entry.
        shapes[stem] = tuple(int(place) for place in places)
    return tuple(shapes.items())


def _length(blocks: Blocks) -> int:
    return sum(int(np.prod(shape)) for _, shape in blocks)


def _unpacked(flat: Array, blocks: Blocks) -> dict[str, Array]:
    """The variables in a flat vector, in which the first index of an array varies fastest."""
    variables, start = {}, 0
    for name, shape in blocks:
        size = int(np.prod(shape))
        variables[name] = flat[start : start + size].reshape(shape, order="F")
        start += size
    return variables


def _packed(theta: Mapping[str, Array], blocks: Blocks) -> Array:
    return jnp.concatenate([jnp.ravel(theta[name], order="F") for name, _ in blocks])


def _as_doubles(x: ArrayLike) -> np.ndarray:
    return np.ascontiguousarray(x, np.float64)


def _value_and_gradient(model: "StanModel", jacobian: bool, y: Array) -> tuple[Array, Array]:
    def call(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            value, gradient = model.log_density_gradient(_as_doubles(y), jacobian=jacobian)
        except RuntimeError:  # Stan raises this outside the support and where the program rejects
            value, gradient = -np.inf, np.full(y.shape, np.nan)
        return np.asarray(value, y.dtype), np.asarray(gradient, y.dtype)

    shapes = jax.ShapeDtypeStruct((), y.dtype), jax.ShapeDtypeStruct(y.shape, y.dtype)
    return jax.pure_callback(call, shapes, y, vmap_method="sequential")


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _log_density(model: "StanModel", jacobian: bool, y: Array) -> Array:
    return _value_and_gradient(model, jacobian, y)[0]


def _forward(model: "StanModel", jacobian: bool, y: Array) -> tuple[Array, Array]:
    return _value_and_gradient(model, jacobian, y)


def _backward(model: "StanModel", jacobian: bool, gradient: Array, by_value: Array) -> tuple[Array]:
    return (by_value * gradient,)


_log_density.defvjp(_forward, _backward)
