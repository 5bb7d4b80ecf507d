"""What `trace.summary()` says of right runs, and of runs that are wrong on purpose.

Every row is a run: what it is, whether it is right, the grade given, the largest bias of a variance where the
truth is known, and the first thing that was said. The command takes some minutes; `docs/verdicts.md` has its
output. Arguments select rows: `right`, `wrong`, or parts of their names.
"""

import dataclasses
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
from fokker import samplers
from fokker.diagnostics import Grade
from fokker.integrators import Reflecting, Splitting
from fokker.posteriors import POSTERIORS

Truth = Mapping[str, float]


def normal(covariance: np.ndarray) -> tuple[Any, Truth]:
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    truth = {f"theta[{i}]": float(v) for i, v in enumerate(np.diag(covariance))}
    return fk.Density(lambda theta: -theta @ precision @ theta / 2), truth


UNIT, UNIT_TRUTH = normal(np.eye(10))
TIED, TIED_TRUTH = normal(np.array([[1.0, 0.95], [0.95, 1.0]]))
STUDENT = fk.Density(lambda theta: -3 * jnp.sum(jnp.log1p(theta**2 / 5)))
SKEWED = fk.Density(lambda theta: -jnp.sum(jnp.exp(theta) - theta))
MODES = fk.Density(lambda theta: jnp.sum(jnp.logaddexp(-((theta - 6) ** 2) / 2, -((theta + 6) ** 2) / 2)))
FLAT = fk.Density(lambda theta: -(theta[0] ** 2) / 2 - 1e-6 * theta[1] ** 2)
METRIC = fk.fields.Elementwise(lambda theta: 0.2 + jax.nn.sigmoid(3 * theta))
ROOT = fk.fields.Elementwise(lambda theta: jnp.sqrt(0.2 + jax.nn.sigmoid(3 * theta)))


def regression(weight: float = 1.0) -> tuple[Any, Truth]:
    """A linear regression with 1,000 rows; a weight other than 1 counts the data wrongly."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1000, 4))
    y = x @ np.linspace(-1, 1, 4) + generator.normal(size=1000)
    covariance = np.linalg.inv(x.T @ x + 0.1 * np.eye(4))
    target = fk.Posterior(
        lambda theta: -jnp.sum(theta**2) / 20,
        lambda theta, row: -weight * (row["y"] - row["x"] @ theta) ** 2 / 2,
        {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y, jnp.float32)},
    )
    return target, {f"theta[{i}]": float(v) for i, v in enumerate(np.diag(covariance))}


LINEAR, LINEAR_TRUTH = regression()
EXPONENTIAL = fk.Density(lambda theta: -jnp.sum(theta))
ENDS = fk.Density(lambda theta: jnp.where(jnp.all(theta > 0), -jnp.sum(theta), -jnp.inf))
JUMPS = fk.Density(lambda theta: -jnp.sum(theta**2) / 2 + jnp.where(theta[0] > 0, 0.0, -3.0))
GAMMA = fk.Density(
    lambda theta: jnp.where(
        jnp.all(theta > 0), jnp.sum(2 * jnp.log(jnp.maximum(theta, 1e-30)) - theta), -jnp.inf
    )
)
MODE = fk.find_mode(LINEAR, jnp.zeros(4))
CALM = {"gradient": fk.gradients.control_variates(MODE), "batch_size": 50}
NOISY = {"batch_size": 50, "batches": "replacement"}


def run(target: Any, sampler: Any, d: int = 2, **options: Any) -> fk.Trace:
    """Four chains that start apart, 40,000 steps of which every fifth is kept."""
    start = lambda key: 0.5 * jax.random.normal(key, (d,))  # noqa: E731
    given = {"steps": 40_000, "thin": 5, "burn_in": 4_000, "chains": 4, "init": start, "progress": False}
    return fk.sample(target, sampler, **{**given, **options})


def linear(sampler: Any, target: Any = LINEAR, **options: Any) -> fk.Trace:
    start = lambda key: MODE + 0.02 * jax.random.normal(key, (4,))  # noqa: E731
    return run(target, sampler, **{"init": start, **options})


def learnt(target: Any, sampler: Any = None, d: int = 2, **options: Any) -> fk.Trace:
    """A sampler that learns its settings, 2,000 draws of each of four chains."""
    start = lambda key: jax.random.normal(key, (d,))  # noqa: E731
    given = {"steps": 2_000, "chains": 4, "init": start, "progress": False}
    return fk.sample(target, sampler or samplers.nuts(), **{**given, **options})


def posterior(name: str, **options: Any) -> Callable[[], fk.Trace]:
    chosen = POSTERIORS[name]()
    return lambda: learnt(chosen.target, init=chosen.init, **options)


def truth_of(name: str) -> Truth:
    return {scalar: sd**2 for scalar, (_, sd) in POSTERIORS[name]().reference.items()}


def judged_as(trace: fk.Trace, target: Any, temperature: float = 1.0) -> fk.Trace:
    """A run of a wrong target as a run of the right one: the mistake is in the sampler, then."""
    assert trace.origin is not None
    own = trace.origin.sampler
    placed = dataclasses.replace(own, target=None).on(target, temperature)
    origin = dataclasses.replace(trace.origin, sampler=placed, target=target)
    return dataclasses.replace(trace, origin=origin, settings={**trace.settings, "temperature": temperature})


def many(target: Any, sampler: Any, chains: int, d: int = 10, **options: Any) -> fk.Trace:
    """Many short chains: 20 to 200 draws of each, every tenth step."""
    draws = max(20, 40_000 // chains) if chains < 2000 else 20
    given = {"steps": 10 * min(draws, 200), "thin": 10, "burn_in": 400, "chains": chains}
    return run(target, sampler, d, **{**given, **options})


def positive(key: Any) -> Any:
    return jax.random.exponential(key, (2,))


def reflected(step_size: float) -> fk.Trace:
    sampler = samplers.sgld(step_size, integrator=Reflecting(lower=0.0))
    return run(EXPONENTIAL, sampler, init=positive, thin=10, steps=100_000)


def without_prior() -> fk.Trace:
    """A prior N(4, 1) beside one datum's worth of likelihood, dropped by the sampler: a shift of 0.26 sd."""
    likelihood = fk.Density(lambda theta: -14.2 * jnp.sum(theta**2) / 2)
    whole = fk.Density(lambda theta: -14.2 * jnp.sum(theta**2) / 2 - jnp.sum((theta - 1) ** 2) / 2)
    return judged_as(run(likelihood, samplers.sgld(0.05 / 14)), whole)


