"""Samplers that walk: balance, the tree of NUTS, leapfrog, chains that do not wait, warm-up, bad input."""

import dataclasses
import importlib
import math
import re
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

import fokker as fk
from conftest import quick_jit
from detailed_balance import BENT, FALSE_ALARM, LOG_GAMMA, A, asymmetry, bent, log_gamma
from fokker import samplers
from fokker._core import random as _random
from fokker._core.packing import pack, unpack
from fokker.corrections import NaiveTree, Step, Tree, naive_tree
from fokker.integrators import EulerMaruyama, ExactOU, Leapfrog
from fokker.run import learn, lockstep, start, warmup
from fokker.run.mesh import devices_of
from fokker.run.step_search import StepSearch
from fokker.run.trajectories import Chain, Steps, run_trajectories
from fokker.run.warmup import windows
from fokker.samplers import mass_matrix
from fokker.samplers import nuts as make_nuts
from fokker.samplers._momentum import PartialMomentum
from fokker.samplers.contract import computed
from interrupted import interrupt_at
from marks import long_case

pytestmark = pytest.mark.usefixtures("quickly")

# A function of the package hides the module of the same name.
METROPOLIS = importlib.import_module("fokker.corrections.metropolis")
# What a wrong kernel must be found with.
CLEAR = 1e-9


def test_the_length_of_a_path_and_its_decision_have_numbers_of_their_own():
    """With one number for both, long paths would be rejected more often than short ones.

    2,000 keys: a correlation within 5 standard errors; a false alarm in 2e6.
    """
    sampler = samplers.hmc(0.9, lambda u, h: 1 + jnp.floor(3 * u), None).on(LOG_GAMMA)
    state = sampler.init(jnp.array([-0.7]))
    step, z = sampler.local_step(state)
    correction = sampler.correction
    draws = quick_jit(jax.vmap(lambda key: correction.draw(key, step, z)))(
        jax.random.split(jax.random.key(0), 2_000)
    )
    assert abs(np.corrcoef(draws.decision, draws.length)[0, 1]) < 5 / math.sqrt(2_000)

    @quick_jit
    def path_of(decision, length):
        given = draws._replace(decision=decision, length=length, noise={})
        path = correction.start(given, {**z, "r": jnp.array([-2.0])}, state.memory.point, step)
        number = path.number
        path = jax.lax.while_loop(lambda p: ~correction.is_done(p), lambda p: correction.move(p, step), path)
        end = correction.end(path, state.memory.point, step)
        return number, end.is_accepted, end.acceptance_rate

    for length, number in ((0.0, 1), (0.99, 3)):
        rate = float(path_of(0.5, length)[2])
        assert 0.01 < rate < 0.99
        for decision in (0.9 * rate, min(0.999, 1.1 * rate)):
            assert path_of(decision, length)[:2] == (number, decision < rate)


# The leapfrog -----------------------------------------------------------------------------------------------


def bumpy(x):
    """Far from quadratic, coupled, of any dimension."""
    return jnp.sum(x**4) / 8 + jnp.sum(jnp.sin(2 * x)) / 2 + x[0] * x[-1] / 2 + jnp.sum(x**2) / 2


BUMPY = fk.Density(lambda x: -bumpy(x))
SCALE = np.array([[1.3, 0.4, 0.0], [0.4, 0.8, -0.2], [0.0, -0.2, 0.5]])


@quick_jit
def leaps_of_hmc(q, p, h, count):
    """`count` steps of HMC from q, in coordinates around a point that is not the origin."""
    sampler = dataclasses.replace(samplers.hmc(0.1, 1, np.linalg.inv(SCALE)).on(BUMPY, 1.7), step_size=h)
    step, _ = sampler.local_step(sampler.init(jnp.array([0.2, -0.3, 0.1])))
    z = {"theta": q, "r": p}

    def move(_, at):
        return step.propose(*at)[:2]

    z, _ = jax.lax.fori_loop(0, count, move, (z, step.integrator.evaluate(step.dynamics, z)))
    return z["theta"], z["r"]


somewhere = st.tuples(*[st.floats(-1.5, 1.5)] * 3).map(np.array)


@settings(max_examples=15)
@given(q=somewhere, p=somewhere, h=st.floats(0.01, 0.5), count=st.integers(1, 12))
def test_the_leapfrog_leads_back_and_keeps_volume(q, p, h, count, x64):
    y, r = leaps_of_hmc(q, p, h, count)
    back, flipped = leaps_of_hmc(y, -r, h, count)
    np.testing.assert_allclose(back, q, atol=1e-8)
    np.testing.assert_allclose(flipped, -p, atol=1e-8)
    assert np.abs(np.asarray(y) - q).max() > 0
    # The derivative of few leaps alone: that of many is large, and its determinant a small difference.
    few, d, z = min(count, 3), 1e-5, np.concatenate([q, p])

    def flow(z):
        return np.concatenate(leaps_of_hmc(z[:3], z[3:], h, few))

    J = np.stack([(flow(z + d * e) - flow(z - d * e)) / (2 * d) for e in np.eye(6)], 1)
    omega = np.block([[np.zeros((3, 3)), np.eye(3)], [-np.eye(3), np.zeros((3, 3))]])
    np.testing.assert_allclose(J.T @ omega @ J, omega, atol=1e-4 * np.abs(J).max() ** 2)
    assert abs(np.linalg.det(J) - 1) < 1e-4 * np.abs(J).max()


def test_the_leapfrog_is_of_second_order(x64):
    q, p = np.array([0.3, -0.5, 0.8]), np.array([1.1, 0.2, -0.7])
    best = np.concatenate(leaps_of_hmc(q, p, 1 / 1024, 1024))
    errors = [
        np.linalg.norm(np.concatenate(leaps_of_hmc(q, p, 1 / count, count)) - best) for count in (16, 32)
    ]
    assert 1.9 < math.log2(errors[0] / errors[1]) < 2.1


# The tree of NUTS against a plain recursion -----------------------------------------------------------------


class Stop(Exception):
    """The subtree turned or diverged."""


class Recursion:
    """A NUTS tree with every point kept, every product computed from what it is made of."""

    def __init__(self, slope, energy, height, h):
        self.slope, self.energy, self.height, self.h = slope, energy, height, h
        self.leaves, self.decisions, self.change = [], [], []
        self.is_divergent = False

    def leap(self, q, p, g, sign):
        p = p - sign * self.h / 2 * g
        q = q + sign * self.h * p
        U, g = self.slope(q)
        return q, p - sign * self.h / 2 * g, g, U

    def turns(self, momenta):
        rho = np.sum(momenta, axis=0) - (momenta[0] + momenta[-1]) / 2
        turned = bool(momenta[0] @ rho <= 0 or momenta[-1] @ rho <= 0)
        self.decisions.append((len(momenta), turned))
        return turned

    def subtree(self, edge, sign, depth):
        """Its 2^depth points in the order in which they are made."""
        if depth == 0:
            new = self.leap(*edge[:3], sign)
            change = new[3] + new[1] @ new[1] / 2 - self.energy
            self.leaves.append(new)
            self.change.append(change)
            if not change - (0 if self.height is None else self.height) <= 1000:
                self.is_divergent = True
                raise Stop
            return [new]
        half = self.subtree(edge, sign, depth - 1)
        whole = half + self.subtree(half[-1], sign, depth - 1)
        if self.turns([leaf[1] for leaf in whole]):
            raise Stop
        return whole

    def log_weights(self, first):
        change = np.array(self.change[first:])
        if self.height is None:
            return -change
        return np.where(change <= self.height, 0.0, -np.inf)

    def run(self, start, rights, uniforms, max_depth):
        path, depth = [start], 0  # in the order of time
        chosen, weight = start, 0.0
        while depth < max_depth:
            first = len(self.leaves)
            try:
                new = self.subtree(path[-1] if rights[depth] else path[0], 1 if rights[depth] else -1, depth)
            except Stop:
                break
            w = self.log_weights(first)
            # The last leaf that took the place of those before it.
            taken = [
                k
                for k in range(len(new))
                if w[k] > -np.inf and uniforms[first + k][0] < math.exp(w[k] - logsumexp(w[: k + 1]))
            ]
            total = logsumexp(w) if len(taken) else -np.inf
            if uniforms[first + len(new) - 1][1] < math.exp(total - weight) and taken:
                chosen = new[taken[-1]]
            weight = np.logaddexp(weight, total)
            path = path + new if rights[depth] else new[::-1] + path
            depth += 1
            if self.turns([leaf[1] for leaf in path]):
                break
        return chosen, depth, weight


def grown(sampler, most, start, key):
    """Every state of a tree on its way, until long after its end."""
    state = sampler.init(start)
    draws = sampler.draw(key, state)

    def move(tree, _):
        new = sampler.move(tree, state)
        tree = jax.tree.map(lambda a, b: jnp.where(tree.over, a, b), tree, new)
        return tree, (tree.table, tree.over)

    tree, way = jax.lax.scan(move, sampler.start(draws, state), length=most)
    return draws, tree, way, *sampler.end(tree, state)


MAX_DEPTH = 6
TREES = 200


TREE_T = 1.4


