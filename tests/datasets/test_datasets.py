"""Images, the catalogue, and downloads from a server in this process."""

import gzip
import hashlib
import http.server
import io
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

import fokker as fk
from fokker.cli import app
from fokker.datasets import catalogue, mnist, read_idx
from fokker.datasets.catalogue import CATALOGUE, DataFile, DataSet, find_dataset
from fokker.datasets.download import DownloadError, check_file, get_dataset
from fokker.datasets.folder import VARIABLE, data_folder, find_file

CONTENTS = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENTS).hexdigest()


def idx(array: np.ndarray, kind: int = 0x08) -> bytes:
    return bytes([0, 0, kind, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write_mnist(folder: Path, num_train: int = 6, num_test: int = 4) -> None:
    """Files like those of MNIST, two of them compressed."""
    generator = np.random.default_rng(0)
    for part, number in (("train", num_train), ("t10k", num_test)):
        images = generator.integers(0, 256, (number, 28, 28)).astype(np.uint8)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        labels = (np.arange(number) % 10).astype(np.uint8)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))


def test_idx_files_of_every_type(tmp_path: Path) -> None:
    path = tmp_path / "array"
    for kind, dtype in (
        (0x08, ">u1"),
        (0x09, ">i1"),
        (0x0B, ">i2"),
        (0x0C, ">i4"),
        (0x0D, ">f4"),
        (0x0E, ">f8"),
    ):
        array = np.arange(-3, 9).reshape(2, 3, 2).astype(dtype)
        path.write_bytes(idx(array, kind))
        found = read_idx(path)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == np.dtype(dtype).newbyteorder("=")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "not a file of the IDX format: it begins with nothing"),
        (b"\x89PNG", "it begins with 89 50 4e 47; two zero bytes"),
        (b"\0\0\x07\x01\0\0\0\x01\0", "not a file of the IDX format"),
        (
            idx(np.zeros((3, 2), np.uint8))[:-1],
            "has 17 bytes; its header declares 3 × 2 entries, which need 18",
        ),
        (idx(np.zeros((3, 2), np.uint8)) + b"\0", "has 19 bytes"),
        (b"\0\0\x08\x03\0\0\0\x01", "cut short"),
    ],
)
def test_idx_files_that_are_damaged_are_refused(contents: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(contents)
    with pytest.raises(ValueError, match=message):
        read_idx(tmp_path / "images")


def test_mnist_is_found_in_the_folder_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=r"train-images-idx3-ubyte .*`fokker data get mnist`.*\(folder=…\)"
    ):
        mnist()
    (tmp_path / "mnist").mkdir()
    write_mnist(tmp_path / "mnist")
    images = mnist()
    assert images.train_images.shape == (6, 28, 28)
    assert images.test_labels.tolist() == [0, 1, 2, 3]
    monkeypatch.delenv(VARIABLE)
    assert np.array_equal(mnist(tmp_path).test_images, images.test_images)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(idx(np.arange(5, dtype=np.uint8)))
    with pytest.raises(
        ValueError, match=r"the test images of MNIST have the shape .*one label from 0 to 9 per"
    ):
        mnist(tmp_path)


def test_the_folder_of_data_is_the_option_then_the_variable_then_the_users_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "/of/variable")
    assert data_folder("/given") == Path("/given")
    assert data_folder() == Path("/of/variable")
    monkeypatch.delenv(VARIABLE)
    assert data_folder().parts[-2:] == ("fokker", "data")


def test_the_catalogue_is_consistent() -> None:
    for name, dataset in CATALOGUE.items():
        assert name == dataset.name
        assert dataset.terms
        assert dataset.source
        assert dataset.reader
        # What can be downloaded can be checked; a data set without an address says why.
        assert all(len(file.sha256) == 64 for file in dataset.files if file.address)
        assert bool(dataset.refusal) == (not any(file.address for file in dataset.files))
        assert all(file.address.startswith("https://") for file in dataset.files if file.address)
    with pytest.raises(ValueError, match=r"no data set 'minst'\. Did you mean 'mnist'"):
        find_dataset("minst")
    with pytest.raises(FileNotFoundError, match=r"cannot be downloaded .* github\.com/mlresearch"):
        find_file("icml-abstracts-2013-2015", "bow.npz", "/nowhere")


