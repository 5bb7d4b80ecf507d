"""The command line: tables, settings, runs and predictions."""

from mutations._mutation import Mutation

_RUN = ("command::a_run_by_columns_goes_on_and_predicts",)
_TABLE = ("command::columns_that_cannot_be_used_say_so_when_they_are_asked_for",)

MUTATIONS = [
    Mutation(
        "rows/csv_table.py",
        "if place == row + 1:",
        "if place == row:",
        "a missing value is said to be one line above where it is",
        _TABLE,
    ),
    Mutation(
        "rows/column.py",
        "        if missing is not None and missing[0]:",
        "        if missing is not None and missing[0] == len(values):",
        "a column with some missing values is taken as one of numbers",
        _TABLE,
    ),
    Mutation(
        "run/options.py",
        "dict((before or {}).get(name, {})) for name in (MODEL, SAMPLER)",
        "{} for name in (MODEL, SAMPLER)",
        "settings of a file are forgotten where the command line has any",
        ("command::settings_are_numbers_texts_and_lists",),
    ),
    Mutation(
        "run/predictions.py",
        "[:, first - start :]",
        "[:, : block - (first - start)]",
        "the last block of rows is written with the predictions of rows before it",
        ("command::predictions_of_blocks_are_those_of_all_rows_at_once",),
    ),
    Mutation(
        "run/predictions.py",
        "return logsumexp(values, axis=0) - np.log(len(values))",
        "return values.mean(axis=0)",
        "the log predictive density is the mean of logs, not the log of a mean",
        ("command::without_predict_the_log_density_of_each_row_is_written_and_noise_has_its_key",),
    ),
    Mutation(
        "run/sample_command.py",
        '"categories": call.labels,',
        '"categories": dict.fromkeys(call.labels),',
        "the labels of categories are not kept with the run, so that new data have their own codes",
        _RUN,
    ),
    Mutation(
        "run/predictions.py",
        'is_same = describe_theta(theta) == read_checkpoint(folder).description["theta"]',
        'is_same = len(describe_theta(theta)) == len(read_checkpoint(folder).description["theta"])',
        "draws are put into a tree of as many parameters with other names",
        ("command::the_parameters_of_a_named_tuple_keep_their_names",),
    ),
    Mutation(
        "rows/table.py",
        "return self.about.order or tuple(self)",
        "return tuple(self)",
        "a matrix of new rows has the columns in the order of their file",
        ("command::a_matrix_has_the_columns_of_the_run_in_their_order",),
    ),
    Mutation(
        "rows/csv_table.py",
        "dtype=dict.fromkeys({*categories, *dates}.intersection(names), str),",
        "dtype={},",
        "codes of digits are read as numbers, so that 01234 and 1234 are one category",
        ("command::categories_are_texts_in_every_file",),
    ),
    Mutation(
        "run/estimate.py",
        "run = prepared(Call(target, sampler, call, writes=False))",
        "run = prepared(Call(target, sampler, call))",
        "a dry run opens the folder of a run as one that writes there",
        ("command::a_file_of_settings_is_the_same_command_and_a_dry_run_writes_nothing",),
    ),
    Mutation(
        "run/command.py",
        "if before is not None and is_first() and not has_run(folder):",
        "if before is None and is_first() and not has_run(folder):",
        "a call that a warm-up refuses overwrites the command of the run",
        ("command::a_call_that_a_warm_up_refuses_leaves_the_command_as_it_was",),
    ),
    Mutation(
        "run/command.py",
        "        if is_first() and not has_run(folder):\n            put_back()",
        "        pass",
        "a typing error after --overwrite costs the old run",
        ("command::a_run_is_replaced_by_one_that_can_begin_and_by_no_other",),
    ),
    Mutation(
        "run/sample_command.py",
        'before = option_of_run(folder, "mode") if has_run(folder) else None',
        "before = None",
        "the mode is searched again for a run that goes on",
        ("command::chains_start_at_the_mode_of_the_run",),
    ),
    Mutation(
        "run/command.py",
        'return None if verdict["is_trusted"] else f"{found} (all in',
        'return None if verdict["findings"] else f"{found} (all in',
        "predictions from a bad run come without a word",
        ("command::the_verdict_on_a_run_is_repeated_with_what_is_made_of_it",),
    ),
    Mutation(
        "run/lockstep.py",
        "            self._ahead.close()",
        "            pass",
        "the thread that reads ahead outlives a trial",
        ("rows::a_trial_run_ends_the_thread_that_reads_ahead",),
    ),
    Mutation(
        "diagnostics/_gradients.py",
        "if in_large_pieces(target.data):",
        "if False:",
        "the summary decodes the whole of a large file for every draw",
        ("rows::the_gradients_of_a_summary_read_a_large_file_piece_by_piece",),
    ),
    Mutation(
        "run/command.py",
        "(folder.resolve() in file.parents or",
        "(folder in file.parents or",
        "`fokker resume run` executes the model in the folder of the run",
        ("store::the_model_of_a_command_is_not_reached_by_a_detour",),
    ),
]
