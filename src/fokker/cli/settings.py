"""Settings of the command line: `--set KEY=VALUE` and `--config FILE.toml`."""

import ast
import datetime
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fokker._core.names import nearest
from fokker.cli.flags import CommandError

# Tables of a file of settings: arguments of the model's functions and of the sampler.
MODEL, SAMPLER = "model", "sampler"

Settings = dict[str, dict[str, Any]]


def parse_value(text: str) -> Any:
    """A number, text, truth value or list, as TOML or Python writes it; other text stands for itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _plain(value: object, where: str) -> Any:
    """A value as JSON gives it back, for a run that goes on: a tuple becomes a list, a date a text."""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(x, where) for x in value]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: _plain(x, where) for name, x in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CommandError(
        f"{where}: a value of type {type(value).__name__} cannot be stored with the run; give a number, a "
        "text, a list, or a table whose keys are texts."
    )


def parse_settings(texts: Iterable[str], before: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """Settings of the model and of the sampler from KEY=VALUE and sampler.KEY=VALUE, over those before."""
    settings: Settings = {name: dict((before or {}).get(name, {})) for name in (MODEL, SAMPLER)}
    for text in texts:
        key, equals, value = text.partition("=")
        table, dot, name = key.strip().partition(".")
        if not dot:
            table, name = MODEL, table
        if not equals or not name or table not in settings:
            raise CommandError(
                f"--set {text}: write KEY=VALUE for an argument of the model, as in prior_scale=2, or "
                "sampler.KEY=VALUE for one of the sampler, as in sampler.friction=0.1."
            )
        settings[table][name] = _plain(parse_value(value.strip()), f"--set {text}")
    return settings


def read_config(path: Path, known: Mapping[str, str]) -> tuple[dict[str, Any], Settings]:
    """The options of a TOML file by their parameters, and its tables `model` and `sampler`.

    `known` has the parameter of each option by the option's name. The sampler is named by `name` in its
    table, or without a table by the option.
    """
    try:
        contents = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandError(f"there is no file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not a TOML file: {error}.") from error
    settings = parse_settings(())
    options: dict[str, Any] = {}
    for key, value in contents.items():
        name = key.replace("_", "-")
        if key in settings and isinstance(value, dict):
            settings[key] = {name: _plain(x, f"{path}: {name} in [{key}]") for name, x in value.items()}
            # `sampler` cannot be a table and the option of that name at once.
            if key == SAMPLER and "name" in value:
                options[SAMPLER] = settings[key].pop("name")
        elif name in known and not isinstance(value, dict):
            options[known[name]] = value
        else:
            names = [*known, f"[{MODEL}]", f"[{SAMPLER}]"]
            table = "table" if isinstance(value, dict) else "option"
            if name == MODEL:
                raise CommandError(f"{path}: [model] is a table of settings; the model's file is `source`.")
            hint = nearest(f"[{key}]" if isinstance(value, dict) else name, names)
            raise CommandError(
                f"{path} has an unknown {table}, {key!r}.{hint} It may have {', '.join(names)}."
            )
    return options, settings


def as_text(value: object) -> str:
    """A list of a TOML file as the command line writes it, with commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def parse_list(text: str | None) -> list[str]:
    """Names with commas between them."""
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]


def parse_quantiles(text: str) -> Sequence[float]:
    """Probabilities with commas between them."""
    try:
        values = [float(part) for part in parse_list(text)]
    except ValueError:
        values = []
    if not values or not all(0 <= value <= 1 for value in values):
        raise CommandError(
            f"--quantiles {text}: write probabilities between 0 and 1 with commas, as in 0.05,0.5,0.95."
        )
    return values
