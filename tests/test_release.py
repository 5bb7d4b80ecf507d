"""What a release is made of: one version, a command in two forms, archives with the same bytes each time."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fokker as fk
from fokker.cli import app

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_stands_in_one_place_and_heads_the_changelog():
    found = [
        path.relative_to(ROOT)
        for pattern in ("*.cff", "*.md", "docs/*.md", "src/fokker/*.py")
        for path in ROOT.glob(pattern)
        if re.search(rf"\bversion\W+{re.escape(PROJECT['version'])}\b", path.read_text(encoding="utf-8"))
    ]
    assert found == []
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == PROJECT["version"]


def test_extras_that_refer_to_extras_name_ones_that_there_are():
    extras = PROJECT["optional-dependencies"]
    named = [
        part for group in extras.values() for line in group for part in re.findall(r"fokker\[(.*)\]", line)
    ]
    assert set(",".join(named).split(",")) <= extras.keys()
    listed = (ROOT / "docs" / "releases.md").read_text().split("## Extras")[1].split("\n## ")[0]
    assert set(extras) <= set(re.findall(r"`(\w+)`", listed)) | {"docs"}


def test_every_action_is_pinned_by_a_version_and_no_credentials_are_kept():
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = workflow.read_text()
        for action, version in re.findall(r"uses: (\S+)@(\S+)", text):
            assert re.fullmatch(r"v\d+|release/v\d+", version), (workflow.name, action)
        assert text.count("actions/checkout@") == text.count("persist-credentials: false")
        for target in re.findall(r"run: make ([a-z-]+)", text):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M) or target == "docs", (
                target
            )


def test_a_release_is_published_only_where_its_tag_is_the_version():
    workflow = (ROOT / ".github" / "workflows" / "publish.yml").read_text()
    (check,) = re.findall(r"^ +run: (grep .*TAG.*)$", workflow, re.M)
    for tag, code in ((f"v{PROJECT['version']}", 0), (f"v{PROJECT['version']}.1", 1), ("v", 1)):
        result = subprocess.run(["bash", "-c", check], cwd=ROOT, env={**os.environ, "TAG": tag}, check=False)
        assert result.returncode == code, tag


def test_no_extra_adds_only_what_is_always_installed():
    core = {re.split(r"[<>=;\[ ]", line)[0] for line in PROJECT["dependencies"]}
    for extra, lines in PROJECT["optional-dependencies"].items():
        assert {re.split(r"[<>=; ]", line)[0] for line in lines} - core, extra


def test_the_command_says_its_version_and_completes():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == fk.__version__
    shown = CliRunner().invoke(app, ["--help"]).output
    assert "--install-completion" in shown
    environment = {"_FOKKER_COMPLETE": "complete_bash", "COMP_WORDS": "fokker ci", "COMP_CWORD": "1"}
    completed = CliRunner().invoke(app, [], env=environment, prog_name="fokker")
    assert completed.output.split() == ["cite"]


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "fokker", "cite", "sgld"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.rstrip("\n") == fk.cite("sgld")


@pytest.mark.slow
def test_archives_of_one_source_have_the_same_bytes(tmp_path):
    pytest.importorskip("hatchling")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    for name in ("first", "second"):
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / name)]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("first", "second"))
    assert len(first) == 2
    assert first == second
    (wheel,) = (tmp_path / "first").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"fokker/py.typed", "fokker/samplers/references.bib", "fokker/studio/page/index.html"} <= set(
        names
    )
    assert all(name.startswith("fokker") for name in names)
