"""Mistakes in the checker and in completion."""

from mutations._mutation import Mutation

_RIGHT = ("check::the_residual_of_every_formula",)
_WRONG = ("check::wrong_samplers_are_wrong_for_their_reason",)
_RECOVERED = ("completion::Q_is_recovered_in_two_dimensions",)

MUTATIONS = [
    Mutation(
        "checker/_residual.py",
        "return divergence_of_matrix(problem.D_mv, x) - problem.D_mv(x, jax.grad(problem.hamiltonian)(x))",
        "return -problem.D_mv(x, jax.grad(problem.hamiltonian)(x))",
        "the checker's required drift without ∇·D",
        _RIGHT,
    ),
    Mutation(
        "checker/_residual.py",
        "values = np.sum(along - derivatives, axis=1)",
        "values = np.sum(along, axis=1)",
        "the residual without -∇·f",
        _RIGHT,
    ),
    Mutation(
        "checker/_residual.py",
        "return jnp.stack([-divergence, -2 * mixed, -curvature])",
        "return jnp.stack([-divergence, -mixed, -curvature])",
        "the estimated residual with half of its second term",
        ("check::probes_agree_with_every_derivative_taken",),
    ),
    Mutation(
        "checker/_residual.py",
        "floor = np.maximum(self.scales, self.typical_scale)",
        "floor = np.maximum(self.scales, 1e6 * self.typical_scale)",
        "the residual measured against a scale far too large",
        _RIGHT,
    ),
    Mutation(
        "checker/_check.py",
        "_DOUBLE, _SINGLE = 1e-8, 1e-5",
        "_DOUBLE, _SINGLE = 1e-2, 1e-2",
        "what the checker takes for zero is 1e-2",
        ("check", "verdicts"),
    ),
    Mutation(
        "checker/_check.py",
        'verdict = "wrong" if wrong else "undecided" if undecided else "right"',
        'verdict = "wrong" if wrong else "right"',
        "what is undecided passes",
        ("check", "verdicts"),
    ),
    Mutation(
        "checker/_check.py",
        "wrong = not stationary or flawed or marginal.holds is False",
        "wrong = not stationary or flawed",
        "a wrong marginal passes",
        ("check::the_marginal_of_theta",),
    ),
    Mutation(
        "checker/_check.py",
        "points = np.concatenate([target.points, wide.points[: number // 2]])",
        "points = target.points",
        "the checker does not look at wide points",
        ("check",),
    ),
    Mutation(
        "checker/_structure.py",
        "if not asymmetry <= _TOLERANCE:",
        "if asymmetry > 1e6:",
        "the checker passes an asymmetric D",
        ("check",),
    ),
    Mutation(
        "checker/_structure.py",
        '"least": jnp.minimum(jnp.min(quadratic) / scale, negative),',
        '"least": jnp.min(quadratic) / scale,',
        "the check of a large D without its diagonal entries",
        ("check",),
    ),
    Mutation(
        "checker/_structure.py",
        'noise_error = float(np.max(values["noise"]))',
        "noise_error = 0.0",
        "the checker does not look at the noise",
        ("check",),
    ),
    Mutation(
        "checker/_marginal.py",
        "return Marginal(spread <= _TOLERANCE, spread, how)",
        "return Marginal(True, spread, how)",
        "the marginal by quadrature always holds",
        ("check::the_marginal_of_theta",),
    ),
    Mutation(
        "checker/_points.py",
        "ratio += log_proposal(x, proposed, new_gradient) - log_proposal(proposed, x, gradient)",
        "ratio += log_proposal(x, proposed, new_gradient)",
        "the checker's points are not drawn from the target",
        ("check",),
    ),
    Mutation(
        "checker/_reasons.py",
        "target = -residual / scale",
        "target = residual / scale",
        "the correction that is named has the wrong sign",
        ("check::the_correction_makes_it_stationary", *_WRONG),
    ),
    Mutation(
        "checker/_reasons.py",
        'if abs(factor + 1) < 1e-6:\n            return f"Γ has the wrong sign',
        'if abs(factor - 1) < 1e-6:\n            return f"Γ has the wrong sign',
        "Γ with the wrong sign is not named as such",
        _WRONG,
    ),
    # Completion.
    Mutation(
        "completion/_flux.py",
        "return H, f, f - divergence + D_dH, jnp.abs(f) + jnp.abs(divergence) + jnp.abs(D_dH)",
        "return H, f, f + divergence + D_dH, jnp.abs(f) + jnp.abs(divergence) + jnp.abs(D_dH)",
        "the flux with ∇·D added",
        ("completion",),
    ),
    Mutation(
        "completion/_flux.py",
        "lambda a, g, h: a - T.astype(a.dtype) * g + h, f, D.divergence(z), D.mv(z, dH)",
        "lambda a, g, h: a - g + h, f, D.divergence(z), D.mv(z, dH)",
        "the flux of a Dynamics with ∇·D not times T",
        ("completion",),
    ),
    Mutation(
        "completion/_fourier.py",
        "q[i, j] = entry - entry[(0,) * d]",
        "q[i, j] = entry",
        "the mode k = 0 of Q p is not fixed at the corner",
        _RECOVERED,
    ),
    Mutation(
        "completion/_fourier.py",
        "d, inverse = spectrum.d, spectrum.inverse_k2() / (2j * np.pi)",
        "d, inverse = spectrum.d, -spectrum.inverse_k2() / (2j * np.pi)",
        "Q by Fourier with the wrong sign",
        _RECOVERED,
    ),
    Mutation(
        "completion/_by_fourier.py",
        "Q_grid = q * (p / (p**2 + _DELTA**2)) / T",
        "Q_grid = q * (p / (p**2 + _DELTA**2))",
        "Q by Fourier without 1/T",
        ("completion",),
    ),
    Mutation(
        "completion/_axial.py",
        "return jnp.delete(total, a, assume_unique_indices=True) / T",
        "return jnp.delete(total, a, assume_unique_indices=True)",
        "1/T dropped in the axial gauge",
        ("completion",),
    ),
    Mutation(
        "completion/_axial.py",
        "best = int(np.argmin(np.round(leftovers, 9)))",
        "best = int(np.argmax(np.round(leftovers, 9)))",
        "the axis of the most leftover flux is chosen",
        ("completion",),
    ),
    Mutation(
        "completion/_curl.py",
        "return upper - upper.T",
        "return upper + upper.T",
        "the completed Q is symmetric",
        _RECOVERED,
    ),
    Mutation(
        "completion/_projection.py",
        "return jnp.stack([differentiate(u, a) + u * half[a] for a in range(d)])",
        "return jnp.stack([differentiate(u, a) for a in range(d)])",
        "the nearest drift is nearest without the weight p",
        ("completion::the_nearest_drift_is_nearest", "completion"),
    ),
]
