"""Mistakes in data that are read from files, and in streams of batches."""

from mutations._mutation import Mutation

MUTATIONS = [
    Mutation(
        "run/ahead.py",
        "epoch, position = self.batches.place(piece.first)",
        "epoch, position = self.batches.place(0)",
        "every block reads the rows of the first epoch's start",
        ("rows::a_run_from_a_file_goes_on_in_its_folder",),
    ),
    Mutation(
        "run/ahead.py",
        "self._stream_batches = self.stream.batches(first * chains)",
        "self._stream_batches = self.stream.batches(first)",
        "a stream that goes on skips too few batches",
        ("rows::a_stream_goes_on_in_its_folder_after_the_batches_that_were_used",),
    ),
    Mutation(
        "rows/readers.py",
        "return self._slot_of[which] * self.window + (numbers - self._starts[which])",
        "return which * self.window + (numbers - self._starts[which])",
        "rows of pieces are taken from the place of another piece",
        ("rows::every_kind_of_file_has_the_same_rows", "rows"),
    ),
    Mutation(
        "targets/posterior.py",
        "if weights is None and n > self.size:",
        "if weights is None and n < self.size < n:",
        "a stub of one row samples another posterior with batches from elsewhere",
        ("rows::a_batch_of_more_rows_than_there_are_data_is_refused",),
    ),
    Mutation(
        "rows/source.py",
        "        check_values(form.name, rows, flat)\n",
        "        pass\n",
        "rows that are not finite are used",
        ("rows::a_value_that_is_not_finite_stops_the_run_and_is_named",),
    ),
    Mutation(
        "batches.py",
        "shuffled = permuted(fold_in(key, 1), place, in_pool, pool)",
        "shuffled = place",
        "the windows of a pool are not shuffled together",
        ("rows::an_epoch_of_blocks_has_every_row_once",),
    ),
    Mutation(
        "run/sample.py",
        "if not isinstance(batch, WindowBatches) and (batch is not None or devices.mesh is None):",
        "if True:",
        "large data are on the device twice",
        ("rows::large_arrays_are_neither_copied_nor_kept",),
    ),
]