def two_modes(chains: int) -> fk.Trace:
    return many(
        MODES, samplers.sgld(0.05), chains, 1, init=lambda key: 6 * jax.random.rademacher(key, (1,), float)
    )


def unknown_target() -> fk.Trace:
    """Dynamics with too large a step, of which nobody knows the target."""
    dynamics = fk.dynamics.langevin(UNIT.potential)
    start = lambda key: {"theta": jax.random.normal(key, (10,))}  # noqa: E731
    return run(None, samplers.recipe(dynamics, 0.3), init=start)


def half_precision() -> fk.Trace:
    """Steps so small that the rounding of bfloat16 is a large part of their noise, at a mean of 30."""
    target = fk.Density(lambda theta: -jnp.sum((theta.astype(jnp.float32) - 30) ** 2) / 2)
    start = lambda key: (30 + jax.random.normal(key, (2,))).astype(jnp.bfloat16)  # noqa: E731
    return run(target, samplers.sgld(0.002), init=start, thin=100, steps=200_000)


def half_potential() -> fk.Trace:
    half = fk.Density(lambda theta: -jnp.sum(theta**2) / 4)
    return judged_as(run(half, samplers.sgld(0.05), 10), UNIT)


def temperature_ignored() -> fk.Trace:
    """T = 0.5 was asked for, and the sampler ran at 1."""
    return judged_as(run(UNIT, samplers.sgld(0.05), 10), UNIT, 0.5)


def counted_wrongly() -> fk.Trace:
    """The batch of 50 rows counted once, not N/n times."""
    return judged_as(linear(samplers.sgld(1e-3, integrator=None), regression(0.05)[0]), LINEAR)


