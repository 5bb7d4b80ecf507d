"""What is known of the classic posteriors, by means other than this library's samplers.

Writes `src/fokker/posteriors/references.json`: mean and standard deviation of every scalar, their Monte Carlo
or quadrature errors (the mean's in standard deviations, the standard deviation's as a share of it), and how
they were got:

- normals: exact;
- normal given one or two scales: by the formula given those, and the trapezoidal rule over their logarithms;
- otherwise: importance sampling in double precision from multivariate t with the moments of a long run of
  NumPyro's NUTS. The weights correct what that run has wrong; Pareto's k (Vehtari et al. 2024) says whether
  they can.

Run with `python benchmarks/references.py [NAME …]`: a few minutes in all; needs numpyro.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arviz
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, solve_triangular
from numpyro.infer import MCMC, NUTS
from scipy.special import logsumexp

import fokker as fk
from fokker.posteriors import POSTERIORS, ClassicPosterior

# The functions bear the names of their modules.
schools, series, radon, poisson = (
    sys.modules[f"fokker.posteriors.{name}"]
    for name in ("eight_schools", "autoregression", "hierarchical_linear", "poisson_process")
)

OUT = Path(__file__).parents[1] / "src/fokker/posteriors/references.json"
CHAINS, WARMUP, DRAWS = 4, 2_000, 25_000
PROPOSALS, BLOCK, FREEDOM = 2**20, 2**13, 6.0
LARGEST_ERROR = 0.01

Scalars = dict[str, dict[str, float]]
# log p(data | scales), and mean and variance by name given the scales.
Conditional = tuple[float, dict[str, np.ndarray]]


# Exact ------------------------------------------------------------------------------------------------------


def exact(found: dict[str, tuple[float, float]]) -> Scalars:
    return {
        name: {"mean": mean, "sd": sd, "mean_error": 0.0, "sd_error": 0.0}
        for name, (mean, sd) in found.items()
    }


def normal(dimension: int) -> tuple[str, Scalars]:
    """From the Hessian of the potential, which shares nothing with the formula of its widths."""
    target = POSTERIORS[f"correlated_normal_{dimension}"]().target
    widths = np.sqrt(np.diag(np.linalg.inv(jax.hessian(target.potential)(jnp.zeros(dimension)))))
    return "exact: the inverse of the Hessian", exact(
        {f"theta[{i}]": (0.0, float(width)) for i, width in enumerate(widths)}
    )


def funnel() -> tuple[str, Scalars]:
    return "exact: v is N(0, 3²); x has too heavy tails to compare", exact({"v": (0.0, 3.0)})


# Normal given its scales ------------------------------------------------------------------------------------


def regress(
    design: np.ndarray, y: np.ndarray, precision: np.ndarray, prior_precision: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, mean and covariance of z for y ~ N(A z, W⁻¹), z ~ N(0, P⁻¹), W and P diagonal."""
    root = np.linalg.cholesky(design.T @ (precision[:, None] * design) + np.diag(prior_precision))
    whitened = np.linalg.solve(root, design.T @ (precision * y))
    log_evidence = (np.sum(np.log(precision)) + np.sum(np.log(prior_precision)) - y @ (precision * y)) / 2
    log_evidence += whitened @ whitened / 2 - np.sum(np.log(np.diag(root)))
    inverse = np.linalg.inv(root)
    return log_evidence, inverse.T @ whitened, inverse.T @ inverse


def integrate(axes: list[np.ndarray], conditional: Callable[..., Conditional]) -> Scalars:
    """Moments over a grid of the scales' logarithms; the error is the difference from every second node."""
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    nodes = grid.reshape(-1, len(axes))
    found = [conditional(*np.exp(node)) for node in nodes]
    # The Jacobian of the logarithms.
    log_weights = np.array([log for log, _ in found]) + nodes.sum(axis=1)
    kept = log_weights > log_weights.max() - 60
    halved = np.zeros(grid.shape[:-1], bool)
    halved[tuple(slice(None, None, 2) for _ in axes)] = True

    def moments(name: str, chosen: np.ndarray) -> tuple[float, float]:
        weights = np.exp(log_weights[chosen] - logsumexp(log_weights[chosen]))
        means, variances = np.array([found[i][1][name] for i in np.flatnonzero(chosen)]).T
        mean = weights @ means
        return mean, np.sqrt(weights @ (variances + (means - mean) ** 2))

    out = {}
    for name in found[0][1]:
        (mean, sd), (rough_mean, rough_sd) = moments(name, kept), moments(name, kept & halved.ravel())
        errors = {"mean_error": abs(mean - rough_mean) / sd, "sd_error": abs(sd - rough_sd) / sd}
        out[name] = {"mean": mean, "sd": sd, **errors}
    return out


