"""Mistakes in runs on many devices and in many processes."""

from mutations._mutation import Mutation

_DEVICES = ("mesh::four_devices_give_the_draws_of_one_and_another_mesh_goes_on",)

MUTATIONS = [
    Mutation(
        "run/shares.py",
        "return self.shared.inner.minibatch_potential(theta, self.batch) / self.shared.parts",
        "return self.shared.inner.minibatch_potential(theta, self.batch)",
        "the estimates of P devices are summed, not averaged",
        _DEVICES,
    ),
    Mutation(
        "run/shares.py",
        "place = (start + (part - start) % self.parts) // self.parts",
        "place = start // self.parts",
        "a window begins at the same place on every device, whichever row of it is the first there",
        _DEVICES,
    ),
    Mutation(
        "run/shares.py",
        "return total + _with_data(self.target, self.rest).potential(theta)",
        "return total - self.inner.log_prior(theta)",
        "the rows that are left when the data are divided are forgotten",
        _DEVICES,
    ),
    Mutation(
        "run/shares.py",
        "batch._replace(weights=self.parts * batch.weights)",
        "batch",
        "the weights of rows that a device has are those among the rows of all",
        _DEVICES,
    ),
    Mutation(
        "_core/parts.py",
        "(jax.tree.map(_shared, theta),)",
        "(theta,)",
        "third derivatives of a sum over devices are those of each device's part",
        _DEVICES,
    ),
    Mutation(
        "run/watch.py",
        "                self._end(lost)",
        "                selector.unregister(key.fileobj)",
        "a process that was lost is not named",
        ("mesh::a_lost_process_is_named_and_one_process_goes_on",),
    ),
    Mutation(
        "run/watch.py",
        "if runs < self.runs]",
        "if runs <= self.runs]",
        "a process that has ended after the same runs is taken for one that failed",
        ("mesh::a_run_cannot_begin_when_another_process_has_ended",),
    ),
    Mutation(
        "run/processes.py",
        "if _failure is None and (uncaught is None or",
        "if _failure is None and (True or",
        "after an error between two runs a process waits for the others, and they for it",
        ("mesh::an_error_between_two_runs_ends_the_process_at_once",),
    ),
    Mutation(
        "_core/parts.py",
        "        return jax.lax.psum(tree, DATA)",
        "        return tree",
        "where parameters are divided, the gradient is that of a device's own rows",
        _DEVICES,
    ),
    Mutation(
        "_core/random.py",
        "math.prod(shape[axis + 1 :])",
        "math.prod(shape[axis:])",
        "where parameters are divided, the noise is another than on one device",
        _DEVICES,
    ),
    Mutation(
        "_core/parts.py",
        "longest = max(even, key=lambda i: shape[i])",
        "longest = min(even, key=lambda i: shape[i])",
        "an array is divided along its shortest axis",
        ("mesh::the_axis_that_is_divided_is_the_longest_that_divides_evenly",),
    ),
]
