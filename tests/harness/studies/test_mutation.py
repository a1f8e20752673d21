"""Generated mutants: each operator's change, its name, and what its overlay tells of itself."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from harness.studies.ledger import Budget, Entry, Ledger, Play
from harness.studies.mutation import overlay
from harness.studies.mutation.operators import Site, mutate, sites
from harness.studies.mutation.overlay import Generated
from harness.studies.mutation.power import fate, order, page

SOURCE = '''
"""A rule."""
from __future__ import annotations

def rule(a: int, b: int = 3 < 4, *, log=None) -> bool:
    if a < b and check(a):
        log.info("said")
        self.first = a
        send(b)
    else:
        stop()
    return a == 5
'''


def changed(operator: str) -> list[str]:
    return [site.says for site in sites(SOURCE) if site.operator == operator]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("compare-flip", ["a == 5  ->  a != 5", "a < b  ->  a >= b"]),
        ("compare-boundary", ["a < b  ->  a <= b"]),
        ("constant", ["a == 5  ->  a == 6"]),
        (
            "condition-dropped",
            ["a < b and check(a)  ->  check(a)", "a < b and check(a)  ->  a < b"],
        ),
        ("condition-fixed", ["a < b and check(a)  ->  True", "a < b and check(a)  ->  False"]),
        ("negated", ["a < b and check(a)  ->  not (a < b and check(a))"]),
        ("call-omitted", ["send(b)  ->  (nothing)", "stop()  ->  (nothing)"]),
        ("write-omitted", ["self.first = a  ->  (nothing)"]),
        ("exchanged", ["self.first = a <-> send(b)"]),
    ],
)
def test_what_each_operator_changes(operator: str, expected: list[str]) -> None:
    """Defaults, annotations and what is said to a log are left alone."""
    assert sorted(changed(operator)) == sorted(expected)


def test_every_site_becomes_another_program() -> None:
    for site in sites(SOURCE):
        text = mutate(SOURCE, site.operator, site.number)
        compile(text, "mutated", "exec")
        assert "_mutation_reached(" in text or "_mutation_differs(" in text
    with pytest.raises(KeyError, match="no site compare-flip:9"):
        mutate(SOURCE, "compare-flip", 9)


def test_a_seed_draws_the_same_mutants_from_every_room() -> None:
    root = overlay.source_root()
    drawn = overlay.draw(root, 7, 40)
    assert drawn == overlay.draw(root, 7, 40)
    assert drawn != overlay.draw(root, 8, 40)
    assert len(set(drawn)) == 40
    assert {str(Path(one.path).parent) for one in drawn} == set(overlay.ROOMS)
    assert len({one.site.operator for one in drawn}) >= 8
    for one in random.Random(1).sample(drawn, 10):
        assert overlay.find(root, one.name) == one
        source = (root / one.path).read_text()
        compile(mutate(source, one.site.operator, one.site.number), one.path, "exec")


@pytest.mark.parametrize(
    ("request_epoch", "known_epoch", "reports"),
    [(None, None, set()), (3, 5, {"reached"}), (5, 5, {"reached", "differed"})],
)
def test_an_overlay_tells_whether_it_was_reached_and_made_a_difference(
    tmp_path: Path, request_epoch: int | None, known_epoch: int | None, reports: set[str]
) -> None:
    root = overlay.source_root()
    source = (root / "nodes/core/epochs.py").read_text()
    site = next(
        s
        for s in sites(source)
        if s.operator == "compare-boundary" and "request_controller_epoch" in s.says
    )
    folder = overlay.lay(root, Generated("nodes/core/epochs.py", site), tmp_path / "overlay")
    call = "import nodes.core.epochs as e\n"
    if request_epoch is not None:
        call += f"e.controller_epoch_is_stale({request_epoch}, {known_epoch})\n"
    subprocess.run([sys.executable, "-c", call], cwd=folder, check=True)
    assert {what for what in ("reached", "differed") if overlay.was(folder, what)} == reports


def entry(
    verdict: str, *, scenario: str = "s", rules: tuple[str, ...] = (), **extra: bool
) -> Entry:
    play = Play(scenario=scenario, seed=1, planes="dual", bug="b")
    return Entry(play=play, verdict=verdict, rules=rules, extra=extra)


PURE = Generated("nodes/core/isr.py", Site("compare-flip", 0, 1, "a < b  ->  a >= b"))
CALLS = Generated("nodes/core/isr.py", Site("compare-flip", 1, 1, "f() < b  ->  f() >= b"))
EFFECT = Generated("nodes/core/isr.py", Site("call-omitted", 0, 1, "send()  ->  (nothing)"))


@pytest.mark.parametrize(
    ("one", "entries", "expected"),
    [
        (PURE, [entry("valid", reached=True, differed=True)], "survived"),
        (PURE, [entry("valid", reached=True)], "equal"),
        (PURE, [entry("valid")], "unreached"),
        (PURE, [entry("valid", reached=True), entry("invalid", reached=True)], "found"),
        (PURE, [entry("unknown", reached=True)], "noticed"),
        (PURE, [entry("unknown")], "noticed"),
        (PURE, [entry("valid", reached=True, differed=True), entry("unknown")], "survived"),
        (CALLS, [entry("valid", reached=True)], "survived"),  # it cannot tell
        (EFFECT, [entry("valid", reached=True)], "survived"),
        (EFFECT, [entry("valid")], "unreached"),
    ],
)
def test_what_became_of_a_mutant(one: Generated, entries: list[Entry], expected: str) -> None:
    assert fate(one, entries) == expected


def test_the_page_names_survivors_first_and_what_a_rule_finds_alone() -> None:
    found = entry("invalid", reached=True, rules=("records: duplicate-append",))
    text = page([(PURE, [found]), (EFFECT, [entry("valid", reached=True)])], "biplane mutants")
    assert "1 of 2 were noticed" in text
    assert "| records: duplicate-append | 1 | 1 |" in text
    assert text.index(EFFECT.name) < text.index(PURE.name)


def test_the_likeliest_scenarios_come_first() -> None:
    scenarios = ["mixture", "broker-restart", "log-recovery"]
    log = Generated("nodes/log/log.py", PURE.site)
    assert order(log, scenarios) == ["log-recovery", "broker-restart", "mixture"]


def test_a_ledger_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    one = entry("invalid", rules=("a: b",), reached=True)
    Ledger(path).add(one)
    with path.open("ab") as file:
        file.write(b'{"play": {"scen')  # killed while it wrote
    again = Ledger(path)
    assert list(again) == [one]
    assert one.play in again


def test_a_budget_is_spent_when_its_time_is_over() -> None:
    times = iter([0.0, 59.0, 60.0])
    budget = Budget(60.0, now=lambda: next(times))
    assert not budget.is_spent
    assert budget.is_spent