@cache
def trees_of(variant):
    """Starts, step sizes and the trees grown there; in double precision, so to be called with x64."""
    T, d, rng = TREE_T, 3, np.random.default_rng(0)
    make = partial(make_nuts, 0.1, np.full(d, 1.0), max_depth=MAX_DEPTH, variant=variant)
    starts = rng.normal(size=(TREES, d))
    # From steps so short that the tree is never complete to such as diverge.
    steps = np.exp(rng.uniform(np.log(0.01), np.log(1.8), TREES))

    @quick_jit
    def run(starts, steps, keys):
        def one(start, h, key):
            sampler = dataclasses.replace(make().on(BUMPY, T), step_size=h)
            return grown(sampler, 2**MAX_DEPTH - 1, start, key)

        return jax.vmap(one)(starts, steps, keys)

    keys = jax.random.split(jax.random.key(3), TREES)
    return starts, steps, jax.tree.map(np.asarray, run(starts, steps, keys))


@pytest.mark.parametrize("variant", ["multinomial", "slice"])
def test_the_tree_is_that_of_the_recursion(variant, x64):
    """From the same draws: every leaf, where it stops and why, and the point that is chosen; T ≠ 1."""
    starts, steps, (draws, trees, way, after, info) = trees_of(variant)
    T, d = TREE_T, starts.shape[1]

    def slope(x):
        x = np.asarray(x)
        U = np.sum(x**4 / 8 + np.sin(2 * x) / 2 + x**2 / 2) + x[0] * x[-1] / 2
        return U / T, (x**3 / 2 + np.cos(2 * x) + x + np.array([x[-1], 0, x[0]]) / 2) / T

    words = jax.vmap(
        lambda b: jax.vmap(lambda n: jax.random.key_data(jax.random.fold_in(jax.random.wrap_key_data(b), n)))(
            jnp.arange(2**MAX_DEPTH)
        )
    )(jnp.asarray(draws.correction.bits[:, :2]))
    uniforms = (np.asarray(words) >> 8) * 2.0**-24
    depths, turns, diverged, moved = set(), 0, 0, 0
    for i in range(TREES):
        U, g = slope(starts[i])
        p, rights = draws.momentum[i], [int(draws.correction.bits[i, 2]) >> k & 1 for k in range(MAX_DEPTH)]
        height = draws.correction.height[i] if variant == "slice" else None
        reference = Recursion(lambda q, i=i: slope(starts[i] + q), U + p @ p / 2, height, steps[i])
        start = (np.zeros(d), p, g, U)
        with np.errstate(all="ignore"):
            chosen, depth, weight = reference.run(start, rights, uniforms[i], MAX_DEPTH)
        leaps = len(reference.leaves)
        assert (int(trees.steps[i]), int(trees.depth[i])) == (leaps, depth)
        assert bool(trees.is_divergent[i]) == reference.is_divergent
        # Each leaf was at the end of the table that was growing when it was made.
        sizes = np.concatenate([np.full(2**k, k) for k in range(MAX_DEPTH)])[:leaps]
        rows = np.where(np.array(rights)[sizes], 3, 0)
        for part in (0, 1):
            wanted = [leaf[part] for leaf in reference.leaves]
            found = way[0][i, np.arange(leaps), rows + part]
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
        assert way[1][i].argmax() == leaps - 1
        np.testing.assert_allclose(after.position[i], starts[i] + chosen[0], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(after.memory.point.potential[i], chosen[3], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(after.memory.point.gradient[i], chosen[2], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(trees.weight[i], weight, rtol=1e-6, atol=1e-8)
        rates = np.exp(-np.maximum(np.nan_to_num(reference.change, nan=np.inf), 0))
        np.testing.assert_allclose(info.acceptance_rate[i], rates.mean(), rtol=1e-6, atol=1e-9)
        depths.add(depth)
        turns += reference.decisions[-1][1] if reference.decisions else 0
        diverged += reference.is_divergent
        moved += bool(np.any(chosen[0]))
    assert depths >= set(range(MAX_DEPTH + 1)) - {0}
    assert turns > TREES / 4
    assert diverged > 3
    assert moved > TREES / 2


def test_a_tree_without_the_half_ends_in_its_criterion_is_another(monkeypatch, x64):
    """What the test above compares with: a criterion that is a little off gives another tree somewhere."""
    right = Recursion.turns

    def other(self, momenta):
        rho = np.sum(momenta, axis=0)
        self.decisions.append((len(momenta), bool(momenta[0] @ rho <= 0 or momenta[-1] @ rho <= 0)))
        return self.decisions[-1][1]

    monkeypatch.setattr(Recursion, "turns", other)
    assert right is not Recursion.turns
    with pytest.raises(AssertionError):
        test_the_tree_is_that_of_the_recursion("multinomial", None)


# Detailed balance -------------------------------------------------------------------------------------------

T = 1.6
COUNT = 20_000
MASS = 1 / np.array([0.8]) ** 2
MASSES = 1 / np.array([0.7, 1.5]) ** 2
DENSE = np.linalg.inv(np.array([[0.8, 0.5], [0.5, 1.4]]))

# Steps at which a good part is rejected, in coordinates that are not those of theta.
CASES = {
    "rwm": (samplers.rwm(3.0, MASS), LOG_GAMMA),
    "mala": (samplers.mala(2.0, MASS), LOG_GAMMA),
    "hmc": (samplers.hmc(1.6, 2, MASS), LOG_GAMMA),
    "hmc, random": (samplers.hmc(1.5, None, MASS), LOG_GAMMA),
    "nuts": (samplers.nuts(1.4, MASS, max_depth=4), LOG_GAMMA),
    "nuts, slice": (samplers.nuts(1.4, MASS, max_depth=4, variant="slice"), LOG_GAMMA),
    "naive_nuts": (samplers.naive_nuts(1.4, MASS, max_depth=4), LOG_GAMMA),
    "rwm, plane": (samplers.rwm(1.5, DENSE), BENT),
    "mala, plane": (samplers.mala(0.5, MASSES), BENT),
    "hmc, plane": (samplers.hmc(0.8, 3, DENSE), BENT),
    "hmc, random, plane": (samplers.hmc(0.8, None, MASSES), BENT),
    "nuts, plane": (samplers.nuts(0.8, DENSE, max_depth=4), BENT),
    "nuts, slice, plane": (samplers.nuts(0.8, MASSES, max_depth=4, variant="slice"), BENT),
    "naive_nuts, plane": (samplers.naive_nuts(0.8, DENSE, max_depth=4), BENT),
}


def exact(target, count=COUNT):
    rng = np.random.default_rng(0)
    x = log_gamma(rng, T, (count, 1)) if target is LOG_GAMMA else bent(rng, T, count)
    return jnp.asarray(x, jnp.float32)


def many(sampler, target, before, steps=1, momenta=None):
    """The states after a few steps from each of many draws, and what the last step reported."""
    placed = sampler.on(target, T)

    @quick_jit
    def run(before, momenta, keys):
        def move(theta, p, key):
            first, second = jax.random.split(key)
            state = placed.init(theta, key=first)
            state = state if momenta is None else state._replace(z={**state.z, "r": p})
            if steps > 1:
                more = lambda t, s: placed.step(jax.random.fold_in(second, t), s)[0]  # noqa: E731
                state = jax.lax.fori_loop(1, steps, more, state)
            return placed.step(second, state)

        return jax.vmap(move, (0, None if momenta is None else 0, 0))(before, momenta, keys)

    return run(before, momenta, jax.random.split(jax.random.key(1), len(before)))


def balance(sampler, target):
    """The chance of such asymmetry, the mean acceptance, and how many moved."""
    before = exact(target)
    after, info = many(sampler, target, before)
    moved = float(jnp.mean(jnp.any(before != after.position, axis=1)))
    bins = 8 if target is LOG_GAMMA else 4
    return asymmetry(before, after.position, bins), float(jnp.mean(info.acceptance_rate)), moved


REPEATS = (
    "mala, plane",
    "nuts, plane",
    "nuts, slice, plane",
    "naive_nuts, plane",
    "hmc, random, plane",
    "rwm, plane",
)


@pytest.mark.parametrize(
    "name", [long_case("trajectories::detailed_balance", name) if name in REPEATS else name for name in CASES]
)
def test_detailed_balance(name):
    """From exact draws at T ≠ 1, with many rejections; false alarm 1e-6 each."""
    p, acceptance, moved = balance(*CASES[name])
    assert 0.2 < acceptance < 0.88
    assert moved > 0.2
    assert p > FALSE_ALARM


def accept_always(monkeypatch):
    right = METROPOLIS.metropolis_rule

    def wrong(u, change, *sound):
        return right(u, jnp.where(change < 1000, -1.0, change), *sound)

    monkeypatch.setattr(METROPOLIS, "metropolis_rule", wrong)


def no_proposal_ratio(monkeypatch):
    right = EulerMaruyama.propose
    zero = lambda *given: right(*given)._replace(log_ratio=jnp.zeros(()))  # noqa: E731
    monkeypatch.setattr(EulerMaruyama, "propose", zero)


def no_energy(monkeypatch):
    right = Tree._weighed

    def wrong(self, change, draws):
        weight, divergent = right(self, change, draws)
        return jnp.zeros_like(weight), divergent

    monkeypatch.setattr(Tree, "_weighed", wrong)


def no_subtrees(monkeypatch):
    """Only the whole path is looked at, so that from some of its points it would have ended before."""
    right = Tree._turned

    def wrong(self, *given):
        products, here, turned = right(self, *given)
        return products, here, jnp.zeros_like(turned)

    monkeypatch.setattr(Tree, "_turned", wrong)
    monkeypatch.setattr(naive_tree, "_turns", lambda points: jnp.zeros((), bool))


def no_height(monkeypatch):
    """A slice at the level of the start itself."""
    right = NaiveTree.grow

    def wrong(self, walk, step):
        draws = walk.draws._replace(height=0 * walk.draws.height)
        return right(self, walk._replace(draws=draws), step)

    monkeypatch.setattr(NaiveTree, "grow", wrong)


def too_light(monkeypatch):
    """The new subtree is favoured too much: as if all before it weighed a half."""
    right = Tree.move

    def wrong(self, tree, step):
        light = tree._replace(weight=tree.weight - jnp.log(2.0))
        new = right(self, light, step)
        return new._replace(weight=jnp.where(new.depth > tree.depth, new.weight, tree.weight))

    monkeypatch.setattr(Tree, "move", wrong)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("rwm", accept_always),
        ("mala", accept_always),
        ("hmc", accept_always),
        ("mala", no_proposal_ratio),
        ("nuts", no_energy),
        *(
            long_case("trajectories::balance_fails_for_a_wrong_rule", *case)
            for case in (
                ("nuts, slice", no_energy),
                ("nuts", no_subtrees),
                ("nuts, slice", no_subtrees),
                ("naive_nuts", no_subtrees),
                ("naive_nuts", no_height),
                ("nuts", too_light),
            )
        ),
    ],
)
def test_balance_fails_for_a_wrong_rule(name, fault, monkeypatch):
    fault(monkeypatch)
    assert balance(*CASES[name])[0] < CLEAR


# Momenta that are kept: balance holds between (θ, p) and (θ', -p').
KEPT = {
    "maula": samplers.maula(1.5, 0.7, MASS),
    "ghmc": samplers.ghmc(1.8, 0.8, MASS, num_integration_steps=1),
}


def phase_space():
    before = exact(LOG_GAMMA)
    return before, jnp.asarray(np.random.default_rng(1).normal(size=before.shape), jnp.float32)


def flipped_balance(sampler):
    theta, p = phase_space()
    after, info = many(sampler, LOG_GAMMA, theta, momenta=p)
    before, there = (np.concatenate(pair, 1) for pair in ((theta, p), (after.position, -after.z["r"])))
    return asymmetry(before, there), float(jnp.mean(info.acceptance_rate))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["maula", "ghmc"])
