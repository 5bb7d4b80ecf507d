"""`fk.monitor`: whether anyone's stochastic-gradient MCMC has the temperature that it should have."""

import math
import sys
import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from fokker._core.digits import percent, r_hat_text, with_error
from fokker._core.statistics import split_r_hat
from fokker.diagnostics._findings import Finding, Grade, Verdict, care_or_bad
from fokker.diagnostics._monitored import Tree, check_alike, check_settings, vectors
from fokker.diagnostics._scores import effective_draws, power, scores, threshold

# Share of correct runs in which any of the tests raises an alarm, and a bias of temperature that is ignored.
_FALSE_ALARMS, _TOLERATED = 0.01, 0.05
# A temperature that is off by more than this factor is not usable.
_BAD = 1.25
# The share of minibatch noise from which on it matters; R-hat of chains that have not mixed, or are apart.
_SHARE, _R_HAT, _R_HAT_BAD = 0.1, 1.05, 1.2
# Draws whose mean is the centre from which the others are measured, and directions that are followed.
_CENTRE, _DIRECTIONS = 20, 32
# Draws of a chain below which nothing is judged, and seconds between live lines.
_FEWEST, _SECONDS = 50, 1.0


@dataclass(frozen=True)
class Temperature:
    """A temperature over the one that is wanted: 1 is right; with its standard error and score."""

    ratio: float
    error: float
    score: float
    is_judged: bool


@dataclass(frozen=True)
class Health:
    """What `Monitor.health` returns; None stands for what was not given, and `verdict` says what it means.

    `configurational`: ⟨(θ - c)·∇U⟩/(dT) of all parameters together, 1 in draws of exp(-U/T); `blocks`: of
    each array. `kinetic`: ⟨r·M⁻¹r⟩/(dT). `noise_share`: variance of the minibatch noise over that of the
    injected noise. `r_hat`: the largest over followed directions. `drift`: mean of the last third of the
    draws minus that of the first, along the direction where it is most significant, and its standard error.
    """

    draws: int
    configurational: Temperature | None
    blocks: dict[str, Temperature]
    kinetic: Temperature | None
    noise_share: float | None
    r_hat: float | None
    drift: tuple[float, float] | None
    verdict: Verdict

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self._figures} · {self.verdict.grade}"

    @property
    def _figures(self) -> str:
        parts = [f"{self.draws:,} draws"]
        for name, t in (("T/T₀", self.configurational), ("kinetic", self.kinetic)):
            if t is not None:
                parts.append(f"{name} {with_error(t.ratio, t.error) if t.is_judged else 'undecided'}")
        if self.noise_share is not None:
            parts.append(f"minibatch noise {percent(self.noise_share, 1)}")
        if self.r_hat is not None:
            parts.append(f"R-hat {r_hat_text(self.r_hat)}")
        return " · ".join(parts)

    def __str__(self) -> str:
        return f"{self._figures}\n{self.verdict}"


