"""How often `spread_of` finds a wrong variance, and how often it finds one that is right.

Four chains of independent draws or of AR(1) processes with about 4,000 effective squares, as draws of
normals, of Student's t with 5 degrees of freedom, and of logarithms of gamma variables (as skewed as
posteriors of scales). Their normal scores are spread too wide or too narrow in all coordinates, or in the
first alone.
An argument is the share of the repetitions to do. `docs/verdicts.md` has the output.
"""

import sys

import numpy as np
from scipy import signal, stats

from fokker.diagnostics import spread_of

CHAINS = 4


def scores(generator: np.random.Generator, d: int, phi: float) -> np.ndarray:
    """Standard normals, chain × draw × d, with 4,000 effective squares."""
    draws = round(1000 * (1 + phi**2) / (1 - phi**2))
    noise = generator.normal(size=(CHAINS, draws + 100, d)) * np.sqrt(1 - phi**2)
    return signal.lfilter([1], [1, -phi], noise, axis=1)[:, 100:]


def with_gradients(target: str, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws that are right where z is standard normal, and ∇U at them."""
    if target == "normal":
        return z, z
    if target == "Student's t":
        x = stats.t.ppf(stats.norm.cdf(z), 5)
        return x, 6 * x / (5 + x**2)
    x = np.log(stats.gamma.ppf(stats.norm.cdf(z), 3))
    return x, np.exp(x) - 3


def alarms(target: str, d: int, phi: float, bias: float, alone: bool, repeats: int) -> str:
    found = 0
    for repeat in range(repeats):
        z = scores(np.random.default_rng([repeat, d]), d, phi)
        where = slice(1) if alone else slice(None)
        z[:, :, where] *= np.sqrt(1 + bias)
        found += spread_of(*with_gradients(target, z)).furthest() is not None
    return f"{found}/{repeats}"


def main() -> None:
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    columns = ((0.0, False), (0.1, False), (-0.1, False), (0.1, True), (0.3, True))
    print("| target | d | chains | right | all +10 % | all -10 % | one +10 % | one +30 % |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for target in ("normal", "Student's t", "log gamma"):
        for d, repeats in ((1, 400), (10, 200), (100, 50), (1000, 20)):
            for phi in (0.0, 0.7):
                if d == 1000 and (target != "normal" or phi):
                    continue  # a minute each
                shown = []
                for bias, alone in columns:
                    number = max(4, round(share * repeats * (1 if bias == 0 else 0.25)))
                    shown.append(alarms(target, d, phi, bias, alone, number))
                kind = f"AR(1), {phi}" if phi else "independent"
                print(f"| {target} | {d:,} | {kind} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