def test_balance_up_to_a_flip_of_the_momentum(name, monkeypatch):
    """Of MAULA's kernel; of GHMC's without its refreshment, which is balanced by itself. False alarm 1e-6."""
    sampler = KEPT[name]
    if name == "ghmc":
        sampler = dataclasses.replace(sampler, momentum=PartialMomentum(jnp.ones(())))
    p, acceptance = flipped_balance(sampler)
    assert 0.3 < acceptance < 0.9
    assert p > FALSE_ALARM
    accept_always(monkeypatch)
    assert flipped_balance(sampler)[0] < CLEAR


def stationarity(sampler, steps):
    """The chance that θ and p are as unlike exact draws as they are after a few steps from such."""
    theta, p = phase_space()
    after, _ = many(sampler, LOG_GAMMA, theta, steps, p)
    u = stats.gamma(A / T).cdf(np.exp(np.asarray(after.position, float)[:, 0]) / T)
    v = stats.norm.cdf(np.asarray(after.z["r"], float)[:, 0])
    counts = np.histogram2d(u, v, bins=6, range=[[0, 1], [0, 1]])[0]
    return stats.chisquare(counts.ravel()).pvalue


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_kept_momenta_keep_the_target_over_several_steps_and_not_without_the_flip(name, monkeypatch):
    """Over 6 steps; a chi-square of 36 cells of (θ, p), false alarm 1e-6."""
    assert stationarity(KEPT[name], 6) > FALSE_ALARM
    for integrator in (Leapfrog, ExactOU):
        monkeypatch.setattr(integrator, "rejected", lambda self, z: z)
    assert stationarity(KEPT[name], 6) < CLEAR


@pytest.mark.parametrize("name", ["hmc", "ghmc", "nuts", "naive_nuts"])
def test_a_step_begins_with_a_new_momentum(name):
    """That of its own draws, whatever the momentum before; GHMC keeps the share κ of it."""
    sampler = getattr(samplers, name)(0.3, mass_matrix=np.ones(2)).on(BENT, T)
    state = sampler.init(jnp.array([0.2, 0.4]), key=jax.random.key(0))
    draws = [sampler.draw(jax.random.key(k), state) for k in (1, 2)]
    kept = 0.9 if name == "ghmc" else 0.0
    assert set(state.z) == ({"theta", "r"} if kept else {"theta"})
    for given_ in draws:
        momentum = math.sqrt(1 - kept**2) * np.asarray(given_.momentum)
        if kept:
            momentum += kept * np.asarray(state.z["r"])
        starts = jax.tree.leaves(sampler.start(given_, state))
        rows = [row for x in starts if x.ndim and x.shape[-1] == 2 for row in np.reshape(x, (-1, 2))]
        assert any(np.allclose(row, momentum, rtol=1e-6) for row in rows)
    assert not np.allclose(*(d.momentum for d in draws))


@pytest.mark.long("trajectories::the_tree_is_that_of_the_recursion")
def test_naive_and_efficient_nuts_agree():
    """On a bent target in a plane, 8 steps from one point: KS of θ₁, θ₂ and U, false alarm 1e-6 each.

    Their trees differ by the criterion, (θ⁺-θ⁻)·p < 0 and ρ·p ≤ 0, and are nearly as deep.
    """
    start = jnp.broadcast_to(jnp.array([0.5, 0.5]), (2000, 2))
    found = [
        many(make(0.4, DENSE, max_depth=5), BENT, start, 8)
        for make in (samplers.naive_nuts, partial(samplers.nuts, variant="slice"))
    ]
    for part in (lambda s: s.position[:, 0], lambda s: s.position[:, 1], lambda s: s.memory.point.potential):
        assert stats.ks_2samp(*(np.asarray(part(s)) for s, _ in found)).pvalue > FALSE_ALARM
    depths, leaps = (
        np.array([float(jnp.mean(getattr(info, name))) for _, info in found])
        for name in ("tree_depth", "num_integration_steps")
    )
    assert depths[0] > 2
    np.testing.assert_allclose(depths[0], depths[1], rtol=0.05)
    np.testing.assert_allclose(leaps[0], leaps[1], rtol=0.1)
    exactly = exact(BENT, 2000)
    assert (
        stats.ks_2samp(np.asarray(found[1][0].position)[:, 1], np.asarray(exactly)[:, 1]).pvalue > FALSE_ALARM
    )
    assert stats.ks_2samp(np.asarray(start)[:, 1], np.asarray(exactly)[:, 1]).pvalue < CLEAR


# Random numbers ---------------------------------------------------------------------------------------------


def everything(module, key, dtype):
    """What is drawn by either, as plain numbers."""

    def words(keys):
        return keys if keys.dtype == jnp.uint32 else jax.random.key_data(keys)

    out = [words(module.fold_in(key, n)) for n in (0, 1, np.uint32(2**32 - 1))]
    out += [words(module.split(key, n)) for n in (2, 5)]
    bits = (lambda k, s: jax.random.bits(k, s, jnp.uint32)) if module is jax.random else module.bits
    out += [bits(key, shape) for shape in ((), (2, 5))]
    out += [module.uniform(key, shape, dtype) for shape in ((), (3,), (2, 5))]
    # A range that is no power of two is left to rounding, which the compiler is free to do otherwise.
    out += [module.uniform(key, (3,), dtype, -1.0, 1.0), module.uniform(key, (4,), dtype, 0.0, 0.5)]
    return out + [module.normal(key, shape, dtype) for shape in ((), (3,), (1, 1, 7))]


def same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.slow
def test_random_numbers_are_those_of_jax_to_the_bit():
    key = jax.random.fold_in(jax.random.key(7), 2**31 + 5)
    keys = jax.random.split(key, 4)
    found = {}
    for module in (_random, jax.random):
        draw = partial(everything, module, dtype=jnp.float32)
        found[module] = quick_jit(lambda key, keys, draw=draw: (draw(key), jax.vmap(draw)(keys)))(key, keys)
    for ours, theirs in zip(found[_random], found[jax.random], strict=True):
        same(ours, theirs)
    with jax.disable_jit():  # one operation after the other
        same([_random.normal(key, (3,), jnp.float32)], [found[jax.random][0][-2]])


@pytest.mark.slow
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", None])
def test_random_numbers_of_other_kinds_are_those_of_jax_too(impl, x64):
    """Double precision, another generator, and keys of the old kind."""
    key = jax.random.PRNGKey(3) if impl is None else jax.random.key(3, impl=impl)
    same(*(quick_jit(partial(everything, m, dtype=jnp.float64))(key) for m in (_random, jax.random)))


def test_uniforms_for_counters_are_even_and_unlike_each_other():
    """10⁴ pairs of one key: KS each and the correlation, false alarm 1e-6 each."""
    words = jnp.array([123, 2**31 + 7], jnp.uint32)
    u, v = map(np.asarray, _random.uniforms_at(words, jnp.arange(10_000), jnp.float32))
    assert (u >= 0).all()
    assert (u < 1).all()
    for x in (u, v):
        assert stats.kstest(x, "uniform").pvalue > FALSE_ALARM
    assert stats.pearsonr(u, v).pvalue > FALSE_ALARM
    assert stats.pearsonr(u[1:], u[:-1]).pvalue > FALSE_ALARM


