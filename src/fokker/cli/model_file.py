"""Model files: Python files that define what `fokker sample` samples, and `fokker predict` predicts."""

import functools
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fokker._core.names import nearest
from fokker.cli.flags import CommandError

if TYPE_CHECKING:
    from fokker.rows.table import Columns
    from fokker.targets import Target

# The name under which a file may have its target, its start and its predictions.
TARGET, INIT, PREDICT = "target", "init", "predict"
# Functions that together are a posterior over the rows of --data.
LOG_PRIOR, LOG_LIKELIHOOD, CONSTRAINTS = "log_prior", "log_likelihood", "constraints"
# The argument of a function that takes the columns of --data.
DATA = "data"


def split_source(source: str) -> tuple[Path, str | None]:
    """The file and the name of FILE.py:NAME; None without a name."""
    file, separator, name = source.rpartition(":")
    if not separator or name.endswith(".py") or "/" in name:
        return Path(source), None
    return Path(file), name


def import_file(path: Path) -> ModuleType:
    """The module of a Python file."""
    if not path.is_file():
        raise CommandError(f"there is no file {path}: give a Python file; --help says what is to be in it.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CommandError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def named_in(module: ModuleType, file: Path, name: str) -> Any:
    """What a module has under a name; an error lists its objects."""
    from fokker._core.module import Module

    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        objects = [key for key in public if isinstance(vars(module)[key], Module)]
        contents = (
            f"It has: {', '.join(objects)}." if objects else "It has no Fokker object at its top level."
        )
        raise CommandError(f"{file} has no name {name!r}.{nearest(name, public)} {contents}")
    return getattr(module, name)


def load_object(source: str) -> Any:
    """The object of FILE.py:NAME; a function is called to create it."""
    from fokker._core.module import Module

    file, name = split_source(source)
    if name is None or not name or not str(file):
        raise CommandError(f"give a file and a name in it, as in sampler.py:dynamics, not {source!r}.")
    loaded = named_in(import_file(file), file, name)
    if callable(loaded) and not isinstance(loaded, Module):
        try:
            loaded = loaded()
        except TypeError as error:
            raise CommandError(
                f"{name} in {file} is a function that could not be called without arguments: {error}. For a "
                "drift, use fk.SDE(drift, diffusion, hamiltonian)."
            ) from error
    return loaded


@dataclass(frozen=True)
class ModelFile:
    """A model file with settings for the arguments of its functions.

    `name`: that of the target, or of a function that makes it, in the file; None where the file has
    `log_prior` and `log_likelihood` and nothing else is named.
    """

    file: Path
    name: str | None
    module: ModuleType
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, source: str, settings: Mapping[str, Any] | None = None, init: str = INIT) -> "ModelFile":
        """The model of FILE.py:NAME, or of FILE.py where only one thing in it can be meant."""
        file, name = split_source(source)
        module = import_file(file)
        if name is None:
            name = _only_candidate(module, file, init)
        elif name == LOG_LIKELIHOOD and hasattr(module, LOG_PRIOR):
            name = None
        else:
            named_in(module, file, name)
        model = cls(file, name, module, dict(settings or {}))
        model._check_settings()
        return model

    @property
    def source(self) -> str:
        """FILE.py:NAME."""
        return f"{self.file}:{LOG_LIKELIHOOD if self.name is None else self.name}"

    def _functions(self) -> dict[str, Any]:
        """The functions that settings are for."""
        names = (LOG_PRIOR, LOG_LIKELIHOOD) if self.name is None else (self.name,)
        values = {name: getattr(self.module, name) for name in names}
        return {n: v for n, v in values.items() if callable(v) and not hasattr(v, "potential")}

    def _check_settings(self) -> None:
        functions = self._functions()
        known: list[str] = []
        for name, function in functions.items():
            num_positional = 1 if self.name is not None else 2 if name == LOG_LIKELIHOOD else 1
            known += _settable(function, num_positional)
            if _takes_any(function):
                return
        for name, value in self.settings.items():
            for function in functions.values():
                _check_kind(name, value, function, self.file)
            if name not in known:
                what = f"{' and '.join(functions) or self.name} in {self.file}"
                it, has = ("They", "have") if len(functions) > 1 else ("It", "has")
                have = f"{it} {has} {', '.join(dict.fromkeys(known)) or 'none'}."
                raise CommandError(
                    f"--set {name}=…: {what} {has} no argument {name!r} with a default value."
                    f"{nearest(name, known)} {have} Arguments of the sampler are set by sampler.NAME=VALUE."
                )

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function with those settings that it takes."""
        own = {name: value for name, value in self.settings.items() if name in _parameters(function)}
        return functools.partial(function, **own) if own else function

    def target(self, data: "Columns | None" = None) -> Any:
        """The target; `data` are the columns of --data, where given."""
        if self.name is None:
            return self._posterior(data)
        target = named = getattr(self.module, self.name)
        if not hasattr(named, "potential") and callable(named):
            target = self._called(named, data)
        elif data is not None and hasattr(named, "potential"):
            raise CommandError(
                f"{self.source} takes no data: for --data make it a function of them, as in "
                f"`def {self.name}(data): return fk.Posterior(log_prior, log_likelihood, data)`."
            )
        if not hasattr(target, "potential"):
            raise CommandError(
                f"{self.source} is of type {type(target).__name__}; a fk.Density or fk.Posterior is needed."
            )
        return target

    def _called(self, function: Callable[..., Any], data: "Columns | None") -> Any:
        takes_data = bool(_positional(function))
        if data is not None and not takes_data:
            raise CommandError(f"--data was given, and {self.name} in {self.file} takes no argument for it.")
        required = [p for p in _positional(function) if p.default is p.empty]
        if data is None and required:
            hint = "give --data FILE" if len(required) == 1 else "it may have one argument, for the data"
            raise CommandError(f"{self.name} in {self.file} needs the argument {required[0].name!r}: {hint}.")
        return function(*(() if data is None else (data,)), **self.settings)

    def _posterior(self, data: "Columns | None") -> Any:
        from fokker.targets import Posterior, constrain

        if data is None:
            raise CommandError(f"{self.file} has {LOG_PRIOR} and {LOG_LIKELIHOOD}: give --data FILE.")
        prior, likelihood = (self.bound(getattr(self.module, name)) for name in (LOG_PRIOR, LOG_LIKELIHOOD))
        try:
            target = Posterior(prior, likelihood, data)
        except ValueError as error:
            if not str(error).startswith("data["):
                raise
            raise type(error)(
                f"{error} Columns that the model does not use are left out by --columns."
            ) from None
        constraints = getattr(self.module, CONSTRAINTS, None)
        return target if constraints is None else constrain(target, constraints)

    def init(self, name: str, target: "Target | None", data: "Columns | None" = None) -> Any:
        """Where chains start: by its name in the file, or else as the target says."""
        if not hasattr(self.module, name):
            start = getattr(target, INIT, None)
            if name == INIT and start is not None:
                return start
            raise CommandError(
                f"{self.file} has no name {name!r} to start from: define init there, a theta or a function "
                "of a key that draws one, or give --init NAME."
            )
        init = getattr(self.module, name)
        if not inspect.isfunction(init) or DATA not in _parameters(init):
            return init
        if data is None:
            raise CommandError(f"{name} in {self.file} takes the data: give --data FILE.")
        rest = [p for p in _positional(init) if p.name != DATA]
        return functools.partial(init, **{DATA: data}) if rest else init(**{DATA: data})

    def sampler(self, name: str, step_size: float | None, settings: Mapping[str, Any]) -> Any:
        """The sampler of that name, in the file or in fk.samplers; a name where all of it is to be found."""
        from fokker.run.choice import AUTO
        from fokker.samplers import Sampler
        from fokker.samplers.by_name import by_name, needed_call
        from fokker.samplers.schedules import AUTOMATIC

        own = getattr(self.module, name, None)
        if isinstance(own, Sampler):
            if settings:
                raise CommandError(
                    f"--set sampler.{next(iter(settings))}=…: the sampler {name!r} is made in {self.file}; "
                    "set it there, or make it a function with this argument."
                )
            return own if step_size is None else own.with_step_size(step_size)
        if inspect.isfunction(own) and own.__module__ == self.module.__name__:
            return self._own_sampler(name, own, step_size, settings)
        if name == AUTO:
            if settings or step_size is not None:
                raise CommandError(
                    "--step-size and --set sampler.… are for one sampler: name it, as in --sampler nuts or "
                    "--sampler sgld; with --sampler auto its settings are found."
                )
            return name
        if call := needed_call(name):
            raise CommandError(
                f"--sampler {name}: it cannot be given by its name alone. Put s = {call} into {self.file}, "
                "with your settings, and give --sampler s."
            )
        make = by_name(name)
        known = [parameter for parameter in inspect.signature(make).parameters if parameter != "step_size"]
        _check_known(settings, known, f"the sampler {name!r}")
        if not settings and step_size is None:
            return name
        return make(step_size=AUTOMATIC if step_size is None else step_size, **_objects(settings))

    def _own_sampler(
        self, name: str, make: Callable[..., Any], step_size: float | None, settings: Mapping[str, Any]
    ) -> Any:
        _check_known(settings, list(_parameters(make)), f"{name} in {self.file}")
        sampler = make(**_objects(settings))
        return sampler if step_size is None else sampler.with_step_size(step_size)


def _objects(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a sampler, with an integrator by its name."""
    from fokker import integrators

    objects = dict(settings)
    name = objects.get("integrator")
    if isinstance(name, str):
        kinds = {known: getattr(integrators, known) for known in integrators.__all__}
        # Records and interfaces, which `fk.integrators` has too, are no choices.
        known = [n for n, k in kinds.items() if issubclass(k, integrators.Integrator) and not isabstract(k)]
        if name not in known:
            raise CommandError(
                f"--set sampler.integrator={name}: there is no such integrator.{nearest(name, known)} There "
                f"are: {', '.join(known)}."
            )
        objects["integrator"] = kinds[name]()
    return objects


