"""The devices of a run: one, or a mesh with the axes `chains`, `data` and `parameters`, of many processes.

A compiled program runs on every device of a mesh, by `jax.shard_map`: it is the program of a single device
with some of the chains, and with sums over the devices that divide the rows of a batch. Devices with other
chains exchange nothing with it. Devices along `parameters` divide each large array of a chain: XLA partitions
the program among them (`fokker._core.parts.sharded`). Between programs, what was recorded and the states are
gathered: every process has them all, and what is written down does not depend on the mesh.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, Sharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, PyTree

from fokker._core.parts import CHAINS, DATA, PARAMETERS, axes_of_shares
from fokker.batches import BatchScheme
from fokker.run.processes import by_first, first_ones, is_first
from fokker.run.shares import Read, Shards, shared_batches, shared_sampler
from fokker.samplers.contract import Sampler

Result = TypeVar("Result")
# The devices along each axis, as a dictionary or a text such as chains=4,data=2; or the devices themselves.
MeshSizes = Mapping[str, int] | str | Mesh

AXES = (CHAINS, DATA, PARAMETERS)
# Blocks that are on their way before the first one's decision is known.
_AHEAD = 2


class Decision(NamedTuple):
    """What all processes have to decide alike before a block.

    Its steps, whether a checkpoint follows it, and the number of a signal that asks to stop, or 0.
    """

    steps: int
    commits: bool
    signal: int


class OneDevice:
    """JAX's default device."""

    mesh: Mesh | None = None
    parts, is_shared, is_first, divides = 1, False, True, False

    def check(self, chains: int, batch_size: int | None) -> None:
        """Raise where chains or rows do not divide evenly among the devices."""

    def share(self, sampler: Sampler, batches: BatchScheme | None) -> tuple[Sampler, Any]:
        """The sampler and the batches as a program takes them."""
        return sampler, batches

    def on_all(self, tree: PyTree[Any]) -> PyTree[Any]:
        """Arrays that every device has."""
        return tree

    def by_chain(self, tree: PyTree[Any]) -> PyTree[Any]:
        """Arrays whose first axis runs over chains, each with the device of its chain."""
        return tree

    def carried(self, tree: PyTree[Any]) -> PyTree[Any]:
        """The same for chains; a copy, as a program reuses the memory of the chains that it is given."""
        return _copied(tree)

    def sharding(self, x: Any) -> Sharding | None:
        """How an array of chains lies on the devices; None for one in the host's memory."""
        return None

    def shapes_of_one(self, tree: PyTree[Any]) -> PyTree[Any]:
        """The shapes of as many chains as one device has."""
        return jax.eval_shape(lambda: tree)

    def starting(self) -> contextlib.AbstractContextManager[Any]:
        """While it lasts, arrays that `fokker._core.parts.sharded` returns lie as those of a run."""
        return contextlib.nullcontext()

    def box(self, chains: int, rows: int) -> tuple[slice, slice]:
        """The chains, and the rows of each batch, that devices of this process have."""
        return slice(0, chains), slice(0, rows)

    def read(self, rows: PyTree[Array], values: PyTree[np.ndarray], chains: int, batch_size: int) -> Read:
        """Rows that were read for this process, step × chain × row × …, on its devices."""
        return Read(rows, jax.tree.map(jax.device_put, values))

    def gathered(self, tree: PyTree[Any]) -> PyTree[Any]:
        """Results of a program, on this process's first device."""
        return tree

    def lasting(self, tree: PyTree[Any]) -> PyTree[Any]:
        """The same for states that outlive the run."""
        return tree

    def same(self, tree: PyTree[Any]) -> PyTree[Any]:
        """The arrays of the first process."""
        return tree

    def by_first(self, function: Callable[[], Result]) -> Result:
        """What the first process finds, or raises, for all; only that one calls the function."""
        return function()

    def agreed(self, proposal: Decision) -> Decision:
        """What the processes agree on, where this one would decide so."""
        return proposal


