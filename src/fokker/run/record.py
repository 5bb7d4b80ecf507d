"""The description of a run that is written down, and whether another run is the same."""

import dataclasses
import hashlib
import inspect
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.count import no_steps
from fokker.batches import BatchScheme, BlockBatches
from fokker.gradients import Estimator
from fokker.rows import Source, Taken, is_source, leaves, span
from fokker.run.call import MAY_CHANGE, STORED, Options
from fokker.run.description import LEARNED
from fokker.samplers import mass_matrix
from fokker.samplers.contract import Sampler, Warmed
from fokker.targets.target import Target, TargetWithData

# Classes that a learned setting may be of.
_CLASSES = {cls.__name__: cls for cls in (mass_matrix.Diagonal, mass_matrix.Dense, mass_matrix.LowRank)}
# How scores of the data, given as `batches`, are written down: a fingerprint follows.
SCORES = "scores "
# A file of more bytes is known by some of its rows, spread over it; others by all, read in blocks of bytes.
_WHOLE, _SAMPLED, _BLOCK = 2**30, 1024, 2**24
# Addresses of functions, in the text of a traced program.
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class OtherRunError(ValueError):
    """The folder has another run in it, or the warm-up of one."""


def environment() -> dict[str, str]:
    """What the bits of a run depend on besides its settings."""
    from importlib.metadata import version

    names = ("fokker", "jax", "jaxlib", "numpy")
    device = jax.devices()[0]
    return {
        **{name: version(name) for name in names},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": f"{device.platform} {device.device_kind}",
        "precision": str(jnp.result_type(float)),
    }


def fingerprint_of_arrays(tree: PyTree[Any]) -> str:
    """A digest of the shapes, types and values of all arrays of a tree."""
    digest = hashlib.blake2b(digest_size=16)
    for leaf in leaves(tree):
        if is_source(leaf):
            digest.update(f"{leaf.shape} {leaf.dtype.name} ".encode())
            for part in _parts_of(leaf):
                digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
            continue
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        x = np.ascontiguousarray(leaf)
        digest.update(f"{x.shape} {x.dtype.name} ".encode())
        digest.update(x.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _parts_of(source: Source) -> Iterator[np.ndarray]:
    """The rows of a source that its fingerprint is made of; of a stream, the first batch."""
    end = source.reader.stream().batch_size if source.form.is_stream else len(source)
    if source.form.is_stream or source.reader.is_in_memory or source.nbytes <= _WHOLE:
        rows = max(1, _BLOCK // max(1, source.row_bytes))
        for first in range(0, end, rows):
            yield source[first : min(first + rows, end)]
    else:
        yield source[np.unique(np.linspace(0, end - 1, min(end, _SAMPLED)).astype(np.int64))]


def _is_array(leaf: object) -> bool:
    return is_source(leaf) or eqx.is_array(leaf)


def fingerprint_of_program(function: Callable[..., Any], *arguments: Any, evaluates: bool = False) -> str:
    """A digest of what a function computes: its traced program, and the constants in it.

    Functions that the program calls on the host, as a Stan model's density, have no text to compare: its
    values at these arguments stand for them.
    """
    # Arrays inside modules are inputs, so that large ones are not part of the program.
    arrays, static = eqx.partition((function, arguments), eqx.is_array)

    def program(arrays: PyTree[Array]) -> PyTree[Array]:
        function, arguments = eqx.combine(arrays, static)
        return eqx.filter(function(*arguments), eqx.is_array)

    # By shapes: how arrays are divided among devices is no part of it.
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False)), arrays
    )
    traced = jax.make_jaxpr(program)(shapes)
    digest = hashlib.blake2b(digest_size=16)
    text = str(traced.jaxpr)
    digest.update(_ADDRESS.sub("", text).encode())
    digest.update(fingerprint_of_arrays(traced.consts).encode())
    if evaluates and "pure_callback" in text:
        digest.update(fingerprint_of_arrays(program(arrays)).encode())
    return digest.hexdigest()


