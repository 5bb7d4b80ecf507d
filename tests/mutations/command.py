"""The command line: tables, settings, runs and predictions."""

from mutations._mutation import Mutation

_RUN = ("command::a_run_by_columns_goes_on_and_predicts",)
_TABLE = ("command::columns_that_cannot_be_used_say_so_when_they_are_asked_for",)

MUTATIONS = [
    Mutation(
        "rows/table.py",
        "if place == row + 1:",
        "if place == row:",
        "a missing value is said to be one line above where it is",
        _TABLE,
    ),
    Mutation(
        "rows/table.py",
        "        elif missing is not None and missing.any():",
        "        elif missing is not None and missing.all():",
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
        '"categories": call.labels}',
        '"categories": dict.fromkeys(call.labels)}',
        "the labels of categories are not kept with the run, so that new data have their own codes",
        _RUN,
    ),
]
