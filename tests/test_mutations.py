"""The mistakes that `make mutate` tries: each can still be made, and is looked for by tests that exist."""

from mutations import ALL


def test_every_mutation_can_be_made_in_the_source_as_it_is():
    problems = [f"{mutation.mistake}: {problem}" for mutation in ALL if (problem := mutation.problem())]
    assert problems == []


def test_no_mutation_is_listed_twice():
    assert len({(m.file, m.find, m.replace) for m in ALL}) == len(ALL)
    assert len({m.mistake for m in ALL}) == len(ALL)


def test_a_text_that_has_changed_is_noticed():
    mutation = ALL[0]
    assert mutation._replace(find="no such text").problem()
    assert mutation._replace(find="\n").problem()
    assert mutation._replace(replace=mutation.find).problem()
    assert mutation._replace(file="no_such_file.py").problem()
    assert mutation._replace(tests=("fields::no_such_test",)).problem()
    assert mutation._replace(tests=()).problem()


def test_a_mutation_changes_its_text_alone(tmp_path):
    mutation = ALL[0]
    (tmp_path / mutation.path).parent.mkdir(parents=True)
    (tmp_path / mutation.path).write_text(f"before {mutation.find} after")
    mutation.apply(tmp_path)
    assert (tmp_path / mutation.path).read_text() == f"before {mutation.replace} after"
