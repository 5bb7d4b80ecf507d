"""Topics of a stream of documents against gensim, scikit-learn and tomotopy: speed, perplexity, memory.

All learn 50 topics in one pass from the same documents: Wikipedia articles where FOKKER_DATA names the folder
of data, else documents drawn from an LDA. Each part runs in a process of its own that may use one core only
(two where it says so), libraries in turns, and prints the median of the rounds, by the time of the processor
and by the clock; on a machine with other work trust the first.

    sweeps      token updates a second of the E-step against tomotopy's Gibbs sampler, 50 sweeps
    loop        documents a second of the whole loop, 50 sweeps a document, against online variational Bayes
    cores       the same on two cores, against gensim's LdaMulticore with two workers
    perplexity  of held-out documents after the pass, by the same document completion for all
    shares      which part of a step takes the time
    memory      peak memory after 20,000 and 200,000 documents of a stream
    large       500 topics, 100,000 words

    python benchmarks/topics.py [PART …] [--quick] [--rounds 3]
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOPICS, BATCH, SWEEPS = 50, 50, 50
# What θ_kw and the mixtures have for a prior: (α, γ). The second is Ma et al.'s for Riemannian samplers.
PRIORS = ((0.01, 0.1), (0.0001, 0.01))
CORES = {"cores": 2, "memory": 2}
OTHERS = ("scir", "sgrld", "sgld", "sghmc")


@dataclass(frozen=True)
class Sizes:
    """Documents of each part."""

    timed: int
    learnt: int
    held_out: int
    streamed: tuple[int, int]
    large: int


FULL = Sizes(4_000, 10_000, 1_000, (20_000, 200_000), 500)
QUICK = Sizes(1_000, 2_000, 300, (2_000, 20_000), 100)


def peers(*names: str) -> list[str]:
    """Those of the packages that are installed; says which are not."""
    import importlib.util

    here = [name for name in names if importlib.util.find_spec(name) is not None]
    for name in sorted(set(names) - set(here)):
        package = {"sklearn": "scikit-learn"}.get(name, name)
        print(
            f"  ({package} is not installed: left out. `make bench` installs it, or pip install {package}.)"
        )
    return here


def timed(function: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the processor, and by the clock."""
    processor, wall = time.process_time(), time.perf_counter()
    function()
    return time.process_time() - processor, time.perf_counter() - wall


def in_turns(libraries: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """The median of the times of each, the first round left out: it compiles."""
    import numpy as np

    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in libraries}
    for _ in range(rounds + 1):
        for name, function in libraries.items():
            taken[name].append(timed(function))
    return {name: np.median(times[1:], axis=0) for name, times in taken.items()}


def print_rates(found: dict[str, Any], amount: float, unit: str, rivals: dict[str, str]) -> None:
    """Amounts a second; for each rival, how many times as fast the one of ours named for it is."""
    print(f"  {'':34}{unit + '/s':>18}{'by the clock':>14}{'ours/its':>12}{'by the clock':>14}")
    for name, times in found.items():
        ratio = times / found[rivals[name]] if name in rivals else None
        told = "" if ratio is None else f"{ratio[0]:12.2f}{ratio[1]:14.2f}   against {rivals[name]}"
        print(f"  {name:34}{amount / times[0]:18,.1f}{amount / times[1]:14,.1f}{told}")


def peak_memory() -> float:
    """Of this process so far, in MB."""
    # Not by getrusage: what that says begins with the memory of the process that started this one.
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def load(path: Path) -> tuple[Any, Any, int]:
    """The documents to learn from, those to predict, and the number of words."""
    import numpy as np

    from fokker.corpora import Documents

    with np.load(path) as arrays:
        parts = [
            Documents.from_arrays(*(arrays[f"{part}_{name}"] for name in ("indptr", "words", "counts")))
            for part in ("learnt", "held_out")
        ]
        return parts[0], parts[1], int(arrays["width"])


