"""Stories: samplers that went wrong in print or in use, each as designs to run side by side."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Story:
    """A title, what happened, and the designs that show it."""

    title: str
    text: str
    designs: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        return {"title": self.title, "text": self.text, "designs": list(self.designs)}


_Z = "0"
# SGNHT as a drift. Which weight of (ξ - A)² in H it keeps is the story: d/2, and not the printed 1/(2d).
_THERMOSTAT: dict[str, Any] = {
    "kind": "drift",
    "size": 5,
    "drift": ["p", "q", "-Ux - s*p", "-Uy - s*q", "(p^2 + q^2)/2 - 1"],
    "D": [[_Z] * 5, [_Z] * 5, [_Z, _Z, "1", _Z, _Z], [_Z, _Z, _Z, "1", _Z], [_Z] * 5],
}


def _gradient_flow(sign: str) -> dict[str, Any]:
    """Unit speed along ∇U: up the potential, or with a minus down."""
    drift = [f"{sign}{derivative}/sqrt(Ux^2 + Uy^2 + 1e-12)" for derivative in ("Ux", "Uy")]
    return {"kind": "drift", "size": 2, "H": "U", "D": [[_Z, _Z], [_Z, _Z]], "drift": drift}


STORIES = (
    Story(
        "SGHMC without friction",
        "Hamiltonian dynamics with a noisy gradient. Nothing takes away the energy that the noise brings in, "
        "and the cloud grows without end (Chen et al. 2014; Ma et al. 2015, Eq. 11). With friction it stays "
        "in place, up to the noise of the gradient itself at this step size.",
        (
            {
                "title": "without friction",
                "target": {"name": "normal"},
                "sampler": {
                    "kind": "parts",
                    "dynamics": "hamiltonian",
                    "integrator": "SymplecticEuler",
                    "correction": "none",
                },
                "settings": {"step_size": 0.1, "noise": 3},
            },
            {
                "title": "with friction: sghmc",
                "target": {"name": "normal"},
                "sampler": {"kind": "named", "name": "sghmc"},
                "settings": {"step_size": 0.1, "noise": 3, "friction": 2},
            },
        ),
    ),
    Story(
        "Noise without friction",
        "The noise of underdamped dynamics is there, the friction that balances it is forgotten.",
        (
            {"target": {"name": "valley"}, "sampler": {"kind": "named", "name": "sghmc"}, "drag": 0},
            {"target": {"name": "valley"}, "sampler": {"kind": "named", "name": "sghmc"}},
        ),
    ),
    Story(
        "A dropped Γ",
        "Steps that are larger where x is larger, with D = 0.1 + x². Without Γ = ∇·D the chain crowds where "
        "it moves slowly. A Metropolis correction of the same wrong step makes it right again, by rejecting.",
        tuple(
            {
                "target": {"name": "normal"},
                "sampler": {"kind": "named", "name": "sgrld"},
                "metric": "0.1 + x^2",
                "settings": {"step_size": 0.02},
                "gamma": gamma,
                "metropolis": metropolis,
            }
            for gamma, metropolis in ((0, False), (1, False), (0, True))
        ),
    ),
    Story(
        "A sign in print: Ma et al. (2015), Eq. 6, 9 and 14",
        "Their updates subtract Γ where their Theorem 1 adds it. First as printed, then as it must be.",
        tuple(
            {
                "target": {"name": "normal"},
                "sampler": {"kind": "named", "name": "sgrld"},
                "metric": "0.1 + x^2",
                "settings": {"step_size": 0.02},
                "gamma": gamma,
            }
            for gamma in (-1, 1)
        ),
    ),
    Story(
        "Friction printed twice: Ma et al. (2015), below Eq. 11",
        "They call the noise N(0, ε²V) 2εD with D = εV, twice what it is, so that the friction to be added "
        "comes out twice too large. Noise with twice its friction is too cold: the cloud shrinks.",
        (
            {"target": {"name": "normal"}, "sampler": {"kind": "named", "name": "sghmc"}, "drag": 2},
            {"target": {"name": "normal"}, "sampler": {"kind": "named", "name": "sghmc"}},
        ),
    ),
    Story(
        "A weight in print: SGNHT in Ma et al. (2015)",
        "The thermostat keeps exp(-H) for H = U + rᵀr/2 + (d/2)(ξ - A)². The proceedings print 1/(2d) for "
        "d/2, which agree at d = 1 alone. The draws of x and y are right all the same: what is wrong is the "
        "H that is said to be kept, and the verdict says so.",
        (
            {
                "title": "SGNHT, H as printed",
                "target": {"name": "normal"},
                "sampler": {**_THERMOSTAT, "H": "U + (p^2 + q^2)/2 + (s - 1)^2/4"},
            },
            {
                "title": "SGNHT, H that it keeps",
                "target": {"name": "normal"},
                "sampler": {**_THERMOSTAT, "H": "U + (p^2 + q^2)/2 + (s - 1)^2"},
            },
        ),
    ),
    Story(
        "A lost direction: MCHMC in mcmc-demo, as first published (2023)",
        "A microcanonical step turns the direction u a little towards -∇U. The program as first published "
        "left out the term of the old u, so that every new u is ∇U/|∇U|, whatever it was before; and its "
        "sign was wrong, so that chains go up the potential and away at unit speed. (The u at the start of a "
        "trajectory was not normalised either, and the first turn forgets it, but for a sign now and then.) "
        "First as published, by the same steps of size 0.2; then with the sign corrected alone, which falls "
        "into the mode; then MCHMC.",
        tuple(
            {"title": title, "target": {"name": "normal"}, "sampler": sampler, "settings": {"step_size": 0.2}}
            for title, sampler in (
                ("as first published", _gradient_flow("")),
                ("with the sign corrected", _gradient_flow("-")),
                ("mchmc", {"kind": "named", "name": "mchmc"}),
            )
        ),
    ),
)
