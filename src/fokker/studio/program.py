"""A design as calls of the library: the objects that run here, and the same calls as a program in Python.

Each definition makes its object and its text side by side; a test runs the texts and compares the draws bit
by bit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

import fokker as fk
from fokker.samplers import Sampler
from fokker.studio.design import LETTERS, Design, DesignError, Named, Parts, SamplerSettings, Typed
from fokker.studio.formulas import Node, python
from fokker.studio.formulas.tree import is_zero, names
from fokker.studio.formulas.values import value
from fokker.studio.mistakes import altered, by_name
from fokker.studio.named import PAIR, SAMPLERS, THERMOSTAT, THETA

# Rows of the data that stand for gradient noise: as many again with the other sign, so that they add to 0.
PAIRS = 500
# The thermostat's inertia, and the length over which microcanonical samplers forget their direction.
LENGTH = 1.0


@dataclass
class ProgramText:
    """Objects by name, and the text that defines them."""

    lines: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def define(self, name: str, value: Any, text: str) -> Any:
        """`name = text`, whose value is this."""
        self.lines.append(f"{name} = {text}")
        self.values[name] = value
        return value

    def function(self, name: str, variables: Sequence[str], body: Node | Sequence[Any]) -> Callable[..., Any]:
        """`def name(theta, …): return …` of a formula, or of an array of formulas."""
        self.lines += ["", f"def {name}({', '.join(variables)}):"]
        self.lines += [f"    {', '.join(LETTERS[v])} = {v}" for v in variables if v in ("theta", "r")]
        self.lines += ["    s = xi"] if "xi" in variables else []
        self.lines += ["    Ux, Uy = gradient"] if "gradient" in variables else []
        self.lines += [f"    return {_text(body)}", ""]
        potential = self.values.get("U")

        def call(z: Mapping[str, Array]) -> Any:
            values: dict[str, Any] = {}
            for variable in variables:
                letters = ("Ux", "Uy") if variable == "gradient" else LETTERS[variable]
                parts = (z["xi"],) if variable == "xi" else tuple(z[variable])
                values |= dict(zip(letters, parts, strict=True))
            if potential is not None and "U" in _names(body):
                values["U"] = potential(z["theta"])
            return _value(body, values)

        result = by_name(call, variables)
        self.values[name] = result
        return result


def _names(body: Node | Sequence[Any]) -> set[str]:
    return set().union(*map(_names, body)) if isinstance(body, list | tuple) else set(names(body))  # type: ignore[arg-type]


def _text(body: Node | Sequence[Any]) -> str:
    if isinstance(body, list | tuple):
        return f"jnp.array({_nested(body)})"
    return python(body, {"U": "U(theta)"})  # type: ignore[arg-type]


def _nested(body: Any) -> str:
    if isinstance(body, list | tuple):
        return f"[{', '.join(map(_nested, body))}]"
    return python(body, {"U": "U(theta)"})


def _value(body: Node | Sequence[Any], values: Mapping[str, Any]) -> Any:
    def nested(part: Any) -> Any:
        return [nested(p) for p in part] if isinstance(part, list | tuple) else value(part, values, jnp)

    result = nested(body)
    return jnp.array(result) if isinstance(body, list | tuple) else result


# The target -------------------------------------------------------------------------------------------------


def _define_target(program: ProgramText, design: Design) -> Any:
    """U and the target: a density, or with gradient noise a posterior whose rows add to nothing."""
    U = program.function("U", THETA, design.target.potential)
    settings = design.settings
    if settings.noise == 0:
        return program.define(
            "target", fk.Density(lambda theta: -U(theta)), "fk.Density(lambda theta: -U(theta))"
        )
    half = jax.random.normal(jax.random.key(0), (PAIRS, 2))
    program.lines += [
        "# Rows that add to nothing: a batch of n of them gives the gradient noise of variance noise²/n.",
        f"half = jax.random.normal(jax.random.key(0), ({PAIRS}, 2))",
    ]
    rows = program.define("rows", jnp.concatenate([half, -half]), "jnp.concatenate([half, -half])")
    share = settings.noise / (2 * PAIRS)
    return program.define(
        "target",
        fk.Posterior(lambda theta: -U(theta), lambda theta, row: share * jnp.dot(row, theta), rows),
        f"fk.Posterior(lambda theta: -U(theta), lambda theta, row: {share!r} * jnp.dot(row, theta), rows)",
    )


def _define_metric(program: ProgramText, design: Design) -> dict[str, tuple[Any, str]]:
    """G⁻¹ and G^{-1/2} as fields."""
    g = program.function("inverse_metric", THETA, design.metric)
    return {
        "metric": (fk.fields.Scalar(g), "fk.fields.Scalar(inverse_metric)"),
        "root": (
            fk.fields.Scalar(lambda theta: jnp.sqrt(g(theta))),
            "fk.fields.Scalar(lambda theta: jnp.sqrt(inverse_metric(theta)))",
        ),
    }


def _noise_estimate(program: ProgramText, settings: SamplerSettings) -> tuple[Any, str]:
    """The covariance of G⁻¹∇Ũ, which is known here; none without gradient noise."""
    if not settings.noise:
        return None, "None"
    g, variance = program.values["inverse_metric"], settings.noise**2 / settings.batch
    return (
        fk.fields.Scalar(lambda theta: variance * g(theta) ** 2),
        f"fk.fields.Scalar(lambda theta: {variance!r} * inverse_metric(theta) ** 2)",
    )


# The sampler ------------------------------------------------------------------------------------------------


def _define_named(program: ProgramText, design: Design, name: str, target: Any) -> Sampler:
    row, settings = SAMPLERS[name], design.settings
    arguments: dict[str, tuple[Any, str]] = {
        "step_size": (settings.step_size, repr(settings.step_size)),
        "friction": (settings.friction, repr(settings.friction)),
        "leaps": (settings.leaps, str(settings.leaps)),
        "identity": ("identity", '"identity"'),
        "length": (LENGTH, repr(LENGTH)),
    }
    if "metric" in row.arguments:
        arguments |= _define_metric(program, design)
    if "noise_estimate" in row.arguments:
        arguments["noise_estimate"] = _noise_estimate(program, settings)
    chosen = [arguments[argument] for argument in row.arguments]
    options = "".join(f", {key}={option!r}" for key, option in row.options.items())
    made = getattr(fk.samplers, name)(*(x for x, _ in chosen), **row.options)
    text = f"fk.samplers.{name}({', '.join(text for _, text in chosen)}{options})"
    T = settings.temperature
    return program.define("sampler", made.on(target, T), f"{text}.on(target, {T!r})")


_DYNAMICS = {
    "langevin": ("langevin", THETA),
    "riemannian langevin": ("langevin", THETA),
    "underdamped": ("underdamped", PAIR),
    "hamiltonian": ("hamiltonian_flow", PAIR),
    "thermostat": ("thermostat", THERMOSTAT),
    "riemann": ("riemann", PAIR),
}


def _define_dynamics(
    program: ProgramText, design: Design, parts: Parts, target: Any
) -> tuple[fk.Dynamics, tuple[str, ...]]:
    settings, T = design.settings, design.settings.temperature
    function, variables = _DYNAMICS[parts.dynamics]
    arguments: list[tuple[Any, str]] = [(target.potential, "target.potential")]
    if parts.dynamics in ("riemannian langevin", "riemann"):
        metric = _define_metric(program, design)
        arguments += [metric["metric"]] if function == "langevin" else [metric["metric"], metric["root"]]
    elif parts.dynamics in ("underdamped", "thermostat"):
        arguments.append((settings.friction, repr(settings.friction)))
    options = {} if parts.dynamics == "hamiltonian" else {"temperature": T}
    if parts.dynamics == "hamiltonian" and T != 1:
        raise DesignError(
            "settings.temperature", "Hamiltonian dynamics have no noise and no temperature: set it to 1."
        )
    made = getattr(fk.dynamics, function)(*(x for x, _ in arguments), **options)
    text = ", ".join([*(text for _, text in arguments), *(f"{k}={v!r}" for k, v in options.items())])
    return program.define("dynamics", made, f"fk.dynamics.{function}({text})"), variables


def _define_typed(program: ProgramText, design: Design, typed: Typed) -> fk.Dynamics | fk.SDE:
    variables, T = typed.variables, design.settings.temperature
    U = program.values["U"]
    if typed.size == 2:
        H, H_text = fk.Hamiltonian(U), "fk.Hamiltonian(U)"
    else:
        kinetic = program.function("kinetic", variables, typed.energy)
        H, H_text = fk.Hamiltonian(U, kinetic), "fk.Hamiltonian(U, kinetic)"
    D, D_text = _define_diffusion(program, typed)
    if typed.Q is not None:
        Q, Q_text = _define_matrix(program, "Q", typed.Q, variables)
        return program.define(
            "dynamics",
            fk.Dynamics(H, D, Q, T),
            f"fk.Dynamics({H_text}, D={D_text}, Q={Q_text}, temperature={T!r})",
        )
    if T != 1:
        raise DesignError(
            "settings.temperature",
            "a drift that was typed has its temperature in itself and in D: set the slider to 1.",
        )
    assert typed.drift is not None
    f = program.function("drift_vector", (*variables, "gradient"), typed.drift)
    arguments = (*variables, "gradient")

    def parts(z: Mapping[str, Array]) -> dict[str, Array]:
        vector = f(**z)
        pieces = {"theta": vector[:2], "r": vector[2:4], "xi": vector[4] if typed.size == 5 else None}
        return {name: pieces[name] for name in variables}

    slices = {"theta": '"theta": f[:2]', "r": '"r": f[2:4]', "xi": '"xi": f[4]'}
    program.lines += [
        f"def drift({', '.join(arguments)}):",
        f"    f = drift_vector({', '.join(arguments)})",
        f"    return {{{', '.join(slices[name] for name in variables)}}}",
        "",
    ]
    return program.define(
        "dynamics", fk.SDE(by_name(parts, arguments), D, H), f"fk.SDE(drift, {D_text}, {H_text})"
    )


def _define_diffusion(program: ProgramText, typed: Typed) -> tuple[Any, str]:
    """D by diagonal blocks where it is diagonal, which needs no root of a matrix at every step."""
    D, size = typed.D, typed.size
    if any(not is_zero(D[i][j]) for i in range(size) for j in range(size) if i != j):
        return _define_matrix(program, "D", D, typed.variables)
    blocks, texts, first = {}, [], 0
    for name in typed.variables:
        cells = [D[first + k][first + k] for k in range(len(LETTERS[name]))]
        first += len(cells)
        if all(map(is_zero, cells)):
            continue
        body: Any = cells if len(cells) > 1 else cells[0]
        if _names(cells):
            block: Any = program.function(f"D_{name}", typed.variables, body)
            text = f"D_{name}"
        else:
            block, text = _value(body, {}), _text(body)
            if len(cells) == 1:
                block, text = jnp.asarray(block), f"jnp.asarray({text})"
        blocks[name, name] = fk.fields.Diagonal(block)
        texts.append(f'("{name}", "{name}"): fk.fields.Diagonal({text})')
    if not blocks:
        return fk.fields.Zero(), "fk.fields.Zero()"
    return fk.fields.symmetric(blocks), f"fk.fields.symmetric({{{', '.join(texts)}}})"


def _define_matrix(
    program: ProgramText, name: str, cells: tuple[tuple[Node, ...], ...], variables: Sequence[str]
) -> tuple[Any, str]:
    if _names(cells):
        function = program.function(f"{name}_matrix", variables, cells)
        return fk.fields.Dense(function), f"fk.fields.Dense({name}_matrix)"
    return fk.fields.Dense(_value(cells, {})), f"fk.fields.Dense({_text(cells)})"


def _recipe(program: ProgramText, design: Design, dynamics: Any, variables: tuple[str, ...]) -> Sampler:
    """`fk.samplers.recipe` of the dynamics, altered where a mistake was asked for."""
    settings = design.settings
    if design.is_altered:
        if not isinstance(dynamics, fk.Dynamics):
            raise DesignError(
                "gamma", "a drift that was typed has no Γ and no friction of its own to change."
            )
        program.lines.insert(0, "from fokker.studio.mistakes import altered")
        dynamics = program.define(
            "dynamics",
            altered(dynamics, variables, gamma=design.gamma, friction=design.drag),
            f"altered(dynamics, {variables!r}, gamma={design.gamma!r}, friction={design.drag!r})",
        )
    integrator, correction = _integrator_and_correction(design, dynamics, variables)
    options: dict[str, Any] = {"integrator": getattr(fk.integrators, integrator)()}
    text = f"integrator=fk.integrators.{integrator}()"
    if correction is not None:
        needs_length = correction == "Metropolis" and "Leapfrog" in integrator
        options["correction"] = getattr(fk.corrections, correction)(
            *([settings.leaps] if needs_length else [])
        )
        text += f", correction=fk.corrections.{correction}({settings.leaps if needs_length else ''})"
    if settings.noise:
        target, share = (
            program.values["target"],
            settings.temperature if isinstance(dynamics, fk.SDE) else 1.0,
        )
        options["gradient"] = lambda theta, rows: jax.grad(target.minibatch_potential)(theta, rows) / share
        program.lines += [
            "",
            "def gradient(theta, rows):",
            f"    return jax.grad(target.minibatch_potential)(theta, rows) / {share!r}",
            "",
        ]
        text += ", gradient=gradient"
    made = fk.samplers.recipe(dynamics, settings.step_size, **options)
    return program.define("sampler", made, f"fk.samplers.recipe(dynamics, {settings.step_size!r}, {text})")


def _integrator_and_correction(
    design: Design, dynamics: Any, variables: tuple[str, ...]
) -> tuple[str, str | None]:
    sampler = design.sampler
    if isinstance(sampler, Parts):
        correction = (
            "Metropolis" if design.metropolis and sampler.correction == "none" else sampler.correction
        )
        return sampler.integrator, None if correction == "none" else correction
    if not design.metropolis:
        in_blocks = isinstance(sampler, Named) and variables != THETA
        return ("SymplecticEuler" if in_blocks else "EulerMaruyama"), None
    is_underdamped = isinstance(sampler, Named) and variables == PAIR and isinstance(dynamics, fk.Dynamics)
    return ("ExactOU" if is_underdamped else "EulerMaruyama"), "Metropolis"


@dataclass(frozen=True)
class Built:
    """A sampler on its target, the variables of its state, and its program.

    `variables` is empty where the sampler makes its own auxiliaries from theta.
    """

    design: Design
    sampler: Sampler
    target: Any
    rows: Array | None
    variables: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def potential(self) -> Callable[[Array], Array]:
        """U."""
        return self.target.potential


def _check_noise(design: Design) -> None:
    sampler = design.sampler
    if not design.settings.noise:
        return
    if design.metropolis or (isinstance(sampler, Parts) and sampler.correction != "none"):
        raise DesignError(
            "settings.noise",
            "a correction needs the whole gradient: with gradient noise the probability of the way back is "
            "not known. Set the gradient noise to 0, or take the correction away.",
        )
    if isinstance(sampler, Named) and not SAMPLERS[sampler.name].takes_batches:
        raise DesignError(
            "settings.noise",
            f"{sampler.name} needs the whole gradient: set the gradient noise to 0, or take a sampler for "
            "minibatches, such as sghmc.",
        )


def build(design: Design) -> Built:
    """The sampler of a design; raise a `DesignError` where the library refuses it, with its reason."""
    _check_noise(design)
    program = ProgramText()
    try:
        target = _define_target(program, design)
        sampler, variables = _define_sampler(program, design, target)
    except DesignError:
        raise
    except (ValueError, TypeError) as error:
        raise DesignError("sampler", str(error)) from None
    return Built(design, sampler, target, program.values.get("rows"), variables, tuple(program.lines))


def _define_sampler(program: ProgramText, design: Design, target: Any) -> tuple[Sampler, tuple[str, ...]]:
    if isinstance(design.sampler, Named):
        name = design.sampler.name
        made = _define_named(program, design, name, target)
        row = SAMPLERS[name]
        if not design.is_altered and (not design.metropolis or row.exact):
            return made, ()
        if not row.variables:
            raise DesignError(
                "sampler",
                f"{name} is what it is: Γ, friction and the correction can be changed for "
                f"{', '.join(key for key, value in SAMPLERS.items() if value.variables)}, or with parts.",
            )
        dynamics = program.define("dynamics", made.placed, "sampler.placed")
        return _recipe(program, design, dynamics, row.variables), row.variables
    if isinstance(design.sampler, Parts):
        dynamics, variables = _define_dynamics(program, design, design.sampler, target)
        return _recipe(program, design, dynamics, variables), variables
    typed = design.sampler
    return _recipe(program, design, _define_typed(program, design, typed), typed.variables), typed.variables
