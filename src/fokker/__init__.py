"""Bayesian inference by simulating stochastic dynamics: write D and Q, get a sampler, and check it.

Its parts are imported when they are first asked for: what needs no JAX does not wait for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fokker import (
        constraints,
        corpora,
        corrections,
        diagnostics,
        dynamics,
        fields,
        gradients,
        integrators,
        models,
        samplers,
        schedules,
    )
    from fokker.checker import Report, check
    from fokker.completion import Completion, complete
    from fokker.dynamics import SDE, Dynamics
    from fokker.hamiltonian import Hamiltonian
    from fokker.run.sample import sample
    from fokker.targets import Density, Posterior, constrain, find_mode, from_numpyro, from_stan
    from fokker.trace import Trace
    from fokker.tuning import Tuning, tune

    __version__: str

__all__ = [
    "SDE",
    "Completion",
    "Density",
    "Dynamics",
    "Hamiltonian",
    "Posterior",
    "Report",
    "Trace",
    "Tuning",
    "check",
    "complete",
    "constrain",
    "constraints",
    "corpora",
    "corrections",
    "diagnostics",
    "dynamics",
    "fields",
    "find_mode",
    "from_numpyro",
    "from_stan",
    "gradients",
    "integrators",
    "models",
    "sample",
    "samplers",
    "schedules",
    "tune",
]

# Which module each name is from.
_HOMES = {
    "SDE": "dynamics",
    "Completion": "completion",
    "Density": "targets",
    "Dynamics": "dynamics",
    "Hamiltonian": "hamiltonian",
    "Posterior": "targets",
    "Report": "checker",
    "Trace": "trace",
    "Tuning": "tuning",
    "check": "checker",
    "complete": "completion",
    "constrain": "targets",
    "find_mode": "targets",
    "from_numpyro": "targets",
    "from_stan": "targets",
    "sample": "run.sample",
    "tune": "tuning",
}
# Modules that are attributes without an import of their own.
_MODULES = {
    "batches",
    "checker",
    "completion",
    "constraints",
    "corpora",
    "corrections",
    "diagnostics",
    "dynamics",
    "fields",
    "gradients",
    "hamiltonian",
    "integrators",
    "lda",
    "models",
    "noise",
    "plots",
    "report",
    "run",
    "samplers",
    "scales",
    "schedules",
    "targets",
    "trace",
    "tuning",
    "walking",
}


def __getattr__(name: str) -> Any:
    value: Any
    if name in _HOMES:
        value = getattr(importlib.import_module(f"fokker.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"fokker.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("fokker")
    else:
        raise AttributeError(f"module 'fokker' has no attribute {name!r}")
    globals()[name] = value  # found at once the next time
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})
