"""Whether what a checkpoint says of its run can be so: types, sizes, and names that stay in its folder."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fokker.run.call import STORED
from fokker.run.variable import RECORD_BYTES

# What was learned before the first step, in a checkpoint: the name is that of the format.
LEARNED = "learnt"
# The groups of ArviZ.
POSTERIOR, STATISTICS = "posterior", "sample_stats"
# The places of the entries of theta that are constant by construction.
FIXED = "fixed"
# What cannot be in the name of a file, what stands for it, and names that mean something else.
_IS_WINDOWS = os.name == "nt"
_NOT_IN_FILES, _REPLACEMENT = (r'[/\\\0<>:"|?*]', "_") if _IS_WINDOWS else (r"[/\\\0]", "|")
_TAKEN = ("", ".", "..", "zarr.json")
# The most steps, draws and chains.
_MOST, _MOST_CHAINS = 2**62, 2**24
_CHAINS_OF_OLD_RUNS = 1

_Types = type | tuple[type, ...]
_NUMBER = (int, float)
_NOTHING = type(None)
_FIELDS: Mapping[str, _Types] = {
    "settings": dict,
    "environment": dict,
    "fingerprints": dict,
    "theta": list,
    "notes": list,
    "one_start": bool,
    "taken": int,
    "stopped": (str, _NOTHING),
    "draws": int,
    "chunk": int,
}
_OPTIONAL: Mapping[str, _Types] = {
    "losses": dict,
    LEARNED: dict,
    "used": dict,
    "id": str,
    "serial": int,
    "divided": dict,
}
_SETTINGS: Mapping[str, _Types] = {
    **STORED,
    "step_size": (*_NUMBER, str, _NOTHING),
    "sampler": (str, _NOTHING),
    "sampler_name": str,
    "chosen": str,
}
_LEARNED: Mapping[str, _Types] = {"tuned": dict, "settings": dict, "notes": list}


def chains_of(settings: Mapping[str, Any]) -> int:
    """The number of chains; runs that do not say it are of when there was one unless more were asked for."""
    return int(settings.get("chains", _CHAINS_OF_OLD_RUNS))


def file_name(name: str) -> str:
    """A name like this one that a file can have."""
    return re.sub(_NOT_IN_FILES, _REPLACEMENT, name)


def is_file_name(name: object) -> bool:
    """Whether this can be the name of a file or folder, within the one that it is put in."""
    return isinstance(name, str) and name not in _TAKEN and not re.search(_NOT_IN_FILES, name)


def check_description(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise a `ValueError` unless a checkpoint with these arrays can be that of a run."""
    _check_types("it", description, _FIELDS, _OPTIONAL)
    settings, used = description["settings"], description.get("used", {})
    for name, values in (("settings", settings), ("used", used)):
        _check_types(name, values, {}, _SETTINGS)
    for name in ("steps", "burn_in"):
        if name not in settings:
            raise ValueError(f"settings has no {name}")
    counts = {
        **{n: settings[n] for n in ("steps", "burn_in")},
        **{n: description[n] for n in ("taken", "draws")},
    }
    for name, value in counts.items():
        if not 0 <= value < _MOST:
            raise ValueError(f"{name} is {value}")
    if not 1 <= description["chunk"] < _MOST:
        raise ValueError(f"chunk is {description['chunk']}")
    chains = used.get("chains", chains_of(settings))
    if not 1 <= chains <= _MOST_CHAINS:
        raise ValueError(f"chains is {chains}")
    for name in ("environment", "fingerprints"):
        _check_texts(name, description[name].values())
    _check_texts("notes", description["notes"])
    _check_losses(description.get("losses", {}), chains)
    if LEARNED in description:
        _check_learned(description[LEARNED])
    if "divided" in description:
        _check_divided(description["divided"])
    _check_theta(description["theta"])
    _check_arrays(description, arrays, chains)


def _check_types(
    what: str, values: Mapping[str, Any], required: Mapping[str, _Types], optional: Mapping[str, _Types]
) -> None:
    for name, types in {**optional, **required}.items():
        if name not in values:
            if name in required:
                raise ValueError(f"{what} has no {name}")
            continue
        value = values[name]
        is_wanted = isinstance(value, types) and (types is bool or not isinstance(value, bool))
        if not is_wanted:
            raise ValueError(f"{name} is {type(value).__name__} ({str(value)[:40]})")


