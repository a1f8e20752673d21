"""`biplane reproduce` and `biplane track-record`, with plays that are no clusters."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.bugs import play
from harness.bugs.book import NOT_SHOWN, load_all
from harness.cli import app
from harness.run import Recorded
from harness.runtime.protocol import SetupError
from harness.studies import playing
from harness.studies.ledger import Play
from tests.harness.bugs.test_book import GOOD, written
from tests.harness.bugs.test_play import Played

OTHER = GOOD.replace('"KAFKA-1"', '"KAFKA-2"')


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs it on two bugs; ``played`` stands for the clusters."""
    folder = tmp_path / "bugs"
    folder.mkdir()
    written(folder, GOOD)
    written(folder, OTHER, "KAFKA-2")

    def run(name: str, *words: str, played: Any = None) -> tuple[int, str]:
        monkeypatch.setattr(play, "player", lambda *_a, **_k: played and played.record)
        monkeypatch.setattr(playing, "judges", played and played.judges)
        options = ("--bugs", str(folder), "--store", str(tmp_path / "store"))
        done = CliRunner().invoke(app, [name, *words, *options])
        return done.exit_code, " ".join(done.output.split())

    return run


def test_shown_both_ways_is_success(command: Any) -> None:
    code, said = command("reproduce", "KAFKA-1", played=Played({2}))
    assert code == 0
    assert "KAFKA-1 on kafka-zk@2.5.0 (broken), try 2: found" in said
    assert "2.5.0 has it: found in 1 of 2 tries" in said
    assert "2.5.1 mended it: valid in 1 of 1 tries" in said
    assert '1 ms, 0 ms: kill {"target": "leader:t-0"}' in said


def test_one_that_is_not_shown_fails_the_whole(command: Any) -> None:
    code, said = command("reproduce", "--all", "--tries", "1", played=Played(set()))
    assert code == 2
    assert "not shown both ways: KAFKA-1, KAFKA-2" in said


def test_a_release_that_is_not_here_does_not_end_the_others(command: Any) -> None:
    class NotHere(Played):
        def record(self, play: Play) -> Recorded:
            if play.scenario == "KAFKA-1":
                raise SetupError("Kafka 2.5.0 is not on this machine")
            return super().record(play)

    code, said = command("reproduce", "--all", "--tries", "2", played=NotHere({1}))
    assert code == 2
    assert said.count("KAFKA-1 cannot be played here: Kafka 2.5.0 is not on this machine") == 1
    assert "KAFKA-2 on kafka-zk@2.5.1 (mended), try 1: valid" in said


def test_what_was_kept_makes_the_page(command: Any, tmp_path: Path) -> None:
    command("reproduce", "KAFKA-1", "--tries", "2", played=Played({1}))
    page = tmp_path / "docs" / "track-record.md"
    code, _ = command("track-record", "--out", str(page))
    assert code == 0
    assert "recovery: never-in-sync | 1/2 (" in page.read_text()
    assert "| KAFKA-2 | kafka-zk 2.5.0 | recovery: never-in-sync | - |" in page.read_text()
    (tmp_path / "bugs" / NOT_SHOWN).write_text("## Not shown\n\nKAFKA-3: in vain.\n")
    command("track-record", "--out", str(page))
    assert page.read_text().endswith("\n\n## Not shown\n\nKAFKA-3: in vain.\n")


def test_the_page_outlives_the_store(command: Any, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "track-record.md"
    command("reproduce", "KAFKA-1", "--tries", "2", played=Played({1}))
    command("track-record", "--out", str(page))
    said = page.read_text()
    assert "from 4 runs on commit" in said
    shutil.rmtree(tmp_path / "store")
    command("track-record", "--out", str(page))
    assert page.read_text() == said
    written(tmp_path / "bugs", GOOD.replace("at_ms = 1", "at_ms = 2"))  # another plan
    command("track-record", "--out", str(page))
    assert "from 0 runs (" in page.read_text()
    assert "| KAFKA-1 | kafka-zk 2.5.0 | recovery: never-in-sync | - |" in page.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "no bug is named"),
        (("KAFKA-3",), "'KAFKA-3'; allowed: KAFKA-1, KAFKA-2"),
        (("KAFKA-1", "--budget", "soon"), "--budget: 'soon'; allowed"),
    ],
)
def test_bad_arguments_are_named(command: Any, words: tuple[str, ...], says: str) -> None:
    code, said = command("reproduce", *words, played=Played(set()))
    assert code == 2  # main() makes 254 of it
    assert says in said.replace("│ ", "").replace(" │", "")


def test_the_corpus_is_where_the_command_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[3])
    assert {"KAFKA-9839", "KAFKA-13141", "KAFKA-14139"} <= set(load_all())