def prepare(sizes: Sizes, path: Path) -> None:
    """Write the documents of this run for the processes that measure."""
    import numpy as np

    from fokker.datasets.folder import VARIABLE
    from fokker.lab.experiments import ma_lda
    from fokker.lab.experiments._topic_runs import draw_from_topics

    number = max(sizes.timed, sizes.learnt)
    if os.environ.get(VARIABLE):
        stream = ma_lda.read_stream(None, number, sizes.held_out)
        learnt, held_out, width = stream.documents, stream.held_out, len(stream.words)
        print(f"{number:,} Wikipedia articles", end="")
    else:
        width = 7_702
        generator = np.random.default_rng(0)
        drawn = draw_from_topics(generator, number + sizes.held_out, width, 2 * TOPICS, 136)
        learnt, held_out = drawn.select(slice(number)), drawn.select(slice(number, None))
        print(f"{number:,} documents drawn from an LDA ({VARIABLE} is not set)", end="")
    print(f", {learnt.tokens / learnt.size:.0f} tokens each, {width:,} words")
    arrays = {
        f"{part}_{name}": getattr(documents, name)
        for part, documents in (("learnt", learnt), ("held_out", held_out))
        for name in ("indptr", "words", "counts")
    }
    np.savez(path, **arrays, width=width)


def pairs(documents: Any) -> list[list[tuple[int, int]]]:
    """As gensim takes them."""
    rows = (documents.row(i) for i in range(documents.size))
    return [list(zip(words.tolist(), counts.tolist(), strict=True)) for _, words, counts in rows]


def minibatches(documents: Any, size: int = BATCH) -> Iterator[Any]:
    for first in range(0, documents.size, size):
        yield documents.select(slice(first, first + size))


def gensim_model(
    kind: str, documents: list[Any], width: int, chunk: int, alpha: float, gamma: float, **options: Any
) -> Any:
    """gensim's LdaModel or LdaMulticore after one pass."""
    import gensim.models

    return getattr(gensim.models, kind)(
        documents,
        num_topics=TOPICS,
        id2word={i: str(i) for i in range(width)},
        alpha=[gamma] * TOPICS,
        eta=alpha,
        chunksize=chunk,
        offset=64,
        eval_every=None,
        random_state=0,
        **options,
    )


def sklearn_model(matrix: Any, batch: int, alpha: float, gamma: float) -> Any:
    """scikit-learn's online LDA after one pass.

    By partial_fit: fit makes another pass at the end, for a bound.
    """
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        TOPICS,
        doc_topic_prior=gamma,
        topic_word_prior=alpha,
        batch_size=batch,
        total_samples=matrix.shape[0],
        random_state=0,
    )
    return model.partial_fit(matrix)


def our_chain(width: int, sampler: str, threads: int = 1) -> Any:
    from fokker.models.topics.chain import TopicChain

    alpha, gamma = PRIORS[0]
    return TopicChain(
        width, TOPICS, sampler=sampler, alpha=alpha, gamma=gamma, sweeps=SWEEPS, burn_in=SWEEPS // 2,
        threads=threads,
    )  # fmt: skip


def our_pass(documents: Any, width: int, sampler: str, batch: int = BATCH, threads: int = 1) -> Any:
    """The chain after one pass."""
    chain = our_chain(width, sampler, threads)
    for some in minibatches(documents, batch):
        chain.step(some, documents.size)
    return chain


def sweeps(path: Path, sizes: Sizes, rounds: int) -> None:
    """Token updates of the E-step, given topics that have been learnt."""
    import numpy as np

    from fokker.lab.experiments._topic_runs import expected_counts
    from fokker.models.topics.collapsed import local_words

    learnt, _, width = load(path)
    documents = learnt.select(slice(sizes.timed))
    chain = our_pass(documents, width, "sgrld")
    words, local = local_words(documents)
    beta = chain.beta()[words]
    libraries: dict[str, Callable[[], Any]] = {
        "fokker": lambda: expected_counts(
            local, beta, chain.gamma, np.uint64(1), sweeps=SWEEPS, burn_in=SWEEPS // 2
        )
    }
    if peers("tomotopy"):
        import tomotopy

        alpha, gamma = PRIORS[0]
        model = tomotopy.LDAModel(k=TOPICS, alpha=gamma, eta=alpha, seed=0)
        for i in range(documents.size):
            _, ids, counts = documents.row(i)
            model.add_doc([str(w) for w in np.repeat(ids, counts)])
        model.optim_interval = 0  # it would also learn its priors
        libraries["tomotopy"] = lambda: model.train(SWEEPS, workers=1)
    found = in_turns(libraries, rounds)
    print_rates(found, documents.tokens * SWEEPS / 1e6, "million updates", {"tomotopy": "fokker"})


