"""Runs on four devices, for test_mesh.py, in a process of its own: one that runs cannot get more devices.

Prints what it found as JSON.
"""

import json
import re
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import fokker as fk
from fokker._core import parts
from fokker._core.parts import sum_of_parts
from fokker._core.random import normal
from fokker.run import lockstep
from fokker.run.mesh import devices_of, on_every_device
from fokker.samplers import Sampler
from own_samplers import LeimkuhlerMatthews

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

FOLDER = Path(sys.argv[1])
SQUARE, ALONG, DEALT = {"chains": 2, "data": 2}, {"data": 4}, {"data": 2, "parameters": 2}
WINDOWS = {"batch_size": 4, "batches": "window"}
# Not a multiple of two or four: some rows are left when all the data are divided.
ROWS = 4003
x = jax.random.normal(jax.random.key(1), (ROWS, 2))
y = x @ jnp.arange(1.0, 3.0) + jax.random.normal(jax.random.key(2), (ROWS,))


def log_likelihood(theta, datum):
    # A loop that starts from a constant, as in many likelihoods.
    mean, _ = jax.lax.scan(
        lambda total, pair: (total + pair[0] * pair[1], None), 0.0, (theta["w"], datum["x"])
    )
    return -(((datum["y"] - mean) / theta["s"]) ** 2) / 2 - jnp.log(theta["s"])


posterior = fk.Posterior(
    lambda theta: -jnp.sum(theta["w"] ** 2) / 2 - theta["s"], log_likelihood, {"x": x, "y": y}
)
target = fk.constrain(posterior, {"s": "positive"})
START = {"w": jnp.ones(2), "s": 1.0}
sgnht = fk.samplers.sgnht(1e-3, 10.0)
sgld = fk.samplers.sgld(1e-5)
OWN = LeimkuhlerMatthews(1e-5)


class Unsaid(LeimkuhlerMatthews):
    """Does not say whether its batches can be divided."""

    batches_undivided = Sampler.batches_undivided


np.save(FOLDER / "x.npy", x)
np.save(FOLDER / "y.npy", y)
in_files = fk.constrain(
    fk.Posterior(
        posterior.log_prior, log_likelihood, {"x": str(FOLDER / "x.npy"), "y": str(FOLDER / "y.npy")}
    ),
    {"s": "positive"},
)


def run(sampler, mesh, of=target, **options):
    defaults = {"init": START, "steps": 12, "burn_in": 4, "chains": 4, "progress": False}
    return fk.sample(of, sampler, mesh=mesh, **{**defaults, **options})


def off(first, second):
    """The largest difference of two runs, relative to the largest number."""
    pairs = zip(jax.tree.leaves(first.samples), jax.tree.leaves(second.samples), strict=True)
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)


def moved(trace):
    return min(float(np.std(x, axis=1).min()) for x in jax.tree.leaves(trace.samples))


def reductions(mesh):
    """The collectives of a step with windows, each as its operation and the devices that it joins."""
    seen = []
    right = lockstep.run_block

    def lowered(inputs, chains):
        text = right.lower(inputs, chains).compile().compiled.as_text()
        seen.append(re.findall(r" ([\w-]+)\([^()]*\), .*?replica_groups=(.*?\}), ", text))
        return right(inputs, chains)

    lockstep.run_block = lowered
    try:
        run(sgnht, mesh, **WINDOWS)
    finally:
        lockstep.run_block = right
    return seen[0]


