"""`fk.models.Factorisation`: ratings of items by users, as biases and factors with a posterior."""

import functools
import math
import signal
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from fokker._core.state import nearest
from fokker.datasets.ratings import Ratings
from fokker.integrators import Splitting
from fokker.models.checks import one_of, optional, positive, whole
from fokker.models.estimator import Estimator, new_seed
from fokker.models.factorisation.chain import Draw, FactorChain, is_varied
from fokker.models.factorisation.hyperparameters import PRIORS
from fokker.models.factorisation.predict import (
    Predictions,
    draw_new_users,
    expected,
    expected_of_row,
    summarise,
)
from fokker.models.factorisation.stored import (
    draws_state,
    ratings_state,
    restored_draws,
    restored_ratings,
)
from fokker.rows.precision import check_rounding
from fokker.run.interruption import Interruption
from fokker.run.progress import Progress
from fokker.samplers import sghmc, sgld, sgnht
from fokker.samplers.lazy import Lazy, lazy
from fokker.samplers.plain import Plain

SAMPLERS = ("sgnht", "sghmc", "sgld")
# Steps of a pass where no batch size is given, and how many times longer the steps of burn-in are.
_STEPS, _FASTER = 80, 2.0
# h(N/n)/(2A): the heat of minibatches in rarely rated rows, by which the friction A is chosen.
_HEAT = 0.65
# The precision of a row's posterior, for its mass: of a typical prior, and of each rating.
_PRIOR_PRECISION, _PER_RATING = 15.0, 1.5


class Recommendation(NamedTuple):
    """An item, its title where there is one, its expected rating, and an interval for that expectation."""

    item: Any
    title: str
    mean: float
    interval: tuple[float, float]


