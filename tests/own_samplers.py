"""Samplers as a user would write them against the contract `fk.samplers.Sampler`, right and wrong."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

import fokker as fk
from fokker._core.count import no_steps
from fokker.gradients import Estimator
from fokker.samplers import Followed, Info, Sampler, SamplerState, TrajectorySampler


# The example of docs/own_sampler.md.
class LeimkuhlerMatthews(Sampler):
    """θ' = θ - h∇Ũ(θ) + √(hT/2)(w + w'): each noise is used by two steps (Leimkuhler and Matthews 2013)."""

    step_size: Any = "auto"
    target: Any = None
    temperature: Any = 1.0
    estimator: Estimator = Estimator()  # the plain minibatch gradient

    takes_batches = True
    batches_undivided = ""  # nothing but the target looks into a batch

    def on(self, target, temperature=1.0, gradient=None):
        estimator = self.estimator if gradient is None else gradient.on(target)
        return dataclasses.replace(self, target=target, temperature=temperature, estimator=estimator)

    def follows(self, state=None):
        dynamics = fk.dynamics.langevin(self.own_target.potential, temperature=self.temperature)
        return Followed(dynamics, None if state is None else {"theta": state})

    def init(self, position, *, key=None):
        theta = jax.tree.map(jnp.asarray, position)
        state = SamplerState.first({"theta": theta, "w": noise_like(key, theta)})
        return remembering(state, self.estimator.init(self.own_target, theta))

    def draw(self, key, state):
        return noise_like(key, state.position)

    def advance(self, draws, state, batch=None, number=None):
        target, h, theta, memory = self.own_target, self.step_size, state.position, state.memory.estimator
        if batch is None:
            gradient = jax.grad(target.potential)(theta)
        else:
            gradient = self.estimator.gradient(target, memory, theta, batch)
            number = state.step if number is None else number
            memory = self.estimator.update(target, memory, theta, batch, number)
        scale = jnp.sqrt(h * self.temperature / 2)
        move = lambda x, g, w, v: x - h * g + scale * (w + v)  # noqa: E731
        theta = jax.tree.map(move, theta, gradient, state.z["w"], draws)
        is_finite = jnp.all(jnp.isfinite(ravel_pytree(theta)[0]))
        state = state._replace(z={"theta": theta, "w": draws}, step=state.step + 1)
        return remembering(state, memory), Info(is_finite)


def noise_like(key, theta):
    vector, rebuild = ravel_pytree(theta)
    return rebuild(jax.random.normal(key, vector.shape, vector.dtype))


def remembering(state, memory):
    return state._replace(memory=state.memory._replace(estimator=memory))


# The example of docs/own_sampler.md.
class ManyProposals(TrajectorySampler):
    """Up to eight proposals of a random walk per step, a number drawn anew for each, by Metropolis."""

    step_size: Any = "auto"
    target: Any = None
    temperature: Any = 1.0

    is_exact = True
    learns = True  # warm-up sets the step size by the acceptance rate
    target_accept = 0.4

    def on(self, target, temperature=1.0, gradient=None):
        return dataclasses.replace(self, target=target, temperature=temperature)

    def init(self, position, *, key=None):
        return SamplerState.first({"theta": jax.tree.map(jnp.asarray, position)})

    def draw(self, key, state):
        keys = jax.random.split(key, 3)
        noise = jax.vmap(lambda key: noise_like(key, state.position))(jax.random.split(keys[0], 8))
        return noise, jax.random.uniform(keys[1], (8,)), jax.random.randint(keys[2], (), 1, 9)

    def start(self, draws, state):
        return {"theta": state.position, "draws": draws, "moves": jnp.int32(0), "rate": jnp.zeros(())}

    def move(self, trajectory, state):
        x, (noise, uniform, _), n = trajectory["theta"], trajectory["draws"], trajectory["moves"]
        proposal = jax.tree.map(lambda x, w: x + self.step_size * w[n], x, noise)
        U = self.own_target.potential
        rate = jnp.exp(jnp.minimum((U(x) - U(proposal)) / self.temperature, 0))
        x = jax.tree.map(lambda new, old: jnp.where(uniform[n] < rate, new, old), proposal, x)
        return trajectory | {"theta": x, "moves": n + 1, "rate": trajectory["rate"] + rate}

    def is_done(self, trajectory):
        return trajectory["moves"] == trajectory["draws"][2]

    def end(self, trajectory, state):
        theta, moves = trajectory["theta"], trajectory["moves"]
        info = Info(
            jnp.asarray(True), acceptance_rate=trajectory["rate"] / moves, num_integration_steps=moves
        )
        return SamplerState({"theta": theta}, state.step + 1), info


class OfDraws(Sampler):
    """A sampler in name only, of draws that were made by NumPy: it says what a summary asks for."""

    target: Any = None
    exact: bool = eqx.field(static=True, default=True)
    dynamics: Any = None
    adapts: bool = eqx.field(static=True, default=False)
    deepest: Any = None

    @property
    def is_exact(self):
        return self.exact

    @property
    def learns(self):
        return self.adapts

    @property
    def max_tree_depth(self):
        return self.deepest

    @property
    def own_dynamics(self):
        return self.dynamics

    def _none(self, *arguments, **options):
        raise NotImplementedError

    on = init = draw = advance = _none


class Unadjusted(Sampler):
    """θ' = θ - h∇U + √(2hT) w, which says nothing about itself."""

    step_size: Any
    target: Any = None
    temperature: Any = 1.0

    def on(self, target, temperature=1.0, gradient=None):
        return dataclasses.replace(self, target=target, temperature=temperature)

    def init(self, position, *, key=None):
        return SamplerState({"theta": position}, no_steps())

    def draw(self, key, state):
        normal, uniform = jax.random.split(key)
        x = state.position
        return jax.random.normal(normal, x.shape, x.dtype), jax.random.uniform(uniform, (), x.dtype)

    def advance(self, draws, state, batch=None, number=None):
        x = self.moved(draws, state.position)
        return SamplerState({"theta": x}, state.step + 1), Info(jnp.all(jnp.isfinite(x)))

    def moved(self, draws, x):
        return self.stepped(x, jnp.sqrt(2 * self.step_size * self.temperature) * draws[0])

    def stepped(self, x, noise):
        return x - self.step_size * jax.grad(self.target.potential)(x) + noise


