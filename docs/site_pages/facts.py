# ruff: noqa: E501
"""What a page says of each sampler beyond its docstring: the recipe it is, its cost, and when to use it.

`tests/test_additions.py` compares the names with `fk.samplers`; `tests/test_site.py` compares whether Γ is 0 with the
dynamics of those that follow fields, and the order of the bias with that of `AFFINE` in `tests/registry.py`, which is
measured. The rest is read by nobody but people.
"""

import dataclasses
from dataclasses import dataclass

__all__ = ["FACTS", "Facts"]

_SYMPLECTIC = r"$\begin{pmatrix}0&-I\\I&0\end{pmatrix}$"
_NONE = "none: it follows no dynamics"


@dataclass(frozen=True)
class Facts:
    """Of one sampler: z, H, D, Q and Γ at T = 1, what its step size does, what it costs, and advice."""

    hamiltonian: str
    D: str
    Q: str
    gamma: str
    bias: str
    gradients: str
    use: str
    pitfalls: str
    reference: str
    correction: str = ""  # where its parts do not say it


_LANGEVIN = Facts(
    hamiltonian=r"$U(\theta)$",
    D="constant",
    Q="0",
    gamma="0",
    bias="order ε",
    gradients="1",
    use="The simplest sampler with minibatches, and the first to try when you debug a model.",
    pitfalls="It crosses the target by diffusion: time grows with the square of the ratio of the longest to the "
    "shortest scale. The noise of minibatches widens the draws by the share εB̂/2.",
    reference="M. Welling, Y. W. Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics",
)
_UNDERDAMPED = Facts(
    hamiltonian=r"$U(\theta) + r^\top M^{-1} r/2$",
    D=r"$\mathrm{diag}(0, C)$",
    Q=_SYMPLECTIC,
    gamma="0",
    bias="order ε; order ε² with `Splitting()`",
    gradients="1",
    use="Minibatches and more than a few parameters: momentum crosses long valleys faster than `sgld`.",
    pitfalls="Too little friction lets the noise of minibatches heat the chain; too much makes it as slow as `sgld`. "
    "Start with a friction of √curvature, and read the kinetic temperature.",
    reference="T. Chen, E. B. Fox, C. Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo",
)
_THERMOSTAT = Facts(
    hamiltonian=r"$U + r^\top r/2 + \tfrac{\mu d}{2}(\xi - A)^2$",
    D=r"$\mathrm{diag}(0, A, 0)$",
    Q=r"$\begin{pmatrix}0&-I&0\\I&0&r/(\mu d)\\0&-r^\top/(\mu d)&0\end{pmatrix}$",
    gamma=r"$(0,\ 0,\ -1/\mu)$: the -1 in $\dot\xi = (r^\top r/d - 1)/\mu$",
    bias="order ε; order ε² with `Splitting()`",
    gradients="1",
    use="Minibatch noise of unknown size: ξ rises until the kinetic temperature is right.",
    pitfalls='It assumes white noise, the same for all coordinates (`kind="diagonal"`: one size per coordinate). '
    "Reshuffled batches are not white, and theta comes out too narrow.",
    reference="N. Ding et al. (2014), Bayesian sampling using stochastic gradient thermostats",
)
_RIEMANN = Facts(
    hamiltonian=r"$U(\theta) + r^\top r/2$",
    D=r"$\mathrm{diag}(0, G^{-1})$",
    Q=r"$\begin{pmatrix}0&-G^{-1/2}\\G^{-1/2}&0\end{pmatrix}$",
    gamma=r"$(0,\ \nabla\cdot G^{-1/2})$ on r; the part of θ, $-\nabla_r G^{-1/2}$, is 0",
    bias="order ε",
    gradients="1, and one pass for Γ",
    use="A known geometry: steps that adapt to where the chain is.",
    pitfalls="The metric must stay above zero and smooth where the target has mass; the paper's own √|U + C| does "
    "not with C = 0.5.",
    reference="Y.-A. Ma, T. Chen, E. B. Fox (2015), A complete recipe for stochastic gradient MCMC",
)
_HAMILTONIAN = Facts(
    hamiltonian=r"$U(\theta) + r^\top M^{-1} r/2$",
    D="0; a new momentum at every step",
    Q=_SYMPLECTIC,
    gamma="0",
    bias="none",
    gradients="L, the number of leapfrog steps",
    use="All data at every step, and a length of path that you know.",
    pitfalls="A fixed length may come back to its start (resonance): leave `num_integration_steps=None` for random ones.",
    reference="S. Duane et al. (1987), Hybrid Monte Carlo; R. M. Neal (2011), MCMC using Hamiltonian dynamics",
)
_TREE = dataclasses.replace(
    _HAMILTONIAN,
    gradients="2ᵏ - 1 for a tree of depth k, at most 2^`max_depth` - 1",
    use="The default for posteriors whose data fit into every step: no settings.",
    pitfalls="Divergences say that a region is too narrow for the step: reparametrise, or raise `target_accept`.",
    reference="M. D. Hoffman, A. Gelman (2014), The no-U-turn sampler; M. Betancourt (2017) for multinomial trees",
)
_ISOKINETIC = Facts(
    hamiltonian=r"$U(\theta)$, with $|u| = 1$ uniform on the sphere",
    D="on u, along the sphere",
    Q="turns u by the force, at constant speed",
    gamma="that of the sphere, inside the exact kicks",
    bias="order ε²; none with `adjusted=True`",
    gradients='2 ("minimal norm"), 1 ("leapfrog")',
    use="Many parameters with all data at every step: few gradients per effective draw.",
    pitfalls="Unadjusted, the bias is set by the energy error, not zero. Needs two dimensions or more.",
    reference="J. Robnik, G. B. De Luca, E. Silverstein, U. Seljak (2023), Microcanonical Hamiltonian Monte Carlo",
    correction="none; Metropolis with `adjusted=True`",
)
_GIBBS = Facts(
    hamiltonian=r"$U(\theta)$",
    D=_NONE,
    Q=_NONE,
    gamma="–",
    bias="none",
    gradients="0",
    use="Conditionals that can be drawn from exactly.",
    pitfalls="Strongly correlated blocks move slowly: with correlation ρ a sweep forgets by a factor ρ².",
    reference="S. Geman, D. Geman (1984), Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images",
    correction="none is needed",
)


