"""The figures of the theory pages, by the library itself: `python docs/figures.py` writes its folder.

Every figure is deterministic: fixed keys, and exact solutions where there are any.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from jax.flatten_util import ravel_pytree
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from scipy.linalg import solve_discrete_lyapunov

import fokker as fk
from fokker.integrators import EulerMaruyama, ExactOU, Splitting, SymplecticEuler
from fokker.samplers import SamplerState

matplotlib.use("Agg")
FOLDER = Path(__file__).parent / "images" / "theory"
BLUE, ORANGE, GREEN, GREY = "#2166ac", "#d6604d", "#1b7837", "#888888"
WELL = fk.Density(lambda x: -jnp.sum(x**4 - 2 * x**2))


def scan(sampler: Any, start: Any, steps: int, chains: int, batch: Any = None) -> Any:
    """The states of many chains, by a loop of one's own: chain × step × …, as `state.z` has them."""

    def one(key: Any) -> Any:
        first, rest = jax.random.split(key)

        def step(state: Any, key: Any) -> Any:
            rows = None if batch is None else batch(jax.random.fold_in(key, 1))
            state, _ = sampler.step(key, state, rows)
            return state, state.z

        return jax.lax.scan(step, sampler.init(start, key=first), jax.random.split(rest, steps))[1]

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), chains))


def metropolis() -> None:
    """Three exact samplers on one target, by the path of a coordinate against gradients spent."""
    normal = fk.Density(lambda x: -jnp.sum((x / jnp.array([1.0, 10.0])) ** 2) / 2)
    fk_samplers = {
        "random walk": fk.samplers.rwm(1.7, "identity"),
        "MALA": fk.samplers.mala(0.7, "identity"),
        "HMC, 20 leapfrog steps": fk.samplers.hmc(0.8, 20, "identity"),
    }
    figure, axes = plt.subplots(3, 1, figsize=(6.4, 4.2), sharex=True, sharey=True, layout="constrained")
    for ax, (name, sampler) in zip(axes, fk_samplers.items(), strict=True):
        cost = 20 if "HMC" in name else 1
        key = jax.random.key(4)
        placed = sampler.on(normal)

        def step(state: Any, key: Any, placed: Any = placed) -> Any:
            state, _ = placed.step(key, state)
            return state, state.position

        first = placed.init(jnp.zeros(2), key=key)
        _, draws = jax.lax.scan(step, first, jax.random.split(key, 4000 // cost))
        ax.plot(np.arange(len(draws)) * cost, draws[:, 1], ".-", ms=3 if cost > 1 else 1, lw=0.6, color=BLUE)
        ax.set_ylabel("θ₂")
        ax.set_title(name, fontsize=9, loc="left")
    axes[-1].set_xlabel("evaluations of U or its gradient; θ₂ has standard deviation 10")
    save(figure, "metropolis")


def fokker_planck() -> None:
    """Particles of the Langevin equation, and the solution of its Fokker–Planck equation."""
    x = np.linspace(-2.6, 2.6, 521)
    h = x[1] - x[0]
    U = x**4 - 2 * x**2
    p = np.exp(-((x - 0.6) ** 2) / (2 * 0.1**2))
    p /= p.sum() * h
    # ∂p/∂t = ∂/∂x (e^{-U} ∂/∂x (p e^U)): fluxes between cells, implicit in time, so that mass is kept.
    middle = np.exp(-(U[1:] + U[:-1]) / 2)
    forward = np.zeros((len(x), len(x)))
    for k, m in enumerate(middle):
        for i, sign in ((k, 1), (k + 1, -1)):
            forward[i, k + 1] += sign * m * np.exp(U[k + 1]) / h**2
            forward[i, k] -= sign * m * np.exp(U[k]) / h**2
    dt = 0.001
    move = np.linalg.inv(np.eye(len(x)) - dt * forward)
    sampler = fk.samplers.sgld(dt).on(WELL)

    def one(key: Any) -> Any:
        start, rest = jax.random.split(key)
        state = sampler.init(0.6 + 0.1 * jax.random.normal(start, ()), key=start)
        step = lambda s, k: (sampler.step(k, s)[0], s.position)  # noqa: E731
        return jax.lax.scan(step, state, jax.random.split(rest, 3001))[1]

    paths = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 20_000)))
    times = (0, 50, 300, 3000)
    figure, axes = plt.subplots(1, 4, figsize=(8, 2.3), sharey=True, layout="constrained")
    for ax, time, steps in zip(axes, times, np.diff((0, *times)), strict=True):
        p = np.linalg.matrix_power(move, int(steps)) @ p
        ax.hist(paths[:, time], np.linspace(-2.2, 2.2, 67), density=True, color="#a6c8e4")
        ax.plot(x, p, color=BLUE, lw=1.2)
        ax.plot(x, np.exp(-U) / (np.exp(-U).sum() * h), "--", color=ORANGE, lw=1)
        ax.set(title=f"t = {time * dt:g}", xlim=(-2.2, 2.2), ylim=(0, 2), xlabel="θ", yticks=[])
    save(figure, "fokker-planck")


