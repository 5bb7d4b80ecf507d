"""Targets from Bambi models."""

from typing import TYPE_CHECKING

from fokker.targets.pymc_model import PyMCTarget, from_pymc

if TYPE_CHECKING:
    from bambi import Model


def from_bambi(model: "Model") -> PyMCTarget:
    r"""A Bambi model as a target over a dictionary of its parameters.

    ```python
    model = bmb.Model("y ~ x + (1 | city)", data)
    target = fk.from_bambi(model)
    trace = fk.sample(target, "nuts", init=target.init, steps=1_000, chains=4)
    ```

    Arguments:

    - `model`: a `bambi.Model`. One that was not built yet is built here.

    Returns the target that `fk.from_pymc` makes of the PyMC model in it, with Bambi's names of axes and their
    entries: `1|city[Köln]` in tables and in ArviZ. `trace.predict(key=…)`, `fk.prior_predictive` and
    `trace.to_arviz(log_likelihood=True)` are as for PyMC. `model.predict(trace.to_arviz(), data=…)`
    predicts new rows, as for draws of Bambi itself.
    """
    try:
        import bambi
    except ImportError as error:
        raise ImportError(
            "fk.from_bambi needs Bambi, which is not installed: pip install 'fokker[bambi]'."
        ) from error
    if not isinstance(model, bambi.Model):
        raise TypeError(f"the model must be a bambi.Model, not {type(model).__name__}.")
    if not model.built:
        model.build()
    return from_pymc(model.backend.model)