def fingerprints(
    target: Target | None,
    sampler: Sampler,
    batches: BatchScheme | None,
    states: PyTree[Array],
    positions: PyTree[Array],
) -> dict[str, str]:
    """What a run is made of: the density, its data, the sampler on it with its settings, and the starts."""
    state = jax.tree.map(lambda x: x[0], states)
    data = target.data if isinstance(target, TargetWithData) else None
    row = None if data is None else span(data, 0, 1)
    prints = _prints_of_target(target, jax.tree.map(lambda x: x[0], positions))

    def step(sampler: Sampler, batches: BatchScheme | None, row: PyTree[Array], state: PyTree[Array]) -> Any:
        key = jax.random.key(0)
        batch = None
        if batches is not None:
            rows: Any = batches.rows(key, key, no_steps(), jnp.uint32(0))
            # Copies of one row, as nothing is computed here: the program is that of any rows.
            read = Taken(jax.tree.map(lambda x: jnp.repeat(x, batches.batch_size, axis=0), row))
            batch = batches.batch(read, rows)
        return sampler.step(key, state, batch)

    program = fingerprint_of_program(step, sampler, batches, row, state)
    # Without data that are read: they have their own fingerprint, and it takes a pass over a file.
    settings = fingerprint_of_arrays(eqx.filter((sampler, batches), eqx.is_array, is_leaf=is_source))
    prints["sampler"] = hashlib.blake2b(f"{program} {settings}".encode(), digest_size=16).hexdigest()
    prints["start"] = fingerprint_of_arrays(positions)
    return prints


def fingerprint_of_data(target: Target | None) -> str:
    """A digest of the arrays of a target, and of the files that it reads."""
    return fingerprint_of_arrays(eqx.filter(target, _is_array, is_leaf=is_source))


def _prints_of_target(target: Target | None, position: PyTree[Array]) -> dict[str, str]:
    prints = {"data": fingerprint_of_data(target)}
    row = span(target.data, 0, 1) if isinstance(target, TargetWithData) else None

    if isinstance(target, Target):
        prints["model"] = fingerprint_of_program(density_of_row, target, position, row, evaluates=True)
    return prints


def density_of_row(target: Target, position: PyTree[Array], row: PyTree[Array]) -> Array:
    """The potential, of one row where the target has data: its program is that of any rows."""
    if isinstance(target, TargetWithData) and row is not None:
        return target.minibatch_potential(position, row)
    return target.potential(position)


def fingerprints_to_learn(
    target: Target,
    sampler: Sampler | Callable[..., Sampler] | str,
    gradient: Estimator | None,
    positions: PyTree[Array],
) -> dict[str, str]:
    """What is learned before the first step depends on these; `sampler`: without a step size, or its name."""
    position = target.unconstrain(jax.tree.map(lambda x: x[0], positions))
    text = in_words((sampler, gradient))
    try:
        prints = _prints_of_target(target, position)
    except Exception:
        target.validate(position)  # whose message says what is wrong
        raise
    return {
        **prints,
        "start": fingerprint_of_arrays(positions),
        "sampler": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
    }


def in_words(value: Any, seen: Set[int] = frozenset()) -> str:
    """Everything that a sampler is made of, which has no step size to be traced with: functions by their
    code and what they refer to.
    """
    if eqx.is_array(value) or isinstance(value, np.ndarray):
        return fingerprint_of_arrays(value)
    parts: Any = None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, tuple | list):
        parts = list(value)
    elif inspect.isfunction(value):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        parts = [value.__qualname__, value.__code__.co_code.hex(), value.__code__.co_consts, cells]
    if parts is None:
        return _ADDRESS.sub("", repr(value))
    if id(value) in seen:  # one that refers to itself
        return ""
    seen = seen | {id(value)}
    return f"{type(value).__name__}({', '.join(in_words(part, seen) for part in parts)})"


