"""Bayesian inference by simulating stochastic dynamics: write D and Q, get a sampler, and check it.

Its parts are imported when they are first asked for: what needs no JAX does not wait for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fokker import (
        batches,
        corpora,
        corrections,
        datasets,
        diagnostics,
        dynamics,
        fields,
        gradients,
        integrators,
        models,
        posteriors,
        samplers,
    )
    from fokker.checker import Report, check
    from fokker.completion import Completion, complete
    from fokker.diagnostics.monitor import monitor
    from fokker.dynamics import SDE, Dynamics
    from fokker.dynamics.hamiltonian import Hamiltonian
    from fokker.run import processes
    from fokker.run.api import open, resume, sample, tune
    from fokker.run.optimiser import optax
    from fokker.run.positions import PerChain
    from fokker.run.prior import prior_predictive
    from fokker.run.trace import Trace
    from fokker.run.tuning import Tuning
    from fokker.samplers import schedules
    from fokker.samplers.citation import cite
    from fokker.samplers.lazy import lazy
    from fokker.targets import (
        Density,
        Posterior,
        Table,
        Target,
        constrain,
        constraints,
        find_mode,
        from_bambi,
        from_numpyro,
        from_pymc,
        from_stan,
        tables,
    )

    __version__: str

__all__ = [
    "SDE",
    "Completion",
    "Density",
    "Dynamics",
    "Hamiltonian",
    "PerChain",
    "Posterior",
    "Report",
    "Table",
    "Target",
    "Trace",
    "Tuning",
    "batches",
    "check",
    "cite",
    "complete",
    "constrain",
    "constraints",
    "corpora",
    "corrections",
    "datasets",
    "diagnostics",
    "dynamics",
    "fields",
    "find_mode",
    "from_bambi",
    "from_numpyro",
    "from_pymc",
    "from_stan",
    "gradients",
    "integrators",
    "lazy",
    "models",
    "monitor",
    "open",
    "optax",
    "posteriors",
    "prior_predictive",
    "processes",
    "resume",
    "sample",
    "samplers",
    "schedules",
    "tables",
    "tune",
]

# The public names of each module; any other is a module of its own name.
_NAMES = {
    "checker": "Report check",
    "completion": "Completion complete",
    "diagnostics.monitor": "monitor",
    "dynamics": "Dynamics SDE",
    "dynamics.hamiltonian": "Hamiltonian",
    "run.api": "open resume sample tune",
    "run.optimiser": "optax",
    "run.positions": "PerChain",
    "run.prior": "prior_predictive",
    "run.processes": "processes",
    "run.trace": "Trace",
    "run.tuning": "Tuning",
    "samplers.citation": "cite",
    "samplers.lazy": "lazy",
    "samplers.schedules": "schedules",
    "targets": "Density Posterior Table Target constrain find_mode tables "
    "from_bambi from_numpyro from_pymc from_stan",
    "targets.constraints": "constraints",
}
_HOMES = dict(zip(__all__, __all__, strict=True)) | {
    name: home for home, names in _NAMES.items() for name in names.split()
}


def __getattr__(name: str) -> Any:
    value: Any
    if name in _HOMES:
        home = importlib.import_module(f"fokker.{_HOMES[name]}")
        value = getattr(home, name, home)  # a module has no attribute of its own name
    elif name == "__version__":
        from importlib.metadata import version

        value = version("fokker")
    else:
        from fokker._core.names import no_attribute

        raise no_attribute(__name__, name, __all__)
    globals()[name] = value  # found at once the next time
    return value


def __dir__() -> list[str]:
    return sorted({*_HOMES, "__version__"})
