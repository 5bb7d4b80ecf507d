r"""Ding et al. (2014), section 5.2, Figure 3 (first row): a Bayesian neural network on MNIST.

784 inputs, 100 hidden units, 10 classes; minibatches of 20 of 50,000 images; 50,000 iterations, of which
10,000 are burn-in. Test error of the posterior-mean prediction by SGHMC and SGNHT over η and a,
which are ε² and Aε here. Small minibatches leave noise in the gradient that SGHMC does not account for.

The paper gives neither the prior nor the start nor the activation ("as in" Chen et al. 2014): they are chosen
here, and the claims are tried again with other choices.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from fokker.datasets import Images, mnist
from fokker.lab.experiments._ding import SAMPLERS, DingSetting
from fokker.lab.experiments._network_figures import draw_test_errors, write_table
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._stages import stage
from fokker.run.api import sample
from fokker.targets import Posterior

FIGURE, TABLE = "ding-bnn.png", "ding-bnn.md"
NUM_TRAIN, HIDDEN, CLASSES, BATCH = 50_000, 100, 10, 20
AMOUNTS, STEPS = (0.001, 0.01), (2e-7, 4e-7, 6e-7, 8e-7)
# What counts as no difference between two test errors, in percentage points. The standard error of a test
# error of 2.5 % on 10,000 images is 0.16 points.
TIE = 0.5
# A prediction that is wrong for more than half of the images, in per cent, counts as diverged.
DIVERGED = 50.0
# How far the kinetic energy of a coordinate may be from 1/2.
ENERGY_TOLERANCE = 0.05
_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": jax.nn.sigmoid,
    "ReLU": jax.nn.relu,
}

Parameters = dict[str, Array]


@dataclass(frozen=True)
class Length:
    """How long a chain is, and how many steps lie between two draws."""

    iterations: int
    burn_in: int
    thin: int


QUICK, FULL, VARIANT = Length(3_000, 600, 100), Length(50_000, 10_000, 100), Length(10_000, 2_000, 100)


@dataclass(frozen=True)
class Network:
    """What the paper does not give: the activation and the standard deviation of the prior."""

    activation: str = "sigmoid"
    prior_deviation: float = 1.0

    def __str__(self) -> str:
        return f"{self.activation}, prior N(0, {self.prior_deviation:g}²)"

    def logits(self, theta: Parameters, image: Float[Array, " pixels"]) -> Float[Array, " classes"]:
        """Aᵀ σ(Bᵀx + b) + a, for pixels from 0 to 255 that are scaled to [0, 1]."""
        x = image.astype(jnp.float32) / 255
        return _ACTIVATIONS[self.activation](x @ theta["B"] + theta["b"]) @ theta["A"] + theta["a"]

    def posterior(self, images: np.ndarray, labels: np.ndarray) -> Posterior:
        """U(θ) for these images."""

        def log_prior(theta: Parameters) -> Array:
            squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(theta))
            return -jnp.asarray(squares) / (2 * self.prior_deviation**2)

        def log_likelihood(theta: Parameters, datum: Mapping[str, Array]) -> Array:
            return jax.nn.log_softmax(self.logits(theta, datum["image"]))[datum["label"]]

        return Posterior(log_prior, log_likelihood, {"image": images, "label": labels.astype(np.int32)})

    def start(self, key: Key[Array, ""], pixels: int) -> Parameters:
        """Weights ~ N(0, 1/n) for n inputs of a unit, and zero biases."""
        first, last = jax.random.split(key)
        return {
            "B": jax.random.normal(first, (pixels, HIDDEN)) / pixels**0.5,
            "b": jnp.zeros(HIDDEN),
            "A": jax.random.normal(last, (HIDDEN, CLASSES)) / HIDDEN**0.5,
            "a": jnp.zeros(CLASSES),
        }


@dataclass(frozen=True)
class Chain:
    """Test errors in per cent by iteration: of single draws up to the end of burn-in, then of their mean.

    `kinetic`: the mean kinetic energy of a coordinate after burn-in. `friction`: the mean ξ, or the friction
    given. `diverged`: why the chain left the finite numbers; its last error is then that of guessing.
    """

    iterations: np.ndarray
    errors: np.ndarray
    kinetic: float
    friction: float
    diverged: str | None = None

    @property
    def last(self) -> float:
        """The test error at the end."""
        return float(self.errors[-1])


@dataclass(frozen=True, eq=False)
class NetworkOnImages:
    """A network with its posterior and what it predicts; compiled once for all chains."""

    network: Network
    posterior: Posterior
    predict: Callable[[Parameters], Float[Array, "images classes"]]
    test_labels: np.ndarray

    @classmethod
    def of(cls, network: Network, data: Images) -> "NetworkOnImages":
        """For the images to learn from and to test with."""
        train = data.train_images[:NUM_TRAIN].reshape(-1, data.train_images[0].size)
        test = jnp.asarray(data.test_images.reshape(len(data.test_images), -1))
        predict = jax.jit(lambda theta: jax.nn.softmax(jax.vmap(lambda x: network.logits(theta, x))(test)))
        return cls(
            network, network.posterior(train, data.train_labels[:NUM_TRAIN]), predict, data.test_labels
        )


def follow(tested: NetworkOnImages, setting: DingSetting, seed: int, length: Length) -> Chain:
    """One chain, and the test error of what it predicts."""
    stage(f"sampling by {setting}, seed {seed}")
    start_key = jax.random.fold_in(jax.random.key(seed), 1)
    trace = sample(
        tested.posterior,
        setting.sampler(),
        init=tested.network.start(start_key, tested.posterior.data["image"].shape[1]),
        steps=length.iterations,
        chains=1,
        thin=length.thin,
        batch_size=BATCH,
        seed=seed,
        progress=False,
    )
    num_draws = 0 if trace.draws is None else trace.draws["B"].shape[1]
    iterations = length.thin * np.arange(1, num_draws + 1)
    is_kept = iterations > length.burn_in
    total = np.zeros((len(tested.test_labels), CLASSES), np.float64)
    errors = []
    for draw in range(num_draws):
        p = np.asarray(tested.predict(jax.tree.map(lambda leaf, draw=draw: leaf[0, draw], trace.draws)))
        # Up to the end of burn-in a draw alone predicts; afterwards the mean of the draws since.
        total = total + p if draw and is_kept[draw - 1] else p
        errors.append(100 * float(np.mean(np.argmax(total, 1) != tested.test_labels)))
    if trace.stopped is not None:
        errors.append(100 * (1 - 1 / CLASSES))
        iterations = np.append(iterations, length.thin * (num_draws + 1))
    stats = {name: values[0][is_kept] for name, values in trace.sample_stats.items()}
    has_draws = bool(np.any(is_kept))
    friction = setting.a / setting.eta**0.5
    if "xi" in stats:
        friction = float(np.mean(stats["xi"])) if has_draws else np.nan
    kinetic = float(np.mean(stats["kinetic_temperature"])) / 2 if has_draws else np.inf
    return Chain(iterations, np.array(errors), kinetic, friction, trace.stopped)


def measure(
    data: Images, network: Network, settings: Sequence[DingSetting], seeds: int, length: Length
) -> dict[DingSetting, list[Chain]]:
    """Every setting with every seed."""
    tested = NetworkOnImages.of(network, data)
    return {setting: [follow(tested, setting, n, length) for n in range(seeds)] for setting in settings}


Chains = Mapping[DingSetting, Sequence[Chain]]


def claims(by_setting: Chains, where: str = "") -> list[Claim]:
    """What section 5.2.1 says of Figure 3; a claim holds if it holds for every seed."""
    amounts = sorted({setting.a for setting in by_setting})
    steps = sorted({setting.eta for setting in by_setting})
    seeds = range(len(next(iter(by_setting.values()))))
    chain = {(s.method, s.a, s.eta): rows for s, rows in by_setting.items()}

    def growth(method: str, a: float) -> list[float]:
        """The error at the largest η less that at the smallest, in points, by seed."""
        return [chain[method, a, steps[-1]][n].last - chain[method, a, steps[0]][n].last for n in seeds]

    def above_best(method: str, a: float) -> list[float]:
        """The error at the largest η less the least, in points, by seed."""
        return [
            chain[method, a, steps[-1]][n].last - min(chain[method, a, eta][n].last for eta in steps)
            for n in seeds
        ]

    pairs = list(itertools.product(amounts, steps))
    excess = {
        (a, eta): [chain["SGNHT", a, eta][n].last - chain["SGHMC", a, eta][n].last for n in seeds]
        for a, eta in pairs
    }
    smaller, largest = amounts[0], steps[-1]
    suffix = f"; {where}" if where else ""
    return [
        Claim(
            f"SGNHT is more stable than SGHMC: from the least to the largest η its error grows less{suffix}",
            all(
                thermostat < fixed
                for a in amounts
                for thermostat, fixed in zip(growth("SGNHT", a), growth("SGHMC", a), strict=True)
            ),
            {
                f"a = {a:g}, {method}, points from the least η": _rounded(growth(method, a))
                for a in amounts
                for method in SAMPLERS
            },
        ),
        Claim(
            f"SGNHT is stable as η grows: at the largest η within {TIE:g} points of its best{suffix}",
            all(value <= TIE for a in amounts for value in above_best("SGNHT", a)),
            {f"a = {a:g}, points above the best": _rounded(above_best("SGNHT", a)) for a in amounts},
        ),
        Claim(
            f"SGHMC gets worse as η grows, at the smaller a, by more than {TIE:g} points{suffix}",
            all(value > TIE for value in growth("SGHMC", smaller)),
            {f"a = {a:g}, points from the least η": _rounded(growth("SGHMC", a)) for a in amounts},
        ),
        Claim(
            f"SGNHT is at least as good as SGHMC for every η and a, within {TIE:g} points{suffix}",
            all(value <= TIE for values in excess.values() for value in values),
            {f"a = {a:g}, η = {eta:g}: SGNHT - SGHMC": _rounded(excess[a, eta]) for a, eta in pairs},
        ),
        Claim(
            f"SGHMC diverges at the largest η and the smaller a: not finite, or more than {DIVERGED:g} % "
            f"wrong{suffix}",
            all(row.diverged is not None or row.last > DIVERGED for row in chain["SGHMC", smaller, largest]),
            {"test error, %": _rounded([row.last for row in chain["SGHMC", smaller, largest]])},
        ),
        _energy_claim(by_setting, suffix),
    ]


def _energy_claim(by_setting: Chains, suffix: str) -> Claim:
    """What is said of the kinetic energies."""
    energies = {(s.method, s.a, s.eta): [row.kinetic for row in rows] for s, rows in by_setting.items()}
    return Claim(
        f"the kinetic energy of SGNHT is 0.5 ± {ENERGY_TOLERANCE:g}, that of SGHMC is higher{suffix}",
        all(abs(x - 0.5) <= ENERGY_TOLERANCE for key in energies if key[0] == "SGNHT" for x in energies[key])
        and all(
            high > low
            for a, eta in {key[1:] for key in energies}
            for high, low in zip(energies["SGHMC", a, eta], energies["SGNHT", a, eta], strict=True)
        ),
        {str(s): _rounded(energies[s.method, s.a, s.eta]) for s in by_setting},
    )


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 3) for value in values]


def study(
    data: Images,
    out: Path,
    settings: Sequence[DingSetting],
    seeds: int,
    length: Length,
    variant: Length | None,
) -> Result:
    """Sample, judge, draw; with a `variant` length, also with other activations and priors."""
    by_setting = measure(data, Network(), settings, seeds, length)
    results = claims(by_setting)
    entries = [_entry(Network(), setting, chains) for setting, chains in by_setting.items()]
    if variant is not None:
        for network in (Network("ReLU"), Network(prior_deviation=0.1)):
            chosen = all_settings(AMOUNTS[:1], (STEPS[0], STEPS[-1]))
            tried = measure(data, network, chosen, seeds, variant)
            results += claims(tried, f"{network}, {variant.iterations:,} iterations")[:4]
            entries += [_entry(network, setting, chains) for setting, chains in tried.items()]
    draw_test_errors(by_setting, length.burn_in, out / FIGURE)
    write_table(by_setting, out / TABLE)
    described = {
        "images": f"{min(NUM_TRAIN, len(data.train_images)):,} to learn from, {len(data.test_images):,} to "
        "test with; the 10,000 of the paper for validation are not used",
        "minibatch": BATCH,
        "hidden units": HIDDEN,
        "iterations": length.iterations,
        "burn-in": length.burn_in,
        "steps between draws (chosen)": length.thin,
        "activation (chosen)": Network().activation,
        "prior (chosen)": f"N(0, {Network().prior_deviation:g}) on every weight and bias",
        "start (chosen)": "weights ~ N(0, 1/number of inputs), biases zero, momenta from their normal, ξ = A",
        "pixels (chosen)": "divided by 255",
        "step": "symplectic Euler, ε = √η, A = a/ε; one scalar thermostat, μ = 1",
        "no difference (chosen)": f"{TIE:g} percentage points of test error",
        "figures of the paper": "its text alone was at hand, not the curves of Figure 3: it says how they "
        "behave and gives no numbers",
    }
    return Result("ding-bnn", results, described, tuple(range(seeds)), (FIGURE, TABLE), entries)


def _entry(network: Network, setting: DingSetting, chains: Sequence[Chain]) -> dict[str, Any]:
    return {
        "method": setting.method,
        "a": setting.a,
        "η": setting.eta,
        "network": str(network),
        "test error by seed, %": [chain.last for chain in chains],
        "kinetic energy by seed": [chain.kinetic for chain in chains],
        "friction by seed": [chain.friction for chain in chains],
        "diverged": [chain.diverged for chain in chains],
        "iterations": chains[0].iterations,
        "test error over iterations, %": [chain.errors for chain in chains],
    }


def all_settings(amounts: Sequence[float], steps: Sequence[float]) -> list[DingSetting]:
    """Every method with some a and η."""
    return [DingSetting(method, a, eta) for method, a, eta in itertools.product(SAMPLERS, amounts, steps)]


def run(out: Path, quick: bool, seeds: int, data: Path | None = None) -> Result:
    """On MNIST."""
    images = mnist(data)
    if quick:
        # The smaller a, where the methods differ.
        settings = all_settings(AMOUNTS[:1], (STEPS[0], STEPS[-1]))
        result = study(images, out, settings, seeds, QUICK, None)
    else:
        result = study(images, out, all_settings(AMOUNTS, STEPS), seeds, FULL, VARIANT)
    return dataclasses.replace(result, settings={"quick": quick, **result.settings})
