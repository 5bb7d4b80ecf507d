"""Every sampler can be checked: one table over the names of `fk.samplers`, and corrections that are wrong."""

import dataclasses
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker._core.state import ravel
from fokker.checker import _samplers
from fokker.checker._finding import Finding
from fokker.checker._steps import steps_findings, with_small_step
from fokker.dynamics.problem import make_problem
from fokker.fields import Elementwise
from fokker.integrators import EulerMaruyama, ExactOU, IsokineticLeapfrog, Leapfrog, Proposal, exact_ou
from own_samplers import (
    AcceptingAtOne,
    Choosing,
    Dropped,
    DroppedWalk,
    Exploding,
    Following,
    Forgetful,
    HalfTheNoise,
    Ignored,
    Jumping,
    Leaping,
    ManyProposals,
    MomentaAtOne,
    NeedsABatch,
    NeverRejecting,
    Overconfident,
    Pushed,
    RandomWalk,
    SharedNoise,
    ThreePoint,
    Turning,
    TwoPoint,
    Unadjusted,
)
from registry import EVERY, placed
from site_names import samplers as pages
from verdicts import metric, potential, root

S, EXAMPLES = fk.samplers, pages.EXAMPLES
TARGET = fk.Density(lambda theta: -potential(theta))
POSTERIOR = fk.Posterior(
    lambda theta: -potential(theta), lambda theta, x: -jnp.sum((theta - x) ** 2) / 8, jnp.zeros((4, 2))
)
COVARIANCE = np.array([[1.0, 0.5], [0.5, 2.0]])
NORMAL = fk.Density(lambda theta: -theta @ jnp.asarray(np.linalg.inv(COVARIANCE), theta.dtype) @ theta / 2)
BLOCKS = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 2) / 2)
FIELDS = (Elementwise(metric), Elementwise(root))
TWO = jnp.zeros(2)


def on(sampler, target=TARGET, temperature=1.5):
    return sampler.on(target, temperature)


# Other settings than those of the examples: a step size that is not yet known, and a correction.
OTHERWISE = {"hmc": lambda: S.hmc(), "mclmc": lambda: S.mclmc(0.1, 1.4, adjusted=True)}
# Those marked long are another name for one beside them.
REPEATS = {"sgnht_by_ding", "sgrhmc", "ula", "ulmc", "recipe", "sgld"}
REPEATS |= {"ghmc", "gsgrhmc", "mala", "maula", "mclmc", "naive_nuts", "sghmc", "sgnht", "sgrld"}  # by kin
REPEATS |= {"naive_sghmc", "naive_sgrhmc", "rhmc"}  # by the errata, and by detailed balance


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n, marks=pytest.mark.long("check_samplers::every_sampler_is_checked") if n in REPEATS else ()
        )
        for n in EXAMPLES
    ],
)
def test_every_sampler_is_checked(name):
    example = EXAMPLES[name]._replace(make=OTHERWISE.get(name, EXAMPLES[name].make))
    report = fk.check(example.placed(1.5), state=example.state, number_of_points=64, explain=False)
    assert report.verdict == example.verdict, str(report)
    # Either the dynamics were checked, or the correction; the report says which.
    assert report.checks or report.structure is not None
    assert "checked" in str(report)


class ForgetfulEuler(EulerMaruyama):
    """Leaves out the probabilities of the ways there and back."""

    def propose(self, *given):
        return super().propose(*given)._replace(log_ratio=jnp.zeros(()))


class ForgetfulOU(ExactOU):
    """Goes back with the momentum that it came with."""

    def propose(self, dynamics, z, noise, h, point):
        made = super().propose(dynamics, z, noise, h, point)
        back = exact_ou._log_density(dynamics, made.z, made.point, z, jnp.asarray(h))
        there = exact_ou._log_density(dynamics, z, point, made.z, jnp.asarray(h))
        return made._replace(log_ratio=back - there)


class ExplicitEuler(Leapfrog):
    """In place of the leapfrog."""

    def propose(self, dynamics, z, noise, h, point):
        new = {"theta": z["theta"] + h * z["r"], "r": z["r"] - h * point.gradient}
        return Proposal(new, self.evaluate(dynamics, new), jnp.zeros(()))


class KeepsMomentum(Leapfrog):
    """Does not reverse it after a rejection."""

    def rejected(self, z):
        return z


class Warm(fk.corrections.Metropolis):
    """Forgets the temperature where it accepts."""

    def end(self, path, point, step):
        outcome = super().end(path, point, step)
        return outcome._replace(acceptance_rate=jnp.minimum(1, jnp.exp(-1.5 * outcome.energy_change)))


class Isotropic(IsokineticLeapfrog):
    """Counts the change of volume of a kick with d in place of d - 1."""

    def propose(self, dynamics, z, noise, step_size, point):
        proposal = super().propose(dynamics, z, noise, step_size, point)
        return proposal._replace(log_ratio=proposal.log_ratio * z["u"].size / (z["u"].size - 1))