class Monitor:
    """Follows a sampler that is written elsewhere, by its parameters and gradients; made by `fk.monitor`.

    Arguments:

    - `temperature`, `size`, `batch_size`, `step_size`, `friction`, `live`, `seed`: as for `fk.monitor`.

    ```python
    monitor = fk.diagnostics.Monitor(size=1000, batch_size=10)
    monitor.add(np.zeros(3), np.ones(3), chain=1)
    ```
    """

    def __init__(
        self,
        temperature: float = 1.0,
        *,
        size: int = 1,
        batch_size: int | None = None,
        step_size: float | None = None,
        friction: float = 1.0,
        live: bool = False,
        seed: int = 0,
    ) -> None:
        check_settings(temperature, size, batch_size, step_size, friction)
        self.temperature, self.size, self.batch_size = temperature, size, batch_size
        self.step_size, self.friction, self.live = step_size, friction, live
        self._generator = np.random.default_rng(seed)
        self._first: dict[object, list[np.ndarray]] = defaultdict(list)
        self._products: dict[object, list[np.ndarray]] = defaultdict(list)
        self._kinetic: dict[object, list[float]] = defaultdict(list)
        self._followed: dict[object, list[np.ndarray]] = defaultdict(list)
        # The first parameters of each chain, and which of its arrays have other numbers since.
        self._starts: dict[object, dict[str, np.ndarray]] = {}
        self._has_moved: dict[object, set[str]] = defaultdict(set)
        self._noise: list[float] = []
        self._sizes: dict[str, int] = {}
        self._directions: np.ndarray | None = None
        self._shown = 0.0

    def add(
        self,
        theta: Tree,
        gradient: Tree,
        *,
        chain: object = 0,
        momentum: Tree | None = None,
        mass: float = 1.0,
        repeat: Tree | None = None,
    ) -> None:
        """Tell the monitor where a chain is; as often as you like, at equal distances.

        Arguments:

        - `theta`: the parameters: an array of NumPy, JAX or PyTorch, or dictionaries and lists of them.
        - `gradient`: of U/`size` at these parameters, before they move: the same tree. A minibatch's will do.
        - `chain`: which chain this is.
        - `momentum`: r of the dynamics, for the kinetic temperature.
        - `mass`: of the momentum, whose law is N(0, mass · T).
        - `repeat`: a second gradient at the same parameters from another, independent minibatch of the same
          size, for the share of minibatch noise. It is needed now and then only.
        """
        position, slope = vectors(theta, "theta"), vectors(gradient, "gradient")
        check_alike(position, slope, "gradient")
        if not self._sizes:
            self._sizes = {name: len(x) for name, x in position.items()}
        if {name: len(x) for name, x in position.items()} != self._sizes:
            raise ValueError(
                f"theta must have the same arrays in every call: {self._sizes} numbers at first, and now "
                f"{ {name: len(x) for name, x in position.items()} }."
            )
        x, g = (np.concatenate(list(tree.values())) for tree in (position, slope))
        if not (np.isfinite(x).all() and np.isfinite(g).all()):
            raise ValueError(f"chain {chain} has a number that is not finite: take a smaller step.")
        if repeat is not None:
            other = np.concatenate(list(vectors(repeat, "repeat").values()))
            # Two independent gradients differ by twice the variance of one.
            self._noise.append(float(np.mean((g - other) ** 2)) * self.size**2 / 2)
        if momentum is not None:
            r = np.concatenate(list(vectors(momentum, "momentum").values()))
            self._kinetic[chain].append(float(np.mean(r**2)) / mass / self.temperature)
        self._followed[chain].append(self._along(x))
        start = self._starts.setdefault(chain, {name: block.copy() for name, block in position.items()})
        self._has_moved[chain].update(
            name for name, block in position.items() if not np.array_equal(block, start[name])
        )
        first = self._first[chain]
        if len(first) < _CENTRE:
            first.append(x)
            if len(first) == _CENTRE:
                self._first[chain] = [np.mean(first, axis=0)] * _CENTRE
            return
        product = (x - first[0]) * g * self.size / self.temperature
        ends = np.cumsum(list(self._sizes.values()))[:-1]
        self._products[chain].append(np.array([part.sum() for part in np.split(product, ends)]))
        is_enough = len(self._products[chain]) >= _FEWEST
        if self.live and is_enough and time.monotonic() - self._shown > _SECONDS:
            self._shown = time.monotonic()
            line, rewrites = self.health().line, sys.stderr.isatty()
            print(f"\r{line}\x1b[K" if rewrites else line, end="" if rewrites else "\n", file=sys.stderr)

    def _along(self, x: np.ndarray) -> np.ndarray:
        """A few coordinates themselves, of many the same random directions."""
        if len(x) <= _DIRECTIONS:
            return x
        if self._directions is None:
            self._directions = self._generator.choice([-1.0, 1.0], (_DIRECTIONS, len(x))) / math.sqrt(len(x))
        return self._directions @ x

    def health(self) -> Health:
        """Temperatures with their errors, the share of minibatch noise, R-hat, drift and a verdict so far."""
        blocks, whole, kinetic = self._temperatures()
        share = None
        if self._noise and self.step_size is not None:
            share = self.step_size * float(np.mean(self._noise)) / (2 * self.temperature * self.friction)
        followed = _together(self._followed)
        r_hat = drift = None
        findings: list[Finding] = []
        notes: list[str] = []
        if followed is not None and followed.shape[1] >= _FEWEST:
            halves = np.concatenate(np.split(followed[:, followed.shape[1] % 2 :], 2, axis=1))
            findings += self._stuck()
            moves = np.ptp(followed, axis=(0, 1)) > 0
            if moves.any():
                r_hat = float(np.max(split_r_hat(halves[:, :, moves])))
                drift, is_drifting = _drift(followed[:, :, moves])
                findings += _mixing(r_hat, drift, is_drifting, len(followed))
        else:
            findings.append(_undecided(f"there are fewer than {_FEWEST} draws of each chain"))
        for name, t in (("configurational", whole), ("kinetic", kinetic)):
            findings += self._judged(name, t, notes, share)
        if whole is not None and abs(whole.ratio - 1) <= _TOLERATED:
            findings += self._worst_block(blocks)
        if share is not None and share > _SHARE:
            text = (
                f"minibatch noise adds {percent(share)} to the variance of the injected noise: take a "
                "smaller step"
            )
            findings.append(Finding(Grade.CARE, f"{text}, or larger batches."))
        number = sum(map(len, self._followed.values()))
        verdict = Verdict(tuple(findings), tuple(notes))
        return Health(number, whole, blocks, kinetic, share, r_hat, drift, verdict)

    def _stuck(self) -> list[Finding]:
        """Arrays that are the same in all draws of a chain."""
        findings = []
        for chain, moved in self._has_moved.items():
            fixed = [name for name in self._sizes if name not in moved]
            if fixed:
                what = "theta" if not moved else ", ".join(fixed)
                text = f"{what} of chain {chain} is the same in all its draws: no step moves it"
                findings.append(
                    Finding(
                        Grade.BAD, f"{text}, or the same array is given each time. Give theta as it is now."
                    )
                )
        return findings

    def _temperatures(self) -> tuple[dict[str, Temperature], Temperature | None, Temperature | None]:
        products, kinetic = _together(self._products), _together(self._kinetic)
        blocks: dict[str, Temperature] = {}
        whole = None
        if products is not None and products.shape[1] >= 4:
            sizes = np.array(list(self._sizes.values()))
            of_blocks = _temperatures(products / sizes)
            blocks = dict(zip(self._sizes, of_blocks, strict=True)) if len(sizes) > 1 else {}
            whole = _temperatures(products.sum(2, keepdims=True) / sizes.sum())[0]
        moving = None if kinetic is None or kinetic.shape[1] < 4 else _temperatures(kinetic[:, :, None])[0]
        return blocks, whole, moving

    def _judged(
        self, name: str, t: Temperature | None, notes: list[str], share: float | None
    ) -> list[Finding]:
        """The problem of a temperature, or a note of how small a one could have been seen."""
        if t is None:
            return []
        limit = threshold(_FALSE_ALARMS, 4)
        if not t.is_judged:
            return [_undecided(f"there are too few effective draws for the {name} temperature")]
        if abs(t.score) <= limit or abs(t.ratio - 1) <= _TOLERATED:
            visible = max(_TOLERATED, (limit + power()) * t.error)
            notes.append(f"A {name} temperature off by {percent(visible)} would have been seen.")
            return []
        is_bad = not 1 / _BAD < t.ratio < _BAD
        reason = self._reason(t, share or 0.0) if name == "configurational" else ""
        text = f"the {name} temperature is {with_error(t.ratio, t.error)} times what it should be{reason}."
        return [Finding(care_or_bad(is_bad), text)]

    def _reason(self, t: Temperature, share: float) -> str:
        """A mistake that gives such a temperature, where one does; `share`: of minibatch noise."""
        if share > _SHARE and abs(t.ratio / (1 + share) - 1) < max(0.1, 3 * t.error):
            return ", which the noise of minibatches explains"
        known = {
            "the noise has twice its standard deviation": 4.0,
            "the noise has twice its variance": 2.0,
            "the noise has half its variance, as √ε in place of √(2ε)": 0.5,
        }
        if self.temperature != 1:
            known["the temperature is forgotten, and T is 1"] = 1 / self.temperature
        if self.batch_size is not None and self.size > self.batch_size:
            known["the factor N/n is forgotten in the gradient of the step"] = self.size / self.batch_size
        if self.size > 1:
            known["the step takes the gradient of the mean loss for that of the sum"] = float(self.size)
        for text, ratio in known.items():
            # Within the bias of a step and the error of the estimate.
            if abs(t.ratio / ratio - 1) < max(0.1, 3 * t.error / ratio):
                return f", as if {text}"
        return (
            ": too large a step, or noise of the wrong size" if t.ratio > 1 else ": the draws are too close"
        )

    def _worst_block(self, blocks: dict[str, Temperature]) -> list[Finding]:
        limit = threshold(_FALSE_ALARMS, max(1, len(blocks)))
        off = [
            (name, t)
            for name, t in blocks.items()
            if t.is_judged and abs(t.score) > limit and abs(t.ratio - 1) > _TOLERATED
        ]
        if not off:
            return []
        name, t = max(off, key=lambda entry: abs(entry[1].score))
        size = f"{with_error(t.ratio, t.error)} times what it should be"
        text = f"the configurational temperature of {name} is {size}, while that of all together is right."
        return [Finding(Grade.CARE, text)]


