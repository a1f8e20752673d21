"""A history in other forms: the same rows, whatever the form; and what runs lie in a store."""

from __future__ import annotations

import csv
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.history import KINDS, HistoryError, arrow_schema
from checkers.history.forms import Kept, compact, export, info, merge
from checkers.history.made import make
from checkers.history.parts import MANIFEST, Manifest, files_of, read_rows, read_table
from checkers.history.runs import runs_at
from harness.cli import command


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("made") / "run"
    make(run, rows=6_000)
    return run


def all_rows(run: Path) -> dict[str, list[Any]]:
    return {kind: read_rows(run / "history", kind) for kind in KINDS}


def as_version_1(run: Path, out: Path, parts: int = 3) -> Path:
    """As version 1 lay: a folder for each arm and trial, a few files in each."""
    for kind in KINDS:
        table = read_table(run / "history", kind)
        for arm, trial in {(r["arm"], r["trial"]) for r in table.to_pylist()}:
            folder = out / f"history/f={kind}/arm={arm}/trial={trial}"
            folder.mkdir(parents=True)
            rows = [r for r in table.to_pylist() if (r["arm"], r["trial"]) == (arm, trial)]
            own = [{k: v for k, v in r.items() if k not in ("arm", "trial")} for r in rows]
            for n in range(parts):
                import pyarrow as pa

                piece = pa.Table.from_pylist(own[n::parts], schema=arrow_schema(kind))
                pq.write_table(piece, folder / f"p-{n}.parquet")
    record = json.loads((run / "run.json").read_text())
    (out / "run.json").write_text(json.dumps({**record, "version": 1}))
    return out


def sorted_rows(rows: dict[str, list[Any]]) -> dict[str, list[str]]:
    return {
        kind: sorted(str(sorted(row.items(), key=str)) for row in of) for kind, of in rows.items()
    }


@pytest.mark.slow
def test_compacting_keeps_every_row(made: Path, tmp_path: Path) -> None:
    old = as_version_1(made, tmp_path / "old")
    (old / "rejected.jsonl").write_text('{"why": "x"}\n')
    before = len(list((old / "history").rglob("*.parquet")))
    manifest = compact(old)
    assert sorted_rows(all_rows(old)) == sorted_rows(all_rows(made))
    after = len(list((old / "history").rglob("*.parquet")))
    assert after == sum(len(parts) for parts in manifest.parts.values()) < before / 5
    assert (old / "history/_rejected.jsonl").read_text() == '{"why": "x"}\n'
    files = {p: p.read_bytes() for p in sorted((old / "history").rglob("*.parquet"))}
    compact(old)
    assert {p: p.read_bytes() for p in sorted((old / "history").rglob("*.parquet"))} == files


def test_compacting_that_was_killed_is_done_again(made: Path, tmp_path: Path) -> None:
    """Between its two renames: what was there lies beside, and comes back."""
    run = tmp_path / "run"
    shutil.copytree(made, run)
    (run / "history").replace(run / "history.old")
    shutil.copytree(run / "history.old", run / "history.unfinished")
    compact(run)
    assert all_rows(run) == all_rows(made)
    assert sorted(p.name for p in run.glob("history*")) == ["history"]


def test_info_counts_what_is_there(made: Path) -> None:
    said = "\n".join(info(made))
    record = json.loads((made / "run.json").read_text())
    assert "a history of version 2" in said
    assert f"{record['history']['rows']['produce']:,}" in said
    assert f"{sum(record['history']['rows'].values()):,}" in said
    assert "dualplane-dual: 1 trials" in said


