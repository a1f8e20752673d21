"""The soak sees what leaks, and only that; and it runs."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import soak_clients
from benchmarks.soak import soak
from benchmarks.soak_samples import (
    Descriptors,
    Sample,
    Soaked,
    judge,
    read_descriptors,
    sort_descriptors,
    stray_files,
    table,
)

MIB = 1024 * 1024
LOGS = Path("/data/logs")


def sample(at_s: float, rss_mib: float = 100, **changes: Any) -> Sample:
    descriptors = changes.pop("descriptors", Descriptors(sockets=10, logs=3, others=5))
    fields = {"threads": 20, "produced": 500, "consumed": 500} | changes
    rss_bytes = int(rss_mib * MIB)
    return Sample(at_s=at_s, rss_bytes=rss_bytes, descriptors=descriptors, **fields)


@pytest.fixture
def sound() -> Soaked:
    """Busy, larger than in the beginning, with more logs; all of it lawful."""
    busy = Descriptors(sockets=90, logs=9, others=5)
    loaded = [
        sample(at_s, rss, descriptors=busy, waiting=70, consumed=0)
        for at_s, rss in ((60, 80), (120, 100), (180, 129), (240, 129))
    ]
    return Soaked(
        calm=sample(0, 50),
        loaded=loaded,
        after=sample(250, 60, descriptors=Descriptors(sockets=10, logs=9, others=5)),
        reference_s=120,
        attempts={"churn": 3},
    )


def test_what_is_sound_is_called_so(sound: Soaked) -> None:
    assert judge(sound) == []
    assert judge(sound, 79) == []
    assert len(table(sound).splitlines()) == 1 + 1 + 4 + 1


def test_growth_is_held_against_the_level_that_was_reached(sound: Soaked) -> None:
    loaded = list(sound.loaded)
    sound.loaded = [*loaded, sample(300, 131)]
    (problem,) = judge(sound)
    assert "100 MiB at 120 s to 131 MiB at 300 s" in problem
    sound.loaded = [*loaded, sample(270, 500), sample(300, 130)]  # what was given back is no leak
    assert judge(sound) == []


@pytest.mark.parametrize(
    ("after", "word"),
    [
        ({"descriptors": Descriptors(sockets=11, logs=3, others=5)}, "sockets: 10 before, 11"),
        ({"descriptors": Descriptors(sockets=9, logs=3, others=6)}, "no log: 5 before, 6"),
        ({"waiting": 1}, "still waiting"),
        ({"consumed": 499}, "500 records acknowledged, 499 read"),
        (
            {
                "descriptors": Descriptors(
                    sockets=10, logs=3, others=5, strays=frozenset({"/tmp/evil"})
                )
            },
            "/tmp/evil",
        ),
    ],
)
def test_what_is_left_behind(sound: Soaked, after: dict[str, Any], word: str) -> None:
    sound.after = sample(250, 60, **after)
    (problem,) = judge(sound)
    assert word in problem


def test_a_stray_that_was_seen_once_is_enough(sound: Soaked) -> None:
    seen = replace(sound.loaded[0].descriptors, strays=frozenset({"/tmp/evil"}))
    sound.loaded = [replace(sound.loaded[0], descriptors=seen), *sound.loaded[1:]]
    assert ["/tmp/evil" in problem for problem in judge(sound)] == [True]
    sound.calm = replace(sound.calm, descriptors=seen)
    assert judge(sound) == []  # it was open before anybody came: the broker's own output


def test_a_run_in_which_nothing_happened_proves_nothing(sound: Soaked) -> None:
    assert "churn" in judge(replace(sound, attempts={"churn": 0, "heartbeats": 1}))[0]
    assert judge(replace(sound, attempts={}))
    assert judge(replace(sound, loaded=sound.loaded[:2]))
    quiet = [replace(s, produced=0) for s in sound.loaded]
    assert judge(replace(sound, loaded=quiet))
    assert "cost 79 MiB, more than 78" in judge(sound, 78)[0]


def test_descriptors_are_told_apart() -> None:
    found = sort_descriptors(
        [
            ("socket:[1]", True),
            ("socket:[2]", True),
            (f"{LOGS}/t-0/00.log", True),
            ("/data/logs-not/t-0/00.log", True),
            ("anon_inode:[eventpoll]", True),
            ("pipe:[3]", True),
            ("/dev/null", True),
            ("/usr/lib/python3/x.py", False),
        ],
        LOGS,
    )
    strays = frozenset({"/data/logs-not/t-0/00.log"})
    assert found == Descriptors(sockets=2, logs=1, others=5, strays=strays)
    assert found.total == 8


def test_descriptors_of_a_process(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    before = read_descriptors(os.getpid(), logs)
    with (
        socket.socket(),
        (logs / "a").open("w"),
        (tmp_path / "stray").open("w"),
        (tmp_path / "stray").open("r"),
    ):
        now = read_descriptors(os.getpid(), logs)
    assert (now.sockets - before.sockets, now.logs, now.others - before.others) == (1, 1, 2)
    assert now.strays - before.strays == {str(tmp_path / "stray")}


def test_files_beside_the_logs(tmp_path: Path) -> None:
    folder, around = tmp_path / "folder", tmp_path / "around"
    for path in (folder / "logs" / "t-0", folder / "zookeeper", around / "others"):
        path.mkdir(parents=True)
    (folder / "broker.log").touch()

    def found() -> list[str]:
        return stray_files(folder, folder / "logs", [around], "soak12")

    assert found() == []
    (folder / "evil").touch()
    (around / "x-soak12-0").mkdir()
    assert found() == [str(around / "x-soak12-0"), str(folder / "evil")]


@pytest.mark.slow
def test_a_very_short_one() -> None:
    """Everybody gets to do something, and all is given back; for memory it is too short."""
    soaked = soak(3.0, 0.5, fetchers=2)
    assert set(soaked.attempts) == set(soak_clients.ROLES)
    assert [problem for problem in judge(soaked) if "memory grew" not in problem] == []
    assert max(s.groups for s in soaked.loaded) > 0
    assert max(s.waiting for s in soaked.loaded) > 0
    assert max(s.descriptors.sockets for s in soaked.loaded) > 40