def scale(value: float) -> np.ndarray:
    return np.array([value, 0.0])


def eight_schools(latent: str) -> tuple[str, Scalars]:
    effects, errors = schools.EFFECTS, schools.ERRORS
    size = effects.size

    def conditional(tau: float) -> Conditional:
        # z = (mu, eta), theta = mu + tau eta.
        centres = np.hstack([np.ones((size, 1)), tau * np.eye(size)])
        prior_precision = np.append(1 / 25, np.ones(size))
        log_evidence, mean, covariance = regress(centres, effects, errors**-2.0, prior_precision)
        shown = centres if latent == "theta" else np.eye(size + 1)[1:]
        pairs = np.stack([shown @ mean, np.diag(shown @ covariance @ shown.T)], axis=1)
        found = {f"{latent}[{i}]": pair for i, pair in enumerate(pairs)}
        found |= {"mu": np.array([mean[0], covariance[0, 0]]), "tau": scale(tau)}
        return log_evidence - np.log1p((tau / 5) ** 2), found

    return "quadrature over log tau", integrate([np.linspace(-30, 12, 4001)], conditional)


def autoregression() -> tuple[str, Scalars]:
    y, before = series.make_data()
    design = np.hstack([np.ones((y.size, 1)), before])

    def conditional(sigma: float) -> Conditional:
        prior_precision = np.full(design.shape[1], 1 / 100)
        log_evidence, mean, covariance = regress(design, y, np.full(y.size, sigma**-2.0), prior_precision)
        pairs = np.stack([mean, np.diag(covariance)], axis=1)
        found = {f"beta[{i}]": pair for i, pair in enumerate(pairs[1:])}
        return log_evidence - np.log1p((sigma / 2.5) ** 2), {
            **found,
            "alpha": pairs[0],
            "sigma": scale(sigma),
        }

    return "quadrature over log sigma", integrate([np.linspace(-2, 1, 2001)], conditional)


def hierarchical_linear() -> tuple[str, Scalars]:
    data = radon.make_data()
    y, counties = data["y"], np.eye(radon.COUNTIES)[data["county"]]

    def conditional(tau: float, sigma: float) -> Conditional:
        design = np.hstack([np.ones((y.size, 1)), data["floor"][:, None], tau * counties])
        prior_precision = np.append(np.full(2, 1 / 100), np.ones(radon.COUNTIES))
        log_evidence, mean, covariance = regress(design, y, np.full(y.size, sigma**-2.0), prior_precision)
        pairs = np.stack([mean, np.diag(covariance)], axis=1)
        found = {f"eta[{i}]": pair for i, pair in enumerate(pairs[2:])}
        found |= {"mu": pairs[0], "beta": pairs[1], "tau": scale(tau), "sigma": scale(sigma)}
        return log_evidence - (tau**2 + sigma**2) / 2, found

    axes = [np.linspace(-12, 1, 261), np.linspace(-0.6, 0.1, 57)]
    return "quadrature over log tau and log sigma", integrate(axes, conditional)


# Importance sampling ----------------------------------------------------------------------------------------


def run_nuts(
    posterior: ClassicPosterior, draws: int = DRAWS, warmup: int = WARMUP, **settings: Any
) -> tuple[Any, Any]:
    """Positions of NumPyro's NUTS, chain by draw, and how many of its steps diverged."""
    starts = [posterior.init(key) for key in jax.random.split(jax.random.key(1), CHAINS)]
    positions = [posterior.target.unconstrain(theta) for theta in starts]
    kernel = NUTS(potential_fn=posterior.target.potential, **settings)
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(2), init_params=jax.tree.map(lambda *x: jnp.stack(x), *positions))
    return mcmc.get_samples(group_by_chain=True), int(mcmc.get_extra_fields()["diverging"].sum())


def scalars_of(to_theta: Callable, vectors: Any) -> tuple[list[str], np.ndarray]:
    """Names and values of the scalars of theta; the leading axes are chain and draw."""
    theta = jax.jit(jax.vmap(jax.vmap(to_theta)))(vectors)
    return fk.Trace(jax.tree.map(np.asarray, theta), None, {}, None, None).flat()