class Reporting(Unadjusted):
    """Has statistics, and takes batches, with which it must step."""

    takes_batches = True

    def advance(self, draws, state, batch=None, number=None):
        U = self.target.minibatch_potential
        x = state.position - self.step_size * jax.grad(U)(state.position, batch)
        x += jnp.sqrt(2 * self.step_size * self.temperature) * draws[0]
        info = Info(jnp.all(jnp.isfinite(x)), energy=U(x, batch), tree_depth=jnp.int32(len(batch)))
        return SamplerState({"theta": x}, state.step + 1), info


class FixedEstimator(Reporting):
    """The same, with an estimator of its own that `on` cannot change."""

    estimator: Any = Estimator()


class ExactInName(Reporting):
    """The same, which claims to be exact."""

    is_exact = True


class Overconfident(Unadjusted):
    """The same, which claims to be exact."""

    is_exact = True


class RandomWalk(Unadjusted):
    """A Metropolis step, which is exact."""

    is_exact = True

    def moved(self, draws, x):
        normal, uniform = draws
        proposal = x + self.step_size * normal
        log_ratio = (self.target.potential(x) - self.target.potential(proposal)) / self.temperature
        return jnp.where(jnp.log(uniform) < log_ratio, proposal, x)


class Halved(RandomWalk):
    """Accepts by half of the energy, and so samples at twice the temperature."""

    def moved(self, draws, x):
        normal, uniform = draws
        proposal = x + self.step_size * normal
        log_ratio = (self.target.potential(x) - self.target.potential(proposal)) / (2 * self.temperature)
        return jnp.where(jnp.log(uniform) < log_ratio, proposal, x)


