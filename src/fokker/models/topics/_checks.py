"""Errors of the steps of topics."""


class NotFiniteError(ArithmeticError):
    """θ is no longer finite. Of several processes, all raise it (`fokker.run.processes.together`)."""

    is_of_all = True

    def __init__(self, sampler: str, h: float, number: int) -> None:
        self.step_size = h
        super().__init__(
            f"θ is not finite at step {number} of {sampler} with the step size {h:.3g}: use a smaller step "
            "size (earlier results are kept)."
        )


def check_friction(h: float, friction: float) -> None:
    """Raise if an Euler step with this friction makes the momentum grow."""
    if h * friction >= 2:
        raise ValueError(
            f"the step size {h:.3g} times the friction {friction:.3g} must be less than 2, otherwise the "
            "momentum grows without bound: reduce one of them."
        )