class OnMesh:
    """The devices of a mesh with the axes `chains`, `data` and `parameters`."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.parts, self.shares = mesh.shape[DATA], mesh.shape[PARAMETERS]
        self.divides = self.shares > 1
        self.is_shared = len({device.process_index for device in mesh.devices.flat}) > 1
        self.is_first = not self.is_shared or is_first()
        self._targets: dict[Any, Any] = {}
        self._pending: deque[Array] = deque()
        self._first_steps: int | None = None
        self._replicate = jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, P()))
        self._greatest = jax.jit(lambda x: jnp.max(x, axis=0), out_shardings=NamedSharding(mesh, P()))

    def check(self, chains: int, batch_size: int | None) -> None:
        """Raise where chains or rows do not divide evenly among the devices."""
        for name, number, axis, what in (
            ("chains", chains, CHAINS, "chains"),
            ("batch_size", batch_size, DATA, "rows"),
        ):
            size = self.mesh.shape[axis]
            if number is not None and number % size:
                raise ValueError(
                    f"{name}={number} cannot be divided evenly among the {size} devices of the mesh's axis "
                    f"{axis}: give a multiple of {size} {what}, or another mesh."
                )

    def share(self, sampler: Sampler, batches: BatchScheme | None) -> tuple[Sampler, Any]:
        """The sampler and the batches as a program takes them; a process reads its part of the data alone."""
        if self.shares > 1 and sampler.theta_undivided:
            raise ValueError(
                f"{sampler.theta_undivided}, which cannot be divided among the {self.shares} devices of the "
                "mesh's axis parameters: leave that axis out, or take fk.samplers.sghmc, sgnht or sgld."
            )
        sampler = shared_sampler(sampler, batches, self.parts, self._deal, self._targets)
        shared = shared_batches(batches, self.parts, self._deal)
        return tuple(
            jax.tree.map(
                lambda x: x if isinstance(x, Shards) else self.on_all(x),
                tree,
                is_leaf=lambda x: isinstance(x, Shards),
            )
            for tree in (sampler, shared)
        )

    def _deal(self, shape: tuple[int, ...], dtype: np.dtype, block: Callable[[int], np.ndarray]) -> Array:
        length = shape[0] // self.parts
        return jax.make_array_from_callback(
            shape,
            NamedSharding(self.mesh, P(DATA)),
            lambda index: np.asarray(block(_start(index) // max(1, length)), dtype),
        )

    def on_all(self, tree: PyTree[Any]) -> PyTree[Any]:
        """Arrays that every device has."""
        return jax.tree.map(lambda x: self._on_device(x, P()), tree)

    def by_chain(self, tree: PyTree[Any]) -> PyTree[Any]:
        """Arrays whose first axis runs over chains, each with the device of its chain.

        The numbers are those of the first process, lest the same chain differ between devices.
        """
        return jax.tree.map(lambda x: self._on_device(x, self._spec_of_chains(x)), self.same(tree))

    carried = by_chain

    def _spec_of_chains(self, x: Any) -> P:
        return P(CHAINS, *axes_of_shares(x.shape[1:], self.shares))

    def sharding(self, x: Any) -> Sharding | None:
        """How an array of chains lies on the devices; None for one in the host's memory.

        With many processes that is where each of them has its start.
        """
        return NamedSharding(self.mesh, self._spec_of_chains(x)) if self._is_sharded_here else None

    def shapes_of_one(self, tree: PyTree[Any]) -> PyTree[Any]:
        """The shapes of as many chains as one device has."""
        number = self.mesh.shape[CHAINS]
        return jax.eval_shape(lambda: jax.tree.map(lambda x: x[: x.shape[0] // number], tree))

    def starting(self) -> contextlib.AbstractContextManager[Any]:
        """While it lasts, arrays that `fokker._core.parts.sharded` returns lie as those of a run.

        Not with many processes, which check the start each for itself.
        """
        return jax.set_mesh(self.mesh) if self._is_sharded_here else contextlib.nullcontext()

    @property
    def _is_sharded_here(self) -> bool:
        """Whether arrays are divided among devices that are all of this process."""
        return self.shares > 1 and not self.is_shared

    def _on_device(self, x: Any, spec: P) -> Any:
        if not eqx.is_array(x) or getattr(getattr(x, "sharding", None), "mesh", None) == self.mesh:
            return x
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(
                self._on_device(jax.random.key_data(x), spec), impl=jax.random.key_impl(x)
            )
        values = np.asarray(x)
        return jax.make_array_from_callback(
            values.shape, NamedSharding(self.mesh, spec), lambda index: values[index]
        )

    def box(self, chains: int, rows: int) -> tuple[slice, slice]:
        """The chains, and the rows of each batch, that devices of this process have."""
        owners = np.vectorize(lambda device: device.process_index)(self.mesh.devices)
        own = np.argwhere(owners == jax.process_index())
        first, last = own.min(axis=0)[:2], own.max(axis=0)[:2] + 1
        each = np.array([chains, rows]) // self.mesh.devices.shape[:2]
        across, along = (slice(int(a), int(b)) for a, b in zip(first * each, last * each, strict=True))
        return across, along

    def read(self, rows: PyTree[Array], values: PyTree[np.ndarray], chains: int, batch_size: int) -> Read:
        """Rows that were read for this process, step × chain × row × …, on its devices."""
        box = self.box(chains, batch_size)

        def placed(x: np.ndarray) -> Array:
            def block(index: tuple[slice, ...] | None) -> np.ndarray:
                assert index is not None
                of_chains, of_rows = (
                    slice((i.start or 0) - own.start, (own.stop if i.stop is None else i.stop) - own.start)
                    for i, own in zip(index[1:3], box, strict=True)
                )
                return x[:, of_chains, of_rows]

            shape = (x.shape[0], chains, batch_size, *x.shape[3:])
            return jax.make_array_from_callback(shape, NamedSharding(self.mesh, P(None, CHAINS, DATA)), block)

        of_chains = jax.tree.map(lambda x: self._on_device(x, P(None, CHAINS)), rows)
        return Read(of_chains, jax.tree.map(placed, values))

    def gathered(self, tree: PyTree[Any]) -> PyTree[Any]:
        """Results of a program, on this process's first device: every process has them all.

        What need not fit on one device stays where it is: NumPy puts its parts together.
        """
        if self._is_sharded_here:
            return tree
        arrays, rest = eqx.partition(tree, lambda x: isinstance(x, jax.Array))
        local = jax.tree.map(lambda x: x.addressable_data(0), self._replicate(arrays))
        return eqx.combine(local, rest)

    def lasting(self, tree: PyTree[Any]) -> PyTree[Any]:
        """The same for states that outlive the run; divided ones in the host's memory, for any other mesh."""
        gathered = self.gathered(tree)
        return jax.device_get(gathered) if self.shares > 1 else gathered

    def same(self, tree: PyTree[Any]) -> PyTree[Any]:
        """The arrays of the first process."""
        return first_ones(tree) if self.is_shared else tree

    def by_first(self, function: Callable[[], Result]) -> Result:
        """What the first process finds, or raises, for all; only that one calls the function."""
        return by_first(function) if self.is_shared else function()

    def agreed(self, proposal: Decision) -> Decision:
        """What the processes agree on: the first one's clock, and any one's signal.

        It is that of two blocks ago, whose result is there: waiting for the newest would stop the devices.
        """
        if not self.is_shared:
            return proposal
        self._first_steps = self._first_steps or proposal.steps
        own = np.zeros((1, 3), np.int32)
        own[0, 2] = proposal.signal
        if jax.process_index() == 0:
            own[0, :2] = proposal.steps, proposal.commits
        all_devices = NamedSharding(self.mesh, P(AXES))
        shape = (self.mesh.size, own.shape[1])
        self._pending.append(
            self._greatest(jax.make_array_from_callback(shape, all_devices, lambda index: own))
        )
        if len(self._pending) <= _AHEAD:
            return Decision(self._first_steps, False, 0)
        steps, commits, signal = np.asarray(self._pending.popleft().addressable_data(0)).tolist()
        return Decision(steps, bool(commits), signal)