def phase_portraits() -> None:
    """Drifts of D alone, Q alone and both, over the density that all of them keep."""
    H = lambda z: z[0] ** 4 - 2 * z[0] ** 2 + z[1] ** 2 / 2  # noqa: E731
    grid = np.stack(np.meshgrid(np.linspace(-2, 2, 81), np.linspace(-2.2, 2.2, 81)), -1)
    density = np.exp(-np.asarray(jax.vmap(jax.vmap(H))(grid)))
    gradient = np.asarray(jax.vmap(jax.vmap(jax.grad(H)))(grid))
    D, Q = np.diag([0.0, 1.0]), np.array([[0.0, -1.0], [1.0, 0.0]])
    names = {
        "D = I, Q = 0: Langevin": np.eye(2),
        "D = 0: Hamiltonian": Q,
        "D on r, and Q: underdamped": D + Q,
    }
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.7), sharey=True, layout="constrained")
    for ax, (name, A) in zip(axes, names.items(), strict=True):
        drift = -gradient @ A.T
        ax.contourf(*np.moveaxis(grid, -1, 0), density, 12, cmap="Blues", alpha=0.8)
        speed = np.hypot(drift[..., 0], drift[..., 1])
        ax.streamplot(
            grid[0, :, 0], grid[:, 0, 1], drift[..., 0], drift[..., 1], density=0.7, color=GREY,
            linewidth=np.clip(speed / 4, 0.3, 1.2), arrowsize=0.7,
        )  # fmt: skip
        ax.set(title=name, xlabel="θ")
        ax.title.set_fontsize(9)
    axes[0].set_ylabel("r")
    save(figure, "portraits")


def gamma() -> None:
    """A metric of one's own, with Γ and without it."""
    g = lambda theta: 1 + 2 * theta**2  # noqa: E731
    target = fk.Density(lambda x: -jnp.sum(x**2) / 2)
    right = fk.samplers.sgrld(2e-3, fk.fields.Elementwise(g)).on(target)
    wrong = fk.samplers.recipe(
        fk.SDE(
            lambda theta: {"theta": -g(theta) * theta},
            {("theta", "theta"): fk.fields.Elementwise(g)},
            lambda theta: jnp.sum(theta**2) / 2,
        ),
        2e-3,
    )
    x = np.linspace(-4, 4, 401)
    exact = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    figure, axes = plt.subplots(1, 2, figsize=(6.4, 2.4), sharey=True, layout="constrained")
    for ax, sampler, start, name in (
        (axes[0], right, jnp.zeros(()), "with Γ = ∇·D"),
        (axes[1], wrong, {"theta": jnp.zeros(())}, "Γ left out"),
    ):
        draws = np.asarray(scan(sampler, start, 4_000, 1_000)["theta"])[:, 1000::20].ravel()
        ax.hist(draws, np.linspace(-4, 4, 65), density=True, color="#a6c8e4")
        ax.plot(x, exact, color=ORANGE)
        ax.set(title=name, xlabel="θ", yticks=[])
    save(figure, "gamma")


def minibatch_noise() -> None:
    """Kinetic temperature of a normal under a noisy gradient: no friction, friction, a thermostat."""

    class Noisy(fk.Target):
        """exp(-θ²/2), whose gradient is given the batch as noise."""

        def potential(self, theta: Any) -> Any:
            return jnp.sum(theta**2) / 2

        def minibatch_potential(self, theta: Any, batch: Any) -> Any:
            return self.potential(theta) + batch @ theta

    h, V, d = 0.02, 100.0, 10
    batch = lambda key: jnp.sqrt(V) * jax.random.normal(key, (d,))  # noqa: E731
    cases = {
        "no friction (naive SGHMC)": (fk.samplers.naive_sghmc(h), ORANGE),
        "friction 1": (fk.samplers.sghmc(h, 1.0), GREY),
        "friction 1, with B̂ subtracted": (fk.samplers.sghmc(h, 1.0, noise_estimate=V), GREEN),
        "a thermostat": (fk.samplers.sgnht(h, 1.0, 1.0), BLUE),
    }
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.9), layout="constrained")
    time = h * np.arange(4000)
    for name, (sampler, colour) in cases.items():
        z = scan(sampler.on(Noisy()), jnp.zeros(d), 4000, 400, batch)
        axes[0].plot(time, np.mean(np.asarray(z["r"]) ** 2, (0, 2)), color=colour, label=name)
        axes[1].plot(time, np.mean(np.asarray(z["theta"]) ** 2, (0, 2)), color=colour, label=name)
    for ax, title in zip(axes, ("mean of r²: kinetic temperature", "variance of θ"), strict=True):
        ax.axhline(1, color="black", lw=0.6, ls="--")
        ax.set(title=title, ylim=(0, 4), xlabel="time")
        ax.title.set_fontsize(9)
    axes[0].legend(fontsize=7, loc="upper right")
    save(figure, "minibatch-noise")


