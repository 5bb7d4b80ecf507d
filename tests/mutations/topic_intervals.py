"""Mistakes in the exact passes of topics, in their intervals, and in what is said of them."""

from mutations._mutation import Mutation

_JOINT = "lda_exact::collapsed_sweeps_have_the_joint_distribution_of_tokens_under_priors_that_differ"
_DIVIDED = "lda_exact::collapsed_sweeps_have_the_distribution_of_all_assignments"

MUTATIONS = [
    Mutation(
        "models/topics/collapsed.py",
        "n_dk[old] -= one",
        "n_dk[old] -= 0 * one",
        "sweeps with β integrated out: a token counts itself in its document",
        ("lda_start::sweeps_have_the_distribution_of_all_assignments",),
    ),
    Mutation(
        "models/topics/collapsed.py",
        "prior = num_words * np.float64(alpha)",
        "prior = np.float64(alpha)",
        "sweeps with β integrated out: α in place of Vα",
        ("lda_start::sweeps_have_the_distribution_of_all_assignments",),
    ),
    *(
        Mutation("models/topics/cells.py", text, mistake, f"sweeps by threads: {description}", (_DIVIDED,))
        for text, mistake, description in (
            ("masses[:, k] = drawn / drawn.sum()", "masses[:, k] = 1.0", "topics have no masses of blocks"),
            ("a = n_kb[b, k] + priors[b]", "a = n_kb[b, k] + 1.0", "masses of blocks with a prior of one"),
            (
                "n_kb[b], states[g, b] = n_k, state",
                "states[g, b] = state",
                "the counts of blocks do not follow",
            ),
            (
                "n_d[k] = np.rint(n_dk[k] - gamma[k])",
                "pass",
                "the counts of documents do not follow from one block to the next",
            ),
        )
    ),
    *(
        Mutation("models/topics/cells.py", text, mistake, f"sweeps by threads: {description}", (_JOINT,))
        for text, mistake, description in (
            (
                "np.stack([rows[cells.block == b].sum(0",
                "np.stack([np.floor(rows[cells.block == b]).sum(0",
                "the masses of blocks do not know the pseudo-counts",
            ),
            (
                "n_dk[k] = gamma[k] + n_d[k]",
                "n_dk[k] = gamma[0] + n_d[k]",
                "all topics have the γ of the first",
            ),
            (
                "draw_gamma(state, a + 1.0)",
                "draw_gamma(state, a + 1.5)",
                "masses of another Gamma distribution",
            ),
        )
    ),
    Mutation(
        "models/topics/exact.py",
        "        if self.assignments is not None:\n            # The first process",
        "        if False:\n            # The first process",
        "the topics of words are not redrawn before a draw",
        ("lda_exact::a_rare_word_changes_its_topic_between_passes",),
    ),
    Mutation(
        "models/topics/gibbs.py",
        "assignments[first_token[d] + j - m * max_tokens] = z[j]",
        "assignments[first_token[d] + j - m * max_tokens] = z[end[m] - 1]",
        "all tokens of a document are stored with the topic of the last one",
        ("lda_exact::a_sample_has_every_token_once_and_the_mixtures_stay_expectations",),
    ),
    Mutation(
        "models/topics/draws.py",
        "if n < draws_needed(probability):",
        "if n < 2:",
        "an interval of a higher level than the draws can have is that of a lower one",
        ("lda_exact::bounds_have_their_probability_or_are_refused",),
    ),
    Mutation(
        "models/topics/draws.py",
        "self._draws[max(0, len(self._draws) + num_draws - self.max_draws) :]",
        "self._draws[max(0, len(self._draws) + num_draws - num_draws * num_stored_passes) :]",
        "the exact passes leave the store of draws partly empty",
        ("lda_exact::the_second_half_of_the_exact_passes_is_stored",),
    ),
    Mutation(
        "models/topics/evaluate.py",
        "shapes = counts + np.asarray(gamma, np.float64)",
        "shapes = 4 * counts + np.asarray(gamma, np.float64)",
        "the intervals of mixtures are too narrow",
        ("lda_estimator::intervals_of_mixtures_contain_them_as_often_as_they_say",),
    ),
    Mutation(
        "models/topics/draws.py",
        "np.where(ordered[last_zero] > 0, ordered[n - k], ordered[one_sided])",
        "ordered[n - k]",
        "an interval that begins at zero contains 95 % in place of 90",
        ("lda_exact::an_interval_that_begins_at_zero_ends_where_a_tenth_is_above_it",),
    ),
    Mutation(
        "models/topics/passes.py",
        "return number if number >= 0 and is_whole else None",
        "return number if number >= 0 else None",
        "a pass may become exact in its middle",
        (
            "lda_command::a_pass_that_became_exact_in_its_middle_is_not_counted",
            "lda_command::the_first_pass_of_unknown_length_is_not_exact",
        ),
    ),
    Mutation(
        "models/topics/results.py",
        'return "No problems found." if changed is None else f"No problems found, except that {changed}."',
        'return "No problems found."',
        "the headline is silent on topics that changed during the draws",
        ("lda_command::topics_that_change_during_the_draws_are_named",),
    ),
    Mutation(
        "models/topics/training.py",
        "num_before = ROUNDS if num_exact == 1 or not num_draws else 0",
        "num_before = 0",
        "the first draws of the only exact pass are those of topics that still sharpen",
        ("lda_exact::the_first_half_of_the_rounds_has_no_draws",),
    ),
    Mutation(
        "models/topics/draws.py",
        "is_other or i == 0",
        "True",
        "a chain that stands still has no problem",
        ("lda_estimator::a_chain_that_stands_still_is_reported",),
    ),
]
