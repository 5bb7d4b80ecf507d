"""What a verdict advises: nothing that makes it worse; and every message in the documentation is printed."""

import ast
import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal

import fokker as fk
from fokker import samplers
from fokker.diagnostics import Grade, spread_of
from fokker.diagnostics._checked import _power, repeated_with_half
from fokker.diagnostics._convergence import _distinct
from fokker.diagnostics._summarise import _notes
from judged_draws import UNIT, judged, normals

ROOT = Path(__file__).parents[2]


def test_a_short_burn_in_is_not_mended_by_smaller_steps():
    """Three tenths of the draws are twice as wide; right ones follow."""
    draws = normals()
    draws[:, :300] *= 2
    wide = judged(draws, UNIT).warnings
    assert any("the second half of the draws does not show it: give more burn_in" in text for text in wide), (
        wide
    )
    assert not any("smaller steps" in text for text in wide)
    assert "take smaller steps" in judged(1.3 * normals(), UNIT).warnings[0]


def test_half_precision_is_not_mended_by_smaller_steps():
    """Its draws have 32 bits, and the state of its chains 16."""
    state = {"theta": jnp.zeros((4, 2), jnp.bfloat16)}
    warning = judged(1.3 * normals(), UNIT, state=state).warnings[0]
    assert "theta is stored in 16 bits" in warning
    assert "use float32, or larger steps" in warning


@pytest.mark.slow
def test_a_funnel_is_not_first_of_all_several_modes():
    """Chains apart with diverging steps; without those, they may be modes."""
    draws = normals() + np.array([0, 0, 2.5, 2.5])[:, None, None]
    diverging = {"is_divergent": np.arange(4000).reshape(4, 1000) % 50 == 0}
    calm = {"is_divergent": np.zeros((4, 1000), bool)}
    funnel = [text for text in judged(draws, UNIT, True, diverging).warnings if "R-hat" in text]
    assert "Reparametrise the model" in funnel[0]
    assert "modes" not in funnel[0]
    modes = [text for text in judged(draws, UNIT, True, calm).warnings if "R-hat" in text]
    assert "the target may have several modes" in modes[0]


def test_chains_that_differ_by_little_are_not_several_modes():
    draws = normals() + np.array([0, 0, 0.35, 0.35])[:, None, None]
    warning = next(text for text in judged(draws, UNIT, True).warnings if "R-hat" in text)
    assert "differ by more than chance, but not by much: run longer" in warning


@pytest.mark.slow
def test_larger_steps_are_not_advised_beside_smaller_ones():
    """Slow and too wide; slow alone."""
    slow = np.repeat(normals(number=60), 20, axis=1) + 0.1 * normals(number=1200)
    warnings = judged(1.3 * slow / np.sqrt(1.01), UNIT).warnings
    assert any("smaller steps" in text for text in warnings)
    assert not any("larger step" in text for text in warnings)
    assert any("larger step" in text for text in judged(slow / np.sqrt(1.01), UNIT).warnings)


def test_a_power_of_nothing_is_said_in_words():
    """80 draws along 40 directions show nothing, and 2,000 per cent would not mean anything."""
    x = normals(number=20, d=40)
    text = _power(spread_of(x, x))
    assert all(int(number) <= 100 for number in re.findall(r"(\d+) %", text))
    assert ". In a single direction even a variance that is twice the target's may go unnoticed." in text
    heavy = spread_of(normals(number=30, d=1), normals(number=30, d=1, seed=1) ** 9)
    assert "%" not in _power(heavy)


@pytest.mark.slow
def test_a_clean_verdict_says_what_it_is_of_and_what_no_run_shows():
    cool = judged(normals(), UNIT)
    assert cool.trusted
    assert "No run can show modes that no chain visited, or whether the model is right." in cool.verdict
    assert "exp(-U/T)" not in cool.verdict
    hot = judged(2 * normals(), UNIT, temperature=4.0)
    assert hot.trusted
    assert "of exp(-U/T) with T = 4, not of the posterior itself" in hot.verdict


def test_a_clean_verdict_counts_the_directions_that_were_not_judged():
    x = normals()
    spread = spread_of(x, x)
    assert "in every direction" in _power(spread)
    assert "in any direction" in _power(spread)
    assert (
        "The tails and the skewness of each coordinate were compared as well, by one number each"
        in _power(spread)
    )
    some = np.array([True, True, True, False])
    shift, shape = (dataclasses.replace(x, judged=some) for x in (spread.shift, spread.shape))
    text = _power(dataclasses.replace(spread, judged=some, shift=shift, shape=shape))
    assert "in every one of the 3 directions of 4 that could be judged" in text
    assert "in any one of the 3 directions of 4 that could be judged" in text
    assert "were compared as well (1 of 4 could not be)" in text
    trace = SimpleNamespace(settings={}, one_start=False, origin=None, samples=x)
    for note, what in zip(_notes(trace, dataclasses.replace(spread, judged=some)), ["variance"], strict=True):
        assert note.startswith(
            f"the {what} of 1 of 4 directions (2 parameters and 2 principal directions) could"
        )