def _but(facts: Facts, **changes: str) -> Facts:
    return dataclasses.replace(facts, **changes)


FACTS: dict[str, Facts] = {
    "sgld": _LANGEVIN,
    "sgfs": _but(
        _LANGEVIN,
        use="SGLD with a good preconditioner, where the noise of minibatches is known or can be estimated.",
        pitfalls="A step with 2C - εB̂ not positive semidefinite is refused: take a smaller ε or larger batches.",
        reference="S. Ahn, A. Korattikara, M. Welling (2012), Bayesian posterior sampling via stochastic gradient Fisher "
        "scoring",
    ),
    "sgrld": _but(
        _LANGEVIN,
        D=r"$G(\theta)^{-1}$",
        gamma=r"$\nabla\cdot G^{-1}$",
        gradients="1, and one pass for Γ",
        use="A metric that makes the target round, as diag(θ) on a simplex.",
        pitfalls="Leaving Γ out, as many programs do, samples another density. At a boundary, reflect.",
        reference="S. Patterson, Y. W. Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the probability simplex",
    ),
    "psgld": _but(
        _LANGEVIN,
        D=r"$\mathrm{diag}(1/(\lambda + \sqrt{V}))$, V a running average of squared gradients",
        gamma="the divergence of D through the memory of V",
        bias="order ε, and that of a metric that lags behind the chain",
        gradients="2 (a Hessian-vector product)",
        use="Networks whose layers have very different scales.",
        pitfalls="It is not exact even as ε → 0 for a fixed α: variances come out some percent too large.",
        reference="C. Li et al. (2016), Preconditioned stochastic gradient Langevin dynamics for deep neural networks",
    ),
    "ula": _but(
        _LANGEVIN,
        use="`sgld` on all the data, to see what the step alone does.",
        pitfalls="The step leaves a bias of order ε: `mala` has none for the same gradient.",
        reference="G. O. Roberts, R. L. Tweedie (1996), Exponential convergence of Langevin distributions",
    ),
    "mala": _but(
        _LANGEVIN,
        bias="none",
        use="Cheap exact steps in up to some hundreds of dimensions.",
        pitfalls="The step shrinks as d^(-1/3). In some papers ε is twice ours.",
        reference="G. O. Roberts, R. L. Tweedie (1996), Exponential convergence of Langevin distributions",
    ),
    "rwm": _but(
        _LANGEVIN,
        hamiltonian="0 in the proposal: the target enters by Metropolis alone",
        bias="none",
        gradients="0",
        use="Densities without a gradient, in few dimensions.",
        pitfalls="The step shrinks as d^(-1/2), and time grows with d.",
        reference="N. Metropolis et al. (1953), Equation of state calculations by fast computing machines",
    ),
    "sghmc": _UNDERDAMPED,
    "naive_sghmc": _but(
        _UNDERDAMPED,
        D="0, where the noise of minibatches would need εV/2",
        bias="unbounded with minibatches",
        use="To see why SGHMC has friction.",
        pitfalls="Wrong on purpose: with minibatches its energy grows without bound. On the whole gradient the checker "
        "is undecided, as nothing is random.",
        reference="Y.-A. Ma, T. Chen, E. B. Fox (2015), Eq. 11",
    ),
    "ulmc": _but(
        _UNDERDAMPED,
        bias="order ε",
        use="`sghmc` on all the data with exact friction.",
        pitfalls="The frozen gradient leaves a bias of order ε: `maula` has none for the same gradient.",
        reference="X. Cheng et al. (2018), Underdamped Langevin MCMC: a non-asymptotic analysis",
    ),
    "maula": _but(
        _UNDERDAMPED,
        bias="none",
        use="Exact steps that keep their momentum.",
        pitfalls="A rejection reverses the momentum: aim at a high acceptance rate.",
        reference="L. Riou-Durand, J. Vogrinc (2022), Metropolis adjusted Langevin trajectories",
    ),
    "sgnht": _THERMOSTAT,
    "sgnht_by_ding": _but(
        _THERMOSTAT,
        bias="order ε",
        use="Settings from the paper, η = ε² and a = Aε.",
        pitfalls="The same as `sgnht`; with its own names for the settings.",
    ),
    "gsgrhmc": _RIEMANN,
    "sgrhmc": _but(_RIEMANN, use="`gsgrhmc` with the Fisher information as its metric."),
    "naive_sgrhmc": _but(
        _RIEMANN,
        gamma="left out",
        bias="does not vanish with ε",
        use="To see what a forgotten Γ does.",
        pitfalls="Wrong on purpose.",
        reference="Y.-A. Ma, T. Chen, E. B. Fox (2015), Eq. 16",
    ),
    "hmc": _HAMILTONIAN,
    "ghmc": _but(
        _HAMILTONIAN,
        D=r"$\mathrm{diag}(0, \gamma)$ with $\gamma = -\log\kappa/\varepsilon$, as an exact refresh of the momentum",
        gradients="1 per leapfrog step",
        use="Exact steps of one leapfrog, in loops that cannot wait for a whole path.",
        pitfalls="A rejection reverses the momentum, and the chain goes back: aim at a high acceptance rate.",
        reference="A. M. Horowitz (1991), A generalized guided Monte Carlo algorithm",
    ),
    "nuts": _TREE,
    "naive_nuts": _but(
        _TREE,
        use="Reading and testing NUTS: it stores the whole set of candidates.",
        pitfalls="Memory grows as 2^`max_depth`.",
        reference="M. D. Hoffman, A. Gelman (2014), The no-U-turn sampler, Algorithm 2",
    ),
    "rhmc": _but(
        _HAMILTONIAN,
        hamiltonian=r"$U + \tfrac12 r^\top G(\theta)^{-1} r + \tfrac12\log\det G(\theta)$",
        gradients="about ten per leapfrog step",
        use="Funnels and other targets whose scale changes, in few dimensions.",
        pitfalls="The generalised leapfrog is implicit: steps that are not solved are rejected, and counted as divergent.",
        reference="M. Girolami, B. Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods",
    ),
    "mclmc": _ISOKINETIC,
    "mchmc": _but(_ISOKINETIC, D="0; a new direction after every length L"),
    "gibbs": _GIBBS,
    "gibbs_normal": _but(_GIBBS, use="A normal of known covariance, as a reference in tests and lessons."),
    "slice_sampler": _but(
        _GIBBS,
        use="Densities without a gradient and without settings to choose, in few dimensions.",
        pitfalls="A sweep costs several evaluations of U per coordinate.",
        reference="R. M. Neal (2003), Slice sampling",
    ),
    "replica_exchange": _but(
        _LANGEVIN,
        hamiltonian=r"$\sum_k U(\theta_k)/T_k$",
        D="of each copy at its temperature",
        bias="that of its copies",
        gradients="1 per copy",
        use="Several modes: hot copies cross between them and hand their positions down.",
        pitfalls="Neighbouring temperatures must overlap: a small `exchange_rate` says that they do not.",
        reference="R. H. Swendsen, J.-S. Wang (1986), Replica Monte Carlo simulation of spin glasses",
    ),
    "recipe": Facts(
        hamiltonian="yours",
        D="yours, positive semidefinite",
        Q="yours, skew-symmetric",
        gamma="derived",
        bias="that of its integrator; none with a correction",
        gradients="1 with Euler–Maruyama",
        use="Dynamics of your own, or of a paper.",
        pitfalls="Check them first: `fk.check` costs seconds.",
        reference="Y.-A. Ma, T. Chen, E. B. Fox (2015), Theorem 1",
        correction="none; any of `fk.corrections` that fits",
    ),
}
