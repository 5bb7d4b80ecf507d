"""Mistakes in what a user of topics sees: results, mixtures, the map, several numbers of topics."""

from mutations._mutation import Mutation

_ORDER = "lda_command::the_table_of_mixtures_is_cut_back_and_bears_a_full_disk"

MUTATIONS = [
    Mutation(
        "models/topics/results.py",
        "tokens = held_out.lengths @ pi + run.topic_tokens.counts",
        "tokens = held_out.lengths @ pi",
        "the prevalence of topics is that of the held-out documents",
        ("lda_command::the_prevalence_is_that_of_all_documents",),
    ),
    Mutation(
        "models/topics/topic_tokens.py",
        "self._counts[int(self._documents[1] >= self._documents[0])]",
        "self._counts[1]",
        "the prevalence in the middle of a pass is that of its first documents",
        ("lda_command::words_per_topic_are_those_of_a_whole_pass",),
    ),
    Mutation(
        "models/topics/judgement.py",
        "if topic.partnered >= _PARTNERED",
        "if False",
        "too few topics for many subjects are said to be too many",
        ("lda_command::topics_without_a_subject_and_repeated_ones_count",),
    ),
    Mutation(
        "models/topics/coherence.py",
        "is_clear & (joint >= _LEAST_TOGETHER) &",
        "",
        "every pair of words of a topic counts as belonging together",
        ("lda_command::words_of_several_subjects_and_of_none_differ",),
    ),
    Mutation(
        "models/topics/mixtures_file.py",
        "places = sorted([*waiting, *(int(row[0]) for row in rows)])",
        "places = [*waiting, *(int(row[0]) for row in rows)]",
        "mixtures are in the order of the stream",
        (_ORDER,),
    ),
    Mutation(
        "models/topics/run.py",
        "is_held_out = self._is_in_last_pass(numbers) & ~is_training",
        "is_held_out = np.zeros(len(numbers), bool)",
        "held-out documents have no mixtures",
        ("lda_command::mixtures_are_of_all_documents_in_the_order_of_the_input",),
    ),
    Mutation(
        "models/topics/run.py",
        "slice(0, None if self.passes == 1 else 0)",
        "slice(0, 0)",
        "documents held out from a single pass have no mixtures",
        ("lda_sweep::a_single_pass_has_mixtures_of_its_held_out_documents_too",),
    ),
    Mutation(
        "corpora/_corpus.py",
        "yield place, row",
        "yield tally.documents - 1, row",
        "the place of a document is that in the shuffled stream",
        ("lda_sweep::documents_know_their_places_in_the_source",),
    ),
    Mutation(
        "models/topics/evaluate.py",
        "residuals = values - values.sum() / sizes.sum() * sizes",
        "residuals = values - values.mean()",
        "the standard error of a perplexity counts the lengths of documents as noise",
        ("lda_sweep::the_standard_error_is_that_of_a_ratio",),
    ),
    Mutation(
        "models/topics/evaluate.py",
        "_standard_error(differences, self.num_words)",
        "_standard_error(self.log_probabilities, self.num_words)",
        "two numbers of topics are not compared document by document",
        ("lda_sweep::a_number_of_topics_is_preferred_no_more_clearly_than_it_is",),
    ),
    Mutation(
        "cli/lda_run.py",
        "except (Stopped, KeyboardInterrupt):",
        "except KeyboardInterrupt:",
        "Ctrl-C while results are written says nothing",
        ("lda_sweep::ctrl_c_while_results_are_written_says_what_is_kept",),
    ),
    Mutation(
        "cli/lda_sweep.py",
        "return summary is not None and summary.is_complete and",
        "return False and",
        "a sweep makes all runs again",
        ("lda_sweep::a_sweep_goes_on_where_it_stopped",),
    ),
]