def changed(sampler, **parts):
    return dataclasses.replace(sampler, **parts)


WRONG = {
    "mala": (lambda: changed(S.mala(0.1), integrator=ForgetfulEuler()), "detailed balance does not hold"),
    "maula": (lambda: changed(S.maula(0.1), integrator=ForgetfulOU()), "detailed balance does not hold"),
    "hmc": (lambda: changed(S.hmc(0.1), integrator=ExplicitEuler()), "not reversible"),
    "hmc, its temperature": (lambda: changed(S.hmc(0.1), correction=Warm(3)), "acceptance is not min"),
    "ghmc, its rejection": (lambda: changed(S.ghmc(0.1), integrator=KeepsMomentum()), "not reversible"),
}


# They have the reasons of MALA and of GHMC.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n,
            marks=pytest.mark.long("check_samplers::corrections_that_are_wrong_are_found")
            if n in ("hmc", "maula")
            else (),
        )
        for n in WRONG
    ],
)
def test_corrections_that_are_wrong_are_found(name):
    make, reason = WRONG[name]
    report = fk.check(on(make()), state=TWO, number_of_points=16)
    assert report.verdict == "wrong"
    assert reason in report.reasons[0]


@pytest.mark.slow
def test_a_volume_that_is_counted_wrong_is_found():
    wrong = changed(S.mclmc(0.1, 1.4, adjusted=True), integrator=Isotropic())
    report = fk.check(on(wrong), state=TWO, number_of_points=32)
    assert any("does not keep volume" in reason for reason in report.reasons)


def test_conditionals_of_another_target_are_found():
    """By averages after a few steps: a right one is called wrong once in fifty million seeds."""
    wrong = on(S.gibbs_normal(np.zeros(2), 3 * COVARIANCE), NORMAL)
    report = fk.check(wrong, state=TWO, number_of_points=512)
    assert report.verdict == "wrong"
    assert "change averages" in report.reasons[0]


# Samplers of a user -----------------------------------------------------------------------------------------


def test_a_sampler_that_says_nothing_of_itself_is_undecided():
    report = fk.check(Unadjusted(0.4).on(TARGET), state=TWO)
    assert report.verdict == "undecided"
    assert "nothing to check: Unadjusted does not say which continuous dynamics" in report.reasons[0]
    assert not report.checks
    assert json.dumps(report.to_json())
    # Nor is it taken for exact where a run is judged.
    assert not Unadjusted(0.4).is_exact


@pytest.mark.slow
def test_a_sampler_that_claims_to_be_exact_is_checked_by_its_own_steps():
    """At 0.4 the variance of a normal is 1.25; the claim alone is not believed."""
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    assert fk.check(Overconfident(0.4).on(normal), state=TWO).verdict == "wrong"
    assert fk.check(RandomWalk(1.0).on(normal), state=TWO, number_of_points=256).verdict == "right"


def of_normal(sampler, number=32):
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    return fk.check(sampler.on(normal), state=TWO, number_of_points=number, explain=False)


def test_the_dynamics_that_a_sampler_follows_are_checked():
    report = of_normal(Following(0.4))
    assert report.verdict == "right"
    assert any(text.startswith("steps: 16 steps of size") for text in report.checks)
    assert any(text.startswith("mean: 128 steps of size") for text in report.checks)
    assert re.search(r"constant drift .* moves the mean by less than 0.[12]\d* standard dev", report.power)
    assert any("small steps without minibatches were compared" in note for note in report.notes)
    assert re.search(r"Steps with \d+ % to 1\d\d % of the noise, or 90 % to 110 % of the drift", report.power)
    assert of_normal(Following(0.4, friction=2.0)).verdict == "wrong"


@pytest.mark.parametrize("sampler", [HalfTheNoise, SharedNoise, Forgetful])
def test_steps_that_do_not_follow_what_the_sampler_names_are_undecided(sampler):
    report = of_normal(sampler(0.4))
    assert report.verdict == "undecided"
    assert "not those of the dynamics that the sampler says it follows" in report.reasons[0]
    assert not report.checks


@pytest.mark.parametrize("seed", range(3))
def test_a_small_constant_drift_shows_in_the_mean(seed):
    """It moves the mean of the draws by half a standard deviation; in 16 steps the noise hides it."""
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    sampler = Pushed(0.4, force=0.5).on(normal)
    report = fk.check(sampler, state=TWO, number_of_points=256, explain=False, seed=seed)
    assert report.verdict == "undecided"
    assert re.search(r"after 128 steps .* the mean of theta\[[01]\] is off by 0\.[234]", report.reasons[0])


