"""What pip installs works by itself, in an empty folder far from the project's tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import pytest

from harness.runtime import paths

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("nodes", "harness", "faults", "checkers")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that holds the packages alone, as site-packages does."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name in PACKAGES:
        subprocess.run(["cp", "-r", str(ROOT / name), str(folder / name)], check=True)
    return folder


def biplane(
    installed: Path, folder: Path, *arguments: str, path: str = "/usr/bin:/bin"
) -> subprocess.CompletedProcess[str]:
    """The console script's work, in ``folder``, by the packages of ``installed``."""
    code = "import sys; from harness.cli import main; sys.argv[0] = 'biplane'; main()"
    others = [str(p) for p in sys.path if "site-packages" in p or p.startswith("/tmp/")]
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        cwd=folder,
        env={"PYTHONPATH": ":".join([str(installed), *others]), "HOME": str(folder), "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_an_empty_folder_far_from_the_tree_will_do(installed: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    listed = biplane(installed, empty, "scenarios")
    assert "request-flood (single, dual" in listed.stdout, listed.stderr
    assert not listed.returncode
    refused = biplane(installed, empty, "run", "request-flood", path=str(tmp_path / "nowhere"))
    assert refused.returncode == 254
    assert "apt-get install -y openjdk-17-jre-headless" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "make setup" not in refused.stderr


@pytest.mark.slow
@pytest.mark.spark
def test_it_judges_far_from_the_tree(installed: Path, tmp_path: Path) -> None:
    """By its exit code as well: what is broken, and what is no run."""
    made = ("history", "generate", "run", "--rows", "6k", "--plant", "metadata-never-committed=1")
    assert biplane(installed, tmp_path, *made).returncode == 0
    record = json.loads((tmp_path / "run/run.json").read_text())
    record["expectations"]["checks"] = ["stale-metadata"]
    (tmp_path / "run/run.json").write_text(json.dumps(record))
    done = biplane(installed, tmp_path, "check", "run")
    assert done.returncode == 1, done.stderr[-3000:]
    assert "1 x metadata-never-committed" in done.stdout
    (tmp_path / "run/history/_history.json").unlink()
    nothing = biplane(installed, tmp_path, "check", "run")
    assert nothing.returncode == 254
    assert "_history.json: it is missing" in nothing.stderr


def test_what_it_installs_lies_in_the_users_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BIPLANE_HOME", raising=False)
    assert paths.in_checkout()
    assert paths.home() == ROOT / ".biplane"
    assert paths.setup_or("pip install x") == "make setup"
    monkeypatch.setattr(paths, "PACKAGES", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert paths.home() == tmp_path / ".local/share/biplane"
    assert paths.setup_or("pip install x") == "pip install x"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")  # to be ignored, says the specification
    assert paths.home() == tmp_path / ".local/share/biplane"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert paths.home() == tmp_path / "data/biplane"
    monkeypatch.setenv("BIPLANE_HOME", str(tmp_path / "mine"))
    assert paths.home() == tmp_path / "mine"


def test_every_file_of_the_packages_is_packed() -> None:
    """Modules by themselves; whatever else by pyproject's word."""
    packed = PROJECT["tool"]["setuptools"]["package-data"]
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert tracked
    for path in map(Path, tracked):
        folder = ".".join(path.parent.parts)
        ways = [
            (package, pattern)
            for package, patterns in packed.items()
            for pattern in patterns
            if folder == package or folder.startswith(f"{package}.")
        ]
        named = [path.relative_to(package.replace(".", "/")) for package, _ in ways]
        held = any(fnmatch(str(n), pattern) for n, (_, pattern) in zip(named, ways, strict=True))
        assert path.suffix == ".py" or held, f"{path} is in no wheel"


def test_what_images_are_built_of_is_found_out_of_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip lays it out, and the tags are the same: an image is of its recipe alone."""
    docker_images = pytest.importorskip("harness.runtime.docker_images")
    tags = [docker_images.tag(image) for image in docker_images.Image]
    share, site = tmp_path / "share" / "biplane", tmp_path / "site"
    for folder, patterns in PROJECT["tool"]["setuptools"]["data-files"].items():
        (tmp_path / folder).mkdir(parents=True)
        for file in (file for pattern in patterns for file in ROOT.glob(pattern)):
            shutil.copy(file, tmp_path / folder)
    (site / "nodes").mkdir(parents=True)
    (site / "nodes" / "__main__.py").write_text("")
    monkeypatch.setattr(paths, "PACKAGES", site)
    monkeypatch.setattr(metadata, "files", lambda _: [])
    with pytest.raises(FileNotFoundError):
        paths.recipes()
    found = metadata.PackagePath("../share/biplane/Dockerfile")
    found.dist = metadata.PathDistribution(site / "biplane-0.1.0.dist-info")
    monkeypatch.setattr(metadata, "files", lambda _: [found])
    assert paths.recipes() == share
    assert [docker_images.tag(image) for image in docker_images.Image] == tags
    with docker_images._node_context() as context:
        copied = [line.split()[1] for line in (context / "Dockerfile").read_text().splitlines()
                  if line.startswith("COPY ") and "--from" not in line]  # fmt: skip
        assert {"nodes/", "pyproject.toml"} <= set(copied)
        assert all((context / name).exists() for name in copied)
    assert (share / "containers" / "base.sh").exists()


def test_what_installs_all_leaves_out_docker_alone() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert PROJECT["project"]["dependencies"] == ["biplane[nodes,harness,spark]"]
    assert [name.partition("=")[0] for name in extras["docker"]] == ["docker"]
    assert [name.partition("=")[0] for name in extras["spark"]] == ["pyspark"]
    assert set(extras) == {"nodes", "harness", "spark", "connect", "sail", "docker", "dev"}
