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
]