def monitor(
    temperature: float = 1.0,
    *,
    size: int = 1,
    batch_size: int | None = None,
    step_size: float | None = None,
    friction: float = 1.0,
    live: bool = False,
    seed: int = 0,
) -> Monitor:
    r"""A monitor for stochastic-gradient MCMC that is written elsewhere, in any framework.

    By the virial theorem ⟨(θ - c)·∇U⟩ = dT for every c in draws of exp(-U/T), and a minibatch gradient, taken
    before the step, has the same mean. So a chain that is fed with (θ, ∇U) shows its temperature.

    Arguments:

    - `temperature`: T that the draws should have.
    - `size`: what gradients are multiplied by to be those of U: 1 for those of U itself; the number N of data
      for those of the mean loss (with the prior divided by N in it).
    - `batch_size`: n, to recognise a forgotten N/n.
    - `step_size`: ε of θ' = θ - ε∇U + √(2εT) noise, or of a momentum; for the share of minibatch noise.
    - `friction`: of a momentum, with √(2εTC) noise.
    - `live`: whether to show a line in the terminal once per second.
    - `seed`: of the random directions that are followed in many dimensions.

    Returns a `Monitor`: `add(theta, gradient)` at every step, or every tenth, and `health()` at any time.

    ```python
    rng, monitor, theta = np.random.default_rng(0), fk.monitor(), np.zeros(5)
    for _ in range(5000):
        gradient = theta  # of U = |θ|²/2
        monitor.add(theta, gradient)
        theta = theta - 0.05 * gradient + np.sqrt(2 * 0.05) * rng.normal(size=5)
    print(monitor.health())
    ```
    """
    return Monitor(
        temperature,
        size=size,
        batch_size=batch_size,
        step_size=step_size,
        friction=friction,
        live=live,
        seed=seed,
    )