def derivatives():
    """By how much the derivatives of a sum over four devices are off, up to the third."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(1, 4), ("chains", "data"))
    rows = jax.random.normal(jax.random.key(3), (8, 2))

    class Part(eqx.Module):
        rows: jax.Array

        def __call__(self, theta):
            return jnp.sum(jnp.tanh(self.rows @ theta) ** 3)

    def all_of(function, theta):
        gradient = jax.grad(function)
        hessian = jax.hessian(function)
        return (
            function(theta),
            gradient(theta),
            jax.jvp(gradient, (theta,), (theta,))[1],
            jax.grad(lambda t: jnp.sum(gradient(t) ** 2))(theta),
            jax.grad(lambda t: jnp.sum(hessian(t) ** 2))(theta),
        )

    theta = jnp.array([0.3, -0.4])
    shared = jax.shard_map(
        lambda rows, theta: all_of(lambda t: sum_of_parts(t, Part(rows)), theta),
        mesh=mesh,
        in_specs=(P("data"), P()),
        out_specs=P(),
        check_vma=False,
    )
    pairs = zip(all_of(Part(rows), theta), jax.jit(shared)(rows, theta), strict=True)
    return [float(jnp.abs(a - b).max() / jnp.abs(a).max()) for a, b in pairs]


def densities():
    """By how much U of all the data, Ũ of weighted rows and the terms of its gradient are off."""
    devices = devices_of(ALONG)
    weighted = fk.batches.WeightedBatches(np.arange(1.0, ROWS + 1), ROWS, 8)
    placed = sgld.on(target)
    whole, _ = devices.share(placed, None)
    part, batches = devices.share(placed, weighted)
    rows, data = devices.on_all((jnp.arange(8) * 100, target.data))
    y = {"w": jnp.array([0.9, 2.2]), "s": jnp.array(0.3)}

    def values(shared, theta):
        whole, part, batches, data, rows = shared
        batch = batches.batch(data, rows)
        potential = jax.value_and_grad(whole.potential)(theta)
        estimate = jax.value_and_grad(part.minibatch_potential)(theta, batch)
        return potential, estimate, fk.gradients.Estimator().contributions(part, (), theta, batch)

    def on_devices(shared, y):
        of_chains = on_every_device(
            devices.mesh, lambda shared, y: jax.vmap(lambda y: values(shared, y))(y), shared, y, 0
        )
        return jax.tree.map(lambda x: x[0], of_chains)

    shared = (whole.target, part.target, batches, data, rows)
    found = eqx.filter_jit(on_devices)(shared, devices.by_chain(jax.tree.map(lambda x: x[None], y)))
    expected = jax.jit(lambda: values((target, target, weighted, target.data, jnp.arange(8) * 100), y))()
    pairs = zip(jax.tree.leaves(expected), jax.tree.leaves(devices.gathered(found)), strict=True)
    return max(float(jnp.abs(a - b).max() / jnp.abs(a).max()) for a, b in pairs)


# A layer of 64 units, whose weights are divided among devices along their second axis; others are too few.
weights = {
    "w": jax.random.normal(jax.random.key(4), (2, 512)) / 8,
    "v": jnp.ones(512) / 64,
    "s": jnp.ones(()),
}


def log_likelihood_of_layer(theta, datum):
    mean = jnp.tanh(datum["x"] @ theta["w"]) @ theta["v"]
    return -(((datum["y"] - mean) / (1 + theta["s"] ** 2)) ** 2) / 2


layer = fk.Posterior(
    lambda theta: -sum(jnp.sum(x**2) for x in theta.values()) / 2, log_likelihood_of_layer, {"x": x, "y": y}
)


def run_noted(*given, **options):
    """A run, the share of each momentum that a device has in the last block, and how many programs it took.

    A program is compiled for every way in which its inputs lie on the devices.
    """
    shares, programs, right = [], set(), lockstep.run_block

    def noted(inputs, chains):
        shares.append([x.addressable_shards[0].data.size / x.size for x in chains.states.z["r"].values()])
        programs.add(str([x.sharding.devices_indices_map(x.shape) for x in jax.tree.leaves(chains)]))
        return right(inputs, chains)

    lockstep.run_block = noted
    try:
        trace = run(*given, **options)
    finally:
        lockstep.run_block = right
    return trace, shares[-1], len(programs)


def dealt():
    """Parameters over devices: a run on two meshes, one after the other, and what one device has of them."""
    sampler = fk.samplers.sgnht(1e-4, 10.0, kind="diagonal")
    options = {"of": layer, "init": weights, "chains": 2, **WINDOWS}
    alone = run(sampler, None, steps=24, **options)
    run(sampler, DEALT, out=FOLDER / "dealt", **options)
    resumed, shares, programs = run_noted(
        sampler, {"chains": 2, "parameters": 2}, steps=24, out=FOLDER / "dealt", **options
    )
    parts._LEAST_SHARDED = 2
    others = {}
    for name in ("microcanonical", "weights and a table", "svrg", "two gradients", "replicas"):
        sampler, options = kinds()[name]
        others[name] = off(
            *(run(sampler, mesh, **options) for mesh in (None, {"chains": 2, "parameters": 2}))
        )
    return {
        "off": off(alone, resumed),
        "moved": moved(alone),
        "others": others,
        "shares": shares,
        "programs": programs,
    }


def refused(mesh, sampler=sgld, **options):
    try:
        run(sampler, mesh, **options)
    except ValueError as error:
        return str(error)
    return "nothing was refused"


def quick():
    """Windows of rows on three meshes, one after the other, and what a program of them is made of."""
    alone = run(sgnht, None, steps=36, **WINDOWS)
    run(sgnht, SQUARE, out=FOLDER / "run", **WINDOWS)
    run(sgnht, ALONG, steps=24, out=FOLDER / "run", **WINDOWS)
    parts._LEAST_SHARDED = 2  # the two numbers of w are divided, s is not
    last, shares, programs = run_noted(sgnht, DEALT, steps=36, out=FOLDER / "run", chunk=6, **WINDOWS)
    draw = jax.jit(lambda: normal(jax.random.key(5), (3, 512), jnp.float32))
    with jax.set_mesh(devices_of({"parameters": 4}).mesh):
        noise = np.asarray(draw())
    return {
        "same noise": bool(np.array_equal(noise, draw())),
        "off": off(alone, last),
        "moved": moved(alone),
        "shares": shares,
        "programs": programs,
        "reductions": reductions(SQUARE),
        "derivatives": derivatives(),
        "densities": densities(),
        "odd chains": refused({"chains": 4}, chains=6),
        "odd rows": refused(SQUARE, batch_size=5),
        "no data": refused(ALONG, of=fk.Density(lambda t: -jnp.sum(t["w"] ** 2) - t["s"] ** 2)),
        "too many": refused({"chains": 8}),
        "own sampler": off(*(run(OWN, mesh, **WINDOWS) for mesh in (None, SQUARE))),
        "unsaid": refused(SQUARE, Unsaid(1e-5), **WINDOWS),
        "unsaid, whole": refused({"chains": 4}, Unsaid(1e-5), **WINDOWS),
    }


def kinds():
    """Other batches, estimators and corrections, by name."""
    saga, svrg = fk.gradients.saga(), fk.gradients.svrg(5)
    weights = {"batch_size": 8, "batches": np.arange(1.0, ROWS + 1)}
    rows = {"batch_size": 8, "batches": "replacement"}
    read = {"batch_size": 8, "batches": "blocks", "of": in_files}
    mode = {"w": jnp.arange(1.0, 3.0), "s": 1.0}
    replicas = fk.samplers.replica_exchange
    return {
        "all the data": (fk.samplers.hmc(0.004, 3), {}),
        "trajectories": (fk.samplers.nuts(0.004), {}),
        "microcanonical": (fk.samplers.mclmc(0.01, 0.1), {}),
        "weights and a table": (sgld, {**weights, "gradient": saga}),
        "rows that are read": (sgld, read),
        "windows that are read": (sgld, {**WINDOWS, "of": in_files}),
        "control variates": (sgld, {**rows, "gradient": fk.gradients.control_variates(mode)}),
        "svrg": (sgld, {**rows, "gradient": svrg}),
        "noise": (fk.samplers.sghmc(1e-5, 1e3, noise_estimate="diagonal"), rows),
        "two gradients": (fk.samplers.psgld(1e-7, alpha=0.8), rows),
        "replicas": (replicas(fk.samplers.sgld(1e-6), (1.0, 2.0), every=2), rows),
        "replicas by batches": (replicas(fk.samplers.sgld(1e-6), (1.0, 2.0), every=2, exact=False), rows),
    }


def every_kind():
    """Each of them on one device and on four."""
    found = {}
    for name, (sampler, options) in kinds().items():
        alone = run(sampler, None, **options)
        found[name] = [moved(alone), *(off(alone, run(sampler, mesh, **options)) for mesh in (SQUARE, ALONG))]
    return found


print(json.dumps({"quick": quick, "dealt": dealt, "every_kind": every_kind}[sys.argv[2]]()))
