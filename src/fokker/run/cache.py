"""Compiled programs kept on disk, for the next process to start at once."""

import os
from pathlib import Path

import jax
from platformdirs import user_cache_dir

# Programs that take longer to compile than this, in seconds, are kept.
_WORTH_KEEPING = 0.2


def keep_compiled_programs() -> None:
    """Let JAX keep compiled programs in a folder of the user's, unless it has one or is not to.

    Compiling NUTS takes seconds, and the same model is run many times. JAX's own settings come first
    (JAX_COMPILATION_CACHE_DIR, `jax.config`); FOKKER_CACHE names another folder, or is "off".
    """
    folder = folder_of_programs(getattr(jax.config, "jax_compilation_cache_dir", None))
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)


def folder_of_programs(present: str | None) -> Path | None:
    """Where to keep them; None where JAX has a folder, nothing is to be kept, or none can be made."""
    place = os.environ.get("FOKKER_CACHE") or user_cache_dir("fokker")
    if present is not None or place == "off":
        return None
    folder = Path(place) / "programs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written to
        return None
    return folder
