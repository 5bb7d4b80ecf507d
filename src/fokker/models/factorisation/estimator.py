"""`fk.models.Factorisation`: ratings of items by users, as biases and factors with a posterior."""

import signal
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fokker.datasets.ratings import Ratings
from fokker.models.checks import PROBABILITY, optional, whole
from fokker.models.estimator import Estimator, RandomState, new_seed
from fokker.models.factorisation.chain import Draw
from fokker.models.factorisation.features import with_features
from fokker.models.factorisation.fitting import new_chain, run_chain
from fokker.models.factorisation.implicit import Ranking, ranking_of
from fokker.models.factorisation.inputs import (
    as_counts,
    as_ratings,
    check_alone,
    checked_test,
    lookups,
    row_numbers,
    warn_if_constant,
)
from fokker.models.factorisation.predict import (
    ErrorCurve,
    Predictions,
    Recommendation,
    expected_of_new,
    recommended,
    rmse,
    summarise,
)
from fokker.models.factorisation.settings import PASSES, check_for_fit, check_settings, refuse_for_scores
from fokker.models.factorisation.stored import (
    draws_state,
    features_state,
    ratings_state,
    restored_draws,
    restored_features,
    restored_ratings,
)
from fokker.models.fits import as_fitted, parameters_now
from fokker.models.named_arrays import with_prefix, without_prefix
from fokker.run.interruption import Interruption
from fokker.run.progress import Progress

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(eq=False, repr=False)
class Factorisation(Estimator):
    r"""Bayesian probabilistic matrix factorisation of ratings of items by users.

        r_ui ~ N(m + a_u + b_i + U_uᵀV_i, 1/τ_u),   (a_u, U_u) ~ N(μ_users, Λ_users⁻¹),   items likewise

    (Salakhutdinov and Mnih 2008, with biases, and a precision of the noise of each user).

    ```python
    train, test = fk.datasets.read_ratings("movielens-latest-small").split(0.2)
    model = fk.models.Factorisation(10).fit(train, test=test)
    model.score(test)                                        # root mean squared error
    model.predict([1, 1], [318, 296], interval=0.9)          # ratings that user 1 would give
    model.recommend(1, count=10)
    model.recommend(rated={318: 5.0, 296: 4.5})              # for someone new
    ```

    With `confidence` it learns from clicks, purchases or plays, and predicts scores that order the items.

    Args:
        factors: the length of U_u and V_i.
        sampler: how the rows (a_u, U_u) and (b_i, V_i) are moved. "gibbs" draws them exactly given all
            else, in turns. "sgnht" (with a thermostat per coordinate), "sghmc" and "sgld" take minibatches of
            ratings through `fk.lazy`, after 20 sweeps of "gibbs". After each pass over the ratings μ, Λ and
            the noise are drawn given the rows.
        prior: of μ and Λ: "normal-wishart", or "normal-gamma" for a diagonal Λ.
        noise_by_user: whether each user has a precision τ_u, Gamma with shape and rate learned, or all
            users have the same; None is True for ratings, and with `confidence` it is one for all.
        confidence: for counts of what was chosen in place of ratings: a pair that was seen n times has the
            weight 1 + confidence·n, and every other pair the weight 1 (Hu et al. 2008); 1 is a good start.
        passes: over the ratings; None is 100 for "gibbs" and 300 for the others.
        burn_in: passes before the first draw; None is a third of them.
        draws: how many are stored, equally spaced: up to twice as many where the passes after `burn_in` are
            no multiple of them, and at most one per pass.
        batch_size: ratings per step; None is an eightieth of all. This and what follows are for minibatches.
        step_size: of all rows, which have a mass each in proportion to the precision of their posterior,
            judged by their number of ratings; None is 0.1.
        friction: A; None is chosen so that minibatches heat rarely rated rows little. This heat is
            h(N/n)/(2A) in units of the temperature, and is what is left of the bias.
        thermostat_mass: of "sgnht"; None is 1.
        random_state: a whole number, a generator of NumPy, or None for another chain each time.
        progress: whether a line in the terminal shows how far the fit is.

    Ctrl-C ends the fit with the draws so far. After fitting: `draws_`, a list of tables with hyperparameters;
    `curve_`, for each pass the test RMSE of that state and of the running posterior mean (with `test`);
    `noise_`, the posterior mean of 1/√τ_u over users.
    """

    _kind = "fitted factorisation"
    _rebuilt = ("ratings_", "draws_", "features_", "_lookups")
    _attributes = ("_num_items",)
    _labels = ("names",)

    _renamed: ClassVar[dict[str, str]] = {"seed": "random_state"}

    factors: int = 10
    _: KW_ONLY
    sampler: str = "gibbs"
    prior: str = "normal-wishart"
    noise_by_user: bool | None = None
    confidence: float | None = None
    passes: int | None = None
    burn_in: int | None = None
    draws: int = 50
    batch_size: int | None = None
    step_size: float | None = None
    friction: float | None = None
    thermostat_mass: float | None = None
    random_state: RandomState = 0
    progress: bool = True

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def num_passes(self) -> int:
        """The passes over the ratings: `passes`, or the default of the sampler."""
        return PASSES[self.sampler] if self.passes is None else self.passes

    @property
    def num_burn_in(self) -> int:
        """The passes before the first draw: `burn_in`, or a third of all."""
        return self.num_passes // 3 if self.burn_in is None else self.burn_in

    def fit(
        self,
        ratings: Ratings | ArrayLike,
        items: ArrayLike | None = None,
        values: ArrayLike | None = None,
        *,
        test: Ratings | None = None,
        user_features: "DataFrame | Mapping[Hashable, Sequence[float]] | None" = None,
        item_features: "DataFrame | Mapping[Hashable, Sequence[float]] | None" = None,
    ) -> Self:
        """Start a new chain on these ratings.

        Args:
            ratings: a `Ratings`; or the users of three sequences of one length.
            items: what they rated, if three sequences are given.
            values: the ratings, if three sequences are given; with `confidence` how often a pair was seen, by
                default once for each time that it is given.
            test: held-out ratings, whose error `curve_` follows.
            user_features: numbers that are known of users, on which the prior mean of their rows depends: a
                data frame whose index has their identifiers, or {identifier: numbers}. It has a row for every
                user in the ratings; others are users without ratings, who are predicted by their features.
            item_features: the same of items.

        Returns:
            The estimator itself.
        """
        check_for_fit(self)
        self._seed, self._fitted_with = new_seed(self.random_state), parameters_now(self)
        self.__dict__.pop("draws_", None)
        if self.confidence is None:
            fitted = as_ratings(ratings, items, values)
            warn_if_constant(fitted)
        else:
            refuse_for_scores(self, test=test)
            fitted = as_counts(ratings, items, values)
        self._num_items = fitted.num_items
        self.ratings_, covariates = with_features(fitted, user_features, item_features)
        self.features_ = {name: x.features for name, x in covariates.items()}
        self._lookups = lookups(self.ratings_)
        chain = new_chain(self, fitted, covariates)
        self.mean_ = chain.mean
        test = checked_test(test)
        curve = None if test is None else ErrorCurve(row_numbers(self._lookups, test), test.values)
        with (
            Progress("starting", self.num_passes, unit="passes", enabled=self.progress) as bar,
            Interruption(signal.SIGINT) as interruption,
        ):
            draws, stopped = run_chain(self, chain, curve, bar, interruption)
        if not draws:
            raise RuntimeError(f"the fit ended before its first draw: {stopped}.")
        self.draws_ = draws
        self.curve_ = [] if curve is None else curve.errors
        self.running_mean_ = None if curve is None or not curve.count else curve.mean
        if stopped is not None:
            warnings.warn(f"{stopped}; {len(self.draws_)} draws are used.", RuntimeWarning, stacklevel=2)
        return self

    def _fitted(self) -> list[Draw]:
        self._check_fitted()
        return self.draws_

    @property
    def _confidence(self) -> float | None:
        return as_fitted(self).confidence

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        objects, arrays = ratings_state(self.ratings_)
        arrays = {
            **with_prefix("ratings", arrays),
            **with_prefix("draws", draws_state(self.draws_)),
            **with_prefix("features", features_state(self.features_)),
            "curve": np.array(self.curve_, float).reshape(-1, 2),
        }
        if self.running_mean_ is not None:
            arrays["running_mean"] = self.running_mean_
        return {"mean": self.mean_, "names": objects}, arrays

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.ratings_ = restored_ratings(header["names"], without_prefix("ratings", arrays))
        self.draws_, self.mean_ = restored_draws(without_prefix("draws", arrays)), header["mean"]
        self.features_ = restored_features(without_prefix("features", arrays))
        self.curve_ = [(float(now), float(mean)) for now, mean in arrays["curve"]]
        self.running_mean_ = arrays.get("running_mean")
        self._lookups = lookups(self.ratings_)

    @property
    def noise_(self) -> float:
        """The posterior mean of 1/√τ_u over users, the standard deviation of the noise."""
        return float(np.mean([draw.deviations for draw in self._fitted()]))

    def predict(
        self,
        users: Ratings | ArrayLike | None,
        items: ArrayLike | None = None,
        *,
        return_std: bool = False,
        interval: float | None = None,
        clip: bool = False,
        rated: Mapping[Hashable, float] | None = None,
        features: Mapping[str, float] | Sequence[float] | None = None,
    ) -> Any:
        """Posterior mean ratings of items by users.

        Args:
            users: their identifiers, one or many; or a `Ratings`, whose pairs are predicted; or None for
                someone new.
            items: their identifiers, one or many.
            return_std: whether to return standard deviations too.
            interval: the probability of an interval to return too, such as 0.9.
            clip: whether means and intervals stay in the range of the ratings.
            rated: what someone new rated, {item: rating}; with `confidence`, {item: how often}: they chose
                nothing else.
            features: of someone new, by the columns of user_features or in their order; None is their mean.

        Returns:
            The means; with `return_std` or `interval` a `Predictions`, whose std and interval are those of a
            rating yet to be given: they include its noise.

        ```python
        model.predict([1, 1], [318, 296], interval=0.9).interval
        ```
        """
        draws = self._fitted()
        refuse_for_scores(self, interval=interval, return_std=return_std or None, clip=clip or None)
        optional(PROBABILITY)("interval", interval)
        predictions = summarise(*self._expected(draws, users, items, rated, features), interval)
        if clip:
            predictions = predictions.clipped(self.ratings_.range)
        if not return_std and interval is None:
            return predictions.mean
        return predictions if return_std else predictions._replace(std=None)

    def _expected(
        self,
        draws: list[Draw],
        users: Ratings | ArrayLike | None,
        items: ArrayLike | None,
        rated: Mapping[Hashable, float] | None,
        features: Mapping[str, float] | Sequence[float] | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected ratings and standard deviations of their noise, for each draw (draws, n)."""
        if rated is not None or features is not None:
            if users is not None:
                raise ValueError(
                    "rated and features are for someone new: give None as the user, or leave them out."
                )
            return expected_of_new(self, rated, features, self._lookups[1].find(items))
        rows = row_numbers(self._lookups, users, items)
        noise = np.stack([draw.deviations[rows[0]] for draw in draws])
        return np.stack([draw.expected(*rows) for draw in draws]), noise

    def score(
        self,
        ratings: Ratings | ArrayLike,
        items: ArrayLike | None = None,
        values: ArrayLike | None = None,
    ) -> float:
        """The root mean squared error of the posterior mean on ratings, given as in `fit`."""
        if self._confidence is not None:
            raise ValueError(
                "with confidence there is no error of ratings: ranking(test) has recall and NDCG."
            )
        if isinstance(ratings, Ratings):
            check_alone(items, values)
            values = ratings.values
        return rmse(self.predict(ratings, items), np.asarray(values, float))

    def ranking(
        self, test: Ratings | ArrayLike, items: ArrayLike | None = None, *, count: int = 20
    ) -> Ranking:
        """How well held-out items stand among those recommended.

        Args:
            test: pairs that were held out, a `Ratings`; or their users.
            items: their items, if users are given.
            count: how many items are recommended to each user.

        Returns:
            Recall, the share of held-out items among those recommended (of at most `count`), and NDCG, which
            weighs them by their places: means over the users of `test`. A pair that was fitted too, as a
            song that is played again, is never recommended: it counts neither as found nor as missed, and
            users without other pairs are left out.
        """
        draws = self._fitted()
        whole(1)("count", count)
        rows, everything = row_numbers(self._lookups, test, items), np.arange(self.ratings_.num_items)

        def scores(user: int) -> np.ndarray:
            numbers = np.full_like(everything, user)
            return np.mean([draw.expected(numbers, everything) for draw in draws], 0)

        return ranking_of(scores, self.ratings_, rows, count)

    def recommend(
        self,
        user: Hashable = None,
        *,
        count: int = 10,
        interval: float = 0.9,
        clip: bool = False,
        rated: Mapping[Hashable, float] | None = None,
        features: Mapping[str, float] | Sequence[float] | None = None,
    ) -> list[Recommendation]:
        """The items with the highest expected ratings, without those rated already.

        Args:
            user: the identifier of someone whose ratings were fitted.
            count: how many items, at most.
            interval: the probability of the interval of each expected rating: how sure the model is about
                the item, without the noise of a single rating.
            clip: whether means and intervals stay in the range of the ratings; the order does not change.
            rated: for someone new, {item: rating} in place of the user.
            features: of someone new, as for `predict`.

        Returns:
            The items, the best first.
        """
        draws = self._fitted()
        refuse_for_scores(self, clip=clip or None)
        whole(1)("count", count)
        PROBABILITY("interval", interval)
        if (user is None) == (rated is None and features is None):
            raise ValueError("give a user, or what someone new has rated as rated={item: rating}.")
        everything = np.arange(self.ratings_.num_items)
        if user is not None:
            number = self._lookups[0].find(user)[0]
            rows = np.full_like(everything, number)
            per_draw = np.stack([draw.expected(rows, everything) for draw in draws])
            known = self.ratings_.items[self.ratings_.users == number]
        else:
            per_draw, _ = expected_of_new(self, rated, features, everything)
            known = self._lookups[1].find(list(rated or {}))
        return recommended(per_draw, known, self.ratings_, count, interval, clip)

    def report(self, path: str | Path, *, test: Ratings | None = None, user: Hashable = None) -> Path:
        """Write a page about the fit.

        Args:
            path: of the page, in HTML.
            test: held-out ratings, for the error and the coverage of intervals.
            user: someone whose recommendations are shown.

        Returns:
            The path.
        """
        from fokker.models.factorisation.report import write_report

        self._check_fitted()
        return write_report(as_fitted(self), Path(path), checked_test(test), user)


__all__ = ["Factorisation", "Predictions", "Recommendation"]
