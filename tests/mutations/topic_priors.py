"""Mistakes in the priors of topics: of the mixtures of documents, and of words."""

from mutations._mutation import Mutation

_CONCENTRATION = ("lda_prior::the_concentration_has_its_posterior",)

MUTATIONS = [
    Mutation(
        "models/topics/document_prior.py",
        "opened = generator.binomial(numbers, gamma[topics] / (gamma[topics] + customers))",
        "opened = numbers",
        "every word of a topic opens a table: counts in place of tables",
        _CONCENTRATION,
    ),
    Mutation(
        "models/topics/document_prior.py",
        "np.sum(generator.standard_gamma(lengths) / (current + np.arange(len(lengths))))",
        "np.sum(generator.standard_gamma(lengths) / (1 + current + np.arange(len(lengths))))",
        "the auxiliary variable of c with one customer too many",
        _CONCENTRATION,
    ),
    Mutation(
        "models/topics/document_prior.py",
        "base = generator.dirichlet(g / K + tables)",
        "base = generator.dirichlet(g + tables)",
        "the base of γ with g in place of g/K",
        ("lda_prior::the_base_concentration_has_its_posterior_given_the_tables",),
    ),
    Mutation(
        "models/topics/learned_prior.py",
        "share = (number + _DELAY) ** -_POWER",
        "share = 1.0",
        "γ is learned from the last minibatch alone",
        ("lda_prior::steps_average_documents_with_a_share_that_shrinks_and_passes_sum_them",),
    ),
    Mutation(
        "models/topics/chain.py",
        "self.document_prior.count(topics_of_documents(documents, expected.z, self.share.topics))",
        "self.document_prior.count(expected.mixtures)",
        "γ is drawn given expected counts, not given a draw of the topics",
        ("lda_prior::expected_counts_would_make_the_concentration_too_large",),
    ),
    Mutation(
        "models/topics/chain.py",
        "words, counts = self._own_word_prior.added_to(words, expected.counts * np.float32(data_weight))",
        "counts = expected.counts * np.float32(data_weight)",
        "the steps forget the pseudo-counts",
        ("lda_prior::steps_have_the_pseudo_counts_with_and_without_the_words",),
    ),
    Mutation(
        "models/topics/start.py",
        "used = set(prior.pinned)",
        "used: set[int] = set()",
        "named topics are merged and split",
        ("lda_prior::pinned_topics_are_neither_merged_nor_split",),
    ),
    Mutation(
        "models/topics/assignments.py",
        "by_word[prior.words] += prior.pseudo_counts",
        "pass",
        "sweeps with β integrated out forget the pseudo-counts",
        ("lda_prior::collapsed_sweeps_have_pseudo_counts",),
    ),
    Mutation(
        "models/topics/chain.py",
        "self._draw_gamma(total, number)",
        "pass",
        "γ is not drawn at the end of an exact pass",
        ("lda_prior::hdp_leaves_topics_without_words_and_says_how_many_it_uses",),
    ),
]
