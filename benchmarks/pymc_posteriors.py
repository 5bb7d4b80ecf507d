"""The posteriors of `fokker.posteriors` as PyMC models, which nutpie compiles by Numba.

The variables of a model have the names and shapes of theta; a theta that is one array is called "theta".
`density_gap` shows that the density is the same. Where the usual way to write a model in PyMC
(`pm.Bernoulli`, `pm.NormalMixture`, a scan, a normal with a dense covariance) is slower than arithmetic on
arrays, the model has that arithmetic: a gradient of `garch` is then 10 times as fast, those of the mixture
and of the logistic regression twice.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered

from fokker.posteriors import POSTERIORS
from fokker.posteriors.autoregression import LAGS
from fokker.posteriors.autoregression import make_data as autoregression_data
from fokker.posteriors.correlated_normal import RHO
from fokker.posteriors.eight_schools import EFFECTS, ERRORS
from fokker.posteriors.garch import make_data as garch_data
from fokker.posteriors.gaussian_mixture import make_data as mixture_data
from fokker.posteriors.hierarchical_linear import COUNTIES
from fokker.posteriors.hierarchical_linear import make_data as houses
from fokker.posteriors.logistic_regression import COEFFICIENTS
from fokker.posteriors.logistic_regression import make_data as logistic_data
from fokker.posteriors.lotka_volterra import HARES, LYNXES, STEPS_PER_YEAR
from fokker.posteriors.poisson_process import NUGGET, POINTS
from fokker.posteriors.poisson_process import make_data as counts


def eight_schools_centred() -> None:
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Normal("theta", mu, tau, shape=EFFECTS.size)
    pm.Normal("y", theta, ERRORS, observed=EFFECTS)


def eight_schools_noncentred() -> None:
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    eta = pm.Normal("eta", 0, 1, shape=EFFECTS.size)
    pm.Normal("y", mu + tau * eta, ERRORS, observed=EFFECTS)


def funnel() -> None:
    v = pm.Normal("v", 0, 3)
    pm.Normal("x", 0, pt.exp(v / 2), shape=9)


def correlated_normal(dimension: int) -> None:
    z = pm.Flat("theta", shape=dimension) / np.geomspace(1.0, 10.0, dimension)
    steps = z[1:] - RHO * z[:-1]
    pm.Potential("density", -(z[0] ** 2) / 2 - pt.sum(steps**2) / (2 * (1 - RHO**2)))


def logistic_regression() -> None:
    data = logistic_data()
    theta = pm.Normal("theta", 0, 1, shape=COEFFICIENTS)
    eta = data["x"] @ theta
    pm.Potential("y", pt.sum(data["y"] * eta - pt.softplus(eta)))


def gaussian_mixture() -> None:
    weights = pm.Dirichlet("weights", np.full(2, 5.0))
    # Its default start has equal means, which are not in order.
    mu = pm.Normal("mu", 0, 2, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))
    sigma = pm.HalfNormal("sigma", 2, shape=2)
    y = mixture_data()
    first, second = (
        pt.log(weights[k]) - pt.log(sigma[k]) - ((y - mu[k]) / sigma[k]) ** 2 / 2 for k in range(2)
    )
    pm.Potential("y", pt.sum(first + pt.softplus(second - first)))


def autoregression() -> None:
    y, before = autoregression_data()
    alpha, beta = pm.Normal("alpha", 0, 10), pm.Normal("beta", 0, 10, shape=LAGS)
    sigma = pm.HalfCauchy("sigma", 2.5)
    pm.Normal("y", alpha + before @ beta, sigma, observed=y)


def garch() -> None:
    """h_t = Σ_k β_1^k news_{t-k}: sums of 1, 2, 4, … terms, each from the one before."""
    y = garch_data()
    mu, alpha_0 = pm.Normal("mu", 0, 1), pm.HalfNormal("alpha_0", 1)
    weights = pm.Dirichlet("weights", np.ones(3))
    h = pt.concatenate([[np.var(y)], alpha_0 + weights[0] * (y[:-1] - mu) ** 2])
    power, terms = weights[1], 1
    while terms < y.size:
        h = h + power * pt.concatenate([np.zeros(terms), h[:-terms]])
        power, terms = power**2, 2 * terms
    pm.Normal("y", mu, pt.sqrt(h), observed=y)


def poisson_process() -> None:
    x, y = counts()
    rho, alpha = pm.InverseGamma("rho", 5, 5), pm.HalfNormal("alpha", 2)
    eta = pm.Normal("eta", 0, 1, shape=POINTS)
    r = np.sqrt(3) * np.abs(x[:, None] - x[None, :]) / rho
    kernel = (1 + r) * pt.exp(-r) + NUGGET * np.eye(POINTS)
    pm.Poisson("y", pt.exp(alpha * (pt.linalg.cholesky(kernel) @ eta)), observed=y.astype(int))


def lotka_volterra() -> None:
    """Two of Runge and Kutta's steps per pass: 1.4 times as fast as one. Ten take minutes to compile."""
    log_counts = np.log(np.array([HARES, LYNXES]).T)
    alpha, gamma = (pm.TruncatedNormal(name, 1, 0.5, lower=0) for name in ("alpha", "gamma"))
    beta, delta = (pm.TruncatedNormal(name, 0.05, 0.05, lower=0) for name in ("beta", "delta"))
    sigma = pm.LogNormal("sigma", -1, 1, shape=2)
    initial = pm.LogNormal("initial", np.log(10.0), 1, shape=2)
    h, passes = 1 / STEPS_PER_YEAR, STEPS_PER_YEAR // 2

    def two_steps(u: Any, v: Any, alpha: Any, beta: Any, gamma: Any, delta: Any) -> list[Any]:
        def slope(u: Any, v: Any) -> tuple[Any, Any]:
            return alpha - beta * pt.exp(v), -gamma + delta * pt.exp(u)

        for _ in range(2):
            u_1, v_1 = slope(u, v)
            u_2, v_2 = slope(u + h / 2 * u_1, v + h / 2 * v_1)
            u_3, v_3 = slope(u + h / 2 * u_2, v + h / 2 * v_2)
            u_4, v_4 = slope(u + h * u_3, v + h * v_3)
            u = u + h / 6 * (u_1 + 2 * u_2 + 2 * u_3 + u_4)
            v = v + h / 6 * (v_1 + 2 * v_2 + 2 * v_3 + v_4)
        return [u, v]

    first = [pt.log(initial[0]), pt.log(initial[1])]
    paths = pytensor.scan(
        two_steps,
        outputs_info=first,
        non_sequences=[alpha, beta, gamma, delta],
        n_steps=(len(HARES) - 1) * passes,
        strict=True,
        return_updates=False,
    )
    each = [
        pt.concatenate([start[None], path[passes - 1 :: passes]])
        for start, path in zip(first, paths, strict=True)
    ]
    pm.Normal("y", pt.stack(each, axis=1), sigma, observed=log_counts)


