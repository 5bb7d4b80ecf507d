"""For every test: ranks are never promoted in silence, and hypothesis draws the same examples each time."""

from collections.abc import Iterator

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


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, for tests that are exact."""
    with jax.enable_x64(True):
        yield
