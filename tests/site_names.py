"""The pages that `make docs` generates, by their names, and the modules that do."""

import sys

from documents import ROOT

sys.path.insert(0, str(ROOT / "docs"))

from site_pages import accessible, api, errata, facts, house, introductions, samplers

__all__ = ["GENERATED", "accessible", "api", "errata", "facts", "house", "introductions", "samplers"]

GENERATED = {
    "house.md",
    "api/index.md",
    "api/fokker.md",
    *(f"api/{name}.md" for name in api.modules()),
    "samplers/index.md",
    *(f"samplers/{name}.md" for name in samplers.names()),
}