def test_a_packed_tree_is_unpacked():
    tree = {"a": jnp.ones(3), "b": (jnp.zeros(3), jnp.ones((), int)), "c": [jnp.full(3, 2.0), jnp.ones(2)]}
    packed = pack(tree)
    assert [x.shape for x in packed] == [(3, 3), (), (2,)]
    jax.tree.map(np.testing.assert_array_equal, unpack(packed, tree), tree)


# Scales -----------------------------------------------------------------------------------------------------


def written_out(scale, d):
    return np.stack([np.asarray(scale(e)) for e in jnp.eye(d)], 1)


def test_scales_are_their_matrices(x64):
    rng = np.random.default_rng(0)
    deviations, V = rng.uniform(0.1, 3, 5), np.linalg.qr(rng.normal(size=(5, 2)))[0]
    stretches = np.array([3.0, 0.2])
    scale = mass_matrix.LowRank(*map(jnp.asarray, (deviations, V, stretches)))
    middle = np.eye(5) + V @ np.diag(stretches - 1) @ V.T
    np.testing.assert_allclose(written_out(scale, 5), np.diag(deviations) @ middle, atol=1e-12)
    # The variances along V are λ, those across it 1.
    S = written_out(scale, 5) / deviations[:, None]
    np.testing.assert_allclose(S @ S.T, np.eye(5) + V @ np.diag(stretches**2 - 1) @ V.T, atol=1e-12)
    covariance = SCALE @ SCALE.T
    S = written_out(mass_matrix.as_mass_matrix(np.linalg.inv(covariance)), 3)
    np.testing.assert_allclose(S @ S.T, covariance, atol=1e-12)
    np.testing.assert_allclose(written_out(mass_matrix.as_mass_matrix([1.0, 4.0]), 2), np.diag([1.0, 0.5]))
    for kind in mass_matrix.KINDS:
        np.testing.assert_allclose(written_out(mass_matrix.identity(kind, 4, float), 4), np.eye(4))


@pytest.mark.parametrize("kind", ["diagonal", "dense", "low-rank"])
def test_an_estimated_scale_is_the_covariance_shrunk(kind, x64):
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(np.array([[4.0, 1.9, 0.0], [1.9, 1.0, 0.0], [0.0, 0.0, 1e-4]]))
    # Chains that do not agree: what is between them is spread too.
    x = rng.normal(size=(4, 5000, 3)) @ root.T + 100 + np.multiply.outer([-1, 0, 1, 0], [[2.0, 1.0, 0.0]])
    S = written_out(mass_matrix.estimate(kind, x, float), 3)
    covariance = np.cov(x.reshape(-1, 3).T)
    wanted = np.diag(np.diag(covariance)) if kind == "diagonal" else covariance
    if kind == "low-rank":  # it leaves alone what is off by less than a factor of two
        ratios = np.linalg.eigvalsh(np.linalg.inv(S) @ covariance @ np.linalg.inv(S).T)
        assert ratios.max() < 2.1
        assert ratios.min() > 0.48
    else:
        np.testing.assert_allclose(S @ S.T, wanted, rtol=0.02, atol=1e-3)
        np.testing.assert_allclose(np.diag(S @ S.T), np.diag(covariance), rtol=0.02)
    # Few draws count n against five of variance 1e-3, even where they are all alike.
    few = x[:1, :10]
    variances = np.diag(written_out(mass_matrix.estimate("diagonal", few, float), 3)) ** 2
    wanted = (10 * few[0].var(axis=0, ddof=1) + 5e-3) / 15
    np.testing.assert_allclose(variances, wanted, rtol=1e-9)
    S = written_out(mass_matrix.estimate(kind, np.zeros((1, 10, 3)), float), 3)
    assert np.isfinite(S).all()
    if kind != "low-rank":
        np.testing.assert_allclose(S @ S.T, np.eye(3) * 5e-3 / 15, rtol=1e-6)
    assert (
        np.linalg.cond(written_out(mass_matrix.estimate(kind, rng.normal(size=(1, 10, 40)), float), 40)) < 300
    )


@pytest.mark.parametrize("kind", ["diagonal", "dense", "low-rank"])
def test_a_scale_is_estimated_around_the_mean_of_all_chains(kind, x64):
    """Chains that stand apart are spread further than each is by itself."""
    x = np.random.default_rng(0).normal(size=(4, 100, 2)) + 10 * np.arange(4)[:, None, None] * [1.0, -1.0]
    pooled = np.cov(x.reshape(-1, 2).T)
    S = written_out(mass_matrix.estimate(kind, x, float), 2)
    # A low-rank scale leaves alone what is off by less than a factor of two.
    allowed = math.log(2.1) if kind == "low-rank" else 0.02
    assert np.max(np.abs(np.log(np.diag(S @ S.T) / np.diag(pooled)))) < allowed


def test_scales_that_are_none_are_refused():
    for given_, words in (
        ("full", "one of identity, diagonal, dense, low-rank"),
        ([1.0, -1.0], "must be positive"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "symmetric and positive definite"),
        (np.ones((2, 3)), r"array of shape \(2, 3\)"),
        (2.0, r"array of shape \(\)"),
        ([1.0, np.nan], "must be positive"),
    ):
        with pytest.raises(ValueError, match=words):
            samplers.nuts(0.1, given_)


# Many chains, none of which waits ---------------------------------------------------------------------------


def by_hand(sampler, target, starts, steps, seed, T=1.0):
    """The draws that fk.sample should give: a loop of steps with its keys."""
    placed = sampler.on(target, T)
    keys = jax.random.split(jax.random.key(seed), (len(starts), 3))

    @quick_jit
    def run(starts, keys):
        def chain(theta, key):
            def step(state, t):
                state, info = placed.step(jax.random.fold_in(key[2], t), state)
                return state, (state.position, {**info.stats, **placed.record(state)})

            return jax.lax.scan(step, placed.init(theta, key=key[1]), jnp.arange(steps, dtype=jnp.uint32))[1]

        return jax.vmap(chain)(starts, keys)

    return jax.tree.map(np.asarray, run(starts, keys))


WALKERS = {
    "nuts": samplers.nuts(0.5, DENSE),
    "hmc": samplers.hmc(0.5, None, MASSES),
    "ghmc": samplers.ghmc(0.5, 0.7, MASSES),
    "maula": samplers.maula(0.5, 1.0, DENSE),
    "naive_nuts": samplers.naive_nuts(0.6, MASSES, max_depth=4),
}
RUN = {"progress": False, "chains": 3, "seed": 5, "temperature": T}


def drawn_starts(key):
    return 0.5 * jax.random.normal(key, (2,))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "nuts",
        *(
            long_case("trajectories::chains_that_do_not_wait_draw_what_a_loop_draws", name)
            for name in ("ghmc", "hmc", "maula", "naive_nuts")
        ),
    ],
)
def test_chains_that_do_not_wait_draw_what_a_loop_draws(name):
    """To rounding, which a step may well multiply: over 24 steps."""
    sampler = WALKERS[name]
    trace = fk.sample(BENT, sampler, init=drawn_starts, steps=24, **RUN)
    keys = jax.random.split(jax.random.key(5), (3, 3))
    starts = jax.vmap(drawn_starts)(keys[:, 0])
    draws, told = by_hand(sampler, BENT, starts, 24, 5, T)
    np.testing.assert_allclose(trace.samples, draws, rtol=1e-3, atol=1e-3)
    assert set(trace.sample_stats) == set(told)
    for stat, values in trace.sample_stats.items():
        if values.dtype.kind in "ib":
            np.testing.assert_array_equal(values, told[stat])
        else:
            np.testing.assert_allclose(values, told[stat], rtol=0.01, atol=0.01)
    if name in ("nuts", "hmc"):  # paths of different lengths, in chains and in time
        assert len(np.unique(trace.sample_stats["num_integration_steps"])) > 2
        assert len({tuple(row) for row in trace.sample_stats["num_integration_steps"]}) == 3


@pytest.fixture(scope="module")
def reference():
    """One run of 24 steps after 5 of burn-in."""
    return fk.sample(BENT, WALKERS["nuts"], init=drawn_starts, steps=24, burn_in=5, **RUN)


def near(a, b):
    np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    "chunk", [1, *(long_case("trajectories::draws_do_not_depend_on_the_chunk", n) for n in (2, 7))]
)
def test_draws_do_not_depend_on_the_chunk(chunk, reference):
    """Also where a piece is longer than the chunk: one of a single step is put to the one before."""
    options = {"init": drawn_starts, "steps": 24, "burn_in": 5, "chunk": chunk, **RUN}
    trace = fk.sample(BENT, WALKERS["nuts"], **options)
    near(trace.samples, reference.samples)
    np.testing.assert_array_equal(
        trace.sample_stats["num_integration_steps"], reference.sample_stats["num_integration_steps"]
    )
    if chunk == 7:
        every = fk.sample(BENT, WALKERS["nuts"], **{**options, "thin": 4})
        near(every.samples, reference.samples[:, 3::4])
        rare = fk.sample(BENT, WALKERS["nuts"], **{**options, "thin": 12})
        near(rare.samples, reference.samples[:, 11::12])