SPLIT = {"integrator": Splitting()}
RIGHT: dict[str, tuple[Callable[[], fk.Trace], Truth]] = {
    "sgld, 10 normals, hλ = 0.05": (lambda: run(UNIT, samplers.sgld(0.05), 10), UNIT_TRUTH),
    "sgld, 10 normals, T = 4": (
        lambda: run(UNIT, samplers.sgld(0.05), 10, temperature=4.0),
        dict.fromkeys(UNIT_TRUTH, 4.0),
    ),
    "sghmc by splitting, 10 normals": (lambda: run(UNIT, samplers.sghmc(0.3, **SPLIT), 10), UNIT_TRUTH),
    "sgnht by splitting, 10 normals": (lambda: run(UNIT, samplers.sgnht(0.2, **SPLIT), 10), UNIT_TRUTH),
    "ulmc, 10 normals": (lambda: run(UNIT, samplers.ulmc(0.1), 10), UNIT_TRUTH),
    "psgld, 10 normals": (lambda: run(UNIT, samplers.psgld(0.01), 10), UNIT_TRUTH),
    "sgld, correlated by 0.95, hλ = 0.05": (
        lambda: run(TIED, samplers.sgld(0.05 / 20), steps=200_000, thin=20),
        TIED_TRUTH,
    ),
    "sgld, Student's t": (
        lambda: run(STUDENT, samplers.sgld(0.05), 5, steps=100_000, thin=10),
        {f"theta[{i}]": 5 / 3 for i in range(5)},
    ),
    "sghmc by splitting, skewed": (lambda: run(SKEWED, samplers.sghmc(0.2, **SPLIT), 3), {}),
    "gsgrhmc, skewed": (lambda: run(SKEWED, samplers.gsgrhmc(0.05, METRIC, ROOT), 1, thin=20), {}),
    "sgld, regression, control variates": (lambda: linear(samplers.sgld(5e-5), **CALM), LINEAR_TRUTH),
    "sghmc, regression, control variates": (
        lambda: linear(samplers.sghmc(5e-3, 30.0, **SPLIT), **CALM),
        LINEAR_TRUTH,
    ),
    "sgnht, regression, minibatches of 50": (
        lambda: linear(samplers.sgnht(2e-3, 30.0, 1e-3, **SPLIT), **NOISY),
        LINEAR_TRUTH,
    ),
    "mala, 10 normals": (lambda: learnt(UNIT, samplers.mala(), 10, steps=20_000, thin=10), UNIT_TRUTH),
    "hmc, 10 normals": (lambda: learnt(UNIT, samplers.hmc(), 10), UNIT_TRUTH),
    "rwm, correlated by 0.95": (
        lambda: learnt(TIED, samplers.rwm(mass_matrix="dense"), steps=40_000, thin=20),
        TIED_TRUTH,
    ),
    "mclmc, adjusted, 10 normals": (
        lambda: learnt(UNIT, samplers.mclmc(adjusted=True), 10, steps=20_000, thin=10),
        UNIT_TRUTH,
    ),
    "nuts, 10 normals": (lambda: learnt(UNIT, d=10), UNIT_TRUTH),
    "nuts, correlated by 0.95": (lambda: learnt(TIED), TIED_TRUTH),
    "nuts, 300 normals": (
        lambda: learnt(fk.Density(lambda theta: -jnp.sum(theta**2) / 2), d=300),
        {f"theta[{i}]": 1.0 for i in range(300)},
    ),
    **{
        f"sgld, 10 normals, {chains:,} chains": (
            lambda chains=chains: many(UNIT, samplers.sgld(0.03), chains),
            UNIT_TRUTH,
        )
        for chains in (64, 256, 1024, 4096)
    },
    "sghmc by splitting, 10 normals, 1,024 chains": (
        lambda: many(UNIT, samplers.sghmc(0.3, **SPLIT), 1024),
        UNIT_TRUTH,
    ),
    "sgld, regression, 64 chains": (
        lambda: linear(samplers.sgld(3e-5), chains=64, steps=4_000, burn_in=1_000),
        LINEAR_TRUTH,
    ),
    "nuts, 10 normals, 64 chains": (lambda: learnt(UNIT, d=10, chains=64, steps=100), UNIT_TRUTH),
    "BAOAB, h = 1.15": (lambda: run(UNIT, samplers.sghmc(1.15, **SPLIT), 10), UNIT_TRUTH),
    "ABOBA, h = 0.6": (
        lambda: run(UNIT, samplers.sghmc(0.6, integrator=Splitting("ABOBA")), 10),
        UNIT_TRUTH,
    ),
    "sgld, 10 normals, T = 0.25": (
        lambda: run(UNIT, samplers.sgld(0.05), 10, temperature=0.25),
        dict.fromkeys(UNIT_TRUTH, 0.25),
    ),
    "sgld, exponential, reflected, h = 0.003": (lambda: reflected(0.003), {}),
    "rwm, exponential, ends by -inf": (
        lambda: learnt(ENDS, samplers.rwm(), init=positive, steps=20_000, thin=10),
        {},
    ),
    "rwm, gamma, ends by -inf": (
        lambda: learnt(GAMMA, samplers.rwm(), init=positive, steps=20_000, thin=10),
        {},
    ),
    "rwm, normal with a jump": (lambda: learnt(JUMPS, samplers.rwm(), steps=20_000, thin=10), {}),
    **{
        f"nuts, {name}": (posterior(name), truth_of(name))
        for name in (
            "eight_schools_noncentred",
            "hierarchical_linear",
            "logistic_regression",
            "correlated_normal_100",
            "gaussian_mixture",
            "autoregression",
            "garch",
        )
    },
}
WRONG: dict[str, tuple[Callable[[], fk.Trace], Truth]] = {
    "prior forgotten": (without_prior, {}),
    "sgld, exponential, reflected, h = 0.5": (lambda: reflected(0.5), {"theta[0]": 1.0, "theta[1]": 1.0}),
    "sgld, normal with a jump": (lambda: run(JUMPS, samplers.sgld(0.05)), {}),
    **{
        f"two modes, {chains:,} chains": (lambda chains=chains: two_modes(chains), {"theta[0]": 37.0})
        for chains in (64, 1024, 4096)
    },
    "steps far too small, 1,024 chains": (
        lambda: many(UNIT, samplers.sgld(1e-5), 1024, init=lambda key: 2 * jax.random.normal(key, (10,))),
        UNIT_TRUTH,
    ),
    "far start, 1,024 chains": (
        lambda: many(UNIT, samplers.sgld(0.003), 1024, init=jnp.full(10, 30.0)),
        UNIT_TRUTH,
    ),
    "sgld, hλ = 0.3, 1,024 chains": (lambda: many(UNIT, samplers.sgld(0.3), 1024), UNIT_TRUTH),
    "short burn-in": (
        lambda: run(UNIT, samplers.sgld(0.01), 10, init=jnp.full(10, 20.0), burn_in=0, steps=20_000),
        UNIT_TRUTH,
    ),
    "target unknown, step too large": (unknown_target, UNIT_TRUTH),
    "bfloat16, steps too small for it": (half_precision, {"theta[0]": 1.0, "theta[1]": 1.0}),
    "blown up before the eighth draw": (
        lambda: run(UNIT, samplers.sgld(2.5), 10, burn_in=0, steps=4_000, thin=100),
        UNIT_TRUTH,
    ),
    "sgld, 10 normals, hλ = 0.4": (lambda: run(UNIT, samplers.sgld(0.4), 10), UNIT_TRUTH),
    "sgld, 10 normals, hλ = 0.2": (lambda: run(UNIT, samplers.sgld(0.2), 10), UNIT_TRUTH),
    "sgld, correlated by 0.95, hλ = 0.4": (lambda: run(TIED, samplers.sgld(0.02)), TIED_TRUTH),
    "sgld, correlated by 0.95, hλ = 1": (lambda: run(TIED, samplers.sgld(0.05)), TIED_TRUTH),
    "sgld, step beyond stability": (lambda: run(UNIT, samplers.sgld(2.1), 10), UNIT_TRUTH),
    "psgld, correlated by 0.95": (lambda: run(TIED, samplers.psgld(0.03)), TIED_TRUTH),
    "psgld, from the mode itself": (lambda: run(TIED, samplers.psgld(0.01), init=jnp.zeros(2)), TIED_TRUTH),
    "ulmc, step too large": (lambda: run(UNIT, samplers.ulmc(1.0), 10), UNIT_TRUTH),
    "sghmc by Euler, step too large": (lambda: run(UNIT, samplers.sghmc(0.5), 10), UNIT_TRUTH),
    "sgnht by Euler, step too large": (lambda: run(UNIT, samplers.sgnht(0.8), 10), UNIT_TRUTH),
    "noise doubled": (half_potential, UNIT_TRUTH),
    "temperature ignored": (temperature_ignored, dict.fromkeys(UNIT_TRUTH, 0.5)),
    "N/n forgotten": (counted_wrongly, LINEAR_TRUTH),
    "Γ dropped, skewed": (lambda: run(SKEWED, samplers.naive_sgrhmc(0.05, METRIC, ROOT), 1, thin=20), {}),
    "uncorrected minibatch noise, sgld": (lambda: linear(samplers.sgld(5e-5), **NOISY), LINEAR_TRUTH),
    "uncorrected minibatch noise, sghmc": (
        lambda: linear(samplers.sghmc(2e-3, 30.0, **SPLIT), **NOISY),
        LINEAR_TRUTH,
    ),
    "minibatch noise without friction": (lambda: linear(samplers.naive_sghmc(1e-3), **NOISY), LINEAR_TRUTH),
    "reshuffled batches under a thermostat": (
        lambda: linear(samplers.sgnht(1e-3, 10.0, 0.01), batch_size=10, batches="reshuffle", thin=10),
        LINEAR_TRUTH,
    ),
    "steps far too small": (lambda: run(UNIT, samplers.sgld(1e-5), 10), UNIT_TRUTH),
    "too few draws": (lambda: run(UNIT, samplers.sgld(0.05), 10, steps=500, thin=1), UNIT_TRUTH),
    "one chain": (lambda: run(UNIT, samplers.sgld(0.05), 10, chains=1), UNIT_TRUTH),
    "far start, no burn-in": (
        lambda: run(UNIT, samplers.sgld(1e-3), 10, init=jnp.full(10, 100.0), burn_in=0),
        UNIT_TRUTH,
    ),
    "two modes, sgld": (
        lambda: run(
            MODES, samplers.sgld(0.05), 1, init=lambda key: 6 * jax.random.rademacher(key, (1,), float)
        ),
        {"theta[0]": 37.0},
    ),
    "two modes, nuts": (
        lambda: learnt(MODES, d=1, init=lambda key: 6 * jax.random.rademacher(key, (1,), float)),
        {"theta[0]": 37.0},
    ),
    "nearly improper, sgld": (lambda: run(FLAT, samplers.sgld(0.1)), {"theta[0]": 1.0, "theta[1]": 5e5}),
    "nuts, funnel": (posterior("funnel"), truth_of("funnel")),
    "nuts, eight_schools_centred": (posterior("eight_schools_centred"), truth_of("eight_schools_centred")),
}