def loop(path: Path, sizes: Sizes, rounds: int) -> None:
    """One pass over the documents, one core; ratios between minibatches of about the same size."""
    learnt, _, width = load(path)
    documents = learnt.select(slice(sizes.timed))
    libraries: dict[str, Callable[[], Any]] = {
        f"fokker {sampler}, batch {size}": lambda s=sampler, b=size: our_pass(documents, width, s, b)
        for sampler, size in (("sgrhmc", BATCH), ("sgrhmc", 128), *((s, BATCH) for s in OTHERS))
    }
    rivals = {}
    online = peers("gensim", "sklearn")
    if "gensim" in online:
        rows = pairs(documents)
        for chunk in (BATCH, 2_000):
            name = f"gensim LdaModel, chunk {chunk:,}"
            libraries[name] = lambda c=chunk: gensim_model("LdaModel", rows, width, c, *PRIORS[0])
            rivals[name] = f"fokker sgrhmc, batch {min(chunk, 128)}"
    if "sklearn" in online:
        matrix = documents.to_matrix(width)
        for size in (BATCH, 128):
            name = f"scikit-learn, batch {size}"
            libraries[name] = lambda b=size: sklearn_model(matrix, b, *PRIORS[0])
            rivals[name] = f"fokker sgrhmc, batch {size}"
    found = in_turns(libraries, rounds)
    print(f"  {documents.tokens / documents.size:.0f} tokens a document, one core")
    print_rates(found, documents.size, "documents", rivals)
    if rivals:
        fastest = min(rivals, key=lambda name: found[name][0])
        print(f"  sgrhmc with minibatches of {BATCH} over the fastest of them, {fastest}: "
              f"{found[fastest][0] / found[f'fokker sgrhmc, batch {BATCH}'][0]:.2f}")  # fmt: skip


