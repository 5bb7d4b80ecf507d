"""Names that were meant."""

import difflib
from collections.abc import Sequence


def no_attribute(module: str, name: str, names: Sequence[str]) -> AttributeError:
    """The error of a module without an attribute of that name, with the one that was meant."""
    # Python asks for such as __path__ by itself.
    hint = "" if name.startswith("__") else nearest(name, names)
    message = f"module {module!r} has no attribute {name!r}{hint and '.' + hint}"
    return AttributeError(message, name=None)  # with a name Python would repeat the hint in a traceback


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint such as " Did you mean 'theta'?", or an empty string."""
    by_lower_case = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    return f" Did you mean {by_lower_case[close[0]]!r}?" if close else ""