@pytest.mark.slow
def test_the_r_hat_of_a_clean_verdict_is_the_one_that_was_judged():
    """Split R-hat of many chains of a few effective draws is far above 1 whether they agree or not."""
    noise = np.random.default_rng(0).normal(size=(256, 60, 1))
    draws = signal.lfilter([np.sqrt(1 - 0.8**2)], [1, -0.8], noise, axis=1)[:, 20:]
    summary = judged(draws, UNIT)
    assert summary.trusted, summary.warnings
    assert summary.r_hat[0] > 1.1
    quoted = re.match(r"Nested R-hat is at most (1\.\d+)", summary.checked)
    assert quoted is not None, summary.checked
    assert float(quoted[1]) < 1.05
    few = judged(normals(number=120), UNIT)
    assert few.trusted, few.warnings
    assert re.match(r"R-hat is at most 1.0\d\d", few.checked)


@pytest.mark.parametrize("is_exact", [True, False])
def test_at_temperature_zero_there_is_one_finding(is_exact):
    """A path to the mode, and chains that stay there."""
    path = np.exp(-np.arange(200.0) / 20)[None, :, None] * normals(number=1)
    for draws in (path, np.zeros((4, 100, 2))):
        summary = judged(draws, UNIT, is_exact, temperature=0.0)
        assert len(summary.warnings) == 1
        assert "at temperature 0 this is an optimiser: there is no distribution" in summary.warnings[0]
        assert not summary.trusted


@pytest.mark.slow
def test_draws_that_wander_are_said_to_be_of_a_target_that_may_be_improper():
    """A random walk on a flat density; not chains that are apart."""
    walk = np.cumsum(normals(), axis=1)
    flat = judged(walk, fk.Density(lambda theta: 0.0 * jnp.sum(theta)), is_exact=True).warnings
    assert any(re.search("R-hat .* the target may be improper .*: run longer", text) for text in flat)
    step = fk.Density(lambda theta: jnp.sum(jax.nn.log_sigmoid(theta)))  # flat on one side
    wide = np.random.default_rng(0).uniform(0, 50, size=(4, 1000, 1))
    assert any(
        "the outermost draws are: the target may be improper" in x for x in judged(wide, step).warnings
    )
    apart = normals() + 3 * np.arange(4)[:, None, None]
    assert not any("improper" in text for text in judged(apart, UNIT, True).warnings)


@pytest.mark.parametrize("starts", [[-0.5, 0.5, 1.2, 1.8], [1.0, 1.0, 1.0, 1.0]])
def test_chains_that_hardly_moved_say_nothing_about_the_tails_of_their_target(starts):
    """Their outermost draws are not in the tails, and U grows beyond them."""
    walk = 1e-3 * np.cumsum(normals(d=1), axis=1) + np.array(starts)[:, None, None]
    warnings = judged(walk, UNIT).warnings
    assert any("R-hat" in text for text in warnings)
    assert not any("does not fall" in text for text in warnings)


@pytest.mark.slow
@pytest.mark.parametrize(("chains", "number"), [(4, 400), (64, 200), (256, 60), (256, 20)])
def test_chains_in_two_modes_are_said_to_be_so_whatever_their_number(chains, number):
    target = fk.Density(lambda theta: -jnp.sum((jnp.abs(theta) - 4) ** 2) / 2)
    draws = normals(chains, number, 1) + np.where(np.arange(chains) % 2, 4, -4)[:, None, None]
    warning = next(text for text in judged(draws, target, True).warnings if "R-hat" in text)
    assert "modes" in warning
    assert "fk.samplers.replica_exchange" in warning


def test_an_r_hat_above_its_limit_is_shown_to_be():
    assert _distinct(1.0213, 1.0187) == ("1.021", "1.019")
    assert _distinct(1.5, 1.01) == ("1.5", "1.01")


@pytest.mark.slow
def test_a_run_that_blew_up_early_is_not_told_to_take_more_steps():
    steep = fk.Density(lambda theta: -jnp.sum(theta**4))
    options = {"init": jnp.ones(1), "steps": 100, "progress": False}
    trace = fk.sample(steep, samplers.sgld(0.7), **options)
    assert trace.stopped is not None
    with pytest.raises(ValueError, match=r"too few for a summary; the run ended early: .* \(not finite"):
        trace.summary()
    with pytest.raises(ValueError, match="too few for a summary; take more steps"):
        fk.sample(steep, samplers.sgld(0.01), **{**options, "steps": 5}).summary()


