"""Mistakes where other libraries are met: samplers as optimisers of Optax, models, names of axes, seeds."""

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
        "return self.integrator.gradient_at_start",
        "return True",
        "a reflected splitting taken for a step with its gradient at the start",
        _REFUSED,
    ),
    Mutation(
        "_core/labels.py",
        "return str(self.coords[axis][place]) if axis in self._distinct else str(place)",
        "return str(place)",
        "scalars named by their places where their axis has entries",
        ("labels::tables_and_reports_have_the_entries",),
    ),
    Mutation(
        "_core/labels.py",
        "if len({str(x) for x in entries}) == len(entries)",
        "if True",
        "two scalars of one name, as their axis has an entry twice",
        ("labels::entries_that_read_alike_do_not_make_two_scalars_alike",),
    ),
    Mutation(
        "run/saved.py",
        '"labels": trace.labels.written(),',
        '"labels": {"dims": {}, "coords": {}},',
        "a saved trace without the names of its axes",
        ("labels::a_stored_run_keeps_them",),
    ),
    Mutation(
        "_core/statistics.py",
        "setattr(result, name, result[name].squeeze(added, drop=True))",
        "pass",
        "a constant of a model as an array of one, which PyMC takes for another value",
        ("labels::a_stored_run_keeps_the_constants_of_a_model",),
    ),
    Mutation(
        "targets/_program.py",
        "axis = batch + frame.dim",
        "axis = len(shape) + frame.dim",
        "the plate of a site with event axes taken for the name of the last axis",
        ("numpyro::plates_are_names_of_axes_and_the_log_likelihood_is_that_of_each_datum",),
    ),
    Mutation(
        "run/predict.py",
        "jax.random.fold_in(jax.random.wrap_key_data(own), place)",
        "jax.random.wrap_key_data(own)",
        "the same random numbers for every row of a prediction",
        ("predict::random_predictions_have_a_key_per_draw_and_row_whatever_the_batches",),
    ),
    Mutation(
        "_core/keys.py",
        "2**63 - 1 if bits == 64 else 2**32 - 1",
        "2**63 - 1",
        "a seed of more than 32 bits, which JAX takes for another",
        ("bad_input::bad_runs_are_refused_by_name",),
    ),
    Mutation(
        "targets/_pymc_graph.py",
        "outputs = clone_replace(list(observed), replace=list(zip(free, inputs, strict=True)))",
        "outputs = list(observed)",
        "PyMC's observed variables are drawn from the prior, whatever the draws",
        ("pymc::predictive_draws_are_of_the_model_at_each_draw",),
    ),
    Mutation(
        "targets/pymc_model.py",
        'return int.from_bytes(np.asarray(jax.random.key_data(key), np.uint32).tobytes(), "little")',
        "return 0",
        "PyMC's draws do not depend on the key",
        ("pymc::predictive_draws_are_of_the_model_at_each_draw",),
    ),
    Mutation(
        "run/model.py",
        '"prior": {name: x for name, x in of_prior.items() if name not in observed},',
        '"prior": dict(of_prior),',
        "observed variables among the prior draws of parameters",
        ("numpyro::the_prior_predictive_has_the_law_of_the_prior",),
    ),
    Mutation(
        "targets/_independence.py",
        "jnp.moveaxis(jax.vmap(linear)(directions), 0, -1)",
        "0 * jnp.moveaxis(jax.vmap(linear)(directions), 0, -1)",
        "rows that depend on one another are looked for in the values alone",
        ("independence::what_the_derivative_alone_shows_is_named",),
    ),
    Mutation(
        "targets/_independence.py",
        "_check_same(np.asarray(prior[0]), np.asarray(prior[1]), names, tolerance)",
        "pass",
        "a prior that rows enter is taken from one of them",
        ("independence::rows_that_depend_on_one_another_are_refused",),
    ),
    Mutation(
        "targets/_program.py",
        "shape.count(size) == 1 and sizes.count(size) == 1",
        "size in shape",
        "the entries of a plate along another axis of a computed value",
        ("numpyro::axes_of_computed_values_are_named_only_where_one_can_be_meant",),
    ),
    Mutation(
        "targets/_program.py",
        'jnp.where(jnp.broadcast_to(is_masked(site["fn"]), log_prob.shape), jnp.nan, log_prob)',
        "log_prob",
        "masked entries are data of likelihood 1",
        ("numpyro::masked_entries_are_no_data_and_a_scale_is_none_of_the_likelihood",),
    ),
]