class Learned(NamedTuple):
    """What was found before the first step.

    `tuned`: a step size and a friction, by `fk.tune`. By warm-up: `settings` of the sampler, the `positions`
    at which it left the chains, and its warnings.
    """

    tuned: Mapping[str, Any] = MappingProxyType({})
    settings: Mapping[str, Any] = MappingProxyType({})
    positions: PyTree[Array] = None
    notes: tuple[str, ...] = ()

    @classmethod
    def by_warm_up(cls, before: Sampler, warmed: Warmed) -> "Learned":
        """Everything that warm-up changed: numbers, arrays and mass matrices."""
        settings = {
            field.name: getattr(warmed.sampler, field.name)
            for field in dataclasses.fields(warmed.sampler)
            if getattr(before, field.name) is not getattr(warmed.sampler, field.name)
        }
        return cls({}, settings, warmed.positions, warmed.notes)

    def written(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As text and arrays."""
        text = {
            name: {"class": type(value).__name__, "leaves": len(jax.tree.leaves(value))}
            for name, value in self.settings.items()
        }
        arrays = {
            f"{LEARNED}/{name}.{i}": np.asarray(leaf)
            for name, value in {**self.settings, "positions": self.positions}.items()
            for i, leaf in enumerate(jax.tree.leaves(value))
        }
        return {"tuned": dict(self.tuned), "settings": text, "notes": list(self.notes)}, arrays

    @classmethod
    def read(
        cls, text: Mapping[str, Any], arrays: Mapping[str, np.ndarray], positions: PyTree[Array]
    ) -> "Learned":
        """What `written` wrote; `positions`: a tree like those. Only arrays and mass matrices are made."""

        def stored(name: str, count: int) -> list[Array]:
            return [jnp.asarray(arrays[f"{name}.{i}"]) for i in range(count)]

        settings = {}
        for name, of in text["settings"].items():
            values = stored(name, of["leaves"])
            settings[name] = _CLASSES[of["class"]](*values) if of["class"] in _CLASSES else values[0]
        like, structure = jax.tree.flatten(positions)
        start = jax.tree.unflatten(structure, stored("positions", len(like))) if settings else None
        return cls(dict(text["tuned"]), settings, start, tuple(text["notes"]))

    def check_like(self, sampler: Sampler, positions: PyTree[Array]) -> None:
        """Raise unless this can have been learned by this sampler from such positions."""
        if unknown := self.settings.keys() - {field.name for field in dataclasses.fields(sampler)}:
            raise ValueError(f"this sampler has no {', '.join(sorted(unknown))}")
        if not eqx.tree_equal(*(jax.tree.map(jnp.shape, tree) for tree in (self.positions, positions))):
            raise ValueError("the positions after warm-up are not those of this model")
        dimension = sum(x[0].size for x in jax.tree.leaves(positions))
        for name, value in self.settings.items():
            if isinstance(value, mass_matrix.Diagonal | mass_matrix.Dense | mass_matrix.LowRank):
                mass_matrix.check_shapes(value, dimension)
            elif jnp.shape(value) not in ((), (dimension,)):  # a number, or one per coordinate
                raise ValueError(f"{name} has the shape {jnp.shape(value)}")


def written_settings(options: Options, key: Key[Array, ""]) -> dict[str, Any]:
    """The options of `fk.sample` that are numbers or texts, and fingerprints of the others."""
    batches: Any = options.batches
    if isinstance(batches, BlockBatches):
        batches = str(batches)
    elif batches is not None and not isinstance(batches, str):
        batches = f"{SCORES}{fingerprint_of_arrays(np.asarray(batches))}"
    written = {"batches": batches, "key": np.asarray(jax.random.key_data(key)).tolist()}
    return {n: written[n] if n in written else plain(getattr(options, n)) for n in STORED}


def used_settings(sampler: Sampler, chains: int, temperature: float) -> dict[str, Any]:
    """What the sampler and the start say where the options do not: what a summary needs to know."""
    size: Any = sampler.own_step_size
    is_number = size is not None and not callable(size) and np.ndim(size) == 0
    return {
        "sampler": str(sampler),
        "sampler_name": sampler.name,
        "chains": chains,
        "temperature": float(temperature),
        "step_size": float(size) if is_number else None,
    }


def plain(value: Any) -> Any:
    """A number of Python in place of a scalar of NumPy or JAX."""
    is_scalar = isinstance(value, np.generic | np.ndarray | jax.Array) and np.ndim(value) == 0
    return value.item() if is_scalar else value


def differences(before: Mapping[str, Any], now: Mapping[str, Any], programs: bool = True) -> list[str]:
    """What is different between the descriptions of two runs, in words.

    `programs`: whether traced programs are compared, whose text is of a version of JAX.
    """
    changes = []
    for name, value in now["settings"].items():
        earlier = before["settings"].get(
            name, getattr(Options, name, None)
        )  # of before there was such an option
        if name not in MAY_CHANGE and earlier != value:
            changes.append(f"{name} is {value!r}, and was {earlier!r}")
    prints = {n: before["fingerprints"].get(n) == value for n, value in now["fingerprints"].items()}
    compared = ("data", "model", "start") if programs else ("data", "start")
    changes += [f"the {name} is another" for name in compared if not prints.get(name, True)]
    if programs and not changes and not prints["sampler"]:  # which contains the others
        changes.append("the sampler, or one of its settings, is another")
    return changes


def changed_environment(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The parts of the environment on which bits depend that have changed, in words; else empty."""
    names = ("jax", "jaxlib", "device", "precision", "fokker")
    return "; ".join(f"{n} {before.get(n)} → {now[n]}" for n in names if before.get(n) != now[n])