def test_a_run_goes_on_and_burn_in_drops(reference):
    options = {"init": drawn_starts, **RUN}
    trace = fk.sample(BENT, WALKERS["nuts"], steps=10, burn_in=5, **options)
    near(trace.resume(14).samples, reference.samples)
    whole = fk.sample(BENT, WALKERS["nuts"], steps=29, **options)
    near(whole.samples[:, 5:], reference.samples)
    every = fk.sample(BENT, WALKERS["nuts"], steps=24, burn_in=5, thin=4, **options)
    near(every.samples, reference.samples[:, 3::4])


@pytest.mark.slow
@pytest.mark.parametrize("call", [1, 2])
def test_a_walk_interrupted_while_its_draws_are_fetched_goes_on(call, monkeypatch):
    """Draws and states are in agreement, whatever the block at which a Ctrl-C comes."""
    options = {"init": jnp.zeros(2), "steps": 40, "chains": 2, "chunk": 10, "progress": False}
    sampler = samplers.hmc(0.3, 2)
    whole = fk.sample(NORMAL, sampler, **options)
    with monkeypatch.context() as patch:
        interrupt_at(patch, "_fetch", call)
        cut = fk.sample(NORMAL, sampler, **options)
    # How many blocks were sent by then, the clock decides.
    assert cut.stopped is not None
    assert re.match(r"interrupted after \d+ of 40", cut.stopped)
    near(cut.resume().samples, whole.samples)


@pytest.mark.slow
def test_moments_are_those_of_the_draws(reference):
    options = {"init": drawn_starts, "steps": 24, "burn_in": 5, "keep": "moments", **RUN}
    for thin, chunk in ((4, 7),):
        kept = fk.sample(BENT, WALKERS["nuts"], **{**options, "thin": thin, "chunk": chunk})
        assert kept.draws is None
        draws = reference.samples[:, thin - 1 :: thin]
        near(kept.moments["mean"], draws.mean(axis=1))
        near(kept.moments["variance"], draws.var(axis=1, ddof=1))
        np.testing.assert_array_equal(
            kept.sample_stats["num_integration_steps"],
            reference.sample_stats["num_integration_steps"][:, thin - 1 :: thin],
        )


@pytest.mark.parametrize("keep", ["draws", pytest.param("moments", marks=pytest.mark.slow)])
def test_constrained_targets_give_constrained_draws(keep):
    """exp(-U/T) of θ > 0 is a Gamma density: E θ of 100 chains within 5 standard errors (1 in 2e6)."""
    target = fk.constrain(
        fk.Density(lambda t: jnp.sum(0.5 * jnp.log(t["x"]) - t["x"]) - t["y"] ** 2), {"x": "positive"}
    )
    options = {"init": {"x": jnp.array([1.0]), "y": 0.1}, "steps": 100, "burn_in": 20, "chains": 100}
    options |= {"progress": False, "temperature": T}
    sampler = samplers.hmc(0.8, 3, np.array([1.3, 0.8]))
    x = fk.sample(target, sampler, **options).samples["x"][..., 0]
    assert (x > 0).all()
    means = x.mean(axis=1)
    assert abs(means.mean() - T * (0.5 / T + 1)) < 5 * means.std(ddof=1) / math.sqrt(len(means))
    if keep == "moments":
        kept = fk.sample(target, sampler, keep="moments", **options)
        near(kept.moments["mean"]["x"][:, 0], means)


@pytest.mark.long("every_sampler::a_step_keeps_the_precision_of_theta_where_double_precision_is_on")
@pytest.mark.parametrize("name", ["mala", "nuts", "rwm", "maula", "hmc", "ghmc", "naive_nuts"])
def test_single_precision_stays_where_double_is_enabled(name, x64):
    sampler = getattr(samplers, name)(0.3, mass_matrix=np.array([1.0, 0.25])).on(BENT, 1.3)
    state = sampler.init(jnp.array([0.1, 0.2], jnp.float32))
    after, _ = quick_jit(sampler.step)(jax.random.key(0), state)
    assert jax.tree.map(lambda x: x.dtype, after) == jax.tree.map(lambda x: x.dtype, state)
    assert after.position.dtype == after.memory.point.potential.dtype == jnp.float32


class Fenced(Leapfrog):
    """Steps beyond a fence, where the density is as good as anywhere, have no way back."""

    fence: float = 0.3

    def propose(self, dynamics, z, noise, step_size, point):
        proposal = super().propose(dynamics, z, noise, step_size, point)
        return proposal._replace(is_sound=proposal.z["theta"][0] < self.fence)


FLOW = fk.dynamics.hamiltonian_flow(BENT.potential)


@pytest.mark.slow
def test_a_tree_does_not_choose_points_without_a_way_back():
    """Of 200 trees; without a fence a good part goes there."""

    def sampler(fence):
        return samplers.recipe(FLOW, 0.4, integrator=Fenced(fence), correction=Tree(3))

    state = sampler(0.3).init({"theta": jnp.zeros(2)})
    keys = jax.random.split(jax.random.key(0), 200)
    step = quick_jit(lambda fence: jax.vmap(sampler(fence).step, (0, None))(keys, state))
    (free, told_free), (fenced, told) = step(100.0), step(0.3)
    assert np.mean(free.position[:, 0] >= 0.3) > 0.2
    assert np.all(fenced.position[:, 0] < 0.3)
    assert np.any(fenced.position[:, 0] > 0.1)
    assert not np.any(told_free.is_divergent)
    assert np.any(told.is_divergent)


def test_a_path_that_crossed_without_a_way_back_is_not_sound_where_it_ends():
    """Nor does it go on: it is done at once. A path that stays inside is sound."""
    correction = METROPOLIS.Metropolis(5)
    z = {"theta": jnp.array([0.2, 0.0]), "r": jnp.array([2.0, 0.0])}
    away, inside = {**z, "r": -z["r"]}, {**z, "theta": jnp.array([-0.6, 0.0])}
    step = Step(FLOW, Fenced(), jnp.float32(0.1), jax.eval_shape(lambda: z))
    point = step.integrator.evaluate(FLOW, z)
    path = correction.move(
        correction.start(correction.draw(jax.random.key(0), step, z), z, point, step), step
    )
    assert float(path.z["theta"][0]) > 0.3
    assert not bool(path.is_sound)
    assert bool(correction.is_done(path))
    back = path._replace(z=away, point=point, left=jnp.int32(2))
    assert not bool(correction.move(back, step).is_sound)
    start = path._replace(z=inside, point=step.integrator.evaluate(FLOW, inside), is_sound=jnp.asarray(True))
    assert bool(correction.move(start, step).is_sound)


# Warm-up ----------------------------------------------------------------------------------------------------


def test_windows_are_the_steps():
    for steps in range(1, 3001):
        plan = windows(steps)
        assert sum(length for length, _ in plan) == steps
        assert all(length > 0 for length, _ in plan[:-1])
        assert not plan[-1].scale
        learned = [window.length for window in plan if window.scale == "draws"]
        early = [window.length for window in plan if window.scale == "gradients"]
        assert bool(learned) == (steps >= 20)
        assert [window.scale for window in plan[: len(early)]] == ["gradients"] * len(early)
        assert learned == sorted(learned)
        if steps >= 100:
            assert min(learned) >= 25
            assert 15 <= sum(early) <= 75
            # They double; the last takes what would be too little for one more.
            assert learned[:-1] == [25 * 2**k for k in range(len(learned) - 1)]
            assert learned[-1] >= 25 * 2 ** (len(learned) - 1)


def normal_target(covariance):
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    return fk.Density(lambda x: -x @ (precision @ x) / 2)


def warmed(target, sampler, d, **options):
    options = {"steps": 300, "warm_up": 500, "chains": 4, "progress": False, **options}
    return fk.sample(target, sampler, init=lambda key: jax.random.normal(key, (d,)), **options)


def learned(trace, d):
    """S of the sampler that warm-up made."""
    return written_out(trace.sampler.mass_matrix, d)


@pytest.mark.slow
def test_warm_up_finds_scales_over_four_orders_of_magnitude():
    """And one step size for all chains, at which they accept as much as was asked for."""
    deviations = np.array([1e-2, 0.1, 1.0, 10.0, 100.0])
    target = fk.Density(lambda x: -jnp.sum((x / deviations.astype("f")) ** 2) / 2)
    trace = warmed(target, samplers.nuts(), 5)
    # A standard deviation of some 1000 draws.
    np.testing.assert_allclose(np.diag(learned(trace, 5)), deviations, rtol=0.25)
    assert trace.origin.sampler.step_size.shape == ()
    assert 0.7 < trace.sample_stats["acceptance_rate"].mean() < 0.93
    np.testing.assert_allclose(trace.samples.std(axis=(0, 1)), deviations, rtol=0.2)
    assert trace.origin.notes == ()


ROTATION = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
ROTATED = ROTATION @ np.diag([25.0, 1.0, 0.04, 4.0]) @ ROTATION.T


@pytest.mark.long("trajectories::an_estimated_scale_is_the_covariance_shrunk")
def test_warm_up_finds_a_rotated_normal():
    trace = warmed(normal_target(ROTATED), samplers.nuts(mass_matrix="dense"), 4)
    S = learned(trace, 4)
    ratios = np.linalg.eigvalsh(np.linalg.inv(S) @ ROTATED @ np.linalg.inv(S).T)
    assert ratios.min() > 0.6
    assert ratios.max() < 1.7
    # Without it a path must be as long as the widest direction takes in steps for the narrowest.
    assert trace.sample_stats["num_integration_steps"].mean() < 8