def _check_texts(what: str, values: Iterable[object]) -> None:
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{what} has something other than texts in it")


def _check_losses(losses: Mapping[str, Any], chains: int) -> None:
    for chain, loss in losses.items():
        is_loss = isinstance(loss, list) and [type(x) for x in loss] == [int, int, str]
        if not is_loss or not chain.isdecimal() or int(chain) >= chains or not 0 <= loss[0] < _MOST:
            raise ValueError(f"losses has {chain!r}: {str(loss)[:40]}")


def _check_learned(learned: Mapping[str, Any]) -> None:
    _check_types(LEARNED, learned, _LEARNED, {})
    _check_texts("the notes of what was learned", learned["notes"])
    if not all(isinstance(value, (*_NUMBER, _NOTHING)) for value in learned["tuned"].values()):
        raise ValueError("tuned has something other than numbers in it")
    for setting in learned["settings"].values():
        _check_types("a learned setting", setting, {"class": str, "leaves": int}, {})


def _check_divided(divided: Mapping[str, Any]) -> None:
    _check_types("divided", divided, {"name": str, "files": dict}, {})
    if not is_file_name(divided["name"]):
        raise ValueError(f"{divided['name']!r} cannot be the name of a folder")
    for path, entry in divided["files"].items():
        is_path = all(is_file_name(name) for name in path.split("/"))
        if not is_path or not isinstance(entry, list) or [type(x) for x in entry] != [int, str]:
            raise ValueError(f"divided has {path!r}: {str(entry)[:40]}")


def _check_theta(theta: list[Any]) -> None:
    """The names become those of files."""
    for leaf in theta:
        _check_types("a leaf of theta", leaf, {"name": str, "path": list}, {})
        if not is_file_name(leaf["name"]):
            raise ValueError(f"{leaf['name']!r} cannot be the name of a variable")
        if not all(isinstance(entry, int | str) for entry in leaf["path"]):
            raise ValueError(f"the path of {leaf['name']!r} is not of names and numbers")
    if len({leaf["name"] for leaf in theta}) < len(theta):
        raise ValueError("two leaves of theta have one name")


def _check_arrays(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray], chains: int) -> None:
    draws, chunk = description["draws"], description["chunk"]
    theta = {leaf["name"] for leaf in description["theta"]}
    parts: dict[str, set[str]] = {}
    for array, x in arrays.items():
        part, _, name = array.partition("/")
        if part == "tail":
            part, _, name = name.partition("/")
            if part not in (POSTERIOR, STATISTICS) or not is_file_name(name):
                raise ValueError(f"{array!r} cannot be the name of a variable")
            if x.ndim < 2 or x.shape[:2] != (chains, draws % chunk) or x.dtype.kind in "SU":
                raise ValueError(f"the draws {array!r} are {x.dtype} of the shape {x.shape}")
            records = arrays.get(f"chunks/{part}/{name}")
            number = 0 if 0 in x.shape[2:] else draws // chunk
            if records is not None and (records.shape != (number, RECORD_BYTES) or records.dtype != np.uint8):
                raise ValueError(f"what is recorded of the chunks of {array!r} has the shape {records.shape}")
        if part == FIXED and (name not in theta or x.dtype != bool):
            raise ValueError(f"{array!r} does not say where a variable of theta is constant")
        parts.setdefault(part, set()).add(name)
    if draws and not parts.keys() & {POSTERIOR, STATISTICS}:
        raise ValueError(f"it counts {draws:,} draws and has no variable")
    has_moments = "moments" in parts
    for part in (POSTERIOR, *(("mean", "squares") if has_moments else ())):
        if parts.get(part, theta) != theta:
            raise ValueError(f"the variables of {part} are not those of theta")
    if not has_moments:
        return
    count = arrays.get("moments/count")
    if count is None or count.shape != (chains,) or count.dtype.kind not in "iu":
        raise ValueError("its moments have no count per chain")
    for name in theta:
        shapes = {arrays[f"{part}/{name}"].shape for part in ("mean", "squares")}
        if len(shapes) > 1 or next(iter(shapes))[:1] != (chains,):
            raise ValueError(f"the moments of {name!r} have the shapes {shapes}")
