"""The samplers of the menu: how each is called, and which variables its dynamics have."""

from dataclasses import dataclass, field
from typing import Literal

Argument = Literal["step_size", "friction", "metric", "root", "leaps", "identity", "length", "noise_estimate"]
# As the menu of parts calls them.
Dynamics = Literal["langevin", "riemannian langevin", "underdamped", "hamiltonian", "thermostat", "riemann"]

# Functions of `fk.samplers` that are not in the menu, and why.
NOT_IN_MENU = {
    "gibbs": "takes the conditionals of its target, which a formula for U does not give",
    "gibbs_normal": "is for a normal target alone",
    "recipe": "is what the three menus of parts make",
    "replica_exchange": "is made of another sampler; the page has a form for one alone",
    "rhmc": "takes the metric G, and the page has a formula for its inverse",
    "sgnht_by_ding": "is sgnht by other names of its settings",
}


@dataclass(frozen=True)
class NamedSampler:
    """A function of `fk.samplers`.

    `dynamics`: those of its steps, or of its proposals, for the page to show H, D, Q and Γ; None where they
    are none of these. `variables` are those of its dynamics, where Γ and the friction can be altered; empty
    where they cannot. `takes_batches`: the gradient may be noisy. `exact`: no step size biases it.
    """

    title: str
    arguments: tuple[Argument, ...]
    dynamics: Dynamics | None = None
    variables: tuple[str, ...] = ()
    takes_batches: bool = False
    exact: bool = False
    options: dict[str, int | str] = field(default_factory=dict)

    @property
    def uses(self) -> list[str]:
        """The settings that it has, for the page."""
        return [name for name in self.arguments if name not in ("identity", "length", "noise_estimate")]


THETA, PAIR, THERMOSTAT = ("theta",), ("theta", "r"), ("theta", "r", "xi")
SAMPLERS = {
    "rwm": NamedSampler("Random walk Metropolis", ("step_size", "identity"), exact=True),
    "ula": NamedSampler("ULA", ("step_size",), "langevin", THETA, takes_batches=True),
    "mala": NamedSampler("MALA", ("step_size", "identity"), "langevin", exact=True),
    "ulmc": NamedSampler("ULMC", ("step_size", "friction"), "underdamped", PAIR, takes_batches=True),
    "maula": NamedSampler("MAULA", ("step_size", "friction", "identity"), "underdamped", exact=True),
    "hmc": NamedSampler("HMC", ("step_size", "leaps", "identity"), "hamiltonian", exact=True),
    "ghmc": NamedSampler(
        "Generalised HMC", ("step_size",), "hamiltonian", exact=True, options={"mass_matrix": "identity"}
    ),
    "nuts": NamedSampler(
        "NUTS", ("step_size", "identity"), "hamiltonian", exact=True, options={"max_depth": 6}
    ),
    "naive_nuts": NamedSampler(
        "NUTS, as first published",
        ("step_size", "identity"),
        "hamiltonian",
        exact=True,
        options={"max_depth": 5},
    ),
    "slice_sampler": NamedSampler("Slice sampler", ("step_size",), exact=True),
    "mclmc": NamedSampler("MCLMC", ("step_size", "length")),
    "mchmc": NamedSampler("MCHMC", ("step_size", "length")),
    "sgld": NamedSampler("SGLD", ("step_size",), "langevin", THETA, takes_batches=True),
    "psgld": NamedSampler("pSGLD", ("step_size",), takes_batches=True),
    "sgrld": NamedSampler("SGRLD", ("step_size", "metric"), "riemannian langevin", THETA, takes_batches=True),
    "sgfs": NamedSampler(
        "SGFS", ("step_size", "metric", "noise_estimate"), "riemannian langevin", takes_batches=True
    ),
    "sghmc": NamedSampler("SGHMC", ("step_size", "friction"), "underdamped", PAIR, takes_batches=True),
    "naive_sghmc": NamedSampler(
        "SGHMC without friction (wrong)", ("step_size",), "hamiltonian", takes_batches=True
    ),
    "sgnht": NamedSampler(
        "SGNHT", ("step_size", "friction", "length"), "thermostat", THERMOSTAT, takes_batches=True
    ),
    "sgrhmc": NamedSampler("SGRHMC", ("step_size", "metric", "root"), "riemann", PAIR, takes_batches=True),
    "gsgrhmc": NamedSampler("gSGRHMC", ("step_size", "metric", "root"), "riemann", PAIR, takes_batches=True),
    "naive_sgrhmc": NamedSampler(
        "SGRHMC without Γ (wrong)", ("step_size", "metric", "root"), "riemann", takes_batches=True
    ),
}