@pytest.mark.parametrize(
    "by", ["draws", long_case("trajectories::a_few_strong_directions_of_many_are_found", "warm-up")]
)
def test_a_few_strong_directions_of_many_are_found(by):
    """They must not be crowded out by the many others, which scaling by coordinate leaves too narrow."""
    rng = np.random.default_rng(1)
    V = np.linalg.qr(rng.normal(size=(50, 3)))[0]
    covariance = np.eye(50) + V @ np.diag([400.0, 100.0, 50.0]) @ V.T
    if by == "draws":
        x = rng.normal(size=(4, 200, 50)) @ np.linalg.cholesky(covariance).T
        S = written_out(mass_matrix.estimate("low-rank", x, jnp.float32), 50)
    else:
        S = learned(warmed(normal_target(covariance), samplers.nuts(mass_matrix="low-rank"), 50), 50)
    ratios = np.linalg.eigvalsh(np.linalg.inv(S) @ covariance @ np.linalg.inv(S).T)
    assert np.linalg.cond(covariance) > 390
    assert ratios.max() / ratios.min() < 14


NESTED = fk.Density(lambda t: -jnp.sum(t["a"]["b"] ** 2) / 2 - (t["c"] - 3) ** 2 / 8)
ROOT = {"a": {"b": jnp.zeros((2, 2))}, "c": 0.0}


@pytest.mark.long("trajectories::warm_up_finds_scales_over_four_orders_of_magnitude")
@pytest.mark.parametrize("name", ["nuts", "mala", "ghmc", "mclmc", "rwm", "maula", "hmc"])
def test_defaults_do_for_a_nested_tree(name):
    """By its name alone, four chains: means within 5 standard errors of their own estimate, or 0.3."""
    steps = 2000 if name in ("rwm", "mala", "maula", "ghmc") else 400
    trace = fk.sample(NESTED, name, init=ROOT, steps=steps, warm_up=300, chains=4, progress=False)
    assert jax.tree.map(np.shape, trace.samples) == {"a": {"b": (4, steps, 2, 2)}, "c": (4, steps)}
    c, b = trace.samples["c"], trace.samples["a"]["b"]
    assert abs(c.mean() - 3) < 0.4
    assert 1.5 < c.std() < 2.5
    assert np.abs(b.mean(axis=(0, 1))).max() < 0.25
    assert 0.8 < b.std() < 1.2
    if name != "mclmc":
        wanted = float(trace.sampler.target_accept)
        assert abs(trace.sample_stats["acceptance_rate"].mean() - wanted) < 0.13
        assert trace.origin.sampler.step_size.shape == ()


@pytest.mark.slow
def test_a_warmed_run_is_run_again_with_what_was_learned():
    trace = warmed(NORMAL, samplers.hmc(num_integration_steps=3), 2, steps=60, warm_up=150)
    longer, again = trace.resume(20), trace.rerun()
    np.testing.assert_allclose(longer.samples[:, :60], trace.samples, rtol=1e-4, atol=1e-4)
    assert longer.samples.shape[1] == 80
    np.testing.assert_allclose(again.samples, trace.samples, rtol=1e-4, atol=1e-4)
    half = trace.rerun(step_size=0.1)
    assert float(half.settings["step_size"]) == pytest.approx(0.1)


NORMAL = fk.Density(lambda x: -jnp.sum(x**2) / 2)


# What is wrong ----------------------------------------------------------------------------------------------


def density(log_density):
    return fk.Density(log_density)


DATA = fk.Posterior(lambda t: -(t**2), lambda t, x: -((x - t) ** 2), np.ones(20))


def run(target=NORMAL, sampler=None, init=(0.1, 0.2), **options):
    start = jnp.asarray(init) if isinstance(init, tuple) else init
    options = {"steps": 20, "warm_up": 100, "chains": 2, "progress": False, **options}
    return fk.sample(target, sampler or samplers.hmc(num_integration_steps=2), init=start, **options)


def one_chain_outside(key):
    """The second of two chains starts where the density is zero."""
    keys = jax.random.split(jax.random.split(jax.random.key(0), (2, 3))[1, 0])
    same_key = jnp.all(jax.random.key_data(jax.random.split(key)) == jax.random.key_data(keys))
    return jnp.where(same_key, -1.0, 1.0) * jnp.ones(2)


BAD = {
    "nan at the start": (
        lambda: run(density(lambda x: jnp.sum(jnp.log(x - 1)))),
        r"log_density is nan at the initial position.*init=lambda key",
    ),
    "minus infinity at the start": (
        lambda: run(density(lambda x: jnp.sum(jnp.where(x > 1, -x, -jnp.inf)))),
        r"log_density is -inf at the initial position.*inside the support",
    ),
    "one chain outside": (
        lambda: run(density(lambda x: jnp.sum(jnp.log(x))), init=one_chain_outside),
        r"chain 2 of \d, which has its own start: log_density is nan",
    ),
    "no gradient at the start": (
        lambda: run(density(lambda x: -jnp.sqrt(jnp.sum(x**2))), init=(0.0, 0.0)),
        r"gradient .* is not finite at the initial position \(nan in coordinate 0 of 2\).*start elsewhere",
    ),
    "no gradient by a where": (
        lambda: run(density(lambda x: -jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0) + x**2)), init=(1.0, -1.0)),
        r"not finite at the initial position \(nan in coordinate 1 of 2\)",
    ),
    "infinite density at the start": (
        lambda: run(density(lambda x: -jnp.sum(jnp.log(jnp.abs(x)))), init=(0.0, 1.0)),
        "log_density is inf",
    ),
    "constant density": (
        lambda: run(density(lambda x: 0.0 * jnp.sum(x))),
        "every step is accepted, however long",
    ),
    "density that jumps beside the start": (
        lambda: run(density(lambda x: jnp.where(jnp.all(x == x[0]), 0.0, -jnp.inf)), init=(1.0, 1.0)),
        r"no step is accepted, however short.*jumps",
    ),
    "batches": (
        lambda: run(DATA, init=jnp.array(0.5), batch_size=5),
        r"fk.samplers.hmc takes no minibatches.*batch_size",
    ),
    "batches, step given": (
        lambda: run(DATA, samplers.nuts(0.1), init=jnp.array(0.5), batch_size=5, warm_up=None),
        r"fk.samplers.nuts takes no minibatches",
    ),
    "batches in a loop of one's own": (
        lambda: samplers.nuts(0.1).on(DATA).advance(None, None, np.ones(5)),
        "no minibatches",
    ),
    "an estimator": (lambda: samplers.hmc(0.1).on(DATA, 1.0, fk.gradients.saga()), "no estimator"),
    "gradient without batches": (lambda: run(DATA, gradient=object()), "give a batch_size"),
    "schedule": (lambda: samplers.nuts(lambda t: 0.1), "give a number, not a schedule"),
    "steps by coordinate": (
        lambda: samplers.mala(np.array([0.1, 0.2])),
        r"one number, not an array of shape \(2,\)",
    ),
    "word for a step": (lambda: samplers.hmc("small"), "a number, a schedule or 'auto'"),
    "negative step": (lambda: samplers.rwm(-0.1), "positive number; -0.1"),
    "no step yet": (lambda: samplers.nuts(0.1).init(jnp.zeros(2)), "no target yet"),
    "deviations of another size": (
        lambda: run(sampler=samplers.nuts(0.1, np.ones(3)), warm_up=None),
        "3 masses given as the mass matrix for a theta of 2 numbers",
    ),
    "deviations of another size, to warm up": (
        lambda: run(sampler=samplers.hmc(mass_matrix=np.ones(3))),
        "3 masses given as the mass matrix for a theta of 2 numbers",
    ),
    "covariance of another size": (
        lambda: run(sampler=samplers.mala(0.1, np.eye(3)), warm_up=None),
        "a 3 × 3 matrix given as the mass matrix for a theta of 2",
    ),
    "acceptance": (lambda: samplers.nuts(target_accept=1.0), "between 0 and 1; 1.0"),
    "acceptance of rwm": (lambda: samplers.rwm(target_accept=-0.1), "between 0 and 1; -0.1"),
    "depth": (lambda: samplers.nuts(max_depth=0), "max_depth must be a whole number from 1 to 30; 0"),
    "depth that is none": (lambda: samplers.nuts(max_depth=2.5), "max_depth must be a whole number"),
    "depth of the naive": (lambda: samplers.naive_nuts(max_depth=13), "from 1 to 12"),
    "leaps": (lambda: samplers.hmc(0.1, 0), "num_integration_steps must be a whole number of at least 1; 0"),
    "leaps that are none": (
        lambda: samplers.ghmc(0.1, num_integration_steps=1.5),
        "num_integration_steps must be a whole number",
    ),
    "variant": (lambda: samplers.nuts(variant="biased"), "'multinomial' or 'slice', not 'biased'"),
    "friction": (lambda: samplers.maula(0.1, 0.0), "friction must be positive"),
    "persistence": (lambda: samplers.ghmc(0.1, 1.0), "at least 0 and below 1"),
    "temperature": (lambda: run(sampler=samplers.hmc(0.1), warm_up=None, temperature=0.0), "above zero"),
    "no warm-up": (lambda: run(warm_up=0), "warm_up must be a whole number of at least 1; 0"),
    "warm-up for what has its step": (
        lambda: run(sampler=samplers.hmc(0.1)),
        "warm_up is for samplers that learn",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said(name):
    action, words = BAD[name]
    with pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
        action()


def test_a_warm_up_that_only_diverges_is_no_start(monkeypatch):
    from fokker.run import warmup

    draws, stats = np.ones((2, 5, 2)), {"is_divergent": np.ones((2, 5), bool)}
    monkeypatch.setattr(warmup._Chains, "find_first_step", lambda self: None)
    monkeypatch.setattr(warmup._Chains, "learn_scale", lambda self, window, out: None)
    monkeypatch.setattr(warmup._Chains, "window", lambda self, length: {"position": draws, **stats})
    with pytest.raises(ValueError, match=r"every step of the last part of warm-up diverged.*fk\.constrain"):
        run()


class Weighted(fk.Target):
    """Normals in the first and second coordinate, steps, and a slope: one program for all mixtures."""

    weights: jax.Array

    def potential(self, theta):
        parts = (theta[0] ** 2 / 2, theta[1] ** 2 / 2, jnp.sum(jnp.floor(jnp.abs(theta))), -1e-3 * theta[1])
        return jnp.sum(self.weights * jnp.stack(parts))


@pytest.mark.slow
def test_a_target_that_is_none_is_warned_of_in_the_summary():
    """Flat in a direction, made of steps, or growing without end: found in warm-up, said in the summary."""

    def trace_of(*weights):
        target = Weighted(jnp.array(weights, jnp.float32))
        return run(target, samplers.hmc(num_integration_steps=3), steps=50, warm_up=400)

    for weights, words in (
        ((1, 0, 0, 0), r"gradient by theta\[1\] .* zero in every chain"),
        ((0, 0, 1, 0), r"gradient by theta\[0\] .* jumps where"),
        ((1, 0, 0, 1), r"theta\[1\] spread .* improper posterior"),
    ):
        trace = trace_of(*weights)
        found = [w for w in trace.summary(gradients=False).warnings if w in trace.origin.notes]
        assert any(re.search(words, w) for w in found)
    normal = trace_of(1, 1, 0, 0)
    assert not normal.origin.notes
    # That its chains started together is remembered when it goes on.
    assert normal.origin.one_start
    assert normal.resume(10).origin.one_start


def first_steps(count, taken=0):
    """A warm-up of so many chains on a standard normal in a plane, after the search for a first step size.

    With it the steps that it asked for, and what they recorded.
    """
    sampler = samplers.nuts(1.0, None).on(fk.Density(lambda x: -jnp.sum(x**2) / 2))
    chains = object.__new__(warmup._Chains)
    chains.sampler, chains.taken, chains.step_sizes = sampler, taken, jnp.ones(count)
    chains.keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(0)))(jnp.arange(count))
    chains.states = jax.vmap(sampler.init)(2 * jax.vmap(lambda key: jax.random.normal(key, 2))(chains.keys))
    chains.capacity, chains.devices, asked = 61, devices_of(None), []
    advance = chains.advance

    def watched(sampler, states, steps, search):
        asked.append((steps, advance(sampler, states, steps, search)))
        return asked[-1][1]

    chains.advance = watched
    chains.find_first_step()
    return chains, *asked[0]