def test_merging_renumbers_trials(made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(made, other)
    merge(tmp_path / "whole", [made, other])
    rows, once = all_rows(tmp_path / "whole"), all_rows(made)
    for kind, of in rows.items():
        for number in (0, 1):
            mine = [{**row, "trial": 0} for row in of if row["trial"] == number]
            assert sorted_rows({kind: mine}) == sorted_rows({kind: once[kind]})
    record = json.loads((tmp_path / "whole/run.json").read_text())
    assert [(t["arm"], t["trial"]) for t in record["trials"]] == [
        (arm, trial) for trial in (0, 1) for arm in ("dualplane-single", "dualplane-dual")
    ]
    assert record["expectations"]["rounds"] == 2
    manifest = Manifest.parse((tmp_path / "whole/history" / MANIFEST).read_text(), "")
    assert len(manifest.trials) == 4
    with pytest.raises(HistoryError, match="there is a run in it"):
        merge(tmp_path / "whole", [made])


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("scenario",), "another", "field 'scenario' is not that of"),
        (("settings", "overrides"), {"num.io.threads": "1"}, "field 'settings' is not that of"),
        (("expectations", "settling_ms"), 1, "field 'expectations' is not that of"),
        (("clock", "monotonic_minus_wall_ns"), 5, "its clock is tied .* otherwise"),
    ],
)
def test_what_cannot_be_laid_beside_each_other_is_not_merged(
    made: Path, tmp_path: Path, path: tuple[str, ...], value: Any, says: str
) -> None:
    other = tmp_path / "other"
    shutil.copytree(made, other)
    record = json.loads((other / "run.json").read_text())
    place = record
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    (other / "run.json").write_text(json.dumps(record))
    with pytest.raises(HistoryError, match=says):
        merge(tmp_path / "whole", [made, other])
    assert not (tmp_path / "whole").exists()


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_exporting_a_partition_and_a_span_of_time(made: Path, tmp_path: Path, form: str) -> None:
    produced = read_rows(made / "history", "produce")
    middle = sorted(row["t"] for row in produced)[len(produced) // 2]
    kept = Kept(kinds=("produce", "phase"), arm="dualplane-dual", partition=1, from_t=middle)
    list(export(made, tmp_path, form=form, kept=kept))
    wanted = [
        row["value"]
        for row in produced
        if row["arm"] == "dualplane-dual" and row["partition"] == 1 and row["t"] >= middle
    ]
    text = (tmp_path / f"produce.{form}").read_text()
    if form == "jsonl":
        found = [json.loads(line)["value"] for line in text.splitlines()]
    else:
        found = [int(row["value"]) for row in csv.DictReader(text.splitlines())]
    assert sorted(found) == sorted(wanted)
    assert wanted
    assert (tmp_path / f"phase.{form}").exists()  # it has no partitions: all of that time
    with pytest.raises(HistoryError, match="allowed: jsonl, csv"):
        list(export(made, tmp_path, form="xml"))
    with pytest.raises(HistoryError, match="--kind 'nonsense'; allowed: produce"):
        list(export(made, tmp_path, kept=Kept(kinds=("nonsense",))))


def test_what_is_spoilt_is_put_into_no_other_form(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(made, run)
    file = files_of(run / "history", "produce")[0]
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0x40
    file.write_bytes(bytes(content))
    with pytest.raises(HistoryError, match=r"part-00000\.parquet: cannot be read"):
        compact(run)
    with pytest.raises(HistoryError, match=r"part-00000\.parquet: cannot be read"):
        list(export(run, tmp_path / "out"))
    assert file.read_bytes() == bytes(content), "what could not be compacted is as it was"
    assert not (run / "history.unfinished").exists()
    file.write_bytes(b"")
    with pytest.raises(HistoryError, match="truncated or changed"):
        list(info(run))


# -- the command line -----------------------------------------------------------------------------


def biplane(*arguments: str) -> int:
    """The console script in this process: its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["biplane", *arguments])
        return command()


@pytest.mark.slow
def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    made = ("history", "generate", run, "--rows", "6k", "--plant", "replica-differs=2")
    assert biplane(*made) == 0
    assert "2 trials, replica-differs=2" in capsys.readouterr().out
    assert biplane("history", "compact", run) == 0
    assert biplane("history", "info", run) == 0
    shutil.copytree(run, tmp_path / "again")
    both = (run, str(tmp_path / "again"))
    assert biplane("history", "merge", str(tmp_path / "two"), *both) == 0
    assert biplane("history", "export", run, str(tmp_path / "out"), "--kind", "phase") == 0
    out = capsys.readouterr().out
    assert "rows of 4 trials" in out
    assert "phase.jsonl: 28 rows" in out
    for wrong in (
        ("generate", run),
        ("generate", str(tmp_path / "x"), "--rows", "many"),
        ("generate", str(tmp_path / "x"), "--plant", "luck=1"),
        ("info", str(tmp_path)),
        ("compact", str(tmp_path)),
        ("finish", run),
    ):
        assert biplane("history", *wrong) == 254, wrong


def test_finishing_again_from_live_files(tmp_path: Path) -> None:
    """Of a run whose harness was killed before it could say which trials there were."""
    run = tmp_path / "run"
    live = run / "trials" / "dualplane-dual-0" / "live"
    live.mkdir(parents=True)
    row = {"f": "infra", "t": 5, "process": "p", "component": "c", "reason": "r"}
    late = {**row, "t": 9}
    (live / "p.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(late) + "\n{")
    (run / "run.json").write_text(json.dumps({"version": 2, "seed": 1}))
    assert biplane("history", "finish", str(run)) == 0
    record = json.loads((run / "run.json").read_text())
    assert record["interrupted"]
    assert record["trials"][0]["failure"] == "the harness was killed"
    assert record["trials"][0]["end_t"] == 9
    assert record["history"]["rows"] == {"infra": 2, "source": 1}
    assert record["history"]["torn_lines"] == 1
    (stored, _) = read_rows(run / "history", "infra")
    assert (stored["arm"], stored["trial"]) == ("dualplane-dual", 0)
    assert biplane("history", "finish", str(run)) == 0
    assert json.loads((run / "run.json").read_text()) == record
    other = run / "trials" / "dualplane-dual-1" / "live"
    more = {"arm": "dualplane-dual", "trial": 1, "end_t": 9}
    (run / "run.json").write_text(json.dumps({**record, "trials": [*record["trials"], more]}))
    assert biplane("history", "finish", str(run)) == 254, "what it held may be in the history"
    assert len(read_rows(run / "history", "infra")) == 2
    other.mkdir(parents=True)
    (other / "p.jsonl").write_text(json.dumps(row) + "\n")
    assert biplane("history", "finish", str(run)) == 0
    assert len(read_rows(run / "history", "infra")) == 3


# -- a whole store --------------------------------------------------------------------------------


def test_runs_of_a_store(tmp_path: Path) -> None:
    now = time.time()

    def run(scenario: str, days: float, name: str | None = None) -> str:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(now - days * 86_400))
        folder = tmp_path / scenario / (name or f"{stamp}-7")
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        (folder / "trials" / "a-0").mkdir(parents=True)
        return str(folder)

    new, old, odd = run("a", 1), run("a", 10), run("b", 0, "by-hand")
    (tmp_path / "b" / "empty").mkdir()
    store = str(tmp_path)
    lost = tmp_path / "a" / "that-lost-its-run.json"
    (lost / "history").mkdir(parents=True)
    assert runs_at(store) == sorted([new, old, odd, str(lost)])
    lost.rename(tmp_path / "b" / ".hidden")
    assert runs_at(store, since_s=now - 7 * 86_400) == sorted([new, odd])
    assert runs_at(f"{store}/a/", since_s=now - 86_400 / 2) == []
    assert runs_at(old, since_s=now) == [old], "a run that is named is judged"
    with pytest.raises(HistoryError, match="there is no run in it"):
        runs_at(str(tmp_path / "b" / "empty"))


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        (Kept(arm="nosuch"), "--arm nosuch; allowed: "),
        (Kept(trial=99), "--trial 99; allowed: 0"),
        (Kept(topic="nosuch"), "--topic nosuch: no row has it"),
        (Kept(partition=999), "no row has it"),
        (Kept(from_t=5, to_t=1), "--from-t 5 is after --to-t 1"),
    ],
)
def test_an_export_of_nothing_is_refused(made: Path, tmp_path: Path, kept: Kept, says: str) -> None:
    with pytest.raises(HistoryError, match=says):
        list(export(made, tmp_path / "out", kept=kept))
    assert not (tmp_path / "out").exists()


def test_a_run_is_merged_once(made: Path, tmp_path: Path) -> None:
    (tmp_path / "same").symlink_to(made)
    with pytest.raises(HistoryError, match="named twice"):
        merge(tmp_path / "out", [made, tmp_path / "same"])
