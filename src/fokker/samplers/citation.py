"""`fk.cite`: what to cite for a sampler. The entries are in references.bib."""

import functools
import inspect
import re
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from fokker import samplers
from fokker._core.names import nearest
from fokker.samplers.contract import Sampler

_KEYWORDS = re.compile(r"^  keywords = \{(.*)\},\n", re.MULTILINE)
_SOFTWARE = """@software{{fokker,
  author = {{{{The Fokker developers}}}},
  title = {{Fokker: Bayesian inference by simulating stochastic dynamics}},
  version = {{{version}}},
  year = {{2026}},
}}"""


@functools.cache
def _references() -> dict[str, tuple[str, ...]]:
    """The entries for each sampler, by its name."""
    text = files(samplers).joinpath("references.bib").read_text(encoding="utf-8")
    entries: dict[str, tuple[str, ...]] = {}
    for entry in re.findall(r"^@.*?^\}$", text, re.DOTALL | re.MULTILINE):
        (names,) = _KEYWORDS.findall(entry)
        for name in names.split(", "):
            entries[name] = (*entries.get(name, ()), _KEYWORDS.sub("", entry))
    return entries


def cite(sampler: Any) -> str:
    """BibTeX of the papers of a sampler, of the recipe behind it, and of Fokker itself.

    ```python
    print(fk.cite("sgnht"))
    ```

    Arguments:

    - `sampler`: its name in `fk.samplers`, such a function, a sampler, or a trace, for the sampler that drew
      it.

    Returns the entries as one text. A sampler that you made by `fk.samplers.recipe` has the paper of the
    recipe.
    """
    name = _name_of(sampler)
    entries = _references()
    if name not in entries:
        raise ValueError(
            f"no papers are known for a sampler {name!r}.{nearest(name, list(entries))} Those of fk.samplers "
            f"are: {', '.join(sorted(entries))}."
        )
    return "\n\n".join([*entries[name], _SOFTWARE.format(version=version("fokker"))])


def _name_of(sampler: Any) -> str:
    """The name of what is to be cited."""
    if isinstance(sampler, str):
        return sampler
    if isinstance(sampler, Sampler):
        return sampler.cited_as
    if inspect.isfunction(sampler):
        return sampler.__name__
    settings = getattr(sampler, "settings", None)  # of a trace, which may be of a folder
    if not isinstance(settings, dict):
        raise TypeError(
            "fk.cite takes a sampler, its name or a trace, as in fk.cite('nuts'), not "
            f"{type(sampler).__name__}."
        )
    if "sampler_name" not in settings:
        raise ValueError(
            "this trace does not say which sampler drew it: give its name, as in fk.cite('nuts')."
        )
    return str(settings["sampler_name"])
