"""Mistakes about categories: which axes have their labels, and which codes new rows have."""

from mutations._mutation import Mutation

_AXES = ("categories::an_axis_that_a_column_indexes_has_its_labels_and_no_other",)
_NEW_ROWS = ("categories::new_rows_have_the_codes_of_the_run",)

MUTATIONS = [
    Mutation(
        "targets/_categories.py",
        " and np.count_nonzero(sizes) == len(own))",
        ")",
        "every axis with as many entries as there are categories is labelled",
        _AXES,
    ),
    Mutation(
        "targets/_categories.py",
        "moved = [jnp.where(x == 0, u, x * (1 - u)) for x, u in zip(leaves, shares, strict=True)]",
        "moved = leaves",
        "derivatives are taken at a theta of zeros, where those of products vanish",
        _AXES,
    ),
    Mutation(
        "targets/_categories.py",
        "return len(texts) > 1 and",
        "return",
        "an axis of one entry is labelled by any column of one category",
        ("categories::one_category_and_a_theta_that_does_not_fit_name_nothing",),
    ),
    Mutation(
        "targets/_categories.py",
        "axis = column if column not in names and column not in AXES else",
        "axis = column if column not in AXES else",
        "an axis has the name of a parameter",
        ("categories::a_parameter_with_the_name_of_the_column_has_another_name_for_its_axis",),
    ),
    Mutation(
        "rows/table.py",
        "leaves[place] = codes[np.asarray(leaves[place])]",
        "leaves[place] = np.asarray(leaves[place])",
        "new rows have codes of their own",
        _NEW_ROWS,
    ),
    Mutation(
        "rows/column.py",
        "    if missing.any():\n        raise",
        "    if False:\n        raise",
        "a missing category has the code -1, the last of all",
        ("categories::categories_of_a_frame_are_codes_with_labels",),
    ),
]