@pytest.mark.parametrize("rate", [0.1, 1.0, 8.0])
def test_noise_in_jumps_is_not_that_of_a_diffusion(rate):
    """All mean squares are right; these come once in eighty, eight and one of the times compared."""
    report = of_normal(Jumping(0.4, rate=rate))
    assert report.verdict == "undecided"
    assert "jumps" in report.reasons[0]


@pytest.mark.parametrize("sampler", [TwoPoint, ThreePoint])
def test_noise_of_few_values_is_that_of_a_diffusion(sampler):
    report = of_normal(sampler(0.4))
    assert report.verdict == "right", str(report)
    assert "Jumps are not seen where they make up less than about 2" in report.power


@pytest.mark.parametrize(
    ("sampler", "temperature", "where"),
    [
        (NeverRejecting, 2.0, "at 4 times the step size"),
        (AcceptingAtOne, 2.0, "at 4 times the step size"),
        (MomentaAtOne, 1.0, "at temperature 0.5"),
    ],
)
def test_an_exact_sampler_is_so_at_other_step_sizes_and_temperatures(sampler, temperature, where):
    """Where its error is too small to be seen, or none, at those that are given."""
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    report = fk.check(sampler(0.5).on(normal, temperature), state=TWO)
    assert report.verdict == "wrong"
    assert f"change averages {where}" in report.reasons[0]


@pytest.mark.slow
def test_of_many_dimensions_a_temperature_is_taken_at_which_draws_still_count():
    """Of 60 at half the temperature a few of a thousand draws have most of the weight, and show nothing."""
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    wrong = fk.check(MomentaAtOne(0.3).on(normal, 1.0), state=jnp.zeros(60))
    assert wrong.verdict == "wrong"
    assert "change averages at temperature 0.8" in wrong.reasons[0]
    right = fk.check(Leaping(0.3).on(normal, 1.0), state=jnp.zeros(60))
    assert right.verdict == "right"
    assert "at temperature 0.8" in right.checks[0]


@pytest.mark.parametrize(
    ("sampler", "looked"),
    [
        (Leaping(0.5), "2 times the step size or at 4 times the step size or at temperature 0.5 ("),
        (ManyProposals(lambda n: 0.5 / (1 + n)), "2 times the step size or at 4 times the step size or"),
        (Choosing(1.0), "2 times the step size or at 4 times the step size or at temperature 0.5 ("),
        (Exploding(0.5), "at 2 times the step size or at temperature 0.5 ("),
        (DroppedWalk(0.5), ""),
    ],
    ids=["leaping", "schedule", "choosing", "exploding", "dropped"],
)
def test_the_report_says_at_which_step_sizes_and_temperatures_it_looked(sampler, looked):
    report = of_normal(sampler, 256)
    assert report.verdict == ("right" if looked else "undecided"), str(report)
    assert not looked or looked in report.checks[0]


@pytest.mark.parametrize("sampler", [Dropped, Ignored, DroppedWalk])
def test_a_sampler_that_drops_the_temperature_is_undecided_at_any(sampler):
    report = of_normal(sampler(0.4), 256 if sampler is DroppedWalk else 32)
    assert report.verdict == "undecided"
    assert f"{sampler.__name__} drops the temperature: sampler.on(target, 2)" in report.reasons[0]


@pytest.mark.parametrize(
    ("log_density", "theta"),
    [
        (lambda theta: -jnp.sum((theta - 0.5) ** 2) / 2, 0.0),
        (lambda theta: -jnp.sum(theta**2) / 2, -0.5),
        (lambda theta: -jnp.sum((theta**2 - 1) ** 2), -0.5),
    ],
    ids=["shifted normal", "normal", "double well"],
)
def test_a_density_that_is_the_same_at_two_points_drops_no_temperature(log_density, theta):
    """Points one apart, where the rise of H is 0 at every temperature."""
    target = fk.Density(log_density)
    report = fk.check(S.ula(0.02).on(target), state=jnp.full(1, theta), number_of_points=32, explain=False)
    assert report.verdict == "right"


@pytest.mark.slow
def test_the_verdict_names_the_temperature_that_was_looked_at():
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    quick = {"state": TWO, "number_of_points": 32, "explain": False}
    of_dynamics, of_steps = (
        fk.check(sampler.on(normal, 1.5), **quick) for sampler in (Following(0.4), S.mala(0.4))
    )
    assert str(of_dynamics).splitlines()[0] == (
        "RIGHT: exp(-H) is stationary under these dynamics at temperature 1.5, tested around the one mode of "
        "H that was found."
    )
    for report in (of_dynamics, of_steps):
        assert " at temperature 1.5" in str(report).splitlines()[0]
        assert report.to_json()["temperature"] == 1.5
    assert "at temperature" not in str(
        fk.check(fk.dynamics.langevin(lambda x: x**2 / 2), number_of_points=32)
    )


