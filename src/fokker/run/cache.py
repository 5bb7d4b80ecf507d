"""Compiled programs stored on disk, so that the next process starts at once."""

import os
from pathlib import Path

import jax
from platformdirs import user_cache_dir

# Programs that take longer to compile than this, in seconds, are stored. All are: a run has some fifty small
# ones, which together take as long to compile as a large one.
_MIN_COMPILE_SECONDS = 0.0


def keep_compiled_programs() -> None:
    """Let JAX store compiled programs in the user's cache folder, unless it has one or this is off.

    Compiling NUTS takes seconds, and the same model is run many times. JAX's own settings come first
    (JAX_COMPILATION_CACHE_DIR, `jax.config`); FOKKER_CACHE names another folder, or is "off".
    """
    folder = folder_of_programs(getattr(jax.config, "jax_compilation_cache_dir", None))
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _MIN_COMPILE_SECONDS)


def folder_of_programs(present: str | None) -> Path | None:
    """The folder to store them in; None where JAX has one, storing is off, or it cannot be created."""
    place = os.environ.get("FOKKER_CACHE") or user_cache_dir("fokker")
    if present is not None or place == "off":
        return None
    folder = Path(place) / "programs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home folder that is not writable
        return None
    return folder