def test_a_smaller_step_is_advised_to_those_without_a_trace_too():
    half = {"step_size": 0.05}, {"step_size": jnp.float32(0.05)}
    for settings in half:
        text = repeated_with_half(SimpleNamespace(settings=settings))
        assert text.startswith(
            "compare with a run whose step size is half as large, 0.025; in Python, trace."
        )
    for settings in ({}, {"step_size": lambda number: 0.1}, {"step_size": jnp.ones(3)}):
        assert "half as large; in" in repeated_with_half(SimpleNamespace(settings=settings))


def test_no_step_size_of_a_sampler_chosen_by_itself_is_advised():
    """It is one for the mass matrix, the start and the gradient that were chosen with it."""
    chosen = SimpleNamespace(settings={"step_size": 0.05, "chosen": "sgnht with control variates, since …"})
    assert repeated_with_half(chosen) == (
        "in Python, trace.step_halving() of the trace that fk.sample returned compares with a run whose step "
        "size is half as large"
    )


def test_halving_the_step_does_not_call_other_biases_absent():
    unit = {"init": jnp.zeros(1), "steps": 40, "chains": 4, "progress": False}
    text = str(fk.sample(UNIT, samplers.sgld(0.1), **unit).step_halving())
    assert "A bias that does not depend on the step" in text
    assert "does not show here" in text
    assert "no mean by more than" in text


@pytest.mark.slow
def test_the_noise_of_a_moving_centre_is_not_that_of_the_last_state():
    """SVRG whose centre was moved at the last step, where its noise is zero; and half an epoch later."""
    x = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
    target = fk.Posterior(
        lambda theta: 0.0 * theta[0], lambda theta, row: -jnp.sum(jnp.cosh(row - theta)), jnp.asarray(x)
    )
    options = {
        "init": jnp.zeros(2),
        "chains": 8,
        "batch_size": 5,
        "batches": "replacement",
        "progress": False,
    }
    share = "gradient noise over injected noise"
    found = []
    for steps in (400, 450):
        trace = fk.sample(
            target, samplers.sgld(2e-4), gradient=fk.gradients.svrg(100), steps=steps, **options
        )
        found.append(trace.summary(gradients=False).checks[share])
    assert found[0] == pytest.approx(found[1], rel=0.6)
    assert found[0] > 1e-4


# Documentation --------------------------------------------------------------------------------------------


def printed():
    """Patterns of every text in the code of verdicts and of runs, whole and up to its first ";" or ". "."""
    patterns = set()
    for file in sorted((ROOT / "src/fokker").glob("diagnostics/*.py")) + [
        ROOT / f"src/fokker/run/{name}.py" for name in ("losses", "loop", "recording", "trace")
    ]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else None for p in node.values]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts = [node.value]
            else:
                continue
            whole = "".join("\0" if part is None else part for part in parts)
            for text in {whole, whole.split(";")[0].split(". ")[0]}:
                if len(text.replace("\0", "")) >= 12:
                    patterns.add("(.+?)".join(map(re.escape, text.split("\0"))))
    return [re.compile(pattern) for pattern in patterns]


def is_printed(message, patterns):
    """Whether it is one text, or several one after another, as a cause after what was seen."""
    for pattern in patterns:
        if pattern.fullmatch(message):
            return True
        head = pattern.match(message)
        if head and head.end() < len(message) and is_printed(message[head.end() :], patterns):
            return True
    return False


def test_every_message_that_the_documentation_quotes_is_printed():
    lines = (ROOT / "docs/verdicts.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if re.search(r"\| (right|wrong) \| [NUD]", line)]
    messages = [row[4] for row in rows if len(row) == 5]
    assert len(messages) > 25
    patterns = printed()
    assert [message for message in messages if not is_printed(message, patterns)] == []
    assert not is_printed("one chain cannot show that it has converged", patterns)
    assert {row[2] for row in rows} <= set(Grade)


@pytest.mark.slow
def test_the_fewest_effective_draws_of_a_verdict_are_not_more_than_the_table_shows():
    """A simplex whose third entry is slow though both unconstrained coordinates are fast."""
    fast = 0.3 * normals(d=1)[:, :, 0]
    slow = 0.1 * signal.lfilter([np.sqrt(1 - 0.98**2)], [1, -0.98], normals(d=1, seed=1)[:, :, 0], axis=1)
    first, rest = 1 - np.exp(-1.5 + fast + slow), np.exp(-1.5 - fast + slow)
    w = np.stack([first, (1 - first) * (1 - rest), (1 - first) * rest], axis=-1)
    target = fk.constrain(fk.Density(lambda theta: jnp.sum(jnp.log(theta["w"]))), {"w": "simplex"})
    summary = judged({"w": w.astype(np.float32)}, target, is_exact=True)
    least = float(np.min(summary.effective))
    assert least < 200
    assert f"with at least {least:,.0f} effective draws" in summary.checked
    assert any(f"w[2] has {least:.0f} effective draws, fewer than 400" in text for text in summary.warnings)
