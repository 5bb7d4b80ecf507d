# ruff: noqa: E501
"""What each sampler does, in two or three sentences for somebody who meets it for the first time."""

__all__ = ["INTRODUCTIONS"]

INTRODUCTIONS: dict[str, str] = {
    "sgld": "Stochastic gradient Langevin dynamics. Each step goes down the gradient of a minibatch and adds normal "
    "noise, of just the size that makes the positions spread like the posterior instead of settling at its mode.",
    "sgfs": "Stochastic gradient Fisher scoring. SGLD with a preconditioner, which also knows how large the noise of "
    "the minibatches is: that noise takes the place of a part of the noise that a step would add.",
    "sgrld": "Stochastic gradient Riemannian Langevin dynamics. SGLD whose steps are larger in some places than in "
    "others, by a metric G(θ). A step then needs one more term, Γ, or it samples another density.",
    "psgld": "Preconditioned SGLD. It learns one step size per coordinate from the size of recent gradients, as "
    "RMSProp does in optimisation.",
    "ula": "The unadjusted Langevin algorithm. SGLD with the gradient of all the data: down the gradient, and noise. "
    "The finite step leaves a small bias, which nothing corrects.",
    "mala": "The Metropolis-adjusted Langevin algorithm. A step of `ula` is only a proposal; it is accepted or rejected "
    "such that no bias is left, whatever the step size.",
    "rwm": "Random-walk Metropolis, the oldest of all. It proposes a normal step in any direction and accepts it if "
    "the density is higher there, and sometimes if it is lower. It needs no gradient.",
    "sghmc": "Stochastic gradient Hamiltonian Monte Carlo. A ball rolls over the potential with friction: the gradient "
    "of a minibatch changes its momentum, the momentum moves it, and noise balances the friction.",
    "naive_sghmc": "Hamiltonian dynamics with the gradient of a minibatch and nothing against its noise. It is here as "
    "a warning: its energy grows without end.",
    "ulmc": "Underdamped Langevin Monte Carlo. `sghmc` with the gradient of all the data, in which friction and noise "
    "are solved exactly over a step.",
    "maula": "Metropolis-adjusted underdamped Langevin. A step of `ulmc` is only a proposal; a rejection reverses the "
    "momentum. No bias is left, whatever the step size.",
    "sgnht": "Stochastic gradient Nosé–Hoover thermostat. `sghmc` whose friction is a variable: it rises while the "
    "momentum is too hot and falls while it is too cold, and so absorbs noise of a size that nobody knows.",
    "sgnht_by_ding": "`sgnht` with the settings of its paper: η and a in place of a step size and a friction.",
    "gsgrhmc": "Generalised stochastic gradient Riemannian Hamiltonian Monte Carlo. `sghmc` whose steps and friction "
    "depend on the place, by a metric; found by means of the complete recipe.",
    "sgrhmc": "Stochastic gradient Riemannian Hamiltonian Monte Carlo. `gsgrhmc` with the Fisher information of the "
    "model as its metric, which you give.",
    "naive_sgrhmc": "`gsgrhmc` without its term Γ. It is here as a warning: it looks right and samples another density.",
    "hmc": "Hamiltonian Monte Carlo. Each step gives the position a random push and follows its path over the potential "
    "for a while; the end of the path is the proposal.",
    "ghmc": "Generalised Hamiltonian Monte Carlo. Short paths that keep most of their momentum from one step to the "
    "next, each accepted or rejected on its own.",
    "nuts": "The no-U-turn sampler. HMC that finds the length of its path by itself: the path doubles until its ends "
    "come closer again, and one of its points is the next draw. Step size and scales are learned in a warm-up.",
    "naive_nuts": "NUTS in the form of its paper's second algorithm, which stores every candidate: slower than `nuts`, "
    "and simple enough to check by reading.",
    "rhmc": "Riemannian Hamiltonian Monte Carlo. HMC whose mass depends on the place, so that it takes small steps where "
    "the target is narrow and large ones where it is wide.",
    "mclmc": "Microcanonical Langevin Monte Carlo. The position moves at constant speed; the gradient turns its direction, "
    "and a little noise keeps it from running in circles.",
    "mchmc": "Microcanonical Hamiltonian Monte Carlo. As `mclmc`, with a completely new direction after every stretch "
    "of path in place of a little noise all the time.",
    "gibbs": "Gibbs sampling. One block of parameters after another is drawn from its distribution given all the others, "
    "which you write as a function.",
    "gibbs_normal": "Gibbs sampling of a normal distribution, one coordinate after another: a reference whose speed is "
    "known by hand.",
    "slice_sampler": "Slice sampling. It draws a height under the density, then a point among those where the density is "
    "higher than that, coordinate by coordinate. It needs no gradient and no step size.",
    "replica_exchange": "Several copies of a sampler at different temperatures. Hot ones cross between modes and exchange "
    "positions with colder ones; the draws are those of the coldest.",
    "recipe": "A sampler from D and Q of your own. You choose how noise and rotation act on the state, and the library "
    "adds what makes the target come out right.",
}
