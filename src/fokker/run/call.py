"""A call of `fk.sample`: its options are declared here, and nowhere else.

The signature of `fk.sample`, what a folder stores of a run, `fk.resume`, `trace.rerun` and the trials of
`fk.tune` take the names, the defaults and the types from `Options`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Array, Key

from fokker._core.checks import check_whole
from fokker._core.paths import as_folder
from fokker.batches import BatchScheme, BlockBatches
from fokker.dynamics._checks import check_temperature
from fokker.gradients import Estimator
from fokker.run.mesh import Devices, MeshSizes, OneDevice
from fokker.run.positions import Init
from fokker.samplers.contract import Sampler
from fokker.targets.target import Target

if TYPE_CHECKING:
    from fokker.run.trace import Trace

# How rows are drawn: by name, in blocks of their order, or by a score for every datum.
BatchKind = (
    Literal["window", "replacement", "no replacement", "reshuffle", "blocks"]
    | BlockBatches
    | Sequence[float]
    | np.ndarray
    | Array
)

_NOTHING = type(None)


def _stored(*types: type, may_change: bool = False) -> dict[str, Any]:
    """Of an option that is written down: its types in JSON, and whether it may differ when a run goes on."""
    return {"stored": types, "may_change": may_change}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `fk.sample`, which says what they mean."""

    init: Init
    steps: int = field(metadata=_stored(int, may_change=True))
    burn_in: int | None = field(default=None, metadata=_stored(int))
    thin: int = field(default=1, metadata=_stored(int))
    chains: int | None = field(default=None, metadata=_stored(int))
    warm_up: int | None = field(default=None, metadata=_stored(int, _NOTHING))
    batch_size: int | None = field(default=None, metadata=_stored(int, _NOTHING))
    batches: BatchKind | None = field(default=None, metadata=_stored(str, _NOTHING))
    batch_repeats: int = field(default=1, metadata=_stored(int))
    gradient: Estimator | None = None
    seed: int = field(default=0, metadata=_stored(int, _NOTHING))
    key: Key[Array, ""] | None = field(default=None, metadata=_stored(list, _NOTHING))
    temperature: float = field(default=1.0, metadata=_stored(int, float))
    keep: Literal["draws", "moments"] = field(default="draws", metadata=_stored(str, _NOTHING))
    chunk: int = 2**24
    progress: bool = True
    out: str | Path | None = None
    mesh: MeshSizes | None = None
    precision: Literal["double"] | None = field(default=None, metadata=_stored(str, _NOTHING))

    def __post_init__(self) -> None:
        """Raise for options of the wrong kind, before anything is made on the disk."""
        if self.out is not None:
            as_folder(self.out, "out")
        check_temperature(self.temperature)  # type: ignore[arg-type]
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size)
        check_whole("batch_repeats", self.batch_repeats)

    @property
    def folder(self) -> Path | None:
        """That of the run."""
        return None if self.out is None else Path(self.out)

    def values(self) -> dict[str, Any]:
        """All options by name."""
        return {name: getattr(self, name) for name in NAMES}


NAMES = tuple(option.name for option in fields(Options))
# Those that are written down with a run, with their types in JSON; and those that may differ when it goes on.
STORED = {o.name: o.metadata["stored"] for o in fields(Options) if o.metadata}
MAY_CHANGE = tuple(o.name for o in fields(Options) if o.metadata.get("may_change"))


@dataclass(frozen=True)
class Call:
    """What `fk.sample` was called with.

    `resumed`: the trace that goes on. `sample`: the function itself, to call again. `writes`: whether the run
    in its folder goes on; else it is only compared with this one. `chosen`: why this sampler, where
    `sampler="auto"` chose it.
    """

    target: Any
    sampler: Sampler | Callable[..., Sampler] | str
    options: Options
    resumed: "Trace | None" = None
    devices: Devices = field(default_factory=OneDevice)
    sample: "Callable[..., Trace] | None" = None
    writes: bool = True
    chosen: str = ""

    def to_repeat(self, sampler: Sampler | Callable[..., Sampler] | str, options: Options) -> "Call":
        """The call of a second run, without what belongs to this one."""
        return Call(self.target, sampler, options, sample=self.sample)

    def again(self, *, resumed: "Trace | None" = None, **changes: Any) -> "Trace":
        """A second run, with some options changed."""
        if self.sample is None:
            raise ValueError("only a trace of fk.sample can be run again.")
        options = dataclasses.replace(self.options, **changes)
        return self.sample(self.target, self.sampler, resume=resumed, **options.values())


@dataclass(frozen=True)
class Origin:
    """Where a trace comes from.

    `sampler` is on the target, `batches` are made of its data. `call`: to run it again, with what was learned
    filled in. `notes`: problems found in warm-up; `one_start`: whether all chains started at one point.
    """

    target: Target | None
    sampler: Any
    batches: BatchScheme | None
    call: Call | None = None
    notes: tuple[str, ...] = ()
    one_start: bool = False

    @property
    def batch_repeats(self) -> int:
        """How many steps share a batch."""
        return 1 if self.call is None else self.call.options.batch_repeats