def _check_known(settings: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for name in settings:
        if name not in known:
            instead = " Give it as --step-size." if name == "step_size" else nearest(name, known)
            raise CommandError(
                f"--set sampler.{name}=…: {what} has no argument {name!r}.{instead} It has: "
                f"{', '.join(known) or 'none'}."
            )


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in _parameters(function).values() if p.kind in kinds]


def _settable(function: Callable[..., Any], num_positional: int) -> list[str]:
    """The arguments after the first `given`, which are not for settings."""
    first = [p.name for p in _positional(function)[:num_positional] if p.default is p.empty or p.name == DATA]
    return [
        name for name, p in _parameters(function).items() if name not in first and p.kind is not p.VAR_KEYWORD
    ]


def _takes_any(function: Callable[..., Any]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in _parameters(function).values())


def _only_candidate(module: ModuleType, file: Path, init: str) -> str | None:
    """The name of what is to be sampled, where there is only one; None for the two functions."""
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    own = {
        name: value
        for name, value in public.items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name not in (init, PREDICT)
    }
    candidates = [
        name
        for name, value in public.items()
        if (hasattr(value, "potential") and not inspect.isclass(value))
        or (name in own and (name == TARGET or [p.name for p in _positional(value)][:1] == [DATA]))
    ]
    if TARGET in candidates:
        return TARGET
    if len(candidates) == 1:
        return candidates[0]
    if not candidates and LOG_PRIOR in public and LOG_LIKELIHOOD in public:
        return None
    if candidates:
        raise CommandError(
            f"{file} has several targets, {', '.join(candidates)}: name one, as in {file}:{candidates[0]}."
        )
    raise CommandError(
        f"{file} has no target. Define {LOG_PRIOR}(theta) and {LOG_LIKELIHOOD}(theta, datum), or a function "
        f"target(data) that returns a fk.Posterior, or name a fk.Density or fk.Posterior as {file}:NAME."
    )


def _check_kind(name: str, value: object, function: Callable[..., Any], file: Path) -> None:
    """Raise where an argument has a number, or True or False, by default and was given something else."""
    parameter = _parameters(function).get(name)
    default = None if parameter is None else parameter.default
    for kind, wanted in ((bool, "true or false"), (int | float, "a number")):
        if isinstance(default, kind):
            is_right = isinstance(value, kind) and isinstance(value, bool) == isinstance(default, bool)
            if not is_right:
                raise CommandError(
                    f"--set {name}={value}: {name} in {file} is {wanted} (its default is {default!r}), and "
                    f"{value!r} is not."
                )
            return
