"""Programs that run a few times only, compiled with little optimisation."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

_QUICK: tuple[dict[str, Any], ...] = (
    {
        "xla_backend_optimization_level": 0,
        "xla_cpu_use_fusion_emitters": False,
        "xla_llvm_disable_expensive_passes": True,
    },
    {"xla_backend_optimization_level": 0},
    {},
)


@functools.cache
def quick_options() -> dict[str, Any]:
    """The first set of options that this version of XLA accepts; XLA does not guarantee any of them."""
    for options in _QUICK:
        try:
            jax.jit(lambda x: x, compiler_options=options)(np.zeros(()))
        except Exception:  # an unknown option is reported in various ways
            continue
        return options
    return {}


def compile_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` for a program that runs only a few times: it is compiled with little optimisation."""
    return jax.jit(function, compiler_options=quick_options())