def as_sampled(target: Any, like: Any) -> tuple[Callable, Callable, Callable]:
    """A vector from a position, theta from the vector, and the potential of the vector: y itself."""
    unravel = ravel_pytree(like)[1]
    return (
        lambda y: ravel_pytree(y)[0],
        lambda x: target.constrain(unravel(x)),
        lambda x: target.potential(unravel(x)),
    )


def as_constrained(target: Any, like: Any) -> tuple[Callable, Callable, Callable]:
    """The same where the vector is theta itself, without the last weight, and the potential has bounds.

    For a density that does not vanish at its bounds, whose tails in y are long.
    """

    def to_vector(y: Any) -> jax.Array:
        theta = target.constrain(y)
        return ravel_pytree({**theta, "weights": theta["weights"][:-1]})[0]

    theta = target.constrain(like)
    unravel = ravel_pytree({**theta, "weights": theta["weights"][:-1]})[1]

    def to_theta(x: jax.Array) -> Any:
        theta = unravel(x)
        weights = theta["weights"]
        return {**theta, "weights": jnp.append(weights, 1 - jnp.sum(weights))}

    def potential(x: jax.Array) -> jax.Array:
        theta = to_theta(x)
        inside = jnp.all(jnp.isfinite(ravel_pytree(target.unconstrain(theta))[0]))
        return jnp.where(inside, target.target.potential(theta), jnp.inf)

    return to_vector, to_theta, potential


def as_whitened(target: Any, like: Any) -> tuple[Callable, Callable, Callable]:
    """The same for the Poisson process with u for η = m + R⁻ᵀ u, nearly normal whatever the two scales.

    m and RRᵀ are mode and precision of η given the scales, after four steps of Newton's.
    """
    places, counts = poisson.make_data()
    unravel = ravel_pytree(like)[1]

    def laplace(y: Any) -> tuple[jax.Array, jax.Array]:
        r = np.sqrt(3) * np.abs(places[:, None] - places) / jnp.exp(y["rho"])
        kernel = (1 + r) * jnp.exp(-r) + poisson.NUGGET * np.eye(places.size)
        factor = jnp.exp(y["alpha"]) * jnp.linalg.cholesky(kernel)
        f = jnp.log(counts + 0.5)
        for _ in range(4):
            rate = jnp.exp(f)
            root = jnp.linalg.cholesky(np.eye(places.size) + factor.T @ (rate[:, None] * factor))
            mode = cho_solve((root, True), factor.T @ (rate * f + counts - rate))
            f = factor @ mode
        return mode, root

    def to_vector(y: Any) -> jax.Array:
        mode, root = laplace(y)
        return ravel_pytree({**y, "eta": root.T @ (y["eta"] - mode)})[0]

    def to_position(x: jax.Array) -> tuple[Any, jax.Array]:
        y = unravel(x)
        mode, root = laplace(y)
        eta = mode + solve_triangular(root, y["eta"], trans=1, lower=True)
        return {**y, "eta": eta}, jnp.sum(jnp.log(jnp.diag(root)))

    def potential(x: jax.Array) -> jax.Array:
        y, log_determinant = to_position(x)
        return target.potential(y) + log_determinant

    return to_vector, lambda x: target.constrain(to_position(x)[0]), potential


COORDINATES = {"garch": as_constrained, "poisson_process": as_whitened}