def affine_bias(sampler: Any) -> float:
    """How far the stationary covariance is from 1 on the standard normal, where steps are affine: exact."""
    placed = sampler.on(fk.Density(lambda x: -jnp.sum(x**2) / 2))
    state = placed.init(jnp.array([0.3]), key=jax.random.key(0))
    x, back = ravel_pytree(state.z)
    w, noise = ravel_pytree(placed.draw(jax.random.key(1), state))

    def step(x: Any, w: Any) -> Any:
        moved, _ = placed.advance(noise(w), SamplerState(back(x), state.step))
        return ravel_pytree(moved.z)[0]

    A, B = (np.asarray(m, float) for m in jax.jacfwd(step, (0, 1))(x, jnp.zeros_like(w)))
    return float(np.max(np.abs(solve_discrete_lyapunov(A, B @ B.T) - np.eye(len(A)))))


def integrators() -> None:
    """The bias of the covariance of θ and r against the step size, solved exactly."""
    cases: dict[str, tuple[Callable[[float], Any], str, str]] = {
        "Langevin, Euler–Maruyama": (lambda h: fk.samplers.sgld(h), ORANGE, "o-"),
        "underdamped, Euler–Maruyama": (lambda h: _sghmc(h, EulerMaruyama()), ORANGE, "s--"),
        "underdamped, symplectic Euler": (lambda h: _sghmc(h, SymplecticEuler()), GREY, "s-"),
        "underdamped, exact OU": (lambda h: _sghmc(h, ExactOU()), GREEN, "s-"),
        "underdamped, ABOBA": (lambda h: _sghmc(h, Splitting("ABOBA")), BLUE, "s-"),
        "underdamped, BAOAB": (lambda h: _sghmc(h, Splitting("BAOAB")), BLUE, "^--"),
    }
    steps = 2.0 ** -np.arange(1, 7)
    figure, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
    with jax.enable_x64(True):
        for name, (make, colour, style) in cases.items():
            bias = [affine_bias(make(float(h))) for h in steps]
            ax.loglog(steps, bias, style, color=colour, label=name, ms=4, lw=1)
    ax.set(
        xlabel="step size h",
        ylabel="largest error of a covariance",
        title="slope 1: order h; slope 2: order h²",
    )
    ax.title.set_fontsize(9)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xticks(steps[::2], [f"1/{round(1 / h)}" for h in steps[::2]])
    ax.legend(fontsize=7)
    save(figure, "orders")


def _sghmc(h: float, integrator: Any) -> Any:
    return fk.samplers.sghmc(h, 1.0, integrator=integrator)


def correction() -> None:
    """Langevin steps of growing size: accepted all, and by Metropolis."""
    draws = 200_000
    steps = (0.05, 0.1, 0.2, 0.4, 0.8, 1.2)
    found: dict[str, list[float]] = {"ULA": [], "MALA": [], "accepted": []}
    target = fk.Density(lambda x: -jnp.sum(x**2) / 2)
    for h in steps:
        for name, sampler in (("ULA", fk.samplers.ula(h)), ("MALA", fk.samplers.mala(h, "identity"))):
            placed = sampler.on(target)

            def one(key: Any, placed: Any = placed, name: str = name) -> Any:
                def step(state: Any, key: Any) -> Any:
                    state, info = placed.step(key, state)
                    rate = info.acceptance_rate if name == "MALA" else jnp.ones(())
                    return state, (state.position[0], rate)

                first = placed.init(jnp.zeros(1), key=key)
                return jax.lax.scan(step, first, jax.random.split(key, draws // 200))[1]

            x, rate = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), 200))
            found[name].append(float(np.var(np.asarray(x)[:, 100:])))
            if name == "MALA":
                found["accepted"].append(float(np.mean(np.asarray(rate))))
    figure, ax = plt.subplots(figsize=(5.2, 3), layout="constrained")
    h = np.asarray(steps)
    ax.plot(h, found["ULA"], "o", color=ORANGE, label="ULA: all accepted")
    ax.plot(
        np.linspace(0, 1.3, 99),
        1 / (1 - np.linspace(0, 1.3, 99) / 2),
        color=ORANGE,
        lw=0.8,
        label="1/(1 - h/2)",
    )
    ax.plot(h, found["MALA"], "s", color=BLUE, label="MALA")
    ax.plot(h, found["accepted"], "s:", color=GREY, ms=3, label="share accepted by MALA")
    ax.axhline(1, color="black", lw=0.6, ls="--")
    ax.set(xlabel="step size h", ylabel="variance of θ", ylim=(0.4, 2.8))
    ax.legend(fontsize=7)
    save(figure, "correction")


def save(figure: Any, name: str) -> None:
    """Write a figure without what changes from run to run."""
    for ax in figure.axes:
        _plain(ax)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=110, metadata={"Software": None})
    plt.close(figure)


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


FIGURES = {
    "metropolis": metropolis,
    "fokker-planck": fokker_planck,
    "portraits": phase_portraits,
    "gamma": gamma,
    "minibatch-noise": minibatch_noise,
    "orders": integrators,
    "correction": correction,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name]()
        print(FOLDER / f"{name}.png")