def test_the_command_line_starts_without_numpy() -> None:
    program = "import sys, fokker.cli; print('numpy' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(fk.__file__).parents[1])}
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert answer.stdout.strip() == "False"
    assert set(dir(fk.datasets)) == set(fk.datasets.__all__)
    with pytest.raises(AttributeError, match="no attribute 'cifar'"):
        _ = fk.datasets.cifar


def tar_of(contents: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("package/data/file")
        member.size = len(contents)
        archive.addfile(member, io.BytesIO(contents))
    return buffer.getvalue()


def zip_of(contents: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("package/data/file", contents)
    return buffer.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves /plain, /archives and what misbehaves; `requests` lists the ranges asked for."""

    requests: ClassVar[list[tuple[str, str | None]]] = []
    is_cut = True

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        type(self).requests.append((self.path, asked))
        body = {
            "/plain": CONTENTS,
            "/gz": gzip.compress(CONTENTS),
            "/tar": tar_of(CONTENTS),
            "/zip": zip_of(CONTENTS),
            "/other": b"another file",
            "/cut": CONTENTS,
            "/restart": CONTENTS,
        }.get(self.path)
        if body is None:
            self.send_error(404)
            return
        start = 0
        if asked and self.path != "/restart":
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        if self.path in ("/cut", "/restart") and type(self).is_cut:
            type(self).is_cut = False
            self.wfile.write(body[start : start + 100_000])
            return  # and the connection is closed
        self.wfile.write(body[start:])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "requests", [])
    monkeypatch.setattr(Handler, "is_cut", True)
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)


def dataset_at(address: str, sha256: str = SHA256, member: str = "", number: int = 1) -> DataSet:
    names = ["file", "second"][:number]
    files = tuple(DataFile(name, sha256, address, member) for name in names)
    return DataSet("small", "a file", "1", "free", "here", "open", files)


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("kind", "member", "stored"),
    [
        ("plain", "", "file"),
        ("gz", "", "file.gz"),
        ("tar", "package/data/file", "file"),
        ("zip", "package/data/file", "file"),
    ],
)
def test_a_file_is_downloaded_checked_and_moved_into_its_place(
    kind: str, member: str, stored: str, address: str, tmp_path: Path
) -> None:
    dataset = dataset_at(f"{address}/{kind}", member=member)
    seen: list[tuple[int, int]] = []
    written = get_dataset(dataset, tmp_path, lambda _: lambda received, total: seen.append((received, total)))
    assert written == [tmp_path / "small" / stored]
    assert visible(tmp_path) == [stored]
    assert check_file(tmp_path, dataset, dataset.files[0]).is_right is True
    assert seen[-1][0] == seen[-1][1] > 0
    assert get_dataset(dataset, tmp_path) == []
    assert len(Handler.requests) == 1
    # A file that is damaged later is seen, and replaced.
    written[0].write_bytes(b"damaged")
    assert check_file(tmp_path, dataset, dataset.files[0]).is_right is False
    assert get_dataset(dataset, tmp_path) == written
    assert check_file(tmp_path, dataset, dataset.files[0]).is_right is True
    # So is one that is compressed otherwise, and would be found before the right one.
    (tmp_path / "small" / "file").write_bytes(b"damaged")
    get_dataset(dataset, tmp_path)
    assert visible(tmp_path) == [stored]
    assert check_file(tmp_path, dataset, dataset.files[0]).is_right is True


def test_files_of_one_archive_are_downloaded_once(address: str, tmp_path: Path) -> None:
    dataset = dataset_at(f"{address}/tar", member="package/data/file", number=2)
    assert len(get_dataset(dataset, tmp_path)) == 2
    assert len(Handler.requests) == 1


def test_a_wrong_file_is_not_kept(address: str, tmp_path: Path) -> None:
    for path, member, message in (
        ("other", "", r"/other is not the file that was expected: the SHA-256 of file is .*, not " + SHA256),
        ("tar", "package/none", "does not contain package/none"),
        ("plain", "package/none", "does not contain package/none"),
    ):
        with pytest.raises(DownloadError, match=message):
            get_dataset(dataset_at(f"{address}/{path}", member=member), tmp_path)
        assert visible(tmp_path) == []


def test_a_cut_download_continues_where_it_ended(address: str, tmp_path: Path) -> None:
    dataset = dataset_at(f"{address}/cut")
    with pytest.raises(DownloadError, match=r"cut after 100,000 of 256,000 bytes: run the command again"):
        get_dataset(dataset, tmp_path)
    assert check_file(tmp_path, dataset, dataset.files[0]).path is None
    written = get_dataset(dataset, tmp_path)
    assert written[0].read_bytes() == CONTENTS
    assert Handler.requests == [("/cut", None), ("/cut", "bytes=100000-")]
    assert visible(tmp_path) == ["file"]


def test_a_server_that_cannot_continue_starts_again(address: str, tmp_path: Path) -> None:
    dataset = dataset_at(f"{address}/restart")
    with pytest.raises(DownloadError, match="cut after"):
        get_dataset(dataset, tmp_path)
    assert get_dataset(dataset, tmp_path)[0].read_bytes() == CONTENTS


def test_a_part_that_is_too_long_or_of_another_file_is_dropped(address: str, tmp_path: Path) -> None:
    dataset = dataset_at(f"{address}/cut")
    with pytest.raises(DownloadError, match="cut after"):
        get_dataset(dataset, tmp_path)
    (part,) = (tmp_path / "small").iterdir()
    part.write_bytes(b"x" * len(CONTENTS))
    assert get_dataset(dataset, tmp_path)[0].read_bytes() == CONTENTS
    assert [asked for _, asked in Handler.requests] == [None, f"bytes={len(CONTENTS)}-", None]
    (tmp_path / "small" / "file").unlink()
    part.write_bytes(b"x" * 1000)
    with pytest.raises(DownloadError, match="is not the file that was expected"):
        get_dataset(dataset, tmp_path)
    assert get_dataset(dataset, tmp_path)[0].read_bytes() == CONTENTS


def test_an_address_without_a_file_and_a_network_that_is_not_there(address: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"/gone answered 404 .* get it elsewhere"):
        get_dataset(dataset_at(f"{address}/gone"), tmp_path)
    # Port 9 of this machine: nothing listens there.
    with pytest.raises(
        DownloadError, match=r"127\.0\.0\.1:9/file cannot be reached: .* run the command again"
    ):
        get_dataset(dataset_at("http://127.0.0.1:9/file"), tmp_path)
    (tmp_path / "a file").write_text("in the way")
    with pytest.raises(DownloadError, match=r"cannot be written: .* \(folder=…\)"):
        get_dataset(dataset_at(f"{address}/plain"), tmp_path / "a file")


def test_the_commands(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = dataset_at(f"{address}/plain")
    small = replace(small, files=(*small.files, DataFile("unpublished", SHA256)))
    closed = replace(CATALOGUE["ml-1m"])
    monkeypatch.setattr(catalogue, "CATALOGUE", {"small": small, "ml-1m": closed})
    monkeypatch.setattr("fokker.cli.data.CATALOGUE", {"small": small, "ml-1m": closed})
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    runner = CliRunner()
    assert runner.invoke(app, ["data", "check"]).exit_code == 1
    answer = runner.invoke(app, ["data", "get", "small"])
    assert answer.exit_code == 0
    assert f"wrote {tmp_path / 'small' / 'file'}" in answer.output
    assert "Not published, so not downloaded: unpublished." in answer.output
    assert "Terms: free." in answer.output
    assert "already" in runner.invoke(app, ["data", "get", "small"]).output
    listed = runner.invoke(app, ["data", "list"]).output
    assert "1 of 2 files" in listed
    assert "forbid" in listed
    # Every word is whole in a terminal of 80 columns.
    assert all(len(line) <= 80 for line in listed.splitlines() if not line.startswith("data sets in"))
    assert all(word in listed.split() for word in closed.refusal.split())
    refused = runner.invoke(app, ["data", "get", "ml-1m"])
    assert "its terms forbid passing it on" in str(refused.exception)
    assert "grouplens.org" in str(refused.exception)
    assert 'fk.datasets.read_ratings("ml-1m")' in str(refused.exception)
    checked = runner.invoke(app, ["data", "check"])
    assert (checked.exit_code, checked.output) == (0, "small/file: right\n")
    (tmp_path / "small" / "file").write_bytes(b"damaged")
    checked = runner.invoke(app, ["data", "check", "small"])
    assert checked.exit_code == 1
    assert "small/file: WRONG" in checked.output
    assert "small/unpublished: not there" in checked.output


@pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"{VARIABLE} is not set")
def test_the_real_files_are_those_of_the_catalogue() -> None:
    folder = data_folder()
    for name in ("mnist", "movielens-latest-small", "goodbooks-10k"):
        dataset = CATALOGUE[name]
        if (folder / name).is_dir():
            assert all(check_file(folder, dataset, file).is_right for file in dataset.files)
