"""Pages in a real browser, from files: nothing in the console, nothing too wide, pictures drawn.

Needs Chromium (any build that knows --dump-dom; CHROMIUM names it); is skipped without.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.report import write as write_report
from harness.runs import live_page, serve
from harness.runs.index import refresh
from harness.runs.page import write
from tests.harness.report.conftest import finished_run
from tests.harness.report.test_first_witness import violation
from tests.harness.report.test_page import results
from tests.harness.runs.conftest import DUAL, SINGLE, a_run
from tests.harness.runs.test_trend import nightly

__all__ = ["finished_run"]
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next((n for n in NAMES if shutil.which(n)), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH"),
]
LOOKS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]
MEASURE = """<script>addEventListener("load", () => setTimeout(() => {
  const root = document.documentElement;
  root.dataset.width = root.scrollWidth; root.dataset.window = innerWidth;
  root.dataset.drawn = document.querySelectorAll(".plot .main-svg").length;
  root.dataset.background = getComputedStyle(document.body).backgroundColor;
}, 300))</script></body>"""


def dump(address: str, *options: str) -> str:
    """What became of the page, as markup; fails when anything was said in the console."""
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--virtual-time-budget=5000", "--enable-logging=stderr", "--v=0", *options,
            "--dump-dom", address,
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


def look(page: Path, width: int = 1280, scheme: str = "light", at: str = "", act: str = "") -> str:
    """A page's file in a window. ``act``: script that does what a reader would."""
    measured = page.with_name(f"measured-{page.name}")
    acted = f"<script>{act}</script>{MEASURE}"
    measured.write_text(page.read_text().replace("</body>", acted))
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    return dump(f"{measured.as_uri()}{at}", f"--window-size={width},900", *dark)


def value(dom: str, name: str) -> str:
    found = re.search(rf'<html[^>]* data-{name}="([^"]*)"', dom)
    assert found is not None, f"the page never loaded: {dom[:400]}"
    return found.group(1)


def is_sound(dom: str, width: int, scheme: str, pictures: int) -> None:
    if int(value(dom, "window")) != width:  # the full Chromium's are 500 at least
        pytest.skip(f"{CHROMIUM} has no window of {width}; chromium-headless-shell has")
    assert int(value(dom, "width")) <= width, "it does not fit"
    assert int(value(dom, "drawn")) >= pictures
    light = value(dom, "background") == "rgb(251, 251, 250)"
    assert light == (scheme == "light")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("browser") / "store"
    made.mkdir()
    nightly(made, since=24)
    a_run(made, 31, scenario="zombie-controller", broken=[(DUAL, "fencing", "stale-epoch")])
    write(made, refresh(made).rows)
    return made


@pytest.fixture(scope="module")
def red(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A red report in a store."""
    folder = tmp_path_factory.mktemp("red") / "store" / "acks1-truncation" / "r1"
    shutil.copytree(finished_run, folder)
    found = results()
    found["checks"]["truncation-loss"]["violations"] = [violation("acked-all-lost", 5.0)]
    (folder / "results.json").write_text(json.dumps(found))
    return write_report(folder)


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_page_of_runs(store: Path, width: int, scheme: str) -> None:
    dom = look(store / "index.html", width, scheme)
    is_sound(dom, width, scheme, pictures=1)
    assert "31 of 31 runs, 62 rows" in dom
    assert dom.count('href="request-flood/') >= 60


def test_what_is_chosen_stands_in_the_address(store: Path) -> None:
    dom = look(store / "index.html", at=f"#scenario=request-flood&arm={SINGLE}&search=1003")
    assert "1 of 31 runs, 1 rows" in dom
    none = look(store / "index.html", at="#verdict=invalid&scenario=request-flood")
    assert "0 of 31 runs, 0 rows" in none
    red = look(store / "index.html", at="#verdict=invalid&figure=avoidable_loss")
    assert "1 of 31 runs, 1 rows" in red
    assert "fencing: stale-epoch" in red


def test_filters_jumps_sorting_and_two_side_by_side(store: Path) -> None:
    act = """
      const change = (id, value) => { const field = document.getElementById(id);
        field.value = value; field.dispatchEvent(new Event("change")); };
      const click = (selector, n) => document.querySelectorAll(selector)[n || 0].click();
      change("scenario", "request-flood");
      location.hash = "#runs";
      change("arm", "dualplane-dual");
      click("#table th button", 6);  // control p99, the largest first
      click("#table input");
      click("#table input", 29);
      document.documentElement.dataset.first =
        document.querySelector("#table tbody tr").children[8].textContent;
    """
    dom = look(store / "index.html", act=act)
    assert "30 of 31 runs, 30 rows" in dom, "a jump in the page loses no filter"
    assert float(value(dom, "first").split()[0]) > 12, "the slowest of all"
    compared = dom[dom.index('id="comparison"') :]
    of_p99 = compared[compared.index("control latency under faults, p99") :]
    ratio = re.search(r"([0-9.]+)×</td>", of_p99)  # noqa: RUF001
    assert ratio is not None
    assert 0 < float(ratio.group(1)) < 1


@pytest.mark.parametrize(("width", "scheme"), [LOOKS[0], LOOKS[-1]])
def test_a_red_report(red: Path, width: int, scheme: str) -> None:
    dom = look(red, width, scheme)
    is_sound(dom, width, scheme, pictures=3)


def test_a_report_that_is_taken_elsewhere(red: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    shutil.copytree(red.parent, taken)
    is_sound(look(taken / "report.html"), 1280, "light", pictures=3)


def test_a_report_alone_says_what_it_lacks(red: Path, tmp_path: Path) -> None:
    """Taken without its folder the tables are there; a page to be mailed has everything."""
    alone = tmp_path / "report.html"
    shutil.copy2(red, alone)
    dom = look(alone)
    assert dom.count("The picture needs the script") == 4
    is_sound(dom, 1280, "light", pictures=0)
    dom = look(write_report(red.parent, standalone=True))
    is_sound(dom, 1280, "light", pictures=3)
    write_report(red.parent)


def test_a_live_page_keeps_itself_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found after it was opened is there without the page being loaded again."""
    run = a_run(tmp_path, 1)
    lines = [{"what": "began", "t": 1, "cpu_s": 6.0}]
    found = {"what": "finding", "promise": "fencing", "rule": "stale", "arm": "a", "trial": 0,
             "t": 1, "says": "node 1 obeyed", "lag_ms": 2400}  # fmt: skip
    asked = []

    def render(store: Path) -> str:
        asked.append(store)
        known = lines if len(asked) == 1 else [*lines, found]
        (run / "live.jsonl").write_text("".join(json.dumps(line) + "\n" for line in known))
        return live_page.render(store)

    monkeypatch.setattr(serve, "live_page", SimpleNamespace(render=render))
    looking = serve.server(tmp_path, 0)
    thread = threading.Thread(target=looking.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        dom = dump(f"http://127.0.0.1:{looking.server_address[1]}{serve.LIVE}")
    finally:
        looking.shutdown()
        thread.join()
        looking.server_close()
    assert len(asked) > 1
    assert "<h1>1 rule broken</h1>" in dom
    assert 'class="verdict invalid"' in dom
    assert "node 1 obeyed" in dom
