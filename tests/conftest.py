"""For every test: ranks are never promoted in silence, and hypothesis draws the same examples each time."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile(
    "fokker",
    deadline=None,  # the first example compiles
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("fokker")


# Half of an exact test is XLA's optimising of code that runs five times: these options leave it out.
_UNOPTIMISED: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_llvm_disable_expensive_passes": True,
}
try:
    jax.jit(lambda x: x, compiler_options=_UNOPTIMISED)(0.0)
except Exception:  # the options are not a promise of XLA's: without them the tests are slower, no more
    _UNOPTIMISED = {}


def quick_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` for a function that is run a few times only."""
    return jax.jit(function, compiler_options=_UNOPTIMISED)


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, for tests that are exact."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def optimised() -> None:
    """For tests that run long or look at bits."""


@pytest.fixture
def quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    """Without XLA's optimisations, for tests that are nearly all compiling; not for those `optimised`."""
    if "optimised" in request.fixturenames:
        yield
        return
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
