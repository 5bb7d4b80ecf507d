r"""Clicks, purchases or plays in place of ratings: what was chosen, by weighted least squares over all pairs.

A pair that was seen n times is a 1, and every other pair a 0 (Hu, Koren and Volinsky 2008):

    y_ui ~ N(a_u + b_i + U_uᵀV_i, 1/(τc_ui)),   c_ui = 1 + αn_ui,

with the confidence α. The zeros of all pairs are the same for every row of a table. They belong to its prior,

    P₀ = Λ + τΣφφᵀ,   P₀m₀ = Λμ - τΣφb   over the whole other table,

and what is left of a pair that was seen is a rating of 1 + 1/(αn) with the precision ταn: the conditional of
ratings serves both, and its cost is that of the pairs that were seen.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from fokker.datasets.ratings import Ratings
from fokker.models.factorisation.chain import Draw, FactorChain
from fokker.models.factorisation.hyperparameters import Hyperparameters


def with_zeros(
    prior: Hyperparameters, others: Float[np.ndarray, "columns d"], precision: float
) -> Hyperparameters:
    """The prior of a row, times the likelihood of a 0 with each row of the other table."""
    features = others.astype(float)
    biases = features[:, 0].copy()
    features[:, 0] = 1
    P = prior.precision + precision * features.T @ features
    mean = np.linalg.solve(P, prior.precision @ prior.mean - precision * features.T @ biases)
    return prior._replace(mean=mean, precision=P, link=np.linalg.solve(P, prior.precision @ prior.link.T).T)


def as_rated(counts: ArrayLike, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """The ratings and weights that pairs with these counts have besides the zeros."""
    weights = confidence * np.asarray(counts, np.float64)
    return 1 + 1 / weights, weights


class ImplicitChain(FactorChain):
    """The chain of counts; one precision of the noise for all."""

    def __init__(self, counts: Ratings, factors: int, *, confidence: float, **settings: Any) -> None:
        super().__init__(counts, factors, noise_by_user=False, **settings)
        self.mean, self.scale = 0.0, 1.0
        self.values, self.weights = as_rated(counts.values, confidence)
        self.counts = np.full(counts.num_users, counts.num_items)  # of all pairs

    @property
    def precisions(self) -> Float[np.ndarray, " ratings"]:
        """ταn of the pairs that were seen."""
        return super().precisions * self.weights

    def prior_of(self, name: str, others: Float[np.ndarray, "columns d"]) -> Hyperparameters:
        """That of rows, with the zeros of all pairs."""
        return with_zeros(self.hyperparameters[name], others, float(self.noise.precision[0]))

    def squared_residuals(self) -> Float[np.ndarray, " users"]:
        """Σ_i c_ui(y_ui - s_ui)², over all items for each user."""
        users, items = (self.tables[name] for name in ("users", "items"))
        ones = np.ones((len(users), 1)), np.ones((len(items), 1))
        p = np.concatenate([users[:, :1], ones[0], users[:, 1:]], 1)
        q = np.concatenate([ones[1], items[:, :1], items[:, 1:]], 1)
        s = np.einsum("nk,nk->n", p[self.users], q[self.items])
        seen = (1 + self.weights) * (1 - s) ** 2 - s**2
        return np.einsum("uj,uj->u", p @ (q.T @ q), p) + np.bincount(self.users, seen, len(users))


def as_rated_by_new(
    counts: ArrayLike, known: Int[np.ndarray, " n"], items: int, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """The ratings and weights of someone new with these counts of the items `known`, by their numbers.

    Besides their zeros as in the fit; of items beyond the first `items`, which have no zeros, those of the
    whole pair.
    """
    values, weights = as_rated(counts, confidence)
    is_alone = known >= items
    return np.where(is_alone, 1.0, values), np.where(is_alone, 1 + weights, weights)


def for_new_users(draws: Sequence[Draw], items: int) -> list[Draw]:
    """Draws whose prior of users has the zeros of the first `items`, those that were fitted."""
    return [
        draw._replace(
            hyperparameters={
                **draw.hyperparameters,
                "users": with_zeros(
                    draw.hyperparameters["users"], draw.items[:items], float(draw.noise.precision[0])
                ),
            }
        )
        for draw in draws
    ]


class Ranking(NamedTuple):
    """How well held-out items stand among those recommended: means over users who have some."""

    recall: float
    ndcg: float


def ranking_of(
    scores: Callable[[int], np.ndarray], known: Ratings, test: Sequence[np.ndarray], count: int
) -> Ranking:
    """Recall and NDCG among the first `count` items.

    `scores(user)`: of all items; `known`: pairs that are not recommended, and so count neither as hits nor as
    misses; `test`: numbers of users and items that were held out.
    """
    discount = 1 / np.log2(np.arange(2, count + 2))
    recalls, gains = [], []
    for user in np.unique(test[0]):
        own = known.items[known.users == user]
        wanted = np.setdiff1d(test[1][test[0] == user], own)
        if not len(wanted):
            continue
        row = np.array(scores(user), float)
        row[own] = -np.inf
        best = np.argsort(-row, kind="stable")[:count]
        hits = np.isin(best, wanted)
        most = min(len(wanted), count)
        recalls.append(hits.sum() / most)
        gains.append(hits @ discount[: len(hits)] / discount[:most].sum())
    if not recalls:
        what = "there are none" if not len(test[0]) else "the user has each of them in the fitted data too"
        raise ValueError(
            f"test has no held-out pair to recommend: {what}. Give pairs that are not among those fitted."
        )
    return Ranking(float(np.mean(recalls)), float(np.mean(gains)))
