"""Mistakes in rows that are moved lazily, and in matrix factorisation."""

from mutations._mutation import Mutation

_EXACT = ("lazy::rows_have_the_exact_stationary_law_at_a_temperature",)
_NO_NOISE = (
    "lazy::without_noise_a_step_is_the_dense_one_on_the_rows_seen_and_the_prior_solved_on_the_others",
)

MUTATIONS = [
    *(
        Mutation(
            "models/factorisation/hyperparameters.py",
            "(a - 1) * logs - _RATE * a + log_a",
            mistake,
            f"the step for the shape of the noise keeps exp({mistake})",
            ("factorisation::shape_and_rate_have_their_exact_posterior",),
        )
        for mistake in (
            "(a - 1) * logs - _RATE * a",
            "(a - 1) * logs + log_a",
            "a * logs - _RATE * a + log_a",
        )
    ),
    Mutation(
        "models/factorisation/predict.py",
        "mean, bounds = (np.clip(x, *ratings.range) for x in (mean, bounds))",
        "mean = np.clip(mean, *ratings.range)",
        "clipped recommendations have intervals outside of the range",
        ("factorisation::recommendations_can_be_clipped_to_the_range_of_the_ratings",),
    ),
    Mutation(
        "models/factorisation/chain.py",
        "np.ptp(values) > _ROUNDING * np.max(np.abs(values))",
        "np.std(values) > 0",
        "ratings that differ by rounding are scaled up",
        ("factorisation::ratings_that_differ_by_rounding_are_the_same",),
    ),
    Mutation(
        "integrators/quadratic_well.py",
        "jnp.sqrt(temperature / curvature * -jnp.expm1(-2 * exponent))",
        "jnp.sqrt(temperature / curvature * -jnp.expm1(-exponent))",
        "the noise of rows not seen is too small",
        ("lazy::many_steps_at_once_have_the_law_of_single_steps",),
    ),
    Mutation(
        "integrators/quadratic_well.py",
        "var_r = -jnp.expm1(-gamma * time) + gamma * g * (c - a * g)",
        "var_r = -jnp.expm1(-2 * gamma * time)",
        "the momentum of rows not seen moves without the force of the prior",
        ("lazy::the_underdamped_law_is_that_of_the_linear_equation",),
    ),
    Mutation(
        "samplers/lazy.py",
        "missed = {name: state.step.low - p.seen for name, p in places.items()}",
        "missed = {name: jnp.zeros_like(p.seen) for name, p in places.items()}",
        "rows stand still while they are not seen",
        _EXACT,
    ),
    Mutation(
        "samplers/_rows.py",
        "written = jnp.where(first == order, numbers, rows)",
        "written = jnp.where(first <= order, numbers, rows)",
        "of a row that occurs twice in a batch the wrong place is written back",
        _NO_NOISE,
    ),
    Mutation(
        "models/factorisation/hyperparameters.py",
        "scatter = sums.scatter + _MEAN_COUNT * n / total * np.outer(sums.mean, sums.mean)",
        "scatter = sums.scatter",
        "the prior mean is left out of the precision's conditional",
        ("factorisation::hyperparameters_given_rows_have_the_moments_of_their_conditional",),
    ),
    Mutation(
        "models/factorisation/predict.py",
        "forces + tau * sums",
        "tau * sums",
        "a new user has no prior mean",
        ("factorisation::a_new_row_has_the_exact_conditional",),
    ),
    Mutation(
        "models/factorisation/chain.py",
        "total += np.bincount(",
        "total = np.bincount(",
        "residuals of all blocks of ratings but the last are left out",
        ("factorisation::residuals_are_those_of_all_ratings",),
    ),
    Mutation(
        "models/factorisation/conditional.py",
        "precisions * (ratings.data - others[ratings.indices, 0])",
        "precisions * ratings.data",
        "exact draws of users forget the biases of items",
        ("factorisation::rows_given_the_other_table_have_the_mode_of_the_posterior_for_their_mean",),
    ),
    Mutation(
        "models/factorisation/conditional.py",
        "weights = _like(ratings, precisions)",
        "weights = _like(ratings, np.ones_like(precisions))",
        "the precision of exact draws forgets that of the noise",
        ("factorisation::rows_given_the_other_table_have_the_mode_of_the_posterior_for_their_mean",),
    ),
    Mutation(
        "models/factorisation/conditional.py",
        "force += generator.standard_normal(force.shape)",
        "force += 0.9 * generator.standard_normal(force.shape)",
        "exact draws are a tenth too narrow",
        ("factorisation::gaussians_are_drawn_with_their_mean_and_covariance",),
    ),
    Mutation(
        "models/factorisation/chain.py",
        "for name, other in (TABLES, TABLES[::-1]):",
        "for name, other in (TABLES,):",
        "the table of items is never drawn",
        ("factorisation::sweeps_keep_the_joint_distribution_of_tables_and_ratings",),
    ),
    Mutation(
        "models/factorisation/chain.py",
        "chain.precisions[self.order[name]],",
        "chain.precisions,",
        "ratings by items have the noise of other users",
        ("factorisation::users_who_rate_irregularly_have_wider_intervals",),
    ),
    Mutation(
        "models/factorisation/hyperparameters.py",
        "1 / (b + squares / 2))",
        "1 / (b + squares))",
        "the noise of users is too large by the root of two",
        ("factorisation::the_noise_precision_has_the_moments_of_its_gamma",),
    ),
    Mutation(
        "models/factorisation/hyperparameters.py",
        "return number * (a * math.log(b) - math.lgamma(a)) + (a - 1) * logs",
        "return number * (a * math.log(b) - math.lgamma(a)) + a * logs",
        "the shape of the noise's distribution has another conditional",
        ("factorisation::shape_and_rate_of_the_noise_are_learned",),
    ),
    Mutation(
        "models/factorisation/predict.py",
        "low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)",
        "low, high = np.where(is_below, middle, low), high",
        "intervals are too wide",
        ("factorisation::bounds_of_intervals_are_quantiles_of_the_mixture",),
    ),
    Mutation(
        "samplers/lazy.py",
        "        return _with_rows(state, z, state.step, rows)",
        "        return _with_rows(state, z, state.step, seen)",
        "rows that are brought up to date are brought up again",
        ("factorisation::after_a_pass_all_rows_are_up_to_date_and_a_dense_chain_needs_no_such_thing",),
    ),
    *(
        Mutation(f"models/factorisation/{file}", text, mistake, what, (f"side_information::{test}",))
        for file, text, mistake, what, test in (
            (
                "hyperparameters.py",
                "scatter = scatter - sums.slopes.T @ (sums.slopes / weights)",
                "scatter = scatter - 0.5 * sums.slopes.T @ (sums.slopes / weights)",
                "the precision of rows forgets a half of what features explain",
                "links_have_the_moments_of_a_regression",
            ),
            (
                "hyperparameters.py",
                "np.sqrt(total / weights)",
                "np.sqrt(1 / weights)",
                "links are drawn too narrow",
                "links_and_their_precision_keep_the_joint_distribution",
            ),
            (
                "hyperparameters.py",
                "generator.gamma(_SHAPE + link.size / 2,",
                "generator.gamma(_SHAPE + len(link) / 2,",
                "the precision of links counts columns and not numbers",
                "links_and_their_precision_keep_the_joint_distribution",
            ),
            (
                "hyperparameters.py",
                "np.sum(link @ precision * link) / 2",
                "np.sum(link * link) / 2",
                "the precision of links forgets that of rows",
                "links_and_their_precision_keep_the_joint_distribution",
            ),
            (
                "conditional.py",
                "force += (shifts[part] @ prior.precision).T",
                "force += shifts[part].T",
                "features pull rows without the precision of their prior",
                "rows_have_the_mean_that_their_features_say",
            ),
            (
                "minibatches.py",
                "chain.tables[name] = chain.tables[name] + shift",
                "pass",
                "minibatches leave rows without what their features add",
                "minibatches_move_rows_without_what_features_add",
            ),
            (
                "hyperparameters.py",
                "coordinates @ self.link + np.linalg.solve(root.T, noise.T).T",
                "coordinates @ self.link + np.linalg.solve(root, noise.T).T",
                "rows without ratings have the covariance of another matrix",
                "rows_without_ratings_are_drawn_with_the_covariance_and_the_noise_of_their_table",
            ),
            (
                "hyperparameters.py",
                "noise = np.linalg.solve(root.T, generator.standard_normal(d))",
                "noise = np.linalg.solve(root, generator.standard_normal(d))",
                "the mean of rows is drawn with the covariance of another matrix",
                "means_and_links_are_drawn_with_the_covariance_of_their_conditional",
            ),
            (
                "hyperparameters.py",
                "sums.slopes / weights + np.linalg.solve(root.T, z.T).T",
                "sums.slopes / weights + np.linalg.solve(root, z.T).T",
                "links are drawn with the covariance of another matrix",
                "means_and_links_are_drawn_with_the_covariance_of_their_conditional",
            ),
            (
                "chain.py",
                "self.noise.shape, 1 / self.noise.rate, len(users) - len(self.counts)",
                "self.noise.shape, self.noise.rate, len(users) - len(self.counts)",
                "users without ratings have a noise by the rate, as if it were a scale",
                "rows_without_ratings_are_drawn_with_the_covariance_and_the_noise_of_their_table",
            ),
            (
                "features.py",
                "if given and stored(given) != given:",
                "if False:",
                "an item that only has features takes the name of another",
                "new_identifiers_that_would_become_others_are_refused",
            ),
            (
                "minibatches.py",
                "jnp.asarray(shifts[numbers].astype(np.float32))",
                "jnp.asarray(0 * shifts[numbers].astype(np.float32))",
                "a rating in a minibatch depends on its rows without what features add",
                "minibatches_move_rows_without_what_features_add",
            ),
            (
                "predict.py",
                "(prior.mean + x @ prior.link)",
                "prior.mean",
                "someone new has no features",
                "rows_have_the_mean_that_their_features_say",
            ),
        )
    ),
    Mutation(
        "models/factorisation/predict.py",
        "weighted = features * np.broadcast_to(weights, len(items))[:, None]",
        "weighted = features",
        "counts of someone new have no weight",
        ("implicit::someone_new_has_the_weighted_normal_equations_of_all_pairs",),
    ),
    *(
        Mutation("models/factorisation/implicit.py", text, mistake, what, (f"implicit::{test}",))
        for text, mistake, what, test in (
            (
                "- precision * features.T @ biases)",
                ")",
                "the zeros forget the biases of the other table",
                "rows_have_the_weighted_normal_equations_of_all_pairs",
            ),
            (
                "return 1 + 1 / weights, weights",
                "return np.ones_like(weights), weights",
                "pairs that were seen keep their zero",
                "rows_have_the_weighted_normal_equations_of_all_pairs",
            ),
            (
                "np.where(is_alone, 1.0, values)",
                "values",
                "an item that only has features is more than a 1, as if it had a zero too",
                "someone_new_has_the_weighted_normal_equations_of_all_pairs",
            ),
            (
                "np.where(is_alone, 1 + weights, weights)",
                "weights",
                "an item that only has features has the weight of a pair that has a zero too",
                "someone_new_has_the_weighted_normal_equations_of_all_pairs",
            ),
            (
                "link=np.linalg.solve(P, prior.precision @ prior.link.T).T",
                "link=prior.link",
                "features pull rows as hard as zeros do",
                "rows_have_the_weighted_normal_equations_of_all_pairs",
            ),
            (
                "draw.items[:items]",
                "draw.items",
                "someone new has zeros with items that only have features",
                "someone_new_has_the_weighted_normal_equations_of_all_pairs",
            ),
            (
                "(1 - s) ** 2 - s**2",
                "(1 - s) ** 2",
                "the noise counts the zeros of pairs that were seen",
                "squared_residuals_are_those_of_all_pairs",
            ),
            (
                "np.setdiff1d(test[1][test[0] == user], own)",
                "np.unique(test[1][test[0] == user])",
                "held-out pairs that were fitted too are misses",
                "pairs_that_are_known_count_neither_as_hits_nor_as_misses",
            ),
            (
                "    if not recalls:",
                "    if False:",
                "the ranking of no pairs is nan",
                "pairs_that_are_known_count_neither_as_hits_nor_as_misses",
            ),
            (
                "discount[:most].sum()",
                "discount.sum()",
                "NDCG of users with few items is below 1 at best",
                "recall_and_ndcg_are_those_of_a_hand",
            ),
        )
    ),
    Mutation(
        "models/factorisation/predict.py",
        "if confidence is not None and rated is not None:",
        "if confidence is not None:",
        "someone of whom features alone are known chose nothing",
        ("implicit::someone_new_is_predicted_by_what_is_known_of_them",),
    ),
    Mutation(
        "models/factorisation/fitting.py",
        "curve.add(chain.draw(of_curve), is_burned_in)",
        "curve.add(chain.draw(), is_burned_in)",
        "rows without ratings are others where a test error is followed",
        ("side_information::rows_without_ratings_are_the_same_where_a_test_error_is_followed",),
    ),
    *(
        Mutation("models/factorisation/estimator.py", text, mistake, what, (test,))
        for text, mistake, what, test in (
            (
                '        PROBABILITY("interval", interval)\n',
                "",
                "recommendations have an interval of any number",
                "factorisation::recommendations_without_a_probability_or_a_number_are_refused",
            ),
            (
                "return as_fitted(self).confidence",
                "return self.confidence",
                "counts are predicted as ratings where confidence was set to None after the fit",
                "implicit::parameters_that_are_set_after_a_fit_change_no_prediction",
            ),
        )
    ),
    Mutation(
        "models/factorisation/inputs.py",
        "check_alone(items)\n        ratings, names",
        "ratings, names",
        "items beside a table of ratings are ignored",
        ("factorisation::a_table_of_ratings_comes_alone",),
    ),
]
