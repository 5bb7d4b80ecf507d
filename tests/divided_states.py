"""Runs whose parameters four devices divide, for test_divided.py, in a process of its own.

Prints what it found as JSON.
"""

import json
import shutil
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
from fokker._core import parts
from fokker._core.files import DamagedFileError
from fokker.run import lockstep, loop, recording
from fokker.run.store import CHECKPOINT, PREVIOUS, read_checkpoint

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
parts._LEAST_SHARDED = 2
recording._COMMIT_SECONDS = recording._COMMIT_TIMES = 0  # a checkpoint after every block

FOLDER = Path(sys.argv[1])
TARGET = fk.Density(lambda theta: -jnp.sum(theta["w"] ** 2) / 2 - theta["s"] ** 2)
DEALT, SQUARE = {"parameters": 4}, {"chains": 2, "parameters": 2}


def run(mesh, steps, out=None, **options):
    options = {"chains": 2, "burn_in": 2, "chunk": 6, "progress": False, **options}
    init = {"w": jnp.ones(64), "s": 1.0}
    folder = None if out is None else FOLDER / out
    return fk.sample(TARGET, fk.samplers.sgld(0.1), init=init, steps=steps, mesh=mesh, out=folder, **options)


def same(first, second):
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def states_in(name):
    return sorted(path.name for path in (FOLDER / name / "states").iterdir() if path.is_dir())


def refused(mesh, steps, out):
    try:
        run(mesh, steps, out)
    except DamagedFileError as error:
        return str(error)
    return "nothing was refused"


def killed(name, write):
    """A run to 24 steps that ends where its second checkpoint is written: by `write`, in place of Orbax."""
    right, count = loop.write_divided, [0]

    def interrupted(*given):
        count[0] += 1
        return right(*given) if count[0] == 1 else write(right, *given)

    loop.write_divided = interrupted
    try:
        run(DEALT, 24, name)
    except SystemExit:
        pass
    finally:
        loop.write_divided = right
    return int(read_checkpoint(FOLDER / name).description["taken"])


def after_states(right, *given):
    right(*given)
    raise SystemExit


def within_states(right, folder, name, *given):
    right(folder, name, *given)
    unfinished = folder / "states" / f"{name}.orbax-checkpoint-tmp"
    shutil.move(folder / "states" / name, unfinished)
    next(unfinished.rglob("*.ocdbt")).unlink()
    raise SystemExit


def main():
    alone = run(None, 36)
    run(DEALT, 12, "run")
    checkpoint = read_checkpoint(FOLDER / "run")
    first = {"arrays": sorted(name.partition("/")[0] for name in checkpoint.arrays), "left": states_in("run")}
    shares, right = [], lockstep.run_block

    def noted(inputs, chains):
        shares.append(chains.states.position["w"].addressable_shards[0].data.size / 128)
        return right(inputs, chains)

    lockstep.run_block = noted
    run(SQUARE, 24, "run")
    lockstep.run_block = right
    whole = run(None, 36, "run")
    moments = run(None, 12, keep="moments").moments
    run(SQUARE, 12, "moments", keep="moments")
    opened = fk.open(FOLDER / "moments")
    kills = {name: killed(name, write) for name, write in (("after", after_states), ("in", within_states))}
    ended = {name: run(DEALT, 24, name) for name in kills}
    left = {name: states_in(name) for name in kills}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        next((FOLDER / "in" / "states" / left["in"][-1]).rglob("d/*")).unlink()
        missing = run(DEALT, 30, "in")
    stored = read_checkpoint(FOLDER / "after").description["divided"]
    file = (
        FOLDER
        / "after"
        / "states"
        / stored["name"]
        / max(stored["files"], key=lambda f: stored["files"][f][0])
    )
    contents = bytearray(file.read_bytes())
    contents[len(contents) // 2] ^= 1
    file.write_bytes(contents)
    damaged = refused(DEALT, 30, "after")
    (FOLDER / "after" / CHECKPOINT).unlink()
    with warnings.catch_warnings(action="ignore"):  # that run.json is newer
        before_it = run(DEALT, 30, "after")
    return {
        **first,
        "share": shares[0],
        "same": same(alone.samples, whole.samples),
        "on one device": [
            "divided" in read_checkpoint(FOLDER / "run").description,
            (FOLDER / "run" / PREVIOUS).exists(),
        ],
        "moments": same(moments, opened.moments),
        "kills": kills,
        "ended": [same(jax.tree.map(lambda x: x[:, :24], alone.samples), t.samples) for t in ended.values()],
        "left of them": left,
        "missing": same(jax.tree.map(lambda x: x[:, :30], alone.samples), missing.samples),
        "said": [str(w.message) for w in caught if "are not those that were written" in str(w.message)],
        "damaged": damaged,
        "file": str(file),
        "without it": same(jax.tree.map(lambda x: x[:, :30], alone.samples), before_it.samples),
    }


print(json.dumps(main()))
