"""What the menus of the page have: targets, samplers, parts, stories, limits."""

from typing import Any, get_args

from fokker.studio.design import MAX_CHAINS, MAX_STEPS_PER_FRAME, Correction, Integrator
from fokker.studio.formulas.tree import FUNCTIONS
from fokker.studio.named import SAMPLERS, Dynamics
from fokker.studio.session import MAX_RUNS
from fokker.studio.stories import STORIES
from fokker.studio.targets import TARGETS


def catalogue() -> dict[str, Any]:
    """As JSON."""
    return {
        "targets": {key: {"title": t.title, "formula": t.formula} for key, t in TARGETS.items()},
        "samplers": {
            key: {
                "title": row.title,
                "uses": row.uses,
                "alterable": bool(row.variables),
                "batches": row.takes_batches,
                "exact": row.exact,
            }
            for key, row in SAMPLERS.items()
        },
        "dynamics": get_args(Dynamics),
        "integrators": get_args(Integrator),
        "corrections": get_args(Correction),
        "functions": list(FUNCTIONS),
        "stories": [story.to_json() for story in STORIES],
        "limits": {"runs": MAX_RUNS, "chains": MAX_CHAINS, "steps": MAX_STEPS_PER_FRAME},
    }
