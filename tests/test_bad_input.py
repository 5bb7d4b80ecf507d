"""What is wrong with an input is said before anything runs, by name, with what to do."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from estimators import ESTIMATORS
from fokker import fields
from fokker._core.keys import checked_key, checked_seed, key_of_seed
from fokker.datasets.ratings import Ratings
from fokker.models.inputs import checked_labels
from fokker.models.topics.settings import Settings
from fokker.samplers import SamplerState, recipe

PAIR = {"theta": jnp.ones(2), "r": jnp.ones(2)}
J = np.array([[0.0, 1.0], [-1.0, 0.0]])


def H(z):
    return jnp.sum(z["theta"] ** 2) + jnp.sum(z["r"] ** 2)


def U(theta):
    return jnp.sum(theta**4)


def start(z=PAIR, step_size=0.1, sampler_settings=None, hamiltonian=H, **dynamics):
    """All that is done before the first step."""
    return recipe(fk.Dynamics(hamiltonian, **dynamics), step_size, **(sampler_settings or {})).init(z)


def test_what_is_right_is_let_through():
    state = start(
        D={("r", "r"): 1.0, ("theta", "theta"): fields.Gram(np.ones((2, 1)))},
        Q={("r", "theta"): 1.0, ("r", "r"): J, ("theta", "theta"): -fields.Dense(J)},
        sampler_settings={"noise_estimate": {("r", "r"): 0.5}},
    )
    assert set(state.z) == {"theta", "r"}


def big(sign):
    """A matrix too large to be written out, of known definiteness."""
    return fields.Operator(lambda z, v: sign * v + 0.1 * jnp.sum(v))


LARGE = {"theta": jnp.ones(400), "r": jnp.ones(400)}


def large(z):
    return recipe(z, 0.1).init(LARGE)


# name: (what is done, type of the error, what its message says)
BAD = {
    # D
    "negative number for D": (
        lambda: start(D={("r", "r"): -1.0}),
        ValueError,
        r"D must be positive semidefinite.*smallest eigenvalue is -1",
    ),
    "indefinite matrix for D": (
        lambda: start(D={("r", "r"): np.array([[1.0, 2.0], [2.0, 1.0]])}),
        ValueError,
        r"D must be positive semidefinite.*-1.*Gram",
    ),
    "asymmetric matrix for D": (
        lambda: start(D={("r", "r"): np.array([[1.0, 0.5], [0.0, 1.0]])}),
        ValueError,
        "D must be symmetric",
    ),
    "skew field for D": (lambda: start(D={("r", "r"): fields.Skew(J)}), ValueError, "D must be symmetric"),
    "function that is negative": (
        lambda: start(D={("r", "r"): fields.Elementwise(lambda theta: -theta)}),
        ValueError,
        "D must be positive semidefinite",
    ),
    "function that is not finite": (
        lambda: start(D={("r", "r"): fields.Elementwise(lambda theta: jnp.log(theta - 1))}),
        ValueError,
        "D is not finite",
    ),
    "indefinite D across blocks": (
        lambda: start(D={("r", "r"): 1.0, ("theta", "theta"): 1.0, ("r", "theta"): 2.0}),
        ValueError,
        "D must be positive semidefinite",
    ),
    "semidefinite sum of terms that are not": (
        lambda: start(D={("r", "r"): fields.Dense(2 * np.eye(2)) + -1.0 * fields.Dense(np.eye(2))}),
        ValueError,
        r"one of its terms is not",
    ),
    "gram with a negative diagonal": (
        lambda: start(D={("r", "r"): fields.Gram(2 * np.eye(2), diagonal_part=-1.0)}),
        ValueError,
        r"one of its terms",
    ),
    "large negative D": (
        lambda: large(fk.Dynamics(H, D={("r", "r"): big(-1.0)})),
        ValueError,
        "D must be positive semidefinite",
    ),
    "large asymmetric D": (
        lambda: large(fk.Dynamics(H, D={("r", "r"): fields.Operator(lambda z, v: v + jnp.roll(v, 1))})),
        ValueError,
        "D must be symmetric",
    ),
    # Q
    "number for Q": (
        lambda: fk.Dynamics(H, Q=1.0),
        ValueError,
        r"Q must be skew.*Scalar.*Friction belongs to D",
    ),
    "elementwise Q": (
        lambda: fk.Dynamics(H, Q=fields.Elementwise(lambda z: z)),
        ValueError,
        "Q must be skew.*Elementwise",
    ),
    "scaled number for Q": (lambda: start(Q=2.0 * fields.Scalar(1.0)), ValueError, r"Q must be skew"),
    "matrix for Q that is not skew": (
        lambda: start(Q=np.eye(4) + np.triu(np.ones((4, 4)), 1)),
        ValueError,
        r"Q must be skew; .* largest entry of Q \+ Qᵀ",
    ),
    "function for Q that is not skew": (
        lambda: start(Q=fields.Dense(lambda theta, r: jnp.outer(*[jnp.concatenate([theta, r])] * 2))),
        ValueError,
        "Q must be skew",
    ),
    "large Q that is not skew": (
        lambda: large(fk.Dynamics(H, Q=fields.Blocks({("r", "theta"): fields.Scalar(1.0)}))),
        ValueError,
        "Q must be skew",
    ),
    "both triangles of Q": (
        lambda: fk.Dynamics(H, Q={("r", "theta"): 1.0, ("theta", "r"): -1.0}),
        ValueError,
        r"declares both \('r', 'theta'\) and \('theta', 'r'\)",
    ),
    "both triangles of D": (
        lambda: fk.Dynamics(H, D={("r", "theta"): 1.0, ("theta", "r"): 1.0}),
        ValueError,
        "declare one triangle",
    ),
    "symmetric block on the diagonal of Q": (
        lambda: fk.Dynamics(H, Q={("r", "r"): 1.0}),
        ValueError,
        r"block \('r', 'r'\) of a skew field must be skew; Scalar is not",
    ),
    "small symmetric matrix on the diagonal of Q": (
        lambda: fk.Dynamics(H, Q={("r", "r"): 1e-9 * np.eye(2)}),
        ValueError,
        "must be skew; Dense is not",
    ),
    # What is no field, or does not fit
    "function without a kind": (
        lambda: fk.Dynamics(H, D=lambda theta: theta),
        TypeError,
        r"what kind of matrix.*Scalar\(f\).*Elementwise\(f\)",
    ),
    "vector for a field": (
        lambda: fk.Dynamics(H, D=np.ones(2)),
        TypeError,
        "constant diagonal use fk.fields.Diagonal",
    ),
    "text for a field": (lambda: fk.Dynamics(H, D="one"), (TypeError, ValueError), r"not a matrix field"),
    "block without a pair of names": (
        lambda: fk.Dynamics(H, D={"r": 1.0}),
        ValueError,
        r"named by pairs of variables.*not 'r'",
    ),
    "array for a Scalar": (
        lambda: fields.Scalar(np.ones(2)),
        ValueError,
        r"array of shape \(2,\).*use Diagonal",
    ),
    "function for a Scalar returns an array": (
        lambda: start(D={("r", "r"): fields.Scalar(lambda theta: theta)}),
        ValueError,
        r"D\[r, r\] does not fit.*must return one number, not \(2,\)",
    ),
    "constants for Elementwise": (
        lambda: fields.Elementwise(np.ones(2)),
        TypeError,
        "for constants use Diagonal",
    ),
    "vector for a Dense": (
        lambda: fields.Dense(np.ones(2)),
        ValueError,
        r"Dense takes a matrix.*shape \(2,\)",
    ),
    "array for a scale": (
        lambda: np.ones(2).tolist() and fields.Scaled(np.ones(2), fields.Scalar(1.0)),
        ValueError,
        "one number",
    ),
    "Diagonal of another size": (
        lambda: start(D={("r", "r"): fields.Diagonal(np.ones(3))}),
        ValueError,
        r"D\[r, r\] does not fit.*Diagonal field.*\(3,\), but the variable 'r' has \(2,\)",
    ),
    "Elementwise of another structure": (
        lambda: start(D={("r", "r"): fields.Elementwise(lambda theta: {"a": theta})}),
        ValueError,
        r"Elementwise field.*variable 'r' has \(2,\)",
    ),
    "Dense of another shape": (
        lambda: start(D={("r", "r"): np.eye(3)}),
        ValueError,
        r"D\[r, r\] does not fit.*shape \(3, 3\), but its variables need \(2, 2\)",
    ),
    "Skew of another shape": (
        lambda: start(Q={("r", "r"): fields.Skew(np.eye(3))}),
        ValueError,
        r"Skew field.*\(3, 3\), but its variables need \(2, 2\)",
    ),
    "Gram of another size": (
        lambda: start(D={("r", "r"): fields.Gram(np.ones((3, 1)))}),
        ValueError,
        r"Gram field.*\(3, 1\), but needs \(2, k\)",
    ),
    "Gram with a diagonal of another size": (
        lambda: start(D={("r", "r"): fields.Gram(np.ones((2, 1)), diagonal_part=np.ones(3))}),
        ValueError,
        r"Diagonal field.*\(3,\)",
    ),
    "Column to what is no scalar": (
        lambda: start(Q={("r", "theta"): fields.Column(lambda r: r)}),
        ValueError,
        r"Q\[r, theta\].*scalar variable \(one number\)",
    ),
    "Column of another size": (
        lambda: start({**PAIR, "xi": jnp.array(0.0)}, Q={("r", "xi"): fields.Column(np.ones(3))}),
        ValueError,
        r"Column field.*\(3,\).*has \(2,\)",
    ),
    "Operator to another shape": (
        lambda: start(Q={("r", "theta"): fields.Operator(lambda z, v: v[:1])}),
        ValueError,
        r"Q\[r, theta\] maps \(2,\) to \(1,\), but its row variable has \(2,\)",
    ),
    "number between variables of different shapes": (
        lambda: start({"theta": jnp.ones(3), "r": jnp.ones(2)}, Q={("r", "theta"): 1.0}),
        ValueError,
        r"Q\[r, theta\] maps \(3,\) to \(3,\).*use Dense, Column or Operator",
    ),
    # Names
    "misspelled variable in a block": (
        lambda: start(D={("r", "r"): 1.0}, Q={("r", "tehta"): 1.0}),
        ValueError,
        r"names 'tehta'.*Did you mean 'theta'",
    ),
    "variable that is not there": (
        lambda: start(D={("momentum", "momentum"): 1.0}),
        ValueError,
        r"names 'momentum', but the state has the variables theta, r",
    ),
    "blocks over a state without names": (
        lambda: start(jnp.ones(2), hamiltonian=U, D={("r", "r"): 1.0}),
        ValueError,
        "no names: it is not a dictionary",
    ),
    "misspelled argument of a field": (
        lambda: start(D={("r", "r"): fields.Elementwise(lambda tehta: tehta)}),
        ValueError,
        r"Elementwise field takes the argument 'tehta'.*Did you mean 'theta'",
    ),
    "misspelled argument of the Hamiltonian": (
        lambda: start(hamiltonian=lambda theta, rr: jnp.sum(theta), D={("r", "r"): 1.0}),
        ValueError,
        r"the Hamiltonian takes the argument 'rr'.*theta, r.*Did you mean 'r'",
    ),
    "position that is not in the state": (
        lambda: recipe(fk.dynamics.langevin(U), 0.1).init({"tetha": jnp.ones(2)}),
        ValueError,
        r"variable 'theta', but the variables of the state are tetha: rename one of them",
    ),
    "named dynamics over a state without names": (
        lambda: recipe(fk.dynamics.langevin(U), 0.1).init(jnp.ones(2)),
        ValueError,
        r"variable 'theta', but the state has no names",
    ),
    # The Hamiltonian
    "no function for H": (lambda: fk.Dynamics(3.0), TypeError, "Hamiltonian must be a function, not float"),
    "NaN from H": (
        lambda: start(hamiltonian=lambda z: jnp.nan * H(z)),
        ValueError,
        "Hamiltonian is nan at this state",
    ),
    "infinite H": (
        lambda: start(hamiltonian=lambda z: H(z) - jnp.log(0.0 * H(z))),
        ValueError,
        "Hamiltonian is inf at this state; start inside the support of the target",
    ),
    "array from H": (
        lambda: start(hamiltonian=lambda z: z["theta"] ** 2),
        ValueError,
        r"must return one number; it returns \(2,\). Sum over",
    ),
    "array of one number from a potential": (
        lambda: recipe(fk.dynamics.langevin(lambda theta: theta**2), 0.1).init({"theta": jnp.ones(1)}),
        ValueError,
        r"must return one number; it returns \(1,\)",
    ),
    "integer from H": (
        lambda: start(hamiltonian=lambda z: 1),
        ValueError,
        "must return a real number, not one of type int",
    ),
    "tuple from H": (
        lambda: start(hamiltonian=lambda z: (H(z), 1.0)),
        (TypeError, ValueError),
        r"return one number",
    ),
    # The state
    "integer state": (
        lambda: start({"theta": jnp.ones(2, int), "r": jnp.ones(2)}),
        ValueError,
        r"state\['theta'\] is of type int32.*give floating-point values",
    ),
    "complex state": (
        lambda: start({**PAIR, "r": jnp.ones(2, complex)}),
        ValueError,
        r"state\['r'\] is of type complex",
    ),
    "empty state": (lambda: start({}), ValueError, "the state is empty"),
    "NaN in the state": (
        lambda: start({**PAIR, "r": jnp.array([1.0, jnp.nan])}),
        ValueError,
        r"state\['r'\] is not finite",
    ),
    # Settings
    "negative temperature": (
        lambda: fk.Dynamics(H, temperature=-0.5),
        ValueError,
        "temperature must be .*-0.5 was given",
    ),
    "NaN temperature": (
        lambda: fk.Dynamics(H, temperature=jnp.nan),
        ValueError,
        "temperature must be .*nan was given",
    ),
    "infinite temperature": (
        lambda: fk.Dynamics(H, temperature=jnp.inf),
        ValueError,
        "temperature must be finite",
    ),
    "several temperatures": (
        lambda: fk.Dynamics(H, temperature=np.ones(2)),
        ValueError,
        r"temperature must be one number.*\(2,\)",
    ),
    "negative step": (lambda: start(step_size=-0.1), ValueError, "step size must be a positive number; -0.1"),
    "step of zero": (lambda: start(step_size=0.0), ValueError, "step size must be a positive number; 0 was"),
    # Without the digits of single precision.
    "step below zero": (lambda: start(step_size=-0.1), ValueError, "positive number; -0\\.1 was given"),
    "NaN step": (lambda: start(step_size=jnp.nan), ValueError, "step size must be a positive number; nan"),
    "unknown gamma": (
        lambda: start(sampler_settings={"gamma": "none"}),
        ValueError,
        "gamma is 'exact' or 'estimate', not 'none'",
    ),
    "noise estimate too large": (
        lambda: start(D={("r", "r"): 1.0}, sampler_settings={"noise_estimate": {("r", "r"): 30.0}}),
        ValueError,
        r"2D - εB̂ is not positive semidefinite.*-1.*smaller step",
    ),
    "dense noise estimate too large": (
        lambda: start(
            D={("r", "r"): 1.0}, sampler_settings={"noise_estimate": {("r", "r"): np.diag([30.0, 1.0])}}
        ),
        ValueError,
        r"least eigenvalue is -1",
    ),
    "noise estimate without noise": (
        lambda: start(Q={("r", "theta"): 1.0}, sampler_settings={"noise_estimate": 1.0}),
        ValueError,
        "2D - εB̂ is not positive semidefinite",
    ),
    "noise estimate of another shape": (
        lambda: start(D={("r", "r"): 1.0}, sampler_settings={"noise_estimate": {("r", "r"): np.eye(3)}}),
        ValueError,
        r"noise_estimate\[r, r\] does not fit",
    ),
    "noise estimate of a misspelled variable": (
        lambda: start(D={("r", "r"): 1.0}, sampler_settings={"noise_estimate": {("rr", "rr"): 1.0}}),
        ValueError,
        "names 'rr'",
    ),
    "mass of another shape": (
        lambda: recipe(fk.dynamics.underdamped(U, mass=np.eye(2) + 1), 0.1).init(PAIR),
        ValueError,
        r"mass must be one number.*\(2,\), not \(2, 2\)",
    ),
    "negative mass": (lambda: fk.dynamics.underdamped(U, mass=-1.0), ValueError, "mass must be positive"),
    "matrix for the friction of a thermostat": (
        lambda: fk.dynamics.thermostat(U, A=np.eye(2)),
        TypeError,
        "A of a thermostat must be one number",
    ),
    "thermostat at temperature zero": (
        lambda: (
            fk.samplers.sgnht(0.1).on(fk.Density(lambda x: -(x**2)), 0.0).init(0.1, key=jax.random.key(0))
        ),
        ValueError,
        "a thermostat needs a temperature above zero",
    ),
    "field for the friction of a thermostat": (
        lambda: fk.dynamics.matrix_thermostat(U, A=fields.Scalar(1.0)),
        TypeError,
        "A of a thermostat must be one number, not Scalar",
    ),
    # SDEs
    "no function for a drift": (
        lambda: fk.SDE(1.0, 1.0, H),
        TypeError,
        "drift must be a function, not float",
    ),
    "drift of another structure": (
        lambda: recipe(fk.SDE(lambda z: {"theta": z["theta"]}, 1.0, H), 0.1).init(PAIR),
        ValueError,
        r"drift returns the structure \{'theta': \(2,\)\}, but the state has",
    ),
    "drift of another shape": (
        lambda: recipe(fk.SDE(lambda z: {**z, "r": jnp.sum(z["r"])}, 1.0, H), 0.1).init(PAIR),
        ValueError,
        r"drift returns the structure.*'r': \(\)",
    ),
    "diffusion of another shape": (
        lambda: recipe(fk.SDE(lambda z: z, np.eye(3), H), 0.1).init(PAIR),
        ValueError,
        r"diffusion has shapes \(3, 3\).*\(4, 4\)",
    ),
    "indefinite diffusion of an SDE": (
        lambda: recipe(fk.SDE(lambda z: z, -1.0, H), 0.1).init(PAIR),
        ValueError,
        "the diffusion must be positive semidefinite",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name(name):
    action, error, message = BAD[name]
    with pytest.raises(error, match=f"(?s){message}"):
        action()


def test_a_step_size_a_coordinate_is_refused_where_it_is_used():
    sampler = recipe(fk.dynamics.langevin(U), jnp.array([0.1, 0.2]))
    with pytest.raises(ValueError, match=r"step size must be one number, not an array of shape \(2,\)"):
        jax.eval_shape(sampler.step, jax.random.key(0), SamplerState({"theta": jnp.ones(2)}, jnp.array(0)))


def test_large_fields_that_are_right_are_let_through():
    large(fk.Dynamics(H, D={("r", "r"): big(1.0)}, Q={("r", "theta"): 1.0}))


# Arguments of fk.sample and of what is given to it, each refused in a sentence before anything is compiled.
NORMAL = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)


def sampled(target=NORMAL, sampler=None, **options):
    """A run of two steps that one option makes impossible."""
    sampler = fk.samplers.ula(0.1) if sampler is None else sampler
    return fk.sample(target, sampler, **{"init": jnp.zeros(2), "steps": 2, "progress": False, **options})


def posterior(data, **options):
    return fk.Posterior(lambda theta: -(theta**2), lambda theta, x: -((x - theta) ** 2), data, **options)


def table(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(columns)


SEED = r"seed must be a whole number of 32 bits, from 0 to 4294967295"
BAD_RUNS = {
    **{
        f"seed {seed!r}": (lambda seed=seed: sampled(seed=seed), ValueError, SEED)
        for seed in (None, 1.5, "abc", 2**80, [1], True, np.nan)
    },
    "seed that JAX takes for 0": (lambda: sampled(seed=2**32), ValueError, rf"{SEED}.*4294967296 was given"),
    "seed of a tuning": (lambda: fk.tune(NORMAL, "sgld", init=jnp.zeros(2), seed=None), ValueError, SEED),
    **{
        f"seed {seed!r} of {name}": (
            lambda seed=seed, fit=example.fit: fit(random_state=seed),
            ValueError,
            "random_state must be a whole number of 32 bits, from 0",
        )
        for name, example in ESTIMATORS.items()
        for seed in (1.5, "abc", 2**80, 2**32, -1, True)
    },
    "seed of topics": (
        lambda: Settings(topics=2, seed=2**32),
        ValueError,
        "seed must be a whole number of 32",
    ),
    "several keys": (
        lambda: sampled(key=jax.random.split(jax.random.key(0))),
        ValueError,
        r"key must be one key of JAX, not keys of the shape \(2,\)",
    ),
    # The start
    "init returns None": (lambda: sampled(init=lambda key: None), ValueError, "init must return theta.*None"),
    "init returns text": (lambda: sampled(init=lambda key: "a"), TypeError, "init must return theta.*'a'"),
    "init returns nothing": (
        lambda: sampled(init=lambda key: {}),
        ValueError,
        r"init must return theta.*\{\}",
    ),
    "init takes no key": (lambda: sampled(init=lambda: 0.0), TypeError, "init must be a function of a key"),
    "no init": (lambda: sampled(init=None), ValueError, "init must be theta, .*it is None"),
    "init is text": (
        lambda: sampled(init="abc"),
        TypeError,
        "init must be theta.*'abc', which is not a number",
    ),
    "init of texts": (lambda: sampled(init=np.array(["a"])), TypeError, "init must be theta.*not a number"),
    "empty PerChain": (lambda: sampled(init=fk.PerChain({}), chains=2), ValueError, r"PerChain needs.*\{\}"),
    "mode from nothing": (lambda: fk.find_mode(NORMAL, None), ValueError, "init must be theta.*None"),
    "mode of a function": (
        lambda: fk.find_mode(lambda x: x, 0.0),
        TypeError,
        "the target must be a fk.Density",
    ),
    # Sizes
    "more draws than memory": (
        lambda: sampled(steps=10**12),
        MemoryError,
        r"steps=1,000,000,000,000 .* GiB of memory: write them to a folder by out=",
    ),
    "more chains than memory": (lambda: sampled(chains=10**13), MemoryError, r"chains=10000000000000.*out="),
    "large draws": (
        lambda: sampled(init=jnp.zeros(1000), steps=10**9),
        MemoryError,
        "steps=1,000,000,000 .*larger thin, or keep='moments'",
    ),
    "steps are true": (lambda: sampled(steps=True), ValueError, "steps must be a whole number.*True"),
    "steps to go on": (lambda: sampled().resume("5"), ValueError, "steps must be a whole number.*'5'"),
    "text for batch_size": (
        lambda: sampled(posterior(np.ones(5)), init=0.0, batch_size="a"),
        ValueError,
        "batch_size must be a whole number of at least 1; 'a' was given",
    ),
    "text for temperature": (
        lambda: sampled(temperature="1"),
        TypeError,
        "temperature must be a number.*not '1'",
    ),
    "no temperature": (lambda: sampled(temperature=None), TypeError, "temperature must be a number.*None"),
    "no step size": (
        lambda: fk.samplers.ula(None),
        ValueError,
        "step size is a number, a schedule.*not None",
    ),
    "text for quantiles": (
        lambda: sampled(steps=8).summary(quantiles="a"),
        ValueError,
        "quantiles must be probabilities between 0 and 1.*'a' was given",
    ),
    "no such option to run again": (
        lambda: sampled().rerun(stepsize=1),
        TypeError,
        "no option 'stepsize'.*Did you mean 'step_size'",
    ),
    "text to resume": (lambda: sampled(resume="x"), TypeError, "resume must be a trace.*not 'x'"),
    # Functions
    "no log density": (lambda: fk.Density(None), TypeError, "log_density must be a function.*not None"),
    "no log prior": (
        lambda: fk.Posterior(3, abs, np.ones(2)),
        TypeError,
        "log_prior must be a function.*not 3",
    ),
    "no log likelihood": (
        lambda: fk.Posterior(abs, "f", np.ones(2)),
        TypeError,
        "log_likelihood must be a function.*not 'f'",
    ),
    **{
        f"a path that is not there, {path}": (
            lambda path=path: posterior(path),
            FileNotFoundError,
            r"data is the path 'no/such/file\.\w+', and there is no such file",
        )
        for path in (
            *("no/such/file.npy", "no/such/file.parquet", "no/such/file.csv"),
            *(Path("no/such/file.npy"), Path("no/such/file.txt")),
        )
    },
    "a path within": (
        lambda: posterior({"x": "no/such/file.npy"}),
        FileNotFoundError,
        r"data\['x'\] is the path 'no/such/file.npy'",
    ),
    "a file of another format": (
        lambda: posterior(__file__),
        ValueError,
        "is the path .*another format: .npy",
    ),
    "a folder as data": (
        lambda: posterior(Path("/")),
        ValueError,
        "data is the path '/', a folder: .npy and",
    ),
    "a text that is no path": (lambda: posterior("abc"), ValueError, "data is a single value, 'abc'"),
    "predictions without data": (lambda: sampled().predict(abs), TypeError, "trace.predict needs data"),
    "predictions of nothing": (lambda: sampled().predict(), TypeError, "trace.predict needs a function"),
    # Data
    "table with text": (
        lambda: posterior(table(city=["Bonn"])),
        TypeError,
        r"data\['city'\] holds 'Bonn' in row 0",
    ),
    "table with a gap": (lambda: posterior(table(x=[1.0, None])), ValueError, r"data\['x'\].*nan.* row 1"),
    "table without names": (
        lambda: posterior(table(x=[1.0]).set_axis([0], axis=1)),
        ValueError,
        r"data is a DataFrame with the column 0: columns need names",
    ),
    "table with two columns alike": (
        lambda: posterior(table(x=[1.0], y=[1.0]).set_axis(["x", "x"], axis=1)),
        ValueError,
        r"with the column 'x': columns need names that are texts, each its own",
    ),
    "list of batches": (
        lambda: posterior([np.ones(3), np.ones(3)], size=6),
        TypeError,
        r"data is a list of 2, .*for a list of batches give a function.* data=lambda: batches",
    ),
    "list of batches without a size": (
        lambda: sampled(posterior([{"x": np.ones(3)}, {"x": np.ones(3)}]), init=0.0),
        ValueError,
        r"A datum is a list of 2 here.*data=lambda: batches, size=N",
    ),
    # Paths
    **{
        f"out {out!r}": (lambda out=out: sampled(out=out), TypeError, "out must be a path")
        for out in (3, "", ["a"], b"abc", "a\0b")
    },
    "nothing to open": (lambda: fk.open(None), TypeError, "path must be a path.*not None"),
    "nothing to save to": (lambda: sampled().save(None), TypeError, "path must be a path.*not None"),
    "report in a folder": (
        lambda: sampled().report("/"),
        IsADirectoryError,
        r"path='/' is a folder: give the path of a file in it",
    ),
    "report in no folder": (
        lambda: sampled().report("/no/such/folder/report.html"),
        FileNotFoundError,
        r"there is no folder /no/such/folder",
    ),
    # Labels and identifiers
    **{
        f"label {label!r}": (
            lambda label=label: checked_labels(np.array(["a", label, "b"], object), 3, for_regression=""),
            ValueError,
            r"y has .* in row 1, which is no label",
        )
        for label in (None, np.nan)
    },
    "labels of two types": (
        lambda: checked_labels(np.array(["a", 1, 2], object), 3, for_regression=""),
        TypeError,
        "y mixes numbers and str",
    ),
    "no user": (
        lambda: Ratings.from_identifiers(["a", None], [1, 2], [1.0, 2.0]),
        ValueError,
        "users has None in row 1, which is no identifier",
    ),
    "no item": (
        lambda: Ratings.from_identifiers([1, 2], [np.nan, 2], [1.0, 2.0]),
        ValueError,
        "items has .*nan.* in row 0",
    ),
    "identifiers of two types": (
        lambda: Ratings.from_identifiers(np.array(["a", 1], object), [1, 2], [1.0, 2.0]),
        TypeError,
        "users mixes numbers and str",
    ),
}


@pytest.mark.parametrize("name", BAD_RUNS)
def test_bad_runs_are_refused_by_name(name):
    action, error, message = BAD_RUNS[name]
    with pytest.raises(error, match=f"(?s){message}"):
        action()


def test_a_file_in_the_place_of_a_folder_is_named_and_left_alone(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for action in (
        lambda: sampled(out=file),
        lambda: sampled(out=file / "run"),
        lambda: sampled().save(file),
    ):
        with pytest.raises(NotADirectoryError, match=r"must be a folder, but .*notes\.txt is a file"):
            action()
    assert file.read_text() == "mine"


def test_a_table_is_a_dictionary_of_its_columns():
    target = fk.Posterior(
        lambda theta: -(theta**2),
        lambda theta, row: -((row["y"] - theta * row["x"]) ** 2),
        table(x=[1.0, 2.0], y=[3.0, 4.0]),
    )
    assert target.size == 2
    assert float(target.potential(jnp.array(1.0))) == pytest.approx(1 + 4 + 4)


def test_a_function_that_returns_a_list_of_batches_is_a_stream():
    target = posterior(lambda: [np.ones(3), np.ones(3)], size=6)
    assert sampled(target, fk.samplers.sgld(0.01), init=0.0).samples.shape == (4, 2)
    assert target.size == 6


def test_labels_and_seeds_that_are_right_are_let_through():
    for labels in (["a", "b"], [0, 1], [0.0, 1.0], [True, False]):
        assert len(checked_labels(np.array(labels, object), 2, for_regression="")) == 2
    for seed in (0, np.int64(3), np.uint32(7), jnp.array(3)):
        want = jax.random.key_data(jax.random.key(seed))
        np.testing.assert_array_equal(jax.random.key_data(key_of_seed(seed)), want)
    with pytest.raises(ValueError, match="from 0 to 4294967295, as in seed=0; -1 was given"):
        key_of_seed(-1)  # which JAX takes for 4294967295
    with pytest.raises(ValueError, match="key has 3 numbers, but a key of JAX has 2"):
        checked_key(np.zeros(3, np.uint32))
    assert checked_key(np.zeros(2, np.uint32)) == jax.random.key(0)
    assert [checked_seed(seed) for seed in (0, np.uint32(2**32 - 1))] == [0, 2**32 - 1]


@pytest.mark.parametrize("init", [jnp.ones(2), lambda key: jax.random.normal(key, (2,))])
@pytest.mark.parametrize(
    "log_density", [lambda t: -np.sum(np.exp(t) ** 2), lambda t: -jnp.sum(t**2) if t[0] > 0 else 0.0]
)
def test_a_density_that_cannot_be_traced_is_explained_wherever_chains_start(log_density, init):
    with pytest.raises(TypeError, match=r"log_density could not be traced: write it with jax\.numpy"):
        sampled(fk.Density(log_density), fk.samplers.sgld(0.01), init=init)
