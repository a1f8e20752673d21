"""Whole lines of files that grow, each once; and the files of a run."""

from __future__ import annotations

from pathlib import Path

from checkers.live.tail import LiveTrial, Tail, live_trials


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(data)


def ts(tail: Tail, path: Path) -> list[int]:
    return [row["t"] for row in tail.read(path)]


def test_a_line_is_read_once_it_has_an_end(tmp_path: Path) -> None:
    tail, path = Tail(), tmp_path / "a.jsonl"
    assert ts(tail, path) == []  # not there yet
    write(path, b'{"f":"phase","t":1}\n{"f":"phase",')
    assert ts(tail, path) == [1]
    assert tail.behind(path)
    assert ts(tail, path) == []
    write(path, b'"t":2}\n')
    assert ts(tail, path) == [2]
    assert not tail.behind(path)
    assert tail.skipped == 0


def test_what_is_no_row_is_counted_and_what_follows_a_torn_one_is_read(tmp_path: Path) -> None:
    tail, path = Tail(), tmp_path / "a.jsonl"
    write(path, b'{"f":"phase","t":1,"na{"f":"phase","t":2}\nnonsense\n[1]\n{"f":"x","t":3}\n')
    write(path, b'{"f":"phase"}\n{"f":"phase","t":"4"}\n{"f":"phase","t":5}\n')
    assert ts(tail, path) == [2, 5]
    assert tail.skipped == 5


def test_a_large_file_is_read_in_parts(tmp_path: Path, monkeypatch: object) -> None:
    import checkers.live.tail as module

    path, tail = tmp_path / "a.jsonl", Tail()
    write(path, b"".join(b'{"f":"phase","t":%d}\n' % n for n in range(100)))
    before, module._MOST_BYTES = module._MOST_BYTES, 250  # type: ignore[misc]
    try:
        found = ts(tail, path)
        assert 0 < len(found) < 100
        while tail.behind(path):
            found += ts(tail, path)
    finally:
        module._MOST_BYTES = before  # type: ignore[misc]
    assert found == list(range(100))


def test_traces_are_read_where_they_are_and_else_what_the_end_brings(tmp_path: Path) -> None:
    for name in ("live/harness", "live/consumer", "live/faults/flood", "live/node-1"):
        write(tmp_path / "trials" / "sut-dual-3" / f"{name}.jsonl", b"")
    (trial,) = live_trials(tmp_path)
    assert (trial.arm, trial.trial) == ("sut-dual", 3)
    names = [path.name for path in trial.clients()]
    assert names == ["consumer.jsonl", "flood.jsonl"]
    assert [path.name for path in trial.others()] == ["harness.jsonl", "node-1.jsonl"]
    write(trial.folder / "node-1" / "trace.jsonl", b"")
    assert [path.name for path in trial.others()] == ["harness.jsonl", "trace.jsonl"]


def test_a_folder_that_is_no_trial_is_none(tmp_path: Path) -> None:
    (tmp_path / "trials" / "odd" / "live").mkdir(parents=True)
    assert live_trials(tmp_path) == []
    assert LiveTrial(tmp_path / "nowhere", "a", 0).clients() == []