class Leaping(RandomWalk):
    """Hamiltonian Monte Carlo with three steps of leapfrog, which is exact."""

    def moved(self, draws, x):
        h, force = self.step_size, jax.grad(self.target.potential)
        start = r = self.momentum(draws[0])
        new = x
        for _ in range(3):
            r = r - h / 2 * force(new)
            new = new + h * r
            r = r - h / 2 * force(new)
        rise = self.target.potential(new) - self.target.potential(x) + jnp.sum(r**2 - start**2) / 2
        return jnp.where(jnp.log(draws[1]) < self.log_rate(rise), new, x)

    def momentum(self, normal):
        return jnp.sqrt(self.temperature) * normal

    def log_rate(self, rise):
        return -rise / self.temperature


class NeverRejecting(Leaping):
    """Accepts all, which at small steps is nearly right."""

    def log_rate(self, rise):
        return 0.0


class AcceptingAtOne(Leaping):
    """Forgets the temperature where it accepts."""

    def log_rate(self, rise):
        return -rise


class MomentaAtOne(Leaping):
    """Forgets the temperature of its momenta; at 1 it is right."""

    def momentum(self, normal):
        return normal


class Choosing(RandomWalk):
    """Exact, with a step that needs the value of its step size."""

    def moved(self, draws, x):
        return super().moved(draws, x) if float(self.step_size) > 0 else x


class Exploding(RandomWalk):
    """Exact, and not finite at larger steps than 1."""

    def moved(self, draws, x):
        return jnp.where(self.step_size > 1, jnp.nan, super().moved(draws, x))


class Following(Unadjusted):
    """Says which dynamics it follows."""

    friction: Any = 1.0

    def follows(self, state=None):
        U, T = self.target.potential, self.temperature
        drift = lambda theta: -self.friction * jax.grad(U)(theta)  # noqa: E731
        energy = fk.Hamiltonian(lambda theta: U(theta) / T)
        return Followed(fk.SDE(drift, {("theta", "theta"): T}, energy), {"theta": state})


class HalfTheNoise(Following):
    """Takes √h for √(2h)."""

    def moved(self, draws, x):
        return self.stepped(x, jnp.sqrt(self.step_size * self.temperature) * draws[0])


class Turning(Following):
    """Has a curl that it does not name; the target is the same."""

    def moved(self, draws, x):
        turned = jax.grad(self.target.potential)(x)[::-1] * jnp.array([-0.3, 0.3])
        return super().moved(draws, x) - self.step_size * turned


class Pushed(Following):
    """Has a constant force, as if a part of the prior were forgotten."""

    force: Any = 1.0

    def moved(self, draws, x):
        return super().moved(draws, x) + self.force * self.step_size


class SharedNoise(Following):
    """Draws one number for all coordinates, as by a key that is used twice."""

    def moved(self, draws, x):
        return super().moved((jnp.full_like(draws[0], draws[0][0]), draws[1]), x)


class Forgetful(Following):
    """Follows dynamics at a temperature that its steps forget; at 1 they are right."""

    def moved(self, draws, x):
        return self.stepped(x, jnp.sqrt(2 * self.step_size) * draws[0])


class Jumping(Following):
    """Noise of the right mean square in rare jumps, which leave heavier tails at every step size."""

    rate: Any = 1.0

    def moved(self, draws, x):
        normal, uniform = draws
        share = jnp.minimum(1.0, self.rate * self.step_size)
        kick = jnp.where(uniform < share, normal / jnp.sqrt(share), 0.0)
        return self.stepped(x, jnp.sqrt(2 * self.step_size * self.temperature) * kick)


class TwoPoint(Following):
    """Noise of two values, which small steps may have."""

    def moved(self, draws, x):
        return self.stepped(x, jnp.sqrt(2 * self.step_size * self.temperature) * jnp.sign(draws[0]))