Devices = OneDevice | OnMesh


# Compiled, with one program for all leaves.
_copied = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))


def _start(index: tuple[slice, ...] | None) -> int:
    return index[0].start or 0 if index else 0


def _spec(part: Read | Shards | Array) -> Any:
    """How what is not by chain lies on the devices."""
    if isinstance(part, Read):
        return Read(P(None, CHAINS), P(None, CHAINS, DATA))
    return P(DATA) if isinstance(part, Shards) else P()


def on_every_device(
    mesh: Mesh,
    function: Callable[..., Any],
    shared: PyTree[Any],
    by_chain: PyTree[Array],
    out: tuple[int, ...],
) -> Any:
    """`function(shared, by_chain)` on every device of a mesh, where `by_chain` are the chains of that device.

    `out`: which axis runs over chains, in each part of what it returns.
    """
    arrays, rest = eqx.partition((shared, by_chain), eqx.is_array)
    specs = (
        jax.tree.map(_spec, arrays[0], is_leaf=lambda x: isinstance(x, Shards | Read)),
        jax.tree.map(lambda x: P(CHAINS), arrays[1]),
    )
    out_specs = jax.tree.map(lambda axis: P(*[None] * axis, CHAINS), out)

    def on_one(shared: PyTree[Any], by_chain: PyTree[Array]) -> Any:
        return function(*eqx.combine((shared, by_chain), rest))

    # XLA divides the program along `parameters`, from how its inputs lie and what `sharded` says inside.
    names = {CHAINS, DATA} if mesh.shape[PARAMETERS] > 1 else set(AXES)
    return jax.shard_map(
        on_one, mesh=mesh, in_specs=specs, out_specs=out_specs, axis_names=names, check_vma=False
    )(*arrays)


