"""Mistakes in what all estimators share, and in the training that topics have in common."""

from mutations._mutation import Mutation

MUTATIONS = [
    Mutation(
        "models/estimator.py",
        "if name in cls._renamed:",
        "if False:",
        "an earlier name of a parameter is refused without its name now",
        ("estimators::every_estimator_speaks_one_vocabulary",),
    ),
    Mutation(
        "models/estimator.py",
        "self._check_names(parameters, ValueError)",
        "pass",
        "an earlier name of a parameter is set without its name now",
        ("estimators::every_estimator_speaks_one_vocabulary",),
    ),
    Mutation(
        "models/estimator.py",
        'parameters["random_state"] = self._seed',
        "pass",
        "a stored estimator forgets the seed that was drawn from a generator",
        ("estimators::a_generator_is_stored_as_the_seed_that_was_drawn",),
    ),
    Mutation(
        "models/estimator.py",
        "cls._renamed.get(name, name): value",
        "name: value",
        "a file with earlier names of parameters cannot be read",
        ("estimators::a_generator_is_stored_as_the_seed_that_was_drawn",),
    ),
    Mutation(
        "models/topics/estimator.py",
        "            self._check_unchanged()\n",
        "            pass\n",
        "partial_fit goes on after a change that its chain cannot make",
        ("lda_estimator::partial_fit_takes_other_settings_of_reading_and_refuses_those_of_the_chain",),
    ),
    Mutation(
        "models/topics/training.py",
        "self.chain.use(settings.num_threads, settings.sweeps, settings.burn_in)",
        "pass",
        "another number of threads or sweeps is one in name only",
        ("lda_estimator::partial_fit_takes_other_settings_of_reading_and_refuses_those_of_the_chain",),
    ),
    Mutation(
        "models/topics/training.py",
        "if is_new:",
        "if True:",
        "documents of later passes count again as evidence about words",
        ("estimators::documents_of_later_passes_are_no_new_evidence",),
    ),
    Mutation(
        "models/topics/settings.py",
        "names = names or {name: name for name in values}",
        "names = {name: name for name in values}",
        "errors of an estimator name the settings of the command",
        ("lda_estimator::settings_that_make_no_sense_are_named",),
    ),
    Mutation(
        "models/topics/estimator.py",
        'if "training" not in header:',
        "if False:",
        "topics of an older file cannot be read",
        ("estimators::topics_of_an_older_file_go_on_to_the_bit",),
    ),
    Mutation(
        "models/topics/judgement.py",
        "return Verdict.of_problem(problem, Grade.BAD)",
        "return Verdict.of_problem(problem)",
        "topics that explain nothing may be used with care",
        ("lda_estimator::the_curve_falls_and_the_verdict_is_in_words",),
    ),
    Mutation(
        "diagnostics/_findings.py",
        "return worst_of(finding.grade for finding in self.findings)",
        "return self.findings[0].grade if self.findings else Grade.GOOD",
        "a verdict has the grade of its first finding",
        ("estimators::a_verdict_is_as_bad_as_its_worst_finding",),
    ),
    Mutation(
        "models/checks.py",
        "isinstance(value, numbers.Integral) or isinstance(value, bool)",
        "isinstance(value, numbers.Integral)",
        "True counts as the number 1",
        ("estimators::checks_name_the_setting_and_what_was_given",),
    ),
    Mutation(
        "cli/lda_options.py",
        "if known.help",
        "if known.parameter",
        "a setting that the estimator does not have is no option of the command",
        ("estimators::each_setting_of_topics_is_declared_once",),
    ),
]
