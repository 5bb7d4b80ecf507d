# ruff: noqa: E501
"""A page for each sampler of `fk.samplers`: its recipe, the verdict of the checker on it, and its docstring."""

import contextlib
import hashlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fokker as fk
from fokker.fields import Elementwise
from site_pages.animation import figure, steps_of
from site_pages.api import _markdown, anchor
from site_pages.facts import FACTS, Facts
from site_pages.introductions import INTRODUCTIONS

__all__ = ["EXAMPLES", "names", "page", "pages", "verdicts"]

S = fk.samplers
_STORE = Path(__file__).resolve().parents[1] / "_build" / "verdicts.json"
# Without optimisations, for programs that run once.
_QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def _potential(theta: Any) -> Any:
    return jnp.sum(theta**4) / 4 + jnp.sum(theta**2) / 2 + jnp.sum(theta) / 4


TARGET = fk.Density(lambda theta: -_potential(theta))
_COVARIANCE = np.array([[1.0, 0.5], [0.5, 2.0]])
_NORMAL = fk.Density(lambda x: -x @ jnp.asarray(np.linalg.inv(_COVARIANCE), x.dtype) @ x / 2)
_BLOCKS = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 2) / 2)
_POSTERIOR = fk.Posterior(
    lambda theta: -_potential(theta), lambda theta, x: -jnp.sum((theta - x) ** 2) / 8, jnp.zeros((4, 2))
)
_METRIC = (Elementwise(lambda theta: 1 + theta**2), Elementwise(lambda theta: jnp.sqrt(1 + theta**2)))
_ONE, _TWO = jnp.zeros(()), jnp.zeros(2)


class Example(NamedTuple):
    """A sampler as its page and `tests/checker/test_check_samplers.py` check it: how it is made, the state that the checker
    starts from, the verdict, and its target; None for a sampler that has its own.
    """

    make: Callable[[], Any]
    state: Any = _TWO
    verdict: str = "right"
    target: Any = TARGET

    def placed(self, temperature: float = 1.0) -> Any:
        """The sampler on its target."""
        return self.make() if self.target is None else self.make().on(self.target, temperature)


EXAMPLES = {
    "sgld": Example(lambda: S.sgld(0.1)),
    "sgfs": Example(lambda: S.sgfs(0.1, 2.0), target=_POSTERIOR),
    "sgrld": Example(lambda: S.sgrld(0.1, _METRIC[0])),
    "psgld": Example(lambda: S.psgld(0.1), verdict="undecided"),
    "ula": Example(lambda: S.ula(0.1)),
    "mala": Example(lambda: S.mala(0.1)),
    "rwm": Example(lambda: S.rwm(0.5)),
    "sghmc": Example(lambda: S.sghmc(0.1)),
    "naive_sghmc": Example(lambda: S.naive_sghmc(0.1), _ONE, "undecided"),
    "ulmc": Example(lambda: S.ulmc(0.1)),
    "maula": Example(lambda: S.maula(0.1)),
    "sgnht": Example(lambda: S.sgnht(0.1)),
    "sgnht_by_ding": Example(lambda: S.sgnht_by_ding(0.01, 0.1)),
    "gsgrhmc": Example(lambda: S.gsgrhmc(0.1, *_METRIC), _ONE),
    "sgrhmc": Example(lambda: S.sgrhmc(0.1, *_METRIC), _ONE),
    "naive_sgrhmc": Example(lambda: S.naive_sgrhmc(0.1, *_METRIC), _ONE, "wrong"),
    "hmc": Example(lambda: S.hmc(0.3, 4)),
    "ghmc": Example(lambda: S.ghmc(0.1)),
    "nuts": Example(lambda: S.nuts(0.3, max_depth=3)),
    "naive_nuts": Example(lambda: S.naive_nuts(0.5, max_depth=2)),
    "rhmc": Example(lambda: S.rhmc(0.1, lambda theta: 1 + theta**2, 2)),
    "mclmc": Example(lambda: S.mclmc(0.1, 1.4)),
    "mchmc": Example(lambda: S.mchmc(0.1, 1.4)),
    "gibbs": Example(
        lambda: S.gibbs({"a": lambda key, theta: jax.random.normal(key, theta["a"].shape)}).on(_BLOCKS),
        {"a": _TWO},
        target=None,
    ),
    "gibbs_normal": Example(lambda: S.gibbs_normal(np.zeros(2), _COVARIANCE), target=_NORMAL),
    "slice_sampler": Example(lambda: S.slice_sampler()),
    "replica_exchange": Example(lambda: S.replica_exchange(S.sgld(0.1), (1.0, 2.0))),
    "recipe": Example(lambda: S.recipe(fk.dynamics.langevin(_potential), 0.1), {"theta": _TWO}, target=None),
}


# With other step sizes, for chains that are to be looked at.
ANIMATED: dict[str, Callable[[], Any]] = {
    "sgrld": lambda: S.sgrld(0.01, _METRIC[0]).on(TARGET),
    "psgld": lambda: S.psgld(0.2, alpha=0.9).on(TARGET),
    "naive_sghmc": lambda: S.naive_sghmc(0.05).on(TARGET),
}
# What the repository has to show of a sampler.
_PICTURES = {
    "nuts": "![NUTS on a banana: the path doubles until it turns back](../../images/nuts-tree.gif)\n\n",
    "gsgrhmc": "![With Γ, and without it](../../images/recipe.png)\n\n",
    "naive_sgrhmc": "![With Γ, and without it](../../images/recipe.png)\n\n",
    "sgrld": "![With Γ, and without it](../../images/theory/gamma.png)\n\n",
    "naive_sghmc": "![Energy with and without friction](../../images/theory/minibatch-noise.png)\n\n",
    "sgnht": "![Temperature with and without a thermostat](../../images/theory/minibatch-noise.png)\n\n",
}