def hierarchical_linear() -> None:
    data = houses()
    mu, beta = pm.Normal("mu", 0, 10), pm.Normal("beta", 0, 10)
    tau, sigma = pm.HalfNormal("tau", 1), pm.HalfNormal("sigma", 1)
    eta = pm.Normal("eta", 0, 1, shape=COUNTIES)
    pm.Normal("y", (mu + tau * eta)[data["county"]] + beta * data["floor"], sigma, observed=data["y"])


VARIABLES: dict[str, Callable[[], None]] = {
    "eight_schools_centred": eight_schools_centred,
    "eight_schools_noncentred": eight_schools_noncentred,
    "funnel": funnel,
    "correlated_normal_2": lambda: correlated_normal(2),
    "correlated_normal_100": lambda: correlated_normal(100),
    "logistic_regression": logistic_regression,
    "gaussian_mixture": gaussian_mixture,
    "autoregression": autoregression,
    "garch": garch,
    "poisson_process": poisson_process,
    "lotka_volterra": lotka_volterra,
    "hierarchical_linear": hierarchical_linear,
}


def pymc_model(name: str) -> pm.Model:
    """The posterior of that name as a PyMC model."""
    with pm.Model() as model:
        VARIABLES[name]()
    return model


def named(theta: Any) -> dict[str, np.ndarray]:
    """Theta by the names of the model's variables."""
    return {k: np.asarray(x) for k, x in (theta if isinstance(theta, Mapping) else {"theta": theta}).items()}


def density_gap(
    name: str, model: pm.Model, log_density: Callable[[np.ndarray], Any], points: int = 8
) -> float:
    """By how much two log densities differ in differences between points, relative to these.

    `log_density` is that of the model over its unconstrained vector, as nutpie calls it. Both are of
    unconstrained numbers, which are the same, or on a simplex linear functions of each other: then too the
    log Jacobians differ by a constant. The points are drawn as the starts of chains.
    """
    ours, theirs = [], []
    with jax.enable_x64(True):
        posterior = POSTERIORS[name]()
        for key in jax.random.split(jax.random.key(1), 8):
            y = posterior.target.unconstrain(posterior.init(key))
            theta = named(posterior.target.constrain(y))
            ours.append(-float(posterior.target.potential(y)))
            theirs.append(float(log_density(unconstrained(model, theta))))
    wanted, found = np.diff(ours), np.diff(theirs)
    return float(np.max(np.abs(found - wanted) / (1 + np.abs(wanted))))


def unconstrained(model: pm.Model, theta: dict[str, np.ndarray]) -> np.ndarray:
    """The vector of the model's unconstrained values, in the order of nutpie."""
    values = []
    for variable in model.free_RVs:
        transform, x = model.rvs_to_transforms[variable], pt.constant(theta[variable.name])
        y = x if transform is None else transform.forward(x, *variable.owner.inputs)
        values.append(np.ravel(y.eval(mode="FAST_COMPILE")))
    return np.concatenate(values)
