"""Mistakes in the readers of data sets, in downloads, and in the experiment with a neural network."""

from mutations._mutation import Mutation

MUTATIONS = [
    Mutation(
        "datasets/ratings.py",
        'rows = order[ends - 1 if repeated == "last" else starts]',
        "rows = order[starts]",
        "of repeated ratings the first is kept where the last is asked for",
        ("ratings::repeated_pairs_are_refused_or_resolved",),
    ),
    Mutation(
        "datasets/ratings.py",
        "self._select(np.sort(order[num_test:]))",
        "self._select(np.sort(order))",
        "the ratings to test with are learned from as well",
        ("ratings::a_split_keeps_the_numbering_and_loses_nothing",),
    ),
    Mutation(
        "datasets/_rating_tables.py",
        "items=np.repeat(np.array(movies, np.int64), counts)",
        "items=np.resize(np.array(movies, np.int64), sum(counts))",
        "ratings of the Netflix Prize go to the movies in turn",
        ("ratings::every_format_gives_the_same_ratings",),
    ),
    Mutation(
        "datasets/download.py",
        "if sha256 != file.sha256:",
        "if not found:",
        "the checksum of a download is not compared",
        ("datasets::a_wrong_file_is_not_kept",),
    ),
    Mutation(
        "datasets/download.py",
        'with part.open("ab" if start else "wb") as output:',
        'with part.open("ab") as output:',
        "what a server sends from the start is appended to the part that was there",
        ("datasets::a_server_that_cannot_continue_starts_again",),
    ),
    Mutation(
        "datasets/features.py",
        "if np.any(table[name] < 0) and (name == key or not are_numbers):",
        "if False:",
        "a row with a blank text has the features, or the identifier, of another one",
        ("features::a_blank_text_or_identifier_is_refused_with_its_line",),
    ),
    Mutation(
        "lab/experiments/ding_bnn.py",
        "total = total + p if draw and is_kept[draw - 1] else p",
        "total = total + p if draw else p",
        "draws of the burn-in enter the mean prediction",
        ("network_experiment::draws_predict_alone_up_to_the_end_of_burn_in_and_then_their_mean",),
    ),
]