def cores(path: Path, sizes: Sizes, rounds: int) -> None:
    """One pass, two cores. Only the clock is compared: the workers are processes of their own."""
    learnt, _, width = load(path)
    documents = learnt.select(slice(sizes.timed))
    threads = {f"fokker sgrhmc, {n} thread{'s' * (n > 1)}": n for n in (2, 1)}
    chunks = {f"gensim LdaMulticore, chunk {c:,}": c for c in (BATCH, 2_000)} if peers("gensim") else {}
    taken: dict[str, list[float]] = {name: [] for name in (*threads, *chunks)}
    for _ in range(rounds + 1):
        for name, number in threads.items():
            taken[name].append(timed(lambda n=number: our_pass(documents, width, "sgrhmc", threads=n))[1])
        for name, chunk in chunks.items():
            # In a process of its own: its workers are forked, which JAX's threads do not bear.
            command = [sys.executable, __file__, "multicore", "--documents", str(path), "--chunk", str(chunk),
                       "--number", str(sizes.timed)]  # fmt: skip
            taken[name].append(float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    ours = next(iter(threads))
    print(f"  {'':34}{'documents/s':>18}{'ours/its':>12}   by the clock")
    for name, seconds in medians.items():
        told = "" if name == ours else f"{seconds / medians[ours]:12.2f}"
        print(f"  {name:34}{documents.size / seconds:18,.1f}{told}")


def multicore(path: Path, number: int, chunk: int, priors: int = 0, out: Path | None = None) -> None:
    """Print the seconds of one pass of LdaMulticore with two workers; save its topics."""
    import numpy as np

    learnt, _, width = load(path)
    rows, models = pairs(learnt.select(slice(number))), []
    fit = lambda: models.append(gensim_model("LdaMulticore", rows, width, chunk, *PRIORS[priors], workers=2))  # noqa: E731
    print(timed(fit)[1])
    if out is not None:
        np.save(out, models[0].get_topics())


def perplexity(path: Path, sizes: Sizes, rounds: int) -> None:
    """After one pass; ours averaged over draws of the last half, peers' topics as they are at the end."""
    import numpy as np

    from fokker.lab.experiments import ma_lda
    from fokker.lab.experiments._topic_runs import DocumentStream, follow
    from fokker.models.topics.evaluate import perplexity as completed

    learnt, held_out, width = load(path)
    stream = DocumentStream(
        learnt.select(slice(sizes.learnt)), held_out, tuple(map(str, range(width))), TOPICS, BATCH
    )
    online = peers("gensim", "sklearn")
    print(f"  of the shares of words alone: {stream.unigram_perplexity():.0f}")
    print(f"  {'':34}" + "".join(f"{f'α={a:g}, γ={g:g}':>24}" for a, g in PRIORS))
    rows: dict[str, list[str]] = {}
    for alpha, gamma in PRIORS:
        for sampler in ma_lda.NAMES:
            curve = follow(stream, ma_lda.grid(sampler, ma_lda.Priors(alpha, gamma))[0], 0)
            told = "diverged" if curve is None else f"{curve.last:.0f} ({curve.single[-1]:.0f})"
            rows.setdefault(f"fokker {sampler} (last draw alone)", []).append(told)

        def tell(name: str, topics: Any, gamma: float = gamma) -> None:
            beta = np.asarray(topics.T / topics.sum(1), np.float32)
            found = completed(stream.held_out, [beta], np.full(TOPICS, gamma))
            rows.setdefault(name, []).append(f"{found:.0f}")

        if "gensim" in online:
            documents = pairs(stream.documents)
            for chunk in (BATCH, 2_000):
                model = gensim_model("LdaModel", documents, width, chunk, alpha, gamma)
                tell(f"gensim LdaModel, chunk {chunk:,}", model.get_topics())
            with tempfile.TemporaryDirectory() as folder:
                # In a process of its own: its workers are forked, which JAX's threads do not bear.
                command = [sys.executable, __file__, "multicore", "--documents", str(path)]
                command += ["--chunk", str(BATCH), "--number", str(sizes.learnt)]
                command += ["--priors", str(PRIORS.index((alpha, gamma))), "--out", f"{folder}/topics.npy"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                tell(f"gensim LdaMulticore, chunk {BATCH}", np.load(f"{folder}/topics.npy"))
        if "sklearn" in online:
            matrix = stream.documents.to_matrix(width)
            for size in (BATCH, 128):
                tell(f"scikit-learn, batch {size}", sklearn_model(matrix, size, alpha, gamma).components_)
    for name, told_each in rows.items():
        print(f"  {name:34}" + "".join(f"{told:>24}" for told in told_each))


def shares(path: Path, sizes: Sizes, rounds: int) -> None:
    """The parts of a step, in milliseconds a minibatch."""
    import jax
    import numpy as np

    from fokker.lab.experiments._topic_runs import expected_counts
    from fokker.models.topics._uniform import seed_at
    from fokker.models.topics.collapsed import local_words
    from fokker.models.topics.settings import SAMPLERS

    learnt, _, width = load(path)
    documents = learnt.select(slice(sizes.timed))
    parts = ("select", "words", "rows of θ", "sweeps", "step of θ")
    print(f"  {'milliseconds a minibatch':26}" + "".join(f"{part:>16}" for part in parts) + f"{'sum':>10}")
    for sampler in SAMPLERS:
        chain = our_chain(width, sampler)
        key = jax.random.key(0)
        taken = []
        for first in range(0, documents.size, BATCH):
            times = [time.process_time()]
            batch = documents.select(slice(first, first + BATCH))
            times.append(time.process_time())
            words, local = local_words(batch)
            times.append(time.process_time())
            beta = chain.topics.rows(words) / chain.topics.totals.astype(np.float32)
            times.append(time.process_time())
            expected = expected_counts(
                local, beta, chain.gamma, seed_at(key, first), sweeps=SWEEPS, burn_in=SWEEPS // 2
            )
            times.append(time.process_time())
            data_weight = documents.size / BATCH
            chain.topics.step(words, expected.counts * np.float32(data_weight), 0.01, 10.0, data_weight)
            times.append(time.process_time())
            taken.append(np.diff(times))
        median = 1e3 * np.median(taken[len(taken) // 4 :], axis=0)
        told = "".join(f"{x:9.2f} ({x / median.sum():4.0%})" for x in median)
        print(f"  {sampler:26}{told}{median.sum():10.2f}")


def memory(path: Path, sizes: Sizes, rounds: int) -> None:
    """Peak memory of the process that learns, read from a file that is repeated, prefetched."""
    from fokker.corpora import Vocabulary, open_corpus, prefetched

    learnt, _, width = load(path)
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "documents.ldac"
        with file.open("w", encoding="ascii") as out:
            for row in pairs(learnt):
                out.write(f"{len(row)} " + " ".join(f"{w}:{n}" for w, n in row) + "\n")
        corpus = open_corpus(file, vocabulary=Vocabulary.numbered(width), repeat=True)
        chain = our_chain(width, "sgrld")
        # Fewer sweeps, which hold no more memory for it.
        chain.sweeps, chain.burn_in = 4, 2
        seen = 0
        with prefetched(corpus, BATCH) as batches:
            for batch in batches:
                chain.step(batch, learnt.size)
                seen += batch.size
                if seen == sizes.streamed[len(peaks)]:
                    peaks.append(peak_memory())
                    print(f"  peak after {seen:>9,} documents: {peaks[-1]:10.1f} MB", flush=True)
                    if len(peaks) == len(sizes.streamed):
                        break
    print(f"  ratio: {peaks[1] / peaks[0]:.3f}")


def large(path: Path, sizes: Sizes, rounds: int) -> None:
    """500 topics and 100,000 words, words by Zipf's law; seconds of the processor, one core."""
    import numpy as np

    from fokker.corpora import Documents
    from fokker.models.topics.chain import TopicChain

    topics, width, length = 500, 100_000, 150
    generator = np.random.default_rng(0)
    shares_of_words = 1 / np.arange(1.0, width + 1)
    cumulative = np.cumsum(shares_of_words / shares_of_words.sum())
    drawn = [np.unique(np.searchsorted(cumulative, generator.random(length)), return_counts=True)
             for _ in range(sizes.large)]  # fmt: skip
    documents = Documents.from_rows(
        [(str(i), words.astype(np.int32), counts.astype(np.int32)) for i, (words, counts) in enumerate(drawn)]
    )
    print(f"  {topics} topics, {width:,} words, {length} tokens a document")
    for sampler in ("sgrld", "scir"):
        chain = TopicChain(width, topics, sampler=sampler, alpha=0.01, gamma=0.1)
        taken = [timed(lambda c=chain, b=batch: c.step(b, 10**6)) for batch in minibatches(documents)]
        median = np.median(taken[1:] or taken, axis=0)
        rate = BATCH / median
        print(f"  fokker {sampler:10}{rate[0]:10.1f} documents/s ({rate[1]:.1f} by the clock)")
    print(f"  peak memory {peak_memory():,.0f} MB; θ alone {4 * width * topics / 2**20:,.0f} MB")


PARTS: dict[str, Callable[[Path, Sizes, int], None]] = {
    part.__name__: part for part in (sweeps, loop, cores, perplexity, shares, memory, large)
}


def use_cores(number: int) -> None:
    """This process and what it starts, before any library counts the cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-number:])
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(number)


def measure_here(part: str, path: Path, sizes: Sizes, rounds: int) -> None:
    """In this process."""
    use_cores(CORES.get(part, 1))
    PARTS[part](path, sizes, rounds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if absent")
    parser.add_argument("--quick", action="store_true", help="fewer documents, one round")
    parser.add_argument("--rounds", type=int, default=3)
    for name, kind in (
        ("--documents", Path),
        ("--chunk", int),
        ("--number", int),
        ("--out", Path),
        ("--priors", int),
    ):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.parts == ["multicore"] and given.documents is not None:
        multicore(given.documents, given.number, given.chunk, given.priors or 0, given.out)
        return
    unknown = sorted(set(given.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    sizes, rounds = (QUICK, 1) if given.quick else (FULL, given.rounds)
    if given.documents is not None:
        measure_here(given.parts[0], given.documents, sizes, rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "documents.npz"
        prepare(sizes, path)
        options = ["--documents", str(path), "--rounds", str(given.rounds), *["--quick"] * given.quick]
        for part in given.parts or PARTS:
            print(f"\n{part}: {(PARTS[part].__doc__ or '').splitlines()[0]}", flush=True)
            subprocess.run([sys.executable, __file__, part, *options], check=True)


if __name__ == "__main__":
    main()
