"""Pages in a real browser: nothing in the console, nothing too wide, pictures drawn, and nothing
that axe finds serious or critical for who reads by ear, by keyboard or without some colours.

Needs Chromium (CHROMIUM names it); is skipped without.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from harness.report import write as write_report
from harness.runs import live_page, serve
from harness.runs.index import refresh
from harness.runs.page import write
from harness.soak.account import Account, Round
from harness.soak.page import write as write_soak
from tests.harness.report.conftest import finished_run
from tests.harness.report.test_first_witness import violation
from tests.harness.report.test_page import results
from tests.harness.runs.conftest import DUAL, SINGLE, a_run
from tests.harness.runs.test_trend import nightly

__all__ = ["finished_run"]
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, (os.environ.get("CHROMIUM", ""), *NAMES))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH, none named by CHROMIUM"),
]
SLOWEST_MS = 120_000
"""For whatever a page is waited for; the machine may be busy with something else."""
LOOKS = [(400, "dark"), (400, "light"), (1280, "light"), (1280, "dark")]
BACKGROUND = {"light": "rgb(251, 251, 250)", "dark": "rgb(20, 23, 26)"}
FOCUS = """(() => { const at = document.activeElement; return [
    at.getAttribute("aria-label") || at.textContent, getComputedStyle(at).outlineWidth] })()"""
Look = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM)
        yield started
        started.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    """Opens a file or an address in a window; in the end nothing was said in any console."""
    said: list[str] = []

    def at(place: Path | str, anchor: str = "") -> Page:
        width, scheme = LOOKS[0]
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(SLOWEST_MS)
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((place.as_uri() if isinstance(place, Path) else place) + anchor)
        return page

    yield at
    for context in browser.contexts:
        context.close()
    assert said == []


def grave(page: Page) -> list[str]:
    """What axe calls serious or critical: rule, how often, and the first place."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{each['id']}, {len(each['nodes'])} times: {each['nodes'][0]['html']}: "
        f"{each['nodes'][0]['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def is_sound(page: Page, pictures: int) -> None:
    """However it is looked at, one after another: the page follows its reader."""
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        shown = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert shown == BACKGROUND[scheme]
        across = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert across[0] <= across[1] == width, "it does not fit"
        assert page.locator(".plot .main-svg").count() >= pictures
        assert grave(page) == []


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("browser") / "store"
    made.mkdir()
    nightly(made, since=24)
    rules = ["stale-epoch", *(f"the-next-rule-of-that-promise-{n}" for n in range(16))]
    broken = [(DUAL, "fencing", rule) for rule in rules]
    a_run(made, 31, scenario="zombie-controller", broken=broken)
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


def test_axe_finds_what_is_wrong_and_that_alone(look: Look, tmp_path: Path) -> None:
    """Or else its silence about the pages below says nothing."""
    sound = (
        "<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1>{}</main></html>"
    )
    page = tmp_path / "page.html"
    page.write_text(sound.format('<label>Seed <input></label><p style="color: #555">grey</p>'))
    assert grave(look(page)) == []
    page.write_text(sound.format('<input><p style="color: #bbb">pale</p>'))
    rules = [each.split(",")[0] for each in grave(look(page))]
    assert rules == ["color-contrast", "label"]


def test_the_page_of_runs(look: Look, store: Path) -> None:
    """The index; what changed and figures over time; and two runs side by side."""
    page = look(store / "index.html")
    assert "31 of 31 runs, 62 rows" in page.inner_text("#count")
    assert page.locator('#table a[href^="request-flood/"]').count() >= 60
    assert page.locator("#changed .effect").count() >= 1
    for n in (0, 29):
        page.locator("#table input").nth(n).check()
    assert page.locator("#comparison tbody tr").count() > 9
    is_sound(page, 1)
    heights = page.locator("#table tbody tr").evaluate_all(
        "rows => rows.map((row) => row.getBoundingClientRect().height)"
    )
    assert max(heights) < 3 * min(heights), "who broke many rules does not push the others away"
    picture = page.locator("#plot-trend .main-svg").first.bounding_box()
    below = page.locator("#plot-says").bounding_box()
    assert picture is not None
    assert below is not None
    assert picture["y"] + picture["height"] <= below["y"], "also in a window that was another size"


def test_one_run_alone_is_told_by_the_minute(look: Look, tmp_path: Path) -> None:
    """Its time is not cut into parts of a second, and the labels leave each other room."""
    a_run(tmp_path, 0)
    write(tmp_path, refresh(tmp_path).rows)
    page = look(tmp_path / "index.html")
    labels = page.locator("#plot-trend .xtick text")
    labels.first.wait_for()
    assert labels.count() >= 2
    assert not [each for each in labels.all_text_contents() if "." in each]
    boxes = labels.evaluate_all("all => all.map((one) => one.getBoundingClientRect().toJSON())")
    assert all(a["right"] <= b["left"] for a, b in pairwise(boxes))


def test_what_is_chosen_stands_in_the_address(look: Look, store: Path) -> None:
    def count(anchor: str) -> str:
        return look(store / "index.html", anchor=anchor).inner_text("#count")

    assert "1 of 31 runs, 1 rows" in count(f"#scenario=request-flood&arm={SINGLE}&search=1003")
    assert "0 of 31 runs, 0 rows" in count("#verdict=invalid&scenario=request-flood")
    red = look(store / "index.html", anchor="#verdict=invalid&figure=avoidable_loss")
    assert "1 of 31 runs, 1 rows" in red.inner_text("#count")
    assert "fencing: stale-epoch" in red.inner_text("#table")