@pytest.mark.parametrize("sampler", [Following, Turning, Pushed])
def test_every_part_of_the_drift_of_the_steps_is_compared(sampler, x64):
    """Right steps are called wrong once in ten million seeds; `Turning` keeps the same target."""
    placed = sampler(0.4).on(fk.Density(lambda theta: -jnp.sum(theta**2) / 2))
    problem = make_problem(placed.follows(TWO).dynamics, state={"theta": TWO})
    # Symmetric under quarter turns, so that no place is correlated with another coordinate's drift.
    quarter = np.random.default_rng(0).normal(size=(8, 2))
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    draws = np.concatenate([quarter @ np.linalg.matrix_power(turn, k) for k in range(4)])
    small = with_small_step(placed, problem, draws)
    findings = steps_findings(small, problem, draws, np.random.default_rng(1))
    assert all(finding.holds for finding in findings) is (sampler is Following)


def test_steps_that_cannot_be_compared_are_said_not_to_be():
    report = of_normal(NeedsABatch(0.4))
    assert report.verdict == "right"
    assert not report.checks
    assert any(
        "its steps themselves, their size, gradient and noise_estimate were not" in x for x in report.notes
    )


@pytest.mark.slow
def test_lazy_is_checked_by_the_dynamics_of_its_recipe():
    """Not as if it were exact; the shapes are those of the tables."""
    sampler = placed("lazy")
    report = fk.check(sampler, number_of_points=16, explain=False)
    assert report.verdict == "right"
    assert report.structure is not None
    assert any("every row was taken to be seen" in note for note in report.notes)
    assert report.dimension == 2 * ravel(EVERY["lazy"].setting.theta).size  # with momenta


@pytest.mark.parametrize("sampler", [S.rwm(0.1), S.psgld(0.1), S.mclmc(0.1, 1.4)], ids=lambda s: s.name)
def test_theta_is_guessed_and_said_to_be(sampler):
    report = fk.check(sampler.on(TARGET), number_of_points=16, explain=False)
    assert report.verdict != "wrong"
    assert any(re.search("no shapes were given: .*(single|two) number", note) for note in report.notes)
    # Letters after an apostrophe are no symbols.
    assert "s is the distance" not in str(report)


class Still(RandomWalk):
    """Keeps every target, and never moves."""

    def moved(self, draws, x):
        return x


class Mirror(RandomWalk):
    """Keeps every symmetric target, and only changes the sign."""

    def moved(self, draws, x):
        return jnp.where(draws[1] < 0.5, x, -x)


class FirstOnly(RandomWalk):
    """Never moves theta[1]."""

    def moved(self, draws, x):
        return super().moved((draws[0].at[1].set(0.0), draws[1]), x)


@pytest.mark.parametrize("sampler", [Still, Mirror, FirstOnly])
def test_a_sampler_that_does_not_reach_its_target_is_undecided(sampler):
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    report = fk.check(sampler(1.0).on(normal), state=TWO, number_of_points=256)
    assert report.verdict == "undecided"
    assert "never change" in report.reasons[0]
    assert report.power.startswith("none")


def test_few_draws_are_named_in_the_first_line():
    report = fk.check(RandomWalk(1.0).on(TARGET), state=TWO, number_of_points=256)
    assert report.ok
    assert report.missed > 0.05
    assert str(report).startswith("RIGHT as far as averages show: the target is stationary")


def test_without_draws_of_the_target_a_correction_is_undecided(monkeypatch):
    finding = Finding("fine", "", 0.0)
    monkeypatch.setattr(_samplers, "_corrections", lambda *_: ([finding], np.zeros((2, 2)), False, []))
    report = fk.check(RandomWalk(1.0).on(TARGET), state=TWO)
    assert report.verdict == "undecided"
    assert "could not be drawn" in report.reasons[0]


def test_replicas_have_no_correction():
    with pytest.raises(TypeError, match="without a correction such as sgld or sghmc"):
        S.replica_exchange(S.mala(0.1), (1.0, 2.0))


@pytest.mark.parametrize(
    "given",
    [
        lambda U: fk.dynamics.underdamped(U),
        lambda U: fk.samplers.sgnht(0.1).on(fk.Density(lambda theta: -U(theta))),
        lambda U: fk.samplers.nuts(0.1).on(fk.Density(lambda theta: -U(theta))),
    ],
    ids=["dynamics", "sampler", "corrected"],
)
@pytest.mark.parametrize(
    "potential", [lambda theta: theta[0] ** 2 + theta[1] ** 2, lambda theta: theta["a"] ** 2]
)
def test_a_state_that_is_needed_is_asked_for(given, potential):
    with pytest.raises(
        ValueError, match=r"no state was given.*for theta.*give an example by state=….*jnp\.zeros"
    ):
        fk.check(given(potential))
