"""States that are divided among devices, on disk by Orbax: every process writes the parts that it has.

    RUN/states/STEPS/states, RUN/states/STEPS/moments   after so many steps

A checkpoint of such a run has no states of its own but the name of their folder, with the size and the digest
of every file in it. It is written after the folder, and a folder is removed once no checkpoint names it: a
kill at any moment leaves a checkpoint with its states.
"""

import contextlib
import hashlib
import itertools
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Sharding
from jaxtyping import Array, PyTree

from fokker._core.files import DamagedFileError, check_no_links, check_own, interpreting

STATES = "states"
# A file by which the folder is known from a user's own.
_MARK = ".fokker"
# Bytes of a file that are read at a time.
_BLOCK = 2**24
_DIGEST = 16


class Divided(NamedTuple):
    """States that were written: the name of their folder, and the seconds that it took."""

    name: str
    seconds: float


def check_orbax() -> None:
    """Raise where Orbax is not installed."""
    if find_spec("orbax") is None:
        raise ImportError(
            "a run with out= whose parameters are divided among devices (the axis parameters of mesh) is "
            "written by Orbax, which is not installed: pip install 'fokker[orbax]'."
        )


def prepare_states(run: Path) -> None:
    """Make the folder of states; raise where one of that name has something else in it."""
    folder = run / STATES
    if check_own(folder) and not (folder / _MARK).is_file() and os.listdir(folder):
        raise ValueError(
            f"{folder} has files in it that are not states of a run, which would be written there: "
            "move or remove it, or give another folder."
        )
    folder.mkdir(exist_ok=True)
    (folder / _MARK).touch()


def unused_name(run: Path, steps: int) -> str:
    """A name for the states after so many steps that no folder has yet."""
    taken = names_of_states(run)
    names = itertools.chain([str(steps)], (f"{steps}-{again}" for again in itertools.count(1)))
    return next(name for name in names if name not in taken)


def names_of_states(run: Path) -> list[str]:
    """The folders that are there, with those that a kill has left unfinished."""
    folder = run / STATES
    is_own = check_own(folder) and (folder / _MARK).is_file()
    return [name for name in os.listdir(folder) if name != _MARK] if is_own else []


def write_divided(run: Path, name: str, states: PyTree[Array], moments: PyTree[Array]) -> Divided:
    """Write states and moments to a new folder; all processes of the run call this."""
    start = time.monotonic()
    with _orbax() as checkpointer:
        for part, tree in (("states", states), ("moments", moments)):
            if leaves := _leaves(tree):
                checkpointer.save(run.absolute() / STATES / name / part, leaves)
                checkpointer.wait_until_finished()
    return Divided(name, time.monotonic() - start)


def described(run: Path, name: str) -> dict[str, Any]:
    """What a checkpoint says of the states in a folder."""
    folder = run / STATES / name
    files = {path: [size, _digest(folder / path)] for path, size in _sizes(folder).items()}
    return {"name": name, "files": files}


def check_divided(run: Path, description: Mapping[str, Any]) -> None:
    """Raise unless the files of the states that a checkpoint names are there, by their sizes."""
    if "divided" not in description:
        return
    name, files = description["divided"]["name"], description["divided"]["files"]
    check_own(run / STATES)
    check_no_links(run / STATES / name)
    if _sizes(run / STATES / name) != {path: size for path, (size, _) in files.items()}:
        raise ValueError(f"the files in {run / STATES / name} are not those that were written there")


def read_divided(
    run: Path, stored: Mapping[str, Any], part: str, sharding: Callable[[Any], Sharding | None]
) -> dict[str, Any]:
    """The arrays of the states or of the moments, by the number of the leaf; raise where a file is damaged.

    `sharding`: how an array lies on the devices, by its shape and type; None for one in the host's memory.
    """
    folder = run.absolute() / STATES / stored["name"]
    for path, (_, digest) in stored["files"].items():
        if path.startswith(f"{part}/") and _digest(folder / path) != digest:
            raise DamagedFileError(
                f"{folder / path} is damaged: restore that folder, or remove the checkpoint that names it, "
                "to go on from the one before."
            )
    if not (folder / part).is_dir():
        return {}
    with interpreting(folder, "state"), _orbax() as checkpointer:
        shapes = checkpointer.metadata(folder / part).item_metadata.tree
        wanted = {
            number: np.empty(x.shape, x.dtype)
            if (place := sharding(x)) is None
            else jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)
            for number, x in shapes.items()
        }
        return checkpointer.restore(folder / part, wanted)


def remove_states(run: Path, names: Iterable[str]) -> None:
    """Remove folders that no checkpoint names any more."""
    for name in names:
        shutil.rmtree(run / STATES / name, ignore_errors=True)


@contextlib.contextmanager
def _orbax() -> Iterator[Any]:
    """A checkpointer, without its warnings: that arrays are read by other devices than wrote them."""
    import orbax.checkpoint

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with orbax.checkpoint.StandardCheckpointer() as checkpointer:
            yield checkpointer


def _leaves(tree: PyTree[Array]) -> dict[str, Array]:
    """The leaves by their numbers; Orbax writes no arrays without entries."""
    return {str(i): x for i, x in enumerate(jax.tree.leaves(tree)) if x.size}


def _sizes(folder: Path) -> dict[str, int]:
    """The size of each file in a folder, by its path there."""
    files = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}


def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