def devices_of(mesh: MeshSizes | None) -> Devices:
    """The devices that `mesh` names."""
    return OneDevice() if mesh is None else OnMesh(_as_mesh(mesh))


def _as_mesh(mesh: MeshSizes) -> Mesh:
    """A mesh with all axes, of what was given: a mesh, a dictionary, or a text such as chains=4,data=2."""
    if isinstance(mesh, Mesh):
        _check_axes(mesh.axis_names)
        sizes = [mesh.shape.get(axis, 1) for axis in AXES]
        order = [mesh.axis_names.index(axis) for axis in AXES if axis in mesh.axis_names]
        return Mesh(np.transpose(mesh.devices, order).reshape(sizes), AXES)
    axes = parse_mesh(mesh) if isinstance(mesh, str) else mesh
    if not isinstance(axes, Mapping):
        raise TypeError(
            "mesh is a dictionary such as {'chains': 4, 'data': 2}, a text such as 'chains=4,data=2', or a "
            f"jax.sharding.Mesh with these axes, not {mesh!r}."
        )
    _check_axes(tuple(axes))
    sizes = [axes.get(axis, 1) for axis in AXES]
    if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < -1 or n == 0 for n in sizes):
        raise ValueError(
            f"the sizes of a mesh are whole numbers of at least 1, or -1 for the rest; not {mesh!r}."
        )
    devices = jax.devices()
    known = int(np.prod([n for n in sizes if n > 0]))
    if sizes.count(-1) == 1 and len(devices) % known == 0:
        sizes = [len(devices) // known if n == -1 else n for n in sizes]
    if -1 in sizes or np.prod(sizes) != len(devices):
        raise ValueError(
            f"the mesh {mesh!r} has {known}{' times ?' if -1 in sizes else ''} devices, and there are "
            f"{len(devices)} in {jax.process_count()} process{'es' if jax.process_count() > 1 else ''}: the "
            "sizes of its axes must multiply to that. On a CPU, the environment variable "
            "XLA_FLAGS=--xla_force_host_platform_device_count=n makes n, or in Python "
            "jax.config.update('jax_num_cpu_devices', n)."
        )
    return Mesh(np.array(devices).reshape(sizes), AXES)


def _check_axes(names: tuple[Any, ...]) -> None:
    for name in names:
        if name not in AXES:
            raise ValueError(f"the axes of a mesh are chains, data and parameters, not {name!r}.")


def parse_mesh(text: str) -> dict[str, int]:
    """The mesh of a text such as chains=4,data=2; an axis without a number takes what devices are left."""
    sizes = {}
    for part in text.split(","):
        name, separator, number = part.strip().partition("=")
        try:
            sizes[name] = int(number) if separator else -1
        except ValueError:
            raise ValueError(
                f"a mesh is written as chains=4,data=2, or chains for all devices; not {text!r}."
            ) from None
    return sizes