@pytest.mark.slow
def test_the_first_step_sizes_do_not_depend_on_how_many_chains_there_are():
    """Among many some chain crosses the acceptance at every trial; a chain that has crossed is done.

    Twenty chains move together, three one by one.
    """
    (most, *_), (few, _, (after, _)) = first_steps(20), first_steps(3)
    sizes = np.asarray(most.step_sizes)
    assert len(np.unique(np.round(np.log2(sizes)))) > 1
    np.testing.assert_allclose(np.log2(sizes), np.round(np.log2(sizes)), atol=1e-5)
    np.testing.assert_allclose(few.step_sizes, sizes[:3], rtol=1e-5)
    # They are found where the chains are, which stay there.
    assert jax.tree.all(jax.tree.map(np.array_equal, after.state, few.states))


@pytest.mark.parametrize(("taken", "count"), [(0, 3), (75, 20)])
def test_every_trial_of_a_step_size_has_noise_that_no_other_trial_and_no_step_has(taken, count):
    """A run of the same chains numbers its steps from 0 on; the first energy of a trial shows its noise."""
    _, steps, (_, out) = first_steps(count, taken)
    assert int(steps.first) == 2**31 + taken
    energies = out["energy"][out["energy"] != 0]
    assert len(energies) == len(np.unique(energies)) > count


# Settings as they are learned -------------------------------------------------------------------------------


def test_dual_averaging_is_that_of_the_paper(x64):
    """Hoffman and Gelman (2014), Algorithm 6, by hand."""
    search = StepSearch.around(jnp.asarray(0.5))
    shortfall, average = 0.0, math.log(0.5)
    for t, alpha in enumerate([0.2, 0.9, 0.7, 1.0, 0.4], start=1):
        search = search.updated(jnp.asarray(alpha), 0.8)
        shortfall = (1 - 1 / (t + 10)) * shortfall + (0.8 - alpha) / (t + 10)
        log_step = math.log(5.0) - math.sqrt(t) / 0.05 * shortfall
        average = t**-0.75 * log_step + (1 - t**-0.75) * average
        np.testing.assert_allclose([search.log_step, search.log_average], [log_step, average], rtol=1e-9)


def settling(rate, monkeypatch, **stats):
    """Two chains with step sizes of geometric mean 1, accepted at a rate that does not depend on them."""
    chains = object.__new__(warmup._Chains)
    chains.step_sizes, chains.states, chains.taken = jnp.array([0.5, 2.0]), None, 0
    chains.sampler, chains.stage, chains.capacity = samplers.nuts(1.0), computed, 500
    out = {"acceptance_rate": np.full((2, 5), rate), **stats}
    monkeypatch.setattr(chains, "advance", lambda *a: (Chain(None, None, None, None), out), raising=False)
    return chains


@pytest.mark.parametrize(("rate", "factor"), [(0.7, 0.811), (0.85, 1.157), (0.95, 1.25), (0.05, 0.5)])
def test_the_last_step_size_is_put_right(rate, factor, monkeypatch):
    """s = -2Φ⁻¹(rate/2) goes with ε²: at 0.7 in place of 0.8 it is too long by √(0.385/0.253)."""
    chains = settling(rate, monkeypatch)
    chains.settle(5)
    np.testing.assert_allclose(chains.step_sizes, factor, rtol=0.01)


def test_a_step_size_is_corrected_as_often_as_steps_double_with_earlier_measurements_at_half(monkeypatch):
    """25 + 50 + 100 steps: shares of 1, 50/(12.5 + 50) and 100/(31.25 + 100) of what each would change."""
    chains = settling(0.7, monkeypatch)
    chains.settle(175)
    assert chains.taken == 175
    change = np.log(0.253 / 0.385) / chains.sampler.error_order
    shares = 1 + 50 / 62.5 + 100 / 131.25
    np.testing.assert_allclose(chains.step_sizes, np.exp(change * shares), rtol=0.01)
    # The last steps continue from there, and stay below what the search found by the largest factor.
    chains = settling(0.99, monkeypatch)
    chains.settle(175)
    chains.settle(50)
    np.testing.assert_allclose(chains.step_sizes, 1.25, rtol=1e-5)


def test_no_step_size_grows_where_steps_diverge(monkeypatch):
    chains = settling(0.95, monkeypatch, is_divergent=np.eye(2, 5, dtype=bool))
    chains.settle(50)
    np.testing.assert_allclose(chains.step_sizes, 1.0, rtol=1e-6)


def test_an_early_scale_is_that_of_theta_whatever_scale_it_was_learned_in(monkeypatch):
    """Gradients are recorded in coordinates of the scale before, and those of θ are wanted."""
    chains, sigma = settling(0.8, monkeypatch), np.array([0.1, 20.0])
    chains.kind, chains.deviations = "diagonal", np.array([3.0, 0.5])
    monkeypatch.setattr(chains, "scale_early", lambda deviations: scales.append(deviations), raising=False)
    monkeypatch.setattr(chains, "find_first_step", lambda: None, raising=False)
    draws, scales = np.linspace(-1, 1, 12).reshape(1, 6, 2), []
    out = {"position": draws, "gradient": chains.deviations * draws / sigma**2}
    chains.learn_scale(warmup.Window(6, "gradients"), out)
    np.testing.assert_allclose(scales, [sigma], rtol=1e-10)


def test_on_the_way_to_the_mass_of_a_normal_gradients_show_its_scales():
    """Draws far out, whose deviations are those of the path; a coordinate that is flat keeps its own."""
    sigma, along = np.array([0.01, 1.0, 30.0]), np.linspace(5, 9, 10)[None, :, None]
    draws = np.concatenate([along * np.array([1.0, -2.0, 0.5]), 0 * along], axis=2)
    gradients = np.concatenate([draws[..., :3] / sigma**2, 0 * along], axis=2)
    found = mass_matrix.by_gradients(draws, gradients, np.full(4, 7.0))
    np.testing.assert_allclose(found, [*sigma, 7.0], rtol=1e-10)