def test_filters_jumps_sorting_and_two_side_by_side(look: Look, store: Path) -> None:
    page = look(store / "index.html")
    page.select_option("#scenario", "request-flood")
    page.evaluate('location.hash = "#runs"')
    page.select_option("#arm", "dualplane-dual")
    page.get_by_role("button", name="control p99").click()  # the largest first
    assert "30 of 31 runs, 30 rows" in page.inner_text("#count"), (
        "a jump in the page loses no filter"
    )
    slowest = page.locator("#table tbody tr").first.locator("td").nth(8).inner_text()
    assert float(slowest.split()[0]) > 12, "the slowest of all"
    for n in (0, 29):
        page.locator("#table input").nth(n).check()
    of_p99 = page.locator("#comparison tr", has_text="control latency under faults, p99")
    ratio = re.search(r"([0-9.]+)×$", of_p99.first.inner_text())  # noqa: RUF001
    assert ratio is not None
    assert 0 < float(ratio.group(1)) < 1


def test_by_keyboard_alone(look: Look, store: Path) -> None:
    """Past the header to the runs, a filter, an order, two runs, and each stop can be seen."""
    page = look(store / "index.html")
    stops = []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the runs"
    page.keyboard.press("Enter")
    while len(stops) < 40 and sum("compare" in stop for stop in stops) < 2:
        page.keyboard.press("Tab")
        name, ring = page.evaluate(FOCUS)
        assert ring != "0px", f"nobody sees that {name} has the focus"
        stops.append(name)
        if name.startswith("compare "):
            page.keyboard.press("Space")
    assert "control p99" in stops
    assert page.locator("#comparison tbody tr").count() > 9


def test_a_red_report(look: Look, red: Path) -> None:
    """With all that is folded away."""
    page = look(red)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    is_sound(page, 3)


def test_a_report_that_is_taken_elsewhere(look: Look, red: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    shutil.copytree(red.parent, taken)
    assert look(taken / "report.html").locator(".plot .main-svg").count() >= 3


def test_a_report_alone_says_what_it_lacks(
    browser: Browser, look: Look, red: Path, tmp_path: Path
) -> None:
    """Taken without its folder the tables are there; a page to be mailed has everything."""
    alone = tmp_path / "report.html"
    shutil.copy2(red, alone)
    page = browser.new_page()
    page.set_default_timeout(SLOWEST_MS)
    page.goto(alone.as_uri())  # its console names the script that is not there
    assert page.get_by_text("The picture needs the script").count() == 3
    is_sound(page, 0)
    whole = look(write_report(red.parent, standalone=True))
    assert whole.locator(".plot .main-svg").count() >= 3
    write_report(red.parent)


def test_a_sound_report(look: Look, finished_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store" / "acks1-truncation" / "r1"
    shutil.copytree(finished_run, folder)
    (folder / "results.json").write_text(json.dumps({**results(), "verdict": "valid"}))
    page = look(write_report(folder))
    assert page.inner_text("h1").endswith("Valid")
    is_sound(page, 2)


def test_a_soak(look: Look, tmp_path: Path) -> None:
    figures = {arm: {"control_p99_ms": 8.0, "avoidable_loss": 0.0} for arm in (SINGLE, DUAL)}
    verdicts = ("valid", "unknown", "invalid")
    rounds = [
        Round(number=n, scenario="mixture", seed=n, verdict=verdict, seconds=99.0,
              reasons=["fencing: 2 x stale-epoch"], path=f"mixture/r{n}", figures=figures)
        for n, verdict in enumerate(verdicts, 1)
    ]  # fmt: skip
    account = Account(
        scenarios=["mixture"], seed=1, limit_s=3600.0, most_rounds=None, keep=3,
        started_at_ms=0, rounds=rounds, ended="round 3 is invalid",
    )  # fmt: skip
    folder = tmp_path / "soak" / "s1"
    folder.mkdir(parents=True)
    page = look(write_soak(account, folder, tmp_path))
    assert page.locator("#rounds tbody tr").count() == 6
    is_sound(page, 0)


FOUND = {"what": "finding", "promise": "fencing", "rule": "stale", "arm": "a", "trial": 0,
         "t": 1, "says": "node 1 obeyed", "lag_ms": 2400}  # fmt: skip
FIGURES = {"what": "figures", "t": 2, "looks": 3, "cpu_s": 6.0, "rows": 9, "arms": {
    "a": {"staleness": {"count": 4, "p50_ms": 1.0, "p99_ms": 9.0, "max_ms": 12.0}}}}  # fmt: skip


def test_a_live_page_keeps_itself_up_to_date(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found after it was opened is there without the page being loaded again."""
    run = a_run(tmp_path, 1)
    lines = [{"what": "began", "t": 1, "cpu_s": 6.0}]
    asked = []

    def render(store: Path) -> str:
        asked.append(store)
        known = lines if len(asked) == 1 else [*lines, FOUND, FIGURES]
        (run / "live.jsonl").write_text("".join(json.dumps(line) + "\n" for line in known))
        return live_page.render(store)

    monkeypatch.setattr(serve, "live_page", SimpleNamespace(render=render))
    looking = serve.server(tmp_path, 0)
    thread = threading.Thread(target=looking.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        page = look(f"http://127.0.0.1:{looking.server_address[1]}{serve.LIVE}")
        assert page.inner_text("h1") == "Nothing is certain to be wrong"
        page.get_by_role("heading", name="1 rule broken").wait_for()
        page.locator("header.verdict.invalid").wait_for()
        assert "node 1 obeyed" in page.inner_text("#found")
        is_sound(page, 0)
        page.close()
    finally:
        looking.shutdown()
        thread.join()
        looking.server_close()
    assert len(asked) > 1