def row(name: str, make: Callable[[], fk.Trace], truth: Truth, is_right: bool) -> tuple[str, Grade]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = make()
        try:
            summary = trace.summary()
        except (ValueError, RuntimeError) as error:  # there are no draws, or too few: no result at all
            return _line(name, is_right, Grade.BAD, None, str(error), start), Grade.BAD
    variances = dict(zip(summary.names, summary.deviation**2, strict=True))
    bias = [variances[scalar] / variance - 1 for scalar, variance in truth.items()]
    worst = max(bias, key=abs, default=None)
    return _line(name, is_right, summary.grade, worst, (summary.warnings or [""])[0], start), summary.grade


def _line(name: str, is_right: bool, grade: Grade, bias: float | None, words: str, start: float) -> str:
    print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    shown = "" if bias is None else f"{100 * bias:+.0f} %" if abs(bias) < 10 else f"{bias:+.0e} ×"
    short = words.split(";")[0].split(". ")[0]
    return f"| {name} | {'right' if is_right else 'wrong'} | {grade} | {shown} | {short} |"


def main() -> None:
    wanted = sys.argv[1:]
    selected = {"right": (True,), "wrong": (False,)}.get(" ".join(wanted), (True, False))
    wanted = wanted if len(selected) == 2 else []
    counts = {(is_right, grade): 0 for is_right in (True, False) for grade in Grade}
    lines = [
        "| run | it is | grade | variance off by | first message |",
        "| --- | --- | --- | --- | --- |",
    ]
    for is_right in selected:
        for name, (make, truth) in (RIGHT if is_right else WRONG).items():
            if wanted and not any(word in name for word in wanted):
                continue
            line, grade = row(name, make, truth, is_right)
            lines.append(line)
            counts[is_right, grade] += 1
    print(f"| | {' | '.join(Grade)} |\n| --- | --- | --- | --- |")
    for is_right in (True, False):
        numbers = " | ".join(str(counts[is_right, grade]) for grade in Grade)
        print(f"| {'right' if is_right else 'wrong'} | {numbers} |")
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
