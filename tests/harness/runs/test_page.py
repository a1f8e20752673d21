"""The page over the runs: every run in it, links only to what is there, and text stays text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from harness.report.script import script_name
from harness.runs.index import refresh
from harness.runs.page import write
from tests.harness.report.test_page import HOSTILE, Reader, read
from tests.harness.runs.conftest import DUAL, SINGLE, a_run
from tests.harness.runs.test_trend import nightly


def page(store: Path) -> tuple[Reader, dict[str, Any]]:
    text = write(store, refresh(store).rows).read_text()
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert inside is not None
    return read(text), json.loads(inside.group(1))


def test_every_row_is_in_it(store: Path) -> None:
    for night in range(3):
        a_run(store, night, broken=[(SINGLE, "fencing", "r")] * (night == 1))
    reader, data = page(store)
    assert len(data["rows"]) == 6
    assert {row["verdict"] for row in data["rows"] if row["arm"] == SINGLE} == {"valid", "invalid"}
    assert {figure["name"] for figure in data["figures"]} >= set(data["rows"][0]["figures"])
    assert "3 runs" in reader.text
    assert "2 valid 1 invalid" in reader.text
    assert "There are too few comparable runs" in reader.text


def test_links_lead_to_reports_that_are_there(store: Path) -> None:
    with_report, without = a_run(store, 1), a_run(store, 2, scenario="a b&c")
    (without / "report.html").unlink()
    odd = a_run(store, 3, scenario="a b#c")
    _, data = page(store)
    links = {row["scenario"]: row["report"] for row in data["rows"]}
    assert (store / links["request-flood"]).samefile(with_report / "report.html")
    assert links["a b&c"] is None
    assert links["a b#c"] == f"a%20b%23c/{odd.name}/report.html"


def test_the_script_is_the_one_that_reports_share(store: Path) -> None:
    a_run(store, 1)
    reader, _ = page(store)
    (address,) = [a for a in reader.addresses if not a.startswith("#")]
    assert address == f"assets/{script_name()}"
    assert (store / address).stat().st_size > 1 << 20


def test_what_changed_is_said_first(store: Path) -> None:
    nightly(store, since=24)
    reader, _ = page(store)
    assert "Something is worse than it was." in reader.text
    assert f"worse request-flood, {DUAL}: control latency under faults, p99:" in reader.text
    ids = reader.ids
    assert ids.index("changed") < ids.index("choose") < ids.index("over-time") < ids.index("runs")
    assert f"#scenario=request-flood&arm={DUAL}&profile=nightly" in reader.addresses


def test_hostile_strings_stay_text(store: Path) -> None:
    a_run(store, 1, run={"machine": {"commit": HOSTILE, "host_class": HOSTILE}})
    reader, data = page(store)
    assert "img" not in reader.tags
    assert data["rows"][0]["commit"] == HOSTILE.replace("\ud800", "\\ud800")


def test_a_store_without_runs_has_a_page(store: Path) -> None:
    reader, data = page(store)
    assert data["rows"] == []
    assert "0 runs" in reader.text
