"""Mistakes in samplers as optimisers of Optax."""

from mutations._mutation import Mutation

_STEPS = ("optax::steps_are_those_of_the_sampler",)
_REFUSED = ("optax::samplers_that_one_gradient_cannot_serve_are_refused",)

MUTATIONS = [
    Mutation(
        "run/optimiser.py",
        "return self.number * inner(batch, theta) - self.log_prior(theta)",
        "return inner(batch, theta) - self.log_prior(theta)",
        "the gradient of a mean loss taken for that of the sum",
        _STEPS,
    ),
    Mutation(
        "run/optimiser.py",
        "return updates, OptaxState(state.key, auxiliaries, after.step, sound)",
        "return updates, OptaxState(state.key, auxiliaries, state.step, sound)",
        "the same noise at every step of an optimiser",
        _STEPS,
    ),
    Mutation(
        "run/optimiser.py",
        "placed = sampler.on(GivenGradient(log_prior, _checked_size(size)), temperature)",
        "placed = sampler.on(GivenGradient(log_prior, _checked_size(size)))",
        "the temperature of an optimiser forgotten",
        _STEPS,
    ),
    Mutation(
        "run/optimiser.py",
        "updates = jax.tree.map(jnp.subtract, raised(after.position), raised(theta))",
        "updates = jax.tree.map(jnp.subtract, after.position, theta)",
        "an update in half precision, which is rounded to nearest",
        ("optax::half_precision_is_rounded_once",),
    ),
    Mutation(
        "run/optimiser.py",
        "sound &= info.noise_shortfall >= 0",
        "sound &= True",
        "an optimiser does not say that the noise to subtract was too large",
        ("optax::what_went_wrong_is_remembered",),
    ),
    Mutation(
        "integrators/reflecting.py",
        'return getattr(self.integrator, "gradient_at_start", False)',
        "return True",
        "a reflected splitting taken for a step with its gradient at the start",
        _REFUSED,
    ),
]
