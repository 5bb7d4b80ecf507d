"""Mistakes in posteriors over the weights of networks."""

from mutations._mutation import Mutation

MUTATIONS = [
    Mutation(
        "models/network/posterior.py",
        'squares = jax.tree.map(lambda x, s: jnp.sum((x / s) ** 2), theta["weights"], self.scales)',
        'squares = jax.tree.map(lambda x, s: jnp.sum(x**2 / s), theta["weights"], self.scales)',
        "the prior of weights by a variance, not a standard deviation",
        ("network_model::the_gradient_of_the_potential_is_its_difference_quotient",),
    ),
    Mutation(
        "models/network/posterior.py",
        'z = (datum["y"] - mean) * jnp.exp(-log_deviation)',
        'z = (datum["y"] - mean) * jnp.exp(-2 * log_deviation)',
        "residuals divided by σ², not σ",
        ("network_model::a_linear_network_has_the_posterior_of_linear_regression",),
    ),
    Mutation(
        "models/network/settings.py",
        'step = rate / size if name == "sgld" else (rate / size) ** 0.5',
        'step = rate / size if name == "sgld" else rate / size',
        "the step size of SGHMC goes with the learning rate, not its root",
        ("network_model::settings_are_those_of_an_optimiser",),
    ),
    Mutation(
        "models/network/metrics.py",
        "ranks = rankdata(np.concatenate([inside, outside]))",
        'ranks = rankdata(np.concatenate([inside, outside]), "min")',
        "ties do not share their mean rank",
        ("network_model::scores_agree_with_their_definitions",),
    ),
    Mutation(
        "models/network/estimator.py",
        "return mean, RegressionUncertainty(of_mean + noise, of_mean, noise)",
        "return mean, RegressionUncertainty(of_mean, of_mean, noise)",
        "the predictive deviation without the noise of y",
        ("network_model::a_linear_network_has_the_posterior_of_linear_regression",),
    ),
    Mutation(
        "models/network/training.py",
        "(numbers - 1) % self.period >= self.period / 2",
        "(numbers - 1) % self.period < self.period / 2",
        "draws from the first half of a cycle",
        ("network_model::draws_of_a_cycle_are_from_its_second_half",),
    ),
    Mutation(
        "models/network/posterior.py",
        "total = -jnp.sum(jnp.stack(jax.tree.leaves(squares))) / 2",
        "total = -jnp.sum(jnp.stack(jax.tree.leaves(squares)))",
        "the prior of weights counts twice",
        ("network_calibration::true_values_rank_uniformly_among_the_draws_of_a_network",),
    ),
    Mutation(
        "models/network/posterior.py",
        'return jax.nn.log_softmax(f)[datum["y"]]',
        'return jax.nn.log_sigmoid(f)[datum["y"]]',
        "classes that do not exclude each other",
        ("network_calibration::true_values_rank_uniformly_among_the_draws_of_a_network",),
    ),
    Mutation(
        "models/network/training.py",
        "return Posterior(prior, self.log_likelihood(fixed), data)",
        "return Posterior(lambda theta: 0.0 * prior(theta), self.log_likelihood(fixed), data)",
        "the prior is left out of the target",
        ("network_calibration::true_values_rank_uniformly_among_the_draws_of_a_network",),
    ),
    Mutation(
        "models/network/posterior.py",
        "return f[..., :half], f[..., half:] / 2",
        "return f[..., :half], f[..., half:]",
        "the second half of the outputs is log σ, not log σ²",
        ("network_model::the_likelihoods_are_those_of_the_textbook_and_predictions_have_their_moments",),
    ),
    Mutation(
        "models/network/training.py",
        "float(np.min(noise)) ** 2",
        "float(np.max(noise)) ** 2",
        "the step size is set by the output with the most noise",
        ("network_model::the_curvature_is_that_of_the_output_with_the_least_noise",),
    ),
]