def test_a_gradient_that_is_constant_but_for_rounding_says_nothing_of_the_scale():
    along = np.linspace(5, 9, 40, dtype=np.float32).reshape(1, 40, 1)
    gradients = np.full_like(along, 0.1) / np.float32(0.7)
    gradients[0, ::2] = np.nextafter(gradients[0, 0, 0], np.float32(1))
    assert np.var(gradients) > 0
    np.testing.assert_allclose(mass_matrix.by_gradients(along, gradients, np.full(1, 7.0)), 7.0)


@pytest.mark.parametrize(
    ("factors", "searches"), [((1.0, 1.0), 0), ((30.0, 1.0), 0), ((30.0, 30.0), 1), ((0.01, 1.0), 1)]
)
def test_a_scale_that_changed_has_another_step_size(monkeypatch, factors, searches):
    """A step size is in units of the scale, and about as long as the shortest deviation in them."""
    chains, searched = settling(0.8, monkeypatch), []
    chains.kind, chains.deviations, chains.measured = "diagonal", np.array([2.0, 0.5]), 50.0
    monkeypatch.setattr(chains, "scale", lambda matrix: None, raising=False)
    monkeypatch.setattr(chains, "find_first_step", lambda: searched.append(1), raising=False)
    draws = np.random.default_rng(0).normal(size=(2, 500, 2)) * chains.deviations * np.array(factors)
    chains.learn_scale(warmup.Window(500, "draws"), {"position": draws})
    assert len(searched) == searches
    assert chains.measured == (0.0 if searches else 50.0)
    np.testing.assert_allclose(chains.deviations, [2 * factors[0], 0.5 * factors[1]], rtol=0.1)


def test_a_short_warm_up_from_far_away_has_a_step_size_of_the_last_scale():
    """The window before the last had the spread of the way here; its step size would take 127 steps each."""
    trace = fk.sample(
        fk.Density(lambda x: -jnp.sum(x**2) / 2),
        fk.samplers.nuts(),
        init=jnp.zeros(10).at[0].set(200.0),
        steps=100,
        warm_up=100,
        seed=2,
        progress=False,
    )
    assert np.mean(trace.sample_stats["num_integration_steps"]) < 15


def test_a_window_leaves_the_average_step_size_and_not_the_last(monkeypatch):
    chains = object.__new__(warmup._Chains)
    chains.step_sizes, chains.states, chains.taken, chains.capacity = jnp.ones(2), None, 0, 5
    chains.sampler, chains.stage = samplers.nuts(1.0), computed
    search = StepSearch.around(jnp.ones(2))._replace(log_average=jnp.log(jnp.array([0.5, 2.0])))
    out = {"position": np.zeros((2, 5, 1))}
    monkeypatch.setattr(chains, "advance", lambda *a: (Chain(None, search, None, None), out), raising=False)
    chains.window(10)
    np.testing.assert_allclose(chains.step_sizes, [0.5, 2.0], rtol=1e-6)
    assert chains.taken == 10


@pytest.mark.slow
def test_chains_learn_at_the_end_of_each_of_their_trajectories_with_the_last_step_size():
    """Against a loop of steps: paths of different lengths, three chains, and averages that are far off."""
    sampler = samplers.hmc(0.5, None, MASSES).on(BENT, T)
    keys = jax.random.split(jax.random.key(2), 3)
    states = quick_jit(jax.vmap(lambda x: sampler.init(x)))(jnp.zeros((3, 2)))
    search = StepSearch.around(jnp.array([0.2, 0.4, 0.8]))._replace(log_average=jnp.log(jnp.full(3, 0.05)))
    steps = 4

    def learns(state, search, key, t):
        state, info = sampler.with_step_size(jnp.exp(search.log_step)).step(jax.random.fold_in(key, t), state)
        return state, search.updated(info.acceptance_rate, sampler.target_accept), info.num_integration_steps

    def run(learns):
        taken = Steps.of(0, steps, keeps=True, learns=learns)
        return run_trajectories(sampler, 5, taken, states, None, search, keys)

    chains, _ = run(learns=True)
    one = quick_jit(jax.vmap(learns, (0, 0, 0, None)))
    state, wanted, lengths = states, search, []
    for t in range(steps):
        state, wanted, length = one(state, wanted, keys, np.uint32(t))
        lengths.append(length)
    assert len(np.unique(np.sum(lengths, axis=0))) == 3  # so that chains end at different times
    np.testing.assert_array_equal(chains.search.updates, np.full(3, steps))
    np.testing.assert_allclose(chains.search.log_step, wanted.log_step, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(chains.state.position, state.position, rtol=1e-3, atol=1e-3)
    # Otherwise with the average: 31 of its steps make a path of mean length.
    chains, out = run(learns=False)
    assert jax.tree.all(jax.tree.map(np.array_equal, chains.search, search))
    assert np.mean(out["num_integration_steps"][:, :steps]) > 2 * np.mean(lengths)


@pytest.mark.slow
def test_random_paths_are_uniform_in_length():
    """π/2 at ε = 0.3 is 5 leaps: 1 to 9 of them, each as often; beyond 5 standard errors once in 1e5."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    trace = fk.sample(
        target,
        samplers.hmc(0.3, mass_matrix="identity"),
        init=jnp.zeros(1),
        steps=2000,
        chains=4,
        progress=False,
    )
    counts = np.bincount(trace.sample_stats["num_integration_steps"].ravel(), minlength=10)
    assert counts[0] == 0
    assert len(counts) == 10
    np.testing.assert_allclose(counts[1:] / 8000, 1 / 9, atol=5 * math.sqrt(8 / 81 / 8000))


@pytest.mark.slow
def test_a_warmed_run_is_run_again_with_other_chains_and_without_gradients():
    """The density has no gradient at its mode, where the chains start."""
    target = fk.Density(lambda theta: -jnp.sqrt(jnp.sum(theta**2)))
    trace = fk.sample(
        target, samplers.rwm(), init=jnp.zeros(2), steps=20, warm_up=60, chains=2, progress=False
    )
    assert trace.rerun(chains=3).samples.shape == (3, 20, 2)


def test_proposals_are_the_steps_of_the_dynamics(x64):
    """MALA proposes the Euler step of Langevin dynamics on U/T, MAULA the exact one of underdamped ones."""
    T, theta, p = 1.7, jnp.array([0.3, -1.1]), jnp.array([0.8, 0.2])
    w, v = jax.random.normal(jax.random.key(0), (2, 2))
    potential = lambda theta: LOG_GAMMA.potential(theta) / T  # noqa: E731
    langevin, underdamped = fk.dynamics.langevin(potential), fk.dynamics.underdamped(potential, 1.3)
    by_euler, _ = fk.integrators.EulerMaruyama().advance(
        fk.integrators.StepInput(langevin, {"theta": theta}, None, {"theta": w}, 0.3)
    )
    noise = {"r": w, "theta": v}
    exact, _ = fk.integrators.ExactOU().advance(
        fk.integrators.StepInput(underdamped, {"theta": theta, "r": p}, None, noise, 0.4)
    )
    for made, wanted in ((samplers.mala(0.3), by_euler), (samplers.maula(0.4, 1.3), {**exact})):
        sampler = made.on(LOG_GAMMA, T)
        state = sampler.init(theta)
        state = state._replace(z={**state.z, "r": p} if "r" in wanted else state.z)
        draws = sampler.draw(jax.random.key(0), state)
        noise = {"r": w, "theta": v} if "r" in wanted else {"theta": w}
        path = sampler.start(draws._replace(correction=draws.correction._replace(noise=noise)), state)
        end = sampler.move(path, state).z
        np.testing.assert_allclose(theta + end["theta"], wanted["theta"], rtol=1e-10)
        np.testing.assert_allclose(end.get("r", p), wanted.get("r", p), rtol=1e-10)


@pytest.mark.long("every_sampler::the_covariance_is_that_of_the_target_over_temperature_and_friction")
def test_unadjusted_samplers_are_the_stochastic_gradient_ones_with_all_the_data():
    options = {"init": jnp.zeros(2), "steps": 20, "chains": 1, "temperature": 1.7, "progress": False}
    for one, other in (
        (samplers.ula(0.1, 0.7), samplers.sgld(0.1, 0.7)),
        (samplers.ulmc(0.1, 1.3, 2.0), samplers.sghmc(0.1, 1.3, 2.0, integrator=fk.integrators.ExactOU())),
    ):
        draws = [fk.sample(LOG_GAMMA, sampler, **options).samples for sampler in (one, other)]
        np.testing.assert_array_equal(*draws)


def test_warm_up_has_keys_of_its_own(monkeypatch):
    """Else the first steps of a run, or what is drawn to start it, would be what its warm-up drew."""
    seen = {}

    def note(module, name, what, keys_of):
        right = getattr(module, name)

        def noted(*arguments):
            seen[what] = keys_of(*arguments)
            return right(*arguments)

        monkeypatch.setattr(module, name, noted)

    note(learn, "warmed_up", "warm-up", lambda sampler, devices, positions, keys, *rest: keys)
    note(start, "start_chains", "start", lambda sampler, positions, keys: keys)
    note(lockstep, "run_block", "steps", lambda inputs, chains: inputs[0].keys)
    warmed(NORMAL, samplers.rwm(), 2, steps=10, warm_up=25)
    words = np.concatenate([jax.random.key_data(keys) for keys in seen.values()])
    assert len(seen) == 3
    assert len({tuple(row) for row in words.tolist()}) == len(words)
