"""Broken copies of evidence: how they are made, and what comes of them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.history import HistoryError
from checkers.history.made import make
from checkers.history.made.plants import parse
from checkers.history.parts import read_table
from checkers.history.schema import KINDS, PARTITION_COLUMNS, arrow_schema
from harness.studies.ledger import Budget, Entry, Play
from harness.studies.sensitivity import groups, judging, kept, study
from harness.studies.sensitivity.breaking import (
    ALWAYS,
    ANSWER,
    ONCE,
    ROW,
    Breakage,
    Tables,
    breakages,
    broken,
    ways,
)
from harness.studies.sensitivity.columns import why_left_out
from harness.studies.sensitivity.judging import Judged
from harness.studies.sensitivity.page import page
from harness.studies.sensitivity.reasons import REASONS, why_unnoticed

METADATA = [
    {
        "t": t, "process": "reader", "node": 1 + t % 2, "seq": t, "type": "ok", "error": 0,
        "topic": "t", "partition": 0, "leader": 1 + t // 6, "isr": [1, 2, 3],
    }
    for t in range(10)
]  # fmt: skip


def tables(**rows: list[dict[str, Any]]) -> Tables:
    return {kind: pa.Table.from_pylist(of, schema=arrow_schema(kind)) for kind, of in rows.items()}


def changed(column: str, way: str, width: str, seed: int = 1) -> list[tuple[int, Any]]:
    """Which rows of the column say something else, by t."""
    copy = broken(tables(metadata=METADATA), Breakage("metadata", column, way, width), seed)
    if copy is None:
        return []
    rows = copy["metadata"].to_pylist()
    return [
        (n["t"], n[column]) for o, n in zip(METADATA, rows, strict=True) if n[column] != o[column]
    ]


def test_always_is_one_brokers_rows_from_the_middle_on() -> None:
    assert changed("leader", "one more", ALWAYS) == [(5, 2), (7, 3), (9, 3)]


def test_once_is_one_row_of_the_later_half_drawn_by_seed() -> None:
    drawn = {changed("leader", "one more", ONCE, seed)[0][0] for seed in range(20)}
    assert all(len(changed("leader", "one more", ONCE, seed)) == 1 for seed in range(20))
    assert drawn <= {5, 6, 7, 8, 9}
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("column", "way", "says"),
    [
        ("leader", "one less", [(5, 0), (7, 1), (9, 1)]),
        ("leader", "far", [(5, 100_001), (7, 100_002), (9, 100_002)]),
        ("leader", "another's", [(5, 2), (7, 1), (9, 1)]),
        ("leader", "none", [(5, -1), (7, -1), (9, -1)]),
        ("error", "null", [(5, None), (7, None), (9, None)]),
        ("topic", "empty", [(5, ""), (7, ""), (9, "")]),
        ("topic", "another's", []),
        ("isr", "last left out", [(t, [1, 2]) for t in (5, 7, 9)]),
        ("isr", "two exchanged", [(t, [2, 1, 3]) for t in (5, 7, 9)]),
        ("isr", "first twice", [(t, [1, 1, 2, 3]) for t in (5, 7, 9)]),
        ("replicas", "null", []),
    ],
)
def test_ways(column: str, way: str, says: list[tuple[int, Any]]) -> None:
    assert changed(column, way, ALWAYS) == says


def test_a_flag_is_flipped_and_a_field_of_a_list_is_changed_in_its_first() -> None:
    parts = [{"topic": "t", "partition": p, "leader": 1, "leader_epoch": 4} for p in (0, 1)]
    rows = tables(
        replica_stop=[{"t": 1, "node": 1, "delete": True}],
        control_send=[{"t": 1, "node": 1, "api": "LEADER_AND_ISR", "partitions": parts}],
    )
    flipped = broken(rows, Breakage("replica_stop", "delete", "flipped", ONCE), 1)
    assert flipped is not None
    assert flipped["replica_stop"]["delete"].to_pylist() == [False]
    sent = broken(
        rows,
        Breakage("control_send", "partitions.leader_epoch", "one less", ALWAYS, "LEADER_AND_ISR"),
        1,
    )
    assert sent is not None
    (said,) = sent["control_send"]["partitions"].to_pylist()
    assert [one["leader_epoch"] for one in said] == [3, 4]


def test_of_a_kind_with_several_sorts_of_answers_one_lies() -> None:
    asked = (-1, -2, 1_000, -1)
    rows = tables(
        listed_offset=[
            {"t": t, "node": 1, "asked_ms": ms, "offset": 7 if ms != -2 else -1}
            for t, ms in enumerate(asked)
        ]
    )
    assert {one.sort for one in breakages(rows)} == {"end", "beginning", "time"}
    lie = Breakage("listed_offset", "offset", "one more", ALWAYS, "end")
    assert str(lie) == "listed_offset[end].offset: one more, always"
    copy = broken(rows, lie, 1)
    assert copy is not None
    assert copy["listed_offset"]["offset"].to_pylist() == [7, -1, 7, 8]
    none = Breakage("listed_offset", "offset", "one more", ALWAYS, "beginning")
    assert broken(rows, none, 1) is None  # it said that there is none


def test_times_are_wrong_by_what_no_measuring_is() -> None:
    rows = tables(control_request=[{"t": 1, "node": 1, "api": "A", "receive_t": 5}])
    copy = broken(rows, Breakage("control_request", "receive_t", "one more", ONCE, "A"), 1)
    assert copy is not None
    assert copy["control_request"]["receive_t"].to_pylist() == [1_000_000_005]


def test_answers_are_refused_or_granted_as_a_client_writes_it() -> None:
    rows = tables(metadata=METADATA)
    copy = broken(rows, Breakage("metadata", ANSWER, "denied", ALWAYS), 1)
    assert copy is not None
    said = [(r["t"], r["type"], r["error"]) for r in copy["metadata"].to_pylist()]
    assert [one for one in said if one[1:] != ("ok", 0)] == [(t, "fail", 6) for t in (5, 7, 9)]
    assert broken(rows, Breakage("metadata", ANSWER, "granted", ALWAYS), 1) is None


def test_rows_are_lost_twice_or_were_never_told() -> None:
    rows = tables(
        leader_change=[
            {"t": t, "process": "node-1", "node": 1, "boot": 1, "seq": t} for t in (0, 2, 4)
        ],
        truncation=[{"t": 5, "process": "node-1", "node": 1, "boot": 1, "seq": 5}],
        source=[
            {"t": 5, "process": "node-1", "node": 1, "boot": 1, "rows": 6, "last_seq": 5,
             "stored": '{"leader_change": {"node-1": 3}, "truncation": {"node-1": 1}}'},
        ],
    )  # fmt: skip

    def seqs(way: str) -> dict[str, list[int]]:
        copy = broken(rows, Breakage("leader_change", ROW, way, ALWAYS), 1)
        assert copy is not None
        return {kind: of["seq"].to_pylist() for kind, of in copy.items() if kind != "source"}

    assert seqs("lost") == {"leader_change": [0]}
    assert seqs("twice") == {"leader_change": [0, 2, 4, 2, 4]}
    assert seqs("never told") == {"leader_change": [0], "truncation": [3]}
    copy = broken(rows, Breakage("leader_change", ROW, "never told", ALWAYS), 1)
    assert copy is not None
    (account,) = copy["source"].to_pylist()
    assert (account["rows"], account["last_seq"]) == (4, 3)
    assert account["stored"] == '{"leader_change": {"node-1": 1}, "truncation": {"node-1": 1}}'


def test_a_breakage_reads_as_it_is_written() -> None:
    rows = tables(**{kind: [{"t": 1}] for kind in KINDS})
    for one in breakages(rows):
        assert Breakage.of(str(one)) == one


def test_what_nobody_says_is_left_out_with_its_reason() -> None:
    rows = tables(metadata=METADATA, fault=[{"t": 1}])
    names = {(one.kind, one.column) for one in breakages(rows)}
    assert ("metadata", "leader") in names
    assert ("metadata", "invoke_t") not in names
    assert ("fault", "phase") not in names
    assert why_left_out("metadata", "leader") is None
    assert why_left_out("produce", "acks") == why_left_out("probe", "api")


def _as_keys(way: str) -> tuple[str, ...]:
    return (way, *(f"{way}, {width}" for width in (ALWAYS, ONCE)))


def test_reasons_are_of_what_can_be_broken() -> None:
    known = {
        key
        for kind in KINDS
        for column, way in ways(kind)
        if not why_left_out(kind, column)
        for key in (f"{kind}.{column}", *(f"{kind}.{column}: {of}" for of in _as_keys(way)))
    }
    assert {re.sub(r"\[.*\]", "", key) for key in REASONS} <= known


def test_a_reason_of_a_column_is_one_of_all_its_sorts_and_ways() -> None:
    assert why_unnoticed(Breakage("zk_write", "commit_ms", "none", ONCE, "broker"))
    assert why_unnoticed(Breakage("metadata", "isr", "two exchanged", ONCE))
    assert why_unnoticed(Breakage("metadata", "isr", "first twice", ONCE)) is None


# -- groups ---------------------------------------------------------------------------------------

OFFSET = Breakage("produce", "offset", "one more", ALWAYS)
TIME = Breakage("produce", "log_append_time_ms", "null", ONCE)
ROWS = Breakage("listed_offset", ROW, "twice", ONCE, "end")


def made(folder: Path) -> Path:
    make(folder, rows=3_000, shape="load")
    return folder


def test_what_lies_is_noticed_in_its_own_trial_alone(tmp_path: Path) -> None:
    asked = study.Study(
        runs=[made(tmp_path / "run")], store=tmp_path / "store", only=["produce"], widths=[ALWAYS]
    )
    entries: list[Entry] = []
    assert not asked.go(Budget(0), entries.append)
    assert asked.go(Budget(3600), entries.append)
    found = {entry.play.bug: entry for entry in entries}
    assert found[str(OFFSET)].verdict == "invalid", found[str(OFFSET)].reasons
    assert any("acked-all-moved" in rule for rule in found[str(OFFSET)].rules)
    silent = [entry for entry in found.values() if entry.verdict == "valid"]
    assert all(not entry.rules for entry in silent)
    assert asked.go(Budget(0), entries.append)  # the ledger has them
    assert len(entries) == len(found)
    assert str(OFFSET) in {entry.play.bug for entry in asked.told()}


def test_a_run_that_is_not_valid_says_nothing_of_lies(tmp_path: Path) -> None:
    make(tmp_path / "run", rows=3_000, shape="load", plants=parse("acked-all-lost=1"))
    asked = study.Study(
        runs=[tmp_path / "run"], store=tmp_path / "store", only=["produce"], limit=40, at_once=1
    )
    with pytest.raises(HistoryError, match=r"invalid as it is .*acked-all-lost.*; allowed: valid"):
        asked.go(Budget(3600))


def test_an_engine_that_is_gone_is_nothing_that_a_lie_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> None:
        raise RuntimeError("no connection")

    monkeypatch.setattr(judging, "found_by", gone)
    folder = made(tmp_path / "run")
    with pytest.raises(HistoryError, match=r"nothing can be judged: .*no connection"):
        judging.judge(folder)
    _, spoilt = judging.judge(folder, ["activity"])
    assert set(spoilt) == {"activity"}


def test_who_spoils_the_judging_of_all_is_found_by_halving(tmp_path: Path) -> None:
    source = groups.Source.load(made(tmp_path / "run"))
    every = list(breakages({"produce": source.tables["produce"]}, [ALWAYS]))[:7]
    copies = {one: copy for one in every if (copy := broken(source.tables, one, 1)) is not None}
    (spoiler, *others) = copies
    spoilt = copies[spoiler]["produce"].to_pylist()

    asked: list[Collection[str]] = []

    def judging(folder: Path, names: Collection[str]) -> tuple[dict[Any, Judged], dict[str, str]]:
        asked.append(names)
        rows = read_table(folder / "history", "produce").to_pylist()
        trials = json.loads((folder / "run.json").read_text())["trials"]
        found = {(source.arm, trial["trial"]): Judged() for trial in trials}
        for number in (trial["trial"] for trial in trials):
            own = [
                {k: v for k, v in row.items() if k not in PARTITION_COLUMNS}
                for row in rows
                if row["trial"] == number
            ]
            if sorted(own, key=str) == sorted(spoilt, key=str):
                return found, {"offsets": "a check crashed"}
        return found, {}

    found = groups.judged(source, copies, tmp_path / "scratch", (), judging)
    assert found[spoiler].unknown == ["a check crashed"]
    assert all(found[one].verdict == "valid" for one in others)
    assert asked[0] == ()
    assert set(map(tuple, asked[1:])) == {("offsets",)}


# -- the page -------------------------------------------------------------------------------------


def entry(one: Breakage, verdict: str, *rules: str) -> Entry:
    play = Play(scenario="s", seed=1, planes="dual", bug=str(one))
    return Entry(play=play, verdict=verdict, rules=rules)


def test_the_page_has_what_was_noticed_and_what_was_not() -> None:
    text = page(
        [entry(OFFSET, "invalid", "truncation-loss: acked-all-moved"), entry(TIME, "valid")], "x"
    )
    assert "| `produce.offset` | 1/1: `acked-all-moved` | - |" in text
    assert "| `produce.log_append_time_ms` |  | null |" in text


def test_what_was_judged_is_kept_beside_the_page(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    doubted = replace(entry(TIME, "unknown"), reasons=("log: /a/b/c is torn", "another"))
    every = [entry(OFFSET, "invalid", "log: went-back"), doubted, entry(ROWS, "valid")]
    every = [replace(one, extra={"commit": "c", "date": "2026-01-02"}) for one in every]
    kept.write(path, every)
    found = {one.play: one for one in kept.read(path)}
    assert found[every[0].play] == every[0]
    assert found[every[1].play] == replace(every[1], reasons=("log: c is torn",))
    assert found[every[2].play].verdict == "valid"
    written = path.read_bytes()
    kept.write(path, reversed(list(kept.read(path))))
    assert path.read_bytes() == written
    assert page(kept.read(path), "x") == page(every, "x")


def test_what_is_left_out_by_now_is_not_told_of(tmp_path: Path) -> None:
    asked = study.Study(runs=(), store=tmp_path, kept=tmp_path / "s.jsonl")
    kept.write(
        tmp_path / "s.jsonl",
        [entry(OFFSET, "invalid"), entry(Breakage("produce", "acks", "far", ONCE), "valid")],
    )
    assert [one.play.bug for one in asked.every()] == [str(OFFSET)]


def test_of_one_play_the_newest_stays() -> None:
    def on(day: str, verdict: str) -> Entry:
        return replace(entry(TIME, verdict), extra={"date": day})

    first, later = on("2026-01-01", "valid"), on("2026-01-02", "invalid")
    assert kept.newest([later], [first]) == kept.newest([first], [later]) == [later]
    again = on("2026-01-02", "unknown")
    assert kept.newest([later], [again]) == [again]


def test_what_is_kept_is_not_judged_again(tmp_path: Path) -> None:
    asked = study.Study(
        runs=[made(tmp_path / "run")], store=tmp_path / "a", only=["produce"], widths=[ONCE],
        limit=2, kept=tmp_path / "s.jsonl",
    )  # fmt: skip
    assert asked.go(Budget(3600))
    kept.write(tmp_path / "s.jsonl", asked.every())
    assert replace(asked, store=tmp_path / "b").go(Budget(0))
    assert [one.play for one in replace(asked, store=tmp_path / "b").told()] == [
        one.play for one in asked.told()
    ]


def test_exit_codes() -> None:
    assert study.exit_code([entry(OFFSET, "invalid")], ended=True) == 0
    assert study.exit_code([entry(OFFSET, "invalid")], ended=False) == 2
    assert study.exit_code([], ended=True) == 2
    elsewhere = replace(entry(TIME, "invalid"), play=replace(entry(TIME, "valid").play, seed=2))
    assert study.exit_code([entry(TIME, "valid"), elsewhere], ended=True) == 0
    assert study.exit_code([entry(OFFSET, "invalid"), entry(TIME, "valid")], ended=False) == 1