def _undecided(reason: str) -> Finding:
    return Finding(Grade.CARE, f"Undecided: {reason}.")


def _together(by_chain: dict[object, list]) -> np.ndarray | None:
    """Chain × draw × …, of the length of the shortest chain; None without draws."""
    chains = [series for series in by_chain.values() if series]
    if not chains:
        return None
    shortest = min(map(len, chains))
    return np.array([series[-shortest:] for series in chains])


def _temperatures(series: np.ndarray) -> list[Temperature]:
    bias, error, score, judged = scores(series, 1.0)
    return [
        Temperature(float(b) + 1, float(e), float(s), bool(j))
        for b, e, s, j in zip(bias, error, score, judged, strict=True)
    ]


def _drift(followed: np.ndarray) -> tuple[tuple[float, float], bool]:
    """How far the mean moved along the direction where it did most, its error, and whether that is much."""
    third = followed.shape[1] // 3
    ends = [followed[:, :third], followed[:, -third:]]
    variances = [x.var(axis=(0, 1)) / np.maximum(effective_draws(x), 1) for x in ends]
    move = ends[1].mean(axis=(0, 1)) - ends[0].mean(axis=(0, 1))
    error = np.sqrt(np.maximum(sum(variances), 1e-300))
    worst = int(np.argmax(np.abs(move) / error))
    limit = threshold(_FALSE_ALARMS, followed.shape[2])
    return (float(move[worst]), float(error[worst])), bool(abs(move[worst]) > limit * error[worst])


def _mixing(r_hat: float, drift: tuple[float, float], is_drifting: bool, chains: int) -> list[Finding]:
    findings = []
    if r_hat > _R_HAT:
        among = f"between the {chains} chains" if chains > 1 else "between the halves of the chain"
        text = (
            f"R-hat {among} is {r_hat:.2f}: they have not forgotten their starts, or are in different modes."
        )
        findings.append(Finding(care_or_bad(r_hat > _R_HAT_BAD), text))
    if is_drifting:
        text = f"the mean still drifts: by {with_error(*drift)} from the first to the last third."
        findings.append(Finding(Grade.CARE, f"{text} Leave out more steps at the start."))
    return findings


__all__ = ["Health", "Monitor", "Temperature", "monitor"]