@dataclass(eq=False, repr=False)
class Factorisation(Estimator):
    r"""Bayesian probabilistic matrix factorisation by stochastic-gradient MCMC with a sparse state.

        r_ui ~ N(m + a_u + b_i + U_uᵀV_i, 1/τ),   (a_u, U_u) ~ N(μ_users, Λ_users⁻¹),   items likewise

    (Salakhutdinov and Mnih 2008, with biases). The rows (a_u, U_u) and (b_i, V_i) are moved by `sampler`
    ("sgnht" with a thermostat per coordinate, "sghmc" or "sgld") through `fk.lazy`: a step costs as much as
    its minibatch, whatever the number of users. After each pass over the ratings μ, Λ (`prior`:
    "normal-wishart", or "normal-gamma" for a diagonal Λ) and τ are drawn from their exact conditionals.

    ```python
    train, test = fk.datasets.read_ratings("movielens-latest-small").split(0.2)
    model = fk.models.Factorisation(10).fit(train, test=test)
    model.score(test)                                        # root mean squared error
    model.predict([1, 1], [318, 296], interval=0.9)          # ratings that user 1 would give
    model.recommend(1, count=10)
    model.recommend(rated={318: 5.0, 296: 4.5})              # for someone new
    ```

    `passes` over the ratings are taken; of those after `burn_in` (a third of them) `draws` are stored,
    equally spaced. A pass has 80 steps unless `batch_size` is given. Each row has a mass in proportion to
    the precision of its posterior, judged by its number of ratings, so that one `step_size` suits all; it is
    twice as large in burn-in. `friction` is chosen unless given, so that minibatches heat rarely
    rated rows little: this heat is h(N/n)/(2A) in units of the temperature, and is what is left of the bias.
    Ctrl-C ends the fit with the draws so far.

    After fitting: `draws_`, a list of tables with hyperparameters; `curve_`, for each pass the test RMSE of
    that state and of the running posterior mean (with `test`); `noise_`, the posterior mean of 1/√τ.
    """

    _kind = "fitted factorisation"
    _rebuilt = ("ratings_", "draws_", "_lookups")
    _labels = ("names",)

    _renamed: ClassVar[dict[str, str]] = {"seed": "random_state"}

    factors: int = 10
    _: KW_ONLY
    sampler: str = "sgnht"
    prior: str = "normal-wishart"
    passes: int = 300
    burn_in: int | None = None
    draws: int = 50
    batch_size: int | None = None
    step_size: float = 0.1
    friction: float | None = None
    thermostat_mass: float = 1.0
    random_state: Any = 0
    progress: bool = True

    def __post_init__(self) -> None:
        self._check_settings()

    def _check_settings(self) -> None:
        """Raise where a parameter makes no sense: also in `fit`, because `set_params` changes them."""
        for name in ("factors", "passes", "draws"):
            whole(1)(name, getattr(self, name))
        optional(whole(1))("batch_size", self.batch_size)
        for name in ("step_size", "thermostat_mass"):
            positive(name, getattr(self, name))
        optional(positive)("friction", self.friction)
        one_of(SAMPLERS)("sampler", self.sampler)
        one_of(PRIORS)("prior", self.prior)
        if not 0 <= self.num_burn_in < self.passes:
            raise ValueError(
                f"burn_in={self.burn_in} of passes={self.passes} leaves no pass for draws: give fewer than "
                f"{self.passes}."
            )

    @property
    def num_burn_in(self) -> int:
        """The passes before the first draw: `burn_in`, or a third of all."""
        return self.passes // 3 if self.burn_in is None else self.burn_in

    def fit(
        self, ratings: Ratings | Any, items: Any = None, values: Any = None, *, test: Ratings | None = None
    ) -> Self:
        """Start a new chain on these ratings: a `Ratings`, or users, items and values as three sequences."""
        self._check_settings()
        self._seed = new_seed(self.random_state)
        self.__dict__.pop("draws_", None)
        self.ratings_ = as_ratings(ratings, items, values)
        _check_ratings(self.ratings_)
        _warn_if_constant(self.ratings_)
        data = {"users": self.ratings_.users, "items": self.ratings_.items, "rating": self.ratings_.values}
        shape = (self.ratings_.num_users, self.ratings_.num_items)
        self._lookups = [_lookup(names) for names in (self.ratings_.user_names, self.ratings_.item_names)]
        held_out = None if test is None else (*self._numbers(test.users, test.items, test), test.values)
        batch_size = self.batch_size or math.ceil(len(self.ratings_) / _STEPS)
        chain = FactorChain(
            data,
            shape,
            self.factors,
            self._inner(len(self.ratings_) / batch_size),
            prior=self.prior,
            batch_size=batch_size,
            seed=self._seed,
        )
        self.mean_ = chain.mean
        draws: list[Draw] = []
        self.curve_: list[tuple[float, float]] = []
        spacing = max(1, (self.passes - self.num_burn_in) // self.draws)
        running, stopped = _RunningMean(), None
        with (
            Progress("compiling", self.passes, unit="passes", enabled=self.progress) as bar,
            Interruption(signal.SIGINT) as interruption,
        ):
            for number in range(1, self.passes + 1):
                if not chain.advance(self.step_size * (_FASTER if number <= self.num_burn_in else 1.0)):
                    stopped = f"the chain left the finite numbers in pass {number}: take smaller steps"
                    break
                if number > self.num_burn_in and (self.passes - number) % spacing == 0:
                    draws.append(chain.draw())
                note = ""
                if held_out is not None:
                    users, item_numbers, wanted = held_out
                    now = chain.predict(users, item_numbers)
                    if number > self.num_burn_in:
                        running.add(now)
                    mean = running.mean if running.count else now
                    self.curve_.append((_rmse(now, wanted), _rmse(mean, wanted)))
                    note = f"test RMSE {self.curve_[-1][1]:.4f}"
                bar.update(number, description="sampling", note=note)
                if interruption.asked:
                    stopped = f"interrupted after {number} of {self.passes} passes"
                    if not draws:
                        draws.append(chain.draw())
                    break
        self.running_mean_ = running.mean if running.count else None
        if not draws:
            raise RuntimeError(f"the fit ended before its first draw: {stopped}.")
        self.draws_ = draws
        if stopped is not None:
            warnings.warn(f"{stopped}; {len(self.draws_)} draws are kept.", RuntimeWarning, stacklevel=2)
        return self

    def _inner(self, data_weight: float) -> Lazy:
        """The sampler of the rows, each with its mass; `data_weight` is N/n."""
        h, A = self.step_size, self.friction
        if A is None:
            A = max(1.0, h * data_weight / (2 * _HEAT))
        inner = _recipe(self.sampler, h, A, self.thermostat_mass)
        counts = {
            name: np.bincount(numbers, minlength=rows)
            for name, numbers, rows in (
                ("users", self.ratings_.users, self.ratings_.num_users),
                ("items", self.ratings_.items, self.ratings_.num_items),
            )
        }
        return lazy(inner, {name: _PRIOR_PRECISION + _PER_RATING * x for name, x in counts.items()})

    # Identifiers ----------------------------------------------------------------------------------------

    def _numbers(
        self, users: Any, items: Any, ratings: Ratings | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers of users and items: of identifiers, or of the numbers in another `Ratings`."""
        if ratings is not None:
            same = all(
                len(a) == len(b) and np.array_equal(a, b)
                for a, b in (
                    (ratings.user_names, self.ratings_.user_names),
                    (ratings.item_names, self.ratings_.item_names),
                )
            )
            if same:
                return np.asarray(users), np.asarray(items)
            users, items = ratings.user_names[users], ratings.item_names[items]
        found = [
            np.array(
                [_find(name, lookup, what) for name in np.atleast_1d(np.asarray(names, dtype=object))], int
            )
            for what, names, lookup in zip(("user", "item"), (users, items), self._lookups, strict=True)
        ]
        users_found, items_found = np.broadcast_arrays(*found)
        return users_found, items_found

    def _fitted(self) -> list[Draw]:
        self._check_fitted()
        return self.draws_

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        objects, arrays = ratings_state(self.ratings_)
        arrays = {
            **{f"ratings.{name}": x for name, x in arrays.items()},
            **{f"draws.{name}": x for name, x in draws_state(self.draws_).items()},
            "curve": np.array(self.curve_, float).reshape(-1, 2),
        }
        if self.running_mean_ is not None:
            arrays["running_mean"] = self.running_mean_
        return {"mean": self.mean_, "names": objects}, arrays

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        def part(prefix: str) -> dict[str, np.ndarray]:
            return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}

        self.ratings_ = restored_ratings(header["names"], part("ratings."))
        self.draws_, self.mean_ = restored_draws(part("draws.")), header["mean"]
        self.curve_ = [(float(now), float(mean)) for now, mean in arrays["curve"]]
        self.running_mean_ = arrays.get("running_mean")
        self._lookups = [_lookup(names) for names in (self.ratings_.user_names, self.ratings_.item_names)]

    @property
    def noise_(self) -> float:
        """The posterior mean of 1/√τ, the standard deviation of the noise."""
        return float(np.mean([draw.scale * draw.noise_precision**-0.5 for draw in self._fitted()]))

    # Predictions ----------------------------------------------------------------------------------------

    def predict(
        self,
        users: Any,
        items: Any = None,
        *,
        return_std: bool = False,
        interval: float | None = None,
        clip: bool = False,
        rated: Mapping[Any, float] | None = None,
    ) -> Any:
        """Posterior mean ratings of items by users, given by their identifiers; or of a `Ratings`.

        With `return_std` or `interval=0.9` a `Predictions`, whose std and interval are those of a rating
        yet to be given: they include its noise. `clip` keeps means and intervals in the range of the
        ratings. For someone new, give None as users and what they rated as `rated={item: rating}`.
        """
        draws = self._fitted()
        if interval is not None and not 0 < interval < 1:
            raise ValueError(f"interval is a probability between 0 and 1; {interval!r} was given.")
        per_draw = self._expected(draws, users, items, rated)
        noise = np.array([draw.scale * draw.noise_precision**-0.5 for draw in draws])
        predictions = summarise(per_draw, noise, interval)
        if clip:
            low, high = self.ratings_.range
            bounds = predictions.interval
            predictions = predictions._replace(
                mean=np.clip(predictions.mean, low, high),
                interval=None if bounds is None else np.clip(bounds, low, high),
            )
        if not return_std and interval is None:
            return predictions.mean
        return predictions if return_std else predictions._replace(std=None)

    def _expected(
        self, draws: list[Draw], users: Any, items: Any, rated: Mapping[Any, float] | None
    ) -> np.ndarray:
        """Expected ratings for each draw (draws, n)."""
        if rated is not None:
            if users is not None:
                raise ValueError("rated is for someone new: give None as the user, or leave rated out.")
            items = np.atleast_1d(np.asarray(items, dtype=object))
            numbers = np.array([_find(name, self._lookups[1], "item") for name in items], int)
            return self._expected_of_new(draws, rated, numbers)
        if isinstance(users, Ratings):
            rows = self._numbers(users.users, users.items, users)
        else:
            rows = self._numbers(users, items)
        return np.stack([expected(draw, *rows) for draw in draws])

    def _expected_of_new(
        self, draws: list[Draw], rated: Mapping[Any, float], items: np.ndarray
    ) -> np.ndarray:
        rated_numbers = np.array([_find(name, self._lookups[1], "item") for name in rated], int)
        values = _finite_numbers(list(rated.values()), "the ratings of rated")
        least, greatest = self.ratings_.range
        if len(values) and not (values.min() >= least and values.max() <= greatest):
            raise ValueError(
                f"the ratings of rated must be from {least:g} to {greatest:g}, as those fitted; they are "
                f"{list(rated.values())}."
            )
        generator = np.random.Generator(np.random.Philox(self._seed))
        rows = draw_new_users(draws, rated_numbers, values, generator)
        return np.stack([expected_of_row(draw, row, items) for draw, row in zip(draws, rows, strict=True)])

    def score(self, ratings: Ratings | Any, items: Any = None, values: Any = None) -> float:
        """The root mean squared error of the posterior mean on these ratings."""
        if isinstance(ratings, Ratings):
            return _rmse(self.predict(ratings), ratings.values)
        return _rmse(self.predict(ratings, items), np.asarray(values, float))

    def recommend(
        self,
        user: Any = None,
        *,
        count: int = 10,
        interval: float = 0.9,
        clip: bool = False,
        rated: Mapping[Any, float] | None = None,
    ) -> list[Recommendation]:
        """The items with the highest expected ratings, without those rated already.

        The interval is that of the expected rating: how sure the model is about the item, without the noise
        of a single rating. `clip` keeps means and intervals in the range of the ratings, in the same order.
        For someone new, give `rated={item: rating}` in place of the user.
        """
        draws = self._fitted()
        if (user is None) == (rated is None):
            raise ValueError("give a user, or what someone new has rated as rated={item: rating}.")
        everything = np.arange(self.ratings_.num_items)
        if rated is None:
            number = _find(user, self._lookups[0], "user")
            rows = np.full_like(everything, number)
            per_draw = np.stack([expected(draw, rows, everything) for draw in draws])
            known = self.ratings_.items[self.ratings_.users == number]
        else:
            per_draw = self._expected_of_new(draws, rated, everything)
            known = np.array([_find(name, self._lookups[1], "item") for name in rated], int)
        mean = per_draw.mean(0)
        mean[known] = -np.inf
        best = np.argsort(-mean, kind="stable")[: min(count, len(mean) - len(np.unique(known)))]
        bounds = np.quantile(per_draw[:, best], [(1 - interval) / 2, (1 + interval) / 2], axis=0)
        if clip:
            mean, bounds = (np.clip(x, *self.ratings_.range) for x in (mean, bounds))
        titles = self.ratings_.titles
        return [
            Recommendation(
                self.ratings_.item_names[i],
                "" if titles is None else str(titles[i]),
                float(mean[i]),
                (float(low), float(high)),
            )
            for i, low, high in zip(best, *bounds, strict=True)
        ]

    def report(self, path: str | Path, *, test: Ratings | None = None, user: Any = None) -> Path:
        """Write a page about the fit: the curve, the calibration on `test`, a user's recommendations."""
        from fokker.models.factorisation.report import write_report

        return write_report(self, Path(path), test, user)


@functools.cache  # the same object for the same settings, so that a second fit finds the compiled steps
def _recipe(kind: str, step_size: float, friction: float, thermostat_mass: float) -> Plain:
    # Noise of three matching moments is enough for the order of these steps, and much cheaper.
    noise: Any = {"noise": "binomial"}
    if kind == "sgnht":
        return sgnht(step_size, friction, thermostat_mass, kind="diagonal", integrator=Splitting(), **noise)
    if kind == "sghmc":
        return sghmc(step_size, friction, integrator=Splitting(), **noise)
    return sgld(step_size, 1 / friction, **noise)


class _RunningMean:
    """The mean of arrays that are added one by one."""

    def __init__(self) -> None:
        self.count, self.mean = 0, np.zeros(())

    def add(self, values: np.ndarray) -> None:
        self.count += 1
        self.mean = self.mean + (values - self.mean) / self.count


def as_ratings(ratings: Ratings | Any, items: Any, values: Any) -> Ratings:
    """A `Ratings`, made of three sequences where it is not one."""
    if isinstance(ratings, Ratings):
        if items is not None or values is not None:
            raise ValueError("give a Ratings alone, or users, items and values.")
        return ratings
    if items is None or values is None:
        raise TypeError(
            "fit takes a Ratings, as from fk.datasets.read_ratings(path), or three sequences: users, items "
            "and values."
        )
    users, items = np.asarray(ratings), np.asarray(items)
    numbers = _finite_numbers(values, "values")
    if not users.shape == items.shape == numbers.shape or users.ndim != 1:
        raise ValueError(
            f"users, items and values have the shapes {users.shape}, {items.shape} and {numbers.shape}: give "
            "three vectors of one length."
        )
    if not len(numbers):
        raise ValueError("there are no ratings: give at least one.")
    return Ratings.from_identifiers(users, items, numbers)


def _warn_if_constant(ratings: Ratings) -> None:
    if not is_varied(ratings.values):
        warnings.warn(
            f"all {len(ratings):,} ratings are {ratings.values[0]:g}: they do not say which items a user "
            "prefers, and the order of recommendations is arbitrary. For clicks or purchases, add pairs that "
            "were not chosen, with the rating 0.",
            stacklevel=3,
        )


def _check_ratings(ratings: Ratings) -> None:
    if not len(ratings):
        raise ValueError("there are no ratings: give at least one.")
    if not np.all(np.isfinite(ratings.values)):
        place = int(np.argmin(np.isfinite(ratings.values)))
        raise ValueError(f"the rating in place {place} is not finite: remove or replace it.")
    pairs = ratings.users.astype(np.int64) * ratings.num_items + ratings.items
    order = np.argsort(pairs, kind="stable")
    repeated = np.flatnonzero(np.diff(pairs[order]) == 0)
    if len(repeated):
        first = order[repeated[0]]
        user, item = ratings.user_names[ratings.users[first]], ratings.item_names[ratings.items[first]]
        raise ValueError(
            f"user {user} rated item {item} more than once: keep one rating per pair, as by "
            'read_ratings(path, repeated="last").'
        )


def _finite_numbers(values: Any, what: str) -> np.ndarray:
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must be numbers: {error}.") from error
    if not np.all(np.isfinite(numbers)):
        place = int(np.argmin(np.isfinite(numbers)))
        raise ValueError(f"{what} must be finite; entry {place} is {numbers[place]}: remove or replace it.")
    check_rounding(what, numbers, len(numbers), np.dtype(np.float32), double=None)
    return numbers.astype(np.float32)


def _lookup(names: np.ndarray) -> dict[Any, int]:
    return {name: number for number, name in enumerate(names.tolist())}


def _find(name: Any, lookup: dict[Any, int], what: str) -> int:
    """The row of an identifier."""
    key = name.item() if isinstance(name, np.generic) else name
    if key in lookup:
        return lookup[key]
    known = list(lookup)
    hint = nearest(str(name), [str(other) for other in known])
    if isinstance(key, int | float) and known and isinstance(known[0], int | float) and math.isfinite(key):
        hint = f" The nearest is {min(known, key=lambda other: abs(other - key))}."
    elif known and type(key) is not type(known[0]):
        hint = f" Identifiers of {what}s are of type {type(known[0]).__name__}, as {known[0]!r}."
    extra = " For someone new give rated={item: rating}." if what == "user" else ""
    raise KeyError(f"there is no {what} {name!r} in the ratings.{hint}{extra}")


def _rmse(predicted: np.ndarray, values: np.ndarray) -> float:
    return float(np.sqrt(np.mean((np.asarray(predicted, float) - np.asarray(values, float)) ** 2)))


__all__ = ["Factorisation", "Predictions", "Recommendation"]
