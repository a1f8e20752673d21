"""The run that is being watched now (`harness.live`), as a page that keeps itself up to date: what
was found so far, and the figures of the last half minute.

Its script asks for the page anew and puts in place what has changed, so that whoever reads it, by
ear or at 400%, stays where they were; a page that loads itself again would begin from the top.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from checkers.live import LIVE_FILE
from harness import live
from harness.report import script, units
from harness.report.markup import Html, table, tag
from harness.report.story import note, section

AGAIN_S: Final = 2
_GONE_S: Final = 30.0
"""A watch that has written nothing for so long is no more."""
_STYLE: Final = Path(script.__file__).with_name("assets") / "page.css"
_SCRIPT: Final = (Path(__file__).with_name("assets") / "live.js").read_text(encoding="utf-8")
_HASH: Final = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; script-src 'sha256-{_HASH}'; connect-src 'self'; "
    "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def newest(store: Path) -> Path | None:
    """The run that was watched last."""
    found = [(path.stat().st_mtime, path.parent) for path in store.glob(f"*/*/{LIVE_FILE}")]
    return max(found)[1] if found else None


def render(store: Path, now_s: float | None = None) -> str:
    """The page as text."""
    run = newest(store)
    entries = [] if run is None else live.read(run)
    silent_s = 0.0
    if run is not None:
        silent_s = (time.time() if now_s is None else now_s) - (run / LIVE_FILE).stat().st_mtime
    ended = any(entry["what"] == "ended" for entry in entries)
    goes_on = bool(entries) and not ended and silent_s < _GONE_S
    findings = [entry for entry in entries if entry["what"] == "finding"]
    body = tag(
        "body",
        _header(run, store, findings, goes_on=goes_on),
        tag("main", _found(findings), _figures(entries)),
        Html(f"<script>{_SCRIPT}</script>"),
        data_again_ms=AGAIN_S * 1000,
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", "Live - biplane"),
        Html(f"<style>{_style()}</style>"),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(
    run: Path | None, store: Path, findings: Sequence[Mapping[str, Any]], *, goes_on: bool
) -> Html:
    name = "nothing was watched yet" if run is None else run.relative_to(store).as_posix()
    rules = len({(entry["promise"], entry["rule"]) for entry in findings})
    says = f"{units.words(rules, 'rule')} broken" if findings else "Nothing is certain to be wrong"
    state = "It goes on." if goes_on else "Nobody is watching now."
    return tag(
        "header",
        tag("p", f"biplane · live · {name}", class_="over"),
        tag("h1", says),
        tag("p", f"{state} What is left to the end, the verdict tells.", class_="means"),
        class_=f"verdict {'invalid' if findings else 'unknown'}",
        aria_live="polite",
    )


def _found(findings: Sequence[Mapping[str, Any]]) -> Html:
    if not findings:
        return section("found", "Found", note("Nothing so far."))
    rows = [
        [f"{f['promise']}: {f['rule']}", f["says"], f"{f['arm']}, trial {f['trial']}",
         units.ms(f["lag_ms"])]
        for f in reversed(findings)
    ]  # fmt: skip
    head = ["rule", "what happened", "where", "told after"]
    return section("found", "Found, the newest first", table(head, rows, numeric={3}))


def _figures(entries: Sequence[Mapping[str, Any]]) -> Html:
    last = next((entry for entry in reversed(entries) if entry["what"] == "figures"), None)
    if last is None or not last["arms"]:
        return section("figures", "The last half minute", note("No figures yet."))
    rows = [
        [arm, says, units.count(of[name]["count"]), units.ms(of[name]["p50_ms"]),
         units.ms(of[name]["p99_ms"]), units.ms(of[name]["max_ms"])]
        for arm, of in last["arms"].items()
        for name, says in live.FIGURES.items()
        if name in of
    ]  # fmt: skip
    head = ["arm", "figure", "count", "p50", "p99", "max"]
    cost = f"{last['looks']} looks so far, {last['cpu_s']:.0f} CPU-s, {last['rows']:,} rows."
    shown = table(head, rows, numeric={2, 3, 4, 5})
    return section("figures", "The last half minute", shown, tag("p", cost, class_="small"))


@cache
def _style() -> str:
    return _STYLE.read_text(encoding="utf-8")
