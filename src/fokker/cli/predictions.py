"""`fokker predict`: posterior predictions for new rows of data, in a file."""

import csv
import functools
import inspect
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PyTree
from scipy.special import logsumexp

from fokker._core.draws import shape_of_draws
from fokker._core.files import write_atomically
from fokker._core.keys import key_of_seed
from fokker._core.state import describe_shapes
from fokker.cli.flags import CommandError
from fokker.cli.model_file import DATA, PREDICT, ModelFile
from fokker.rows import is_source, leaves
from fokker.rows.table import Columns
from fokker.run.folder import describe_theta
from fokker.run.positions import PerChain
from fokker.run.predict import predict
from fokker.run.progress import Progress
from fokker.run.store import read_checkpoint
from fokker.run.stored import StoredTrace
from fokker.run.trace import Trace
from fokker.targets.target import TargetWithData

# Numbers that the predictions of a block of rows may have, over all draws.
_NUMBERS = 2**24
LOG_DENSITY = "log_predictive_density"


class RowPredictor(NamedTuple):
    """`function((theta, draw number), (rows, row numbers))`, the rows of new data, and what it predicts."""

    function: Callable[..., PyTree[Array]]
    rows: PyTree[Any]
    is_log_density: bool
    description: str


def open_with_theta(
    folder: Path, model: ModelFile, init: str, data: Callable[[], Any] = lambda: None
) -> Trace:
    """The run in a folder, with draws in the tree of `init` in the model's file, as log_prior was given it.

    `data()` reads the data of the run, for an `init` that takes them. Without an init, or where its leaves
    have other names than those of the run, theta is made of dictionaries and tuples, as `fk.open` reads it.
    """
    theta = _theta_like(model, init, data)
    # Both lists are in the order of the leaves: only then can these be put into that tree.
    is_same = describe_theta(theta) == read_checkpoint(folder).description["theta"]
    return StoredTrace(folder, structure=jax.tree.structure(theta) if is_same else None)


def _theta_like(model: ModelFile, name: str, data: Callable[[], Any]) -> PyTree[Any]:
    """A tree like theta, where the file has one; else None."""
    init: Any = getattr(model.module, name, None)
    if inspect.isfunction(init) and DATA in inspect.signature(init).parameters:
        init = model.init(name, None, data())
    if isinstance(init, PerChain):
        return init.positions
    # A theta may be a module that can be called.
    is_function = inspect.isfunction(init) or isinstance(init, functools.partial)
    return jax.eval_shape(init, jax.random.key(0)) if is_function else init