def names() -> list[str]:
    """The samplers that users make, in the order of the facts about them."""
    made = {name for name in S.__all__ if inspect.isfunction(getattr(S, name))}
    return [*(name for name in FACTS if name in made), *sorted(made - set(FACTS))]


@contextlib.contextmanager
def _quickly_compiled() -> Iterator[None]:
    """Programs of this process are compiled without optimisations; notebooks, which start later, are not."""
    before = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = f"{before or ''} {_QUICK}".strip()
    jnp.zeros(()).block_until_ready()
    if before is None:
        del os.environ["XLA_FLAGS"]
    else:
        os.environ["XLA_FLAGS"] = before
    yield


def _digest() -> str:
    """Of the library, the examples and JAX: verdicts of the same are the same."""
    digest = hashlib.sha256(jax.__version__.encode())
    for path in (Path(__file__), *sorted(Path(fk.__file__).parent.rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def verdicts() -> dict[str, dict[str, Any]]:
    """Name → verdict, report, `str` and first steps of every sampler; again only if something changed."""
    digest = _digest()
    if _STORE.exists() and (stored := json.loads(_STORE.read_text(encoding="utf-8")))["digest"] == digest:
        return stored["verdicts"]
    found = {}
    print(f"checking {len(names())} samplers, once per change of the library …", file=sys.stderr, flush=True)
    with _quickly_compiled():
        for name in names():
            example = EXAMPLES[name]
            sampler = example.placed()
            report = fk.check(sampler, state=example.state, number_of_points=256)
            animated = ANIMATED.get(name, example.placed)()
            step_size = getattr(animated, "step_size", None)
            found[name] = {
                "verdict": report.verdict,
                "report": str(report),
                "made_of": str(sampler),
                "path": steps_of(animated, example.state),
                "step_size": None if step_size is None else float(step_size),
            }
    _STORE.parent.mkdir(parents=True, exist_ok=True)
    _STORE.write_text(json.dumps({"digest": digest, "verdicts": found}), encoding="utf-8")
    return found


def online(name: str) -> str:
    """Links to the papers that `fk.cite` has for a sampler, where they are known."""
    links = []
    for entry in fk.cite(name).split("\n\n"):
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE))
        address = fields.get("url", "")
        for field, start in (("eprint", "https://arxiv.org/abs/"), ("doi", "https://doi.org/")):
            if field in fields:
                address = start + fields[field]
        if address:
            author = fields["author"].partition(",")[0]
            links.append(f"[{author} {fields['year']}](<{address}>)")
    return ", ".join(links)


def page(name: str, facts: Facts, verdict: dict[str, Any]) -> str:
    """The page of one sampler."""
    function = getattr(S, name)
    dynamics, integrator, correction = [*verdict["made_of"].split(" × "), "none", "none"][:3]
    rows = {
        "dynamics": dynamics,
        "integrator": integrator,
        "correction": facts.correction or correction,
        "H": facts.hamiltonian,
        "D": facts.D,
        "Q": facts.Q,
        "Γ": facts.gamma,
        "bias by the step size": facts.bias,
        "gradients per step": facts.gradients,
        "minibatches": "yes" if EXAMPLES[name].make().takes_batches else "no",
        "verdict of `fk.check`": verdict["verdict"],
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    return f"""# {name}

{INTRODUCTIONS[name]}

**When to use it.** {facts.use}

| | at temperature 1 |
| --- | --- |
{table}

**Pitfalls.** {facts.pitfalls}

**Reference.** {facts.reference}. Online: {online(name)}. Signature: [`fk.samplers.{name}`](#{anchor(f"fk.samplers.{name}")}).

```{{raw}} html
{figure(name, verdict["path"], _potential_of(name), verdict["step_size"])}
```

{_PICTURES.get(name, "")}## Docstring

{_markdown(inspect.getdoc(function) or "")}

## The checker on it

Printed by `fk.check` when this site was built, on a target in {"one dimension" if _is_scalar(name) else "two dimensions"}:

```text
{verdict["report"]}
```
"""


def _potential_of(name: str) -> Callable[[Any], Any]:
    """U of the target of an example, on the plane."""
    of_blocks = {"gibbs": lambda x: _BLOCKS.potential({"a": x}), "gibbs_normal": _NORMAL.potential}
    return of_blocks.get(name, _POSTERIOR.potential if name == "sgfs" else _potential)


def _is_scalar(name: str) -> bool:
    state = EXAMPLES[name].state
    return not isinstance(state, dict) and jnp.ndim(state) == 0


def pages() -> dict[str, str]:
    """The pages of all samplers, and their index."""
    found = verdicts()
    result = {f"samplers/{name}.md": page(name, FACTS[name], found[name]) for name in names()}
    rows = "\n".join(
        f"| [{name}]({name}.md) | {found[name]['made_of']} | {FACTS[name].bias} | {FACTS[name].gradients} "
        f"| {found[name]['verdict']} |"
        for name in names()
    )
    listed = "\n".join(names())
    result["samplers/index.md"] = f"""# Every sampler

One page each: H, D, Q and Γ, what the step size does, when to use it, and what `fk.check` says of it. The
[settings they share](../../sampling.md) have a page of their own.

| | made of | bias by the step size | gradients per step | verdict |
| --- | --- | --- | --- | --- |
{rows}

```{{toctree}}
:hidden:

{listed}
```
"""
    return result