def importance_sampling(posterior: ClassicPosterior, coordinates: Callable) -> tuple[str, Scalars]:
    positions, _ = run_nuts(posterior, dense_mass=True, target_accept_prob=0.95)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), positions)
    to_vector, to_theta, potential = coordinates(posterior.target, jax.tree.map(lambda x: x[0], flat))
    y = np.asarray(jax.jit(jax.vmap(to_vector))(flat))
    _, by_nuts = scalars_of(to_theta, y[None])
    centre, dimension = y.mean(axis=0), y.shape[1]
    root = np.linalg.cholesky(np.cov(y.T) * (FREEDOM - 2) / FREEDOM)

    # One in four is drawn twice as wide, for tails that the moments do not show.
    generator = np.random.default_rng(4)
    widths = np.where(np.arange(PROPOSALS) % 4 == 0, 2.0, 1.0)[:, None]
    t = generator.normal(size=(PROPOSALS, dimension)) * widths
    t *= np.sqrt(FREEDOM / generator.chisquare(FREEDOM, size=(PROPOSALS, 1)))
    square = np.sum(t**2, axis=1)
    narrow = np.log(3.0) - (FREEDOM + dimension) / 2 * np.log1p(square / FREEDOM)
    wide = -dimension * np.log(2.0) - (FREEDOM + dimension) / 2 * np.log1p(square / (4 * FREEDOM))
    log_proposal = np.logaddexp(narrow, wide)
    proposals = jnp.asarray(centre + t @ root.T).reshape(-1, BLOCK, dimension)
    log_density = -np.asarray(
        jax.jit(lambda blocks: jax.lax.map(jax.vmap(potential), blocks))(proposals)
    ).ravel()
    # Far out a solver may overflow: there is no mass there.
    log_weights = np.nan_to_num(log_density - log_proposal, nan=-np.inf)
    names, values = scalars_of(to_theta, proposals)
    values = values.reshape(PROPOSALS, -1)
    finite = log_weights > log_weights.max() - 200
    with np.errstate(over="ignore"):  # in ArviZ's fit, of terms that are left out
        k = float(arviz.psislw(log_weights[finite].copy())[1])

    weights = np.exp(log_weights[finite] - logsumexp(log_weights[finite]))
    values = values[finite]
    effective = 1 / np.sum(weights**2)
    mean = weights @ values
    squares = (values - mean) ** 2
    variance = weights @ squares
    sd = np.sqrt(variance)
    mean_error = np.sqrt(weights**2 @ squares) / sd
    sd_error = np.sqrt(weights**2 @ (squares - variance) ** 2) / (2 * variance)
    apart = np.max(np.abs(by_nuts.mean(axis=(0, 1)) - mean) / sd)
    apart_sd = np.max(np.abs(by_nuts.std(axis=(0, 1)) / sd - 1))
    if k > 0.5:
        raise RuntimeError(f"{posterior.name}: Pareto's k is {k:.2f}; these weights are not to be trusted.")
    source = (
        f"importance sampling, {PROPOSALS:,} draws of two multivariate t, {effective:,.0f} effective, "
        f"Pareto k {k:.2f}; {CHAINS * DRAWS:,} draws of NumPyro's NUTS differ by at most {apart:.3f} "
        f"sd in the means and {apart_sd:.1%} in the sds"
    )
    columns = {"mean": mean, "sd": sd, "mean_error": mean_error, "sd_error": sd_error}
    return source, {name: {c: float(x[i]) for c, x in columns.items()} for i, name in enumerate(names)}


# All --------------------------------------------------------------------------------------------------------


def fingerprint(target: Any, theta: Any) -> float:
    """U at one place less U at another: it changes with the model and its data, but not with constants."""
    start, unravel = ravel_pytree(target.unconstrain(theta))
    place = jnp.linspace(-0.5, 0.5, start.size)
    return float(target.potential(unravel(place)) - target.potential(unravel(-place)))


BY_FORMULA: dict[str, Callable[[], tuple[str, Scalars]]] = {
    "eight_schools_centred": lambda: eight_schools("theta"),
    "eight_schools_noncentred": lambda: eight_schools("eta"),
    "funnel": funnel,
    "correlated_normal_2": lambda: normal(2),
    "correlated_normal_100": lambda: normal(100),
    "autoregression": autoregression,
    "hierarchical_linear": hierarchical_linear,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(POSTERIORS))
    stored = json.loads(OUT.read_text()) if OUT.is_file() else {}
    for name in parser.parse_args().names:
        start = time.perf_counter()
        posterior = POSTERIORS[name]()
        source, scalars = (
            BY_FORMULA[name]()
            if name in BY_FORMULA
            else importance_sampling(posterior, COORDINATES.get(name, as_sampled))
        )
        worst = max(max(found["mean_error"], found["sd_error"]) for found in scalars.values())
        print(f"{name}: {source}; largest error {worst:.1e}; {time.perf_counter() - start:.0f} s", flush=True)
        if worst > LARGEST_ERROR:
            raise RuntimeError(f"the error of {name} is {worst:.3g}, above {LARGEST_ERROR}.")
        theta = posterior.init(jax.random.key(0))
        stored[name] = {
            "source": source,
            "fingerprint": fingerprint(posterior.target, theta),
            "scalars": {
                scalar: {what: float(f"{value:.8g}") for what, value in scalars[scalar].items()}
                for scalar in sorted(scalars)
            },
        }
        OUT.write_text(json.dumps({n: stored[n] for n in POSTERIORS if n in stored}, indent=1) + "\n")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