def draws_of(trace: Trace, most: int) -> PyTree[np.ndarray]:
    """At most so many draws, evenly spaced over all chains, with leading axes chain and draw."""
    samples = trace.samples
    chains, number = shape_of_draws(samples)
    count = max(1, min(number, most // chains))
    places = np.linspace(0, number - 1, count).round().astype(int)
    return jax.tree.map(lambda x: np.asarray(x)[:, places], samples)


def predictor(model: ModelFile, data: Columns | None, seed: int) -> RowPredictor:
    """What can be predicted: `predict` in the model's file, or else the log density of each row."""
    function = getattr(model.module, PREDICT, None)
    if function is not None:
        bound, key = model.bound(function), key_of_seed(seed)
        takes_key = "key" in inspect.signature(bound).parameters

        def values(draw: Any, row: Any) -> Any:
            (theta, number), (datum, place) = draw, row
            if not takes_key:
                return bound(theta, datum)
            return bound(theta, datum, key=jax.random.fold_in(jax.random.fold_in(key, number), place))

        return RowPredictor(_by_row(values), data, False, f"{PREDICT}() in {model.file}")
    target: Any = model.target(data)
    if not isinstance(target, TargetWithData):
        raise CommandError(
            f"{model.file} has no function {PREDICT}(theta, datum), and its target is no fk.Posterior, whose "
            f"log likelihood could be evaluated: define {PREDICT}."
        )
    # Draws are of the constrained theta.
    likelihood = target.log_likelihood_of_theta
    return RowPredictor(
        _by_row(lambda draw, row: likelihood(draw[0], row[0])),
        target.data,
        True,
        f"the log predictive density of each row, as {model.file} has no function {PREDICT}(theta, datum)",
    )


def _by_row(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda draw, rows: jax.vmap(lambda row: function(draw, row))(rows)


def write_predictions(
    path: Path, prediction: RowPredictor, draws: PyTree[Any], quantiles: Sequence[float]
) -> tuple[int, int]:
    """Write one line per row, in the order of the data, and return how many rows and columns there are.

    Rows are taken in blocks, so that memory does not grow with their number.
    """
    chains, number = shape_of_draws(draws)
    numbered = (draws, np.arange(chains * number, dtype=np.uint32).reshape(chains, number))
    size = len(leaves(prediction.rows)[0])
    datum = _span(prediction.rows, 0, 1)
    outputs = _values_of(prediction, numbered, (datum, np.zeros(1, np.uint32)), 1)
    names = _names(outputs)
    per_row = chains * number * len(names)
    block = max(1, min(size, _NUMBERS // per_row))
    columns = (
        [LOG_DENSITY] if prediction.is_log_density else [c for n in names for c in _columns(n, quantiles)]
    )

    def write(binary: BinaryIO) -> None:
        file = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        with Progress("predicting", size, unit="rows") as bar:
            writer = csv.writer(file)
            writer.writerow(["row", *columns])
            for first, start in _blocks(size, block):
                part = _span(prediction.rows, start, start + block)
                numbers = np.arange(start, start + block, dtype=np.uint32)
                values = _flat(_values_of(prediction, numbered, (part, numbers), block))[:, first - start :]
                table = _log_mean_exp(values) if prediction.is_log_density else _statistics(values, quantiles)
                writer.writerows([first + i, *map(_number, line)] for i, line in enumerate(table.tolist()))
                bar.update(start + block)
        file.detach()  # which flushes, and leaves the file open to be synced

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():  # a pipe or a device, such as /dev/stdout
        with path.open("wb") as pipe:
            write(pipe)
    else:
        write_atomically(path, write)
    return size, len(columns)


def _span(rows: PyTree[Any], first: int, end: int) -> PyTree[np.ndarray]:
    """Some of the rows, of which those in files are read only now."""
    return jax.tree.map(lambda x: np.asarray(x[first:end]), rows, is_leaf=is_source)


def _blocks(size: int, block: int) -> Iterator[tuple[int, int]]:
    """The first new row of each block and where it starts: the last overlaps, so that all have one size."""
    for first in range(0, size, block):
        yield first, min(first, size - block)


def _values_of(
    prediction: RowPredictor, draws: PyTree[np.ndarray], rows: PyTree[np.ndarray], block: int
) -> PyTree[np.ndarray]:
    values = predict(prediction.function, draws, rows, (), block, 1, None, False, prediction.description)
    wrong = [x for x in jax.tree.leaves(values) if x.dtype.kind not in "biuf" or x.ndim > 4]
    if wrong:
        raise CommandError(
            f"{prediction.description} returned the shapes {describe_shapes(values)}: a number, a vector, "
            "or a dictionary of these is needed."
        )
    return values


def _names(values: PyTree[np.ndarray]) -> list[str]:
    """A name for each number that is predicted of a row: empty for a single one."""
    names = []
    for path, leaf in jax.tree.leaves_with_path(values):
        name = "_".join(
            str(getattr(part, "key", getattr(part, "idx", getattr(part, "name", "")))) for part in path
        )
        size = leaf[0, 0, 0].size
        names += [name] if leaf.ndim == 3 else [f"{name}[{i}]" for i in range(size)]
    return names


def _columns(name: str, quantiles: Sequence[float]) -> list[str]:
    start = f"{name}_" if name else ""
    return [f"{start}{what}" for what in ("mean", "sd", *(f"q{q:g}" for q in quantiles))]


def _flat(values: PyTree[np.ndarray]) -> np.ndarray:
    """All draws × row × number."""
    leaves = [np.asarray(x, float) for x in jax.tree.leaves(values)]
    return np.concatenate([x.reshape(-1, x.shape[2], int(np.prod(x.shape[3:]))) for x in leaves], axis=2)


def _statistics(values: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
    """Row × column: mean, standard deviation and quantiles of each number."""
    spread = values.std(axis=0, ddof=min(1, len(values) - 1))
    table = np.stack([values.mean(axis=0), spread, *np.quantile(values, quantiles, axis=0)], axis=2)
    return table.reshape(len(table), -1)


def _log_mean_exp(values: np.ndarray) -> np.ndarray:
    """log of the mean over draws of exp(values): the log of p(row | data)."""
    return logsumexp(values, axis=0) - np.log(len(values))


def _number(value: float) -> str:
    return f"{value:.7g}"
