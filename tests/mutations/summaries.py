"""Mistakes in the summary of many parameters, in predictions and in the checks of data."""

from mutations._mutation import Mutation

_SEEN = "many_parameters::what_is_wrong_is_seen_through_directions_and_means"

MUTATIONS = [
    Mutation(
        "diagnostics/_projections.py",
        "orthogonal = np.linalg.inv(np.linalg.cholesky(gram)).T",
        "orthogonal = np.linalg.inv(np.linalg.cholesky(gram))",
        "directions over all parameters that are not orthogonal",
        ("many_parameters::the_directions_are_orthonormal_over_standardised_scalars",),
    ),
    Mutation(
        "diagnostics/_projections.py",
        "halves = [block[:, :half], block[:, draws - half :]]",
        "halves = [block[:, :half], block[:, :half]]",
        "R-hat by means looks at the first halves of chains only",
        ("many_parameters::the_moments_and_r_hat_of_every_scalar_are_exact",),
    ),
    Mutation(
        "diagnostics/_projections.py",
        "return 2 * (chains - 1) / (chains * (2 * chains - 1))",
        "return 2 * chains / (2 * chains - 1)",
        "the share of parameters said to be visible is too small",
        ("many_parameters",),
    ),
    Mutation(
        "diagnostics/_many.py",
        "group = chain % 2 if chains > 1 else (place >= len(places) // 2).astype(int)",
        "group = chain % 2",
        "the centre of a single chain is that of one half for both",
        ("many_parameters::a_single_chain_is_split_for_the_spread",),
    ),
    Mutation(
        "diagnostics/_many.py",
        "if highest <= allowed:",
        "if highest <= 10 * allowed:",
        "a single parameter whose chains disagree passes",
        (_SEEN,),
    ),
    Mutation(
        "diagnostics/_many.py",
        "return Quantities(names, projections.series).joined(*leaves)",
        "return Quantities(names, projections.series)",
        "the directions within leaves are not judged",
        (_SEEN, "many_parameters"),
    ),
    Mutation(
        "diagnostics/configurational.py",
        "average = np.average(averages[order], axis=2, weights=groups.sizes)[:, :, None]",
        "average = np.average(averages, axis=2)[:, :, None]",
        "leaves of every size count the same in the configurational temperature",
        ("many_parameters::right_draws_are_trusted_and_the_table_is_by_leaf",),
    ),
    Mutation(
        "run/predict.py",
        "first = min(first, size - rows)",
        "first = first % (size - rows + 1)",
        "the last batch of rows is put elsewhere",
        ("predict::predictions_are_the_function_at_every_draw_and_row",),
    ),
    Mutation(
        "_core/draws.py",
        "index = np.minimum(np.arange(first, first + batch), total - 1)",
        "index = np.arange(first, first + batch) % len(places)",
        "predictions of the first chain stand for all",
        ("predict::predictions_are_the_function_at_every_draw_and_row",),
    ),
    Mutation(
        "targets/constrained.py",
        "return self.target.log_likelihood(theta, datum)",
        "return self.log_likelihood(theta, datum)",
        "the likelihood of a constrained posterior takes theta for y",
        ("predict::the_log_likelihood_is_that_of_each_datum_at_every_draw",),
    ),
    Mutation(
        "targets/target.py",
        "finite = [jnp.all(jnp.isfinite(x)) for x in (value, *jax.tree.leaves(gradient))]",
        "finite = [jnp.all(jnp.isfinite(x)) for x in (value,)]",
        "a datum whose gradient is not finite is not named",
        ("targets::a_row_whose_likelihood_is_not_finite_is_named",),
    ),
    Mutation(
        "rows/values.py",
        "return not bool((values < limits.min).any() or (values > limits.max).any())",
        "return True",
        "whole numbers that do not fit into 32 bits wrap around",
        ("targets::data_that_cannot_be_sampled_are_refused",),
    ),
    Mutation(
        "report/page.py",
        "autoescape=True",
        "autoescape=False",
        "the name of a column is run as a program by the browser that shows the report",
        ("page::a_page_shows_texts_as_they_are",),
    ),
]