class ThreePoint(Following):
    """Noise of three values, with a normal distribution's fourth moment; it is zero in two of three steps."""

    def moved(self, draws, x):
        noise = jnp.sqrt(3.0) * jnp.sign(draws[0]) * (jnp.abs(draws[0]) > 0.9674215661)
        return self.stepped(x, jnp.sqrt(2 * self.step_size * self.temperature) * noise)


class Dropped(Following):
    """Does not keep the temperature that it is given."""

    def on(self, target, temperature=1.0, gradient=None):
        return dataclasses.replace(self, target=target)


class Ignored(Forgetful):
    """Keeps the temperature, and uses it neither in its steps nor in the dynamics that it names."""

    def follows(self, state=None):
        return Following(self.step_size, self.target).follows(state)


class DroppedWalk(RandomWalk):
    """An exact one that does not keep the temperature."""

    def on(self, target, temperature=1.0, gradient=None):
        return dataclasses.replace(self, target=target)


class NeedsABatch(Following):
    """Cannot take a step without a batch."""

    def advance(self, draws, state, batch=None, number=None):
        return super().advance((draws[0] + batch, draws[1]), state, batch, number)


class Moving(TrajectorySampler):
    """Three steps of Euler in one, which says nothing about itself."""

    step_size: Any
    target: Any = None
    temperature: Any = 1.0

    def on(self, target, temperature=1.0, gradient=None):
        return dataclasses.replace(self, target=target, temperature=temperature)

    def init(self, position, *, key=None):
        return SamplerState({"theta": position}, no_steps())

    def draw(self, key, state):
        return jax.random.normal(key, (3, *state.position.shape))

    def start(self, draws, state):
        return state.position, draws, jnp.int32(0)

    def move(self, trajectory, state):
        x, noise, n = trajectory
        gradient = jax.grad(self.target.potential)(x)
        x = x - self.step_size * gradient + jnp.sqrt(2 * self.step_size * self.temperature) * noise[n]
        return x, noise, n + 1

    def is_done(self, trajectory):
        return trajectory[2] == 3

    def end(self, trajectory, state):
        x = trajectory[0]
        return SamplerState({"theta": x}, state.step + 1), Info(jnp.all(jnp.isfinite(x)))


class Energetic(Moving):
    """Has one statistic, and records what it likes."""

    def end(self, trajectory, state):
        state, info = super().end(trajectory, state)
        return state, info._replace(energy=self.target.potential(state.position))

    def record(self, state):
        return {"pair": 2 * state.position, "taken": jnp.int32(7)}


class Counting(Moving):
    """Reports a number that float32 does not have."""

    def end(self, trajectory, state):
        state, info = super().end(trajectory, state)
        return state, info._replace(
            num_integration_steps=jnp.int32(2**24 + 1), is_divergent=~info.is_finite, energy=1.5
        )


class Vectorial(Moving):
    """Reports an array where one number is wanted."""

    def end(self, trajectory, state):
        state, info = super().end(trajectory, state)
        return state, info._replace(energy=state.position, tree_depth=jnp.int32(1))


class VectorialStep(Unadjusted):
    """The same without a trajectory."""

    def advance(self, draws, state, batch=None, number=None):
        state, info = super().advance(draws, state, batch, number)
        return state, info._replace(energy=state.position)


class Learning(Moving):
    """Says that warm-up learns, and gives it nothing to learn by."""

    learns = True


class InBatches(Moving):
    """Says that it takes batches."""

    takes_batches = True


class OneMove(InBatches):
    """Takes them, as `advance` is given them."""

    has_trajectories = False

    def advance(self, draws, state, batch=None, number=None):
        x = state.position
        x = x - self.step_size * jax.grad(self.target.minibatch_potential)(x, batch)
        return SamplerState({"theta": x}, state.step + 1), Info(jnp.all(jnp.isfinite(x)))
