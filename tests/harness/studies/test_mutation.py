"""Generated mutants: each operator's change, its name, and what its overlay tells of itself."""

from __future__ import annotations

import ast
import dataclasses
import os
import random
import re
import subprocess
import sys
import tomllib
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from harness.run import Recorded
from harness.studies.ledger import Budget, Entry, Ledger, Play
from harness.studies.mutation import overlay
from harness.studies.mutation.operators import Site, mutate, sites
from harness.studies.mutation.overlay import Generated
from harness.studies.mutation.page import page, reasons
from harness.studies.mutation.power import Attempts, fate, hunt, order
from harness.studies.mutation.purity import is_pure, pure_names, read_again
from harness.studies.mutation.study import Study
from harness.studies.mutation.survey import SEED, Survey, survey_of
from harness.studies.playing import Desk

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


def test_writes_that_nobody_sees_before_both_are_made_do_not_change_places() -> None:
    def exchanged(name: str) -> list[str]:
        body = "self.a = a; self.b = b; self.c = f(self.b); g(); h()"
        found = sites(f"def {name}(self, a, b):\n    {body}\n")
        return [site.says for site in found if site.operator == "exchanged"]

    ordered = ["self.b = b <-> self.c = f(self.b)", "self.c = f(self.b) <-> g()", "g() <-> h()"]
    assert exchanged("__init__") == ordered
    assert exchanged("update") == ["self.a = a <-> self.b = b", *ordered]  # readers take no lock


def test_every_site_becomes_another_program() -> None:
    programs = [mutate(SOURCE, site.operator, site.number) for site in sites(SOURCE)]
    for text in programs:
        compile(text, "mutated", "exec")
        assert re.search(r"_mutation_(reached|differs|unwritten)\(", text)
    assert len(set(programs)) == len(programs)
    with pytest.raises(KeyError, match="no site compare-flip:9"):
        mutate(SOURCE, "compare-flip", 9)


@pytest.mark.slow
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


def test_a_name_stays_as_long_as_its_place_does() -> None:
    def marks(source: str) -> list[str]:
        return [site.mark for site in sites(source)]

    assert len(set(marks(SOURCE))) == len(marks(SOURCE))
    assert marks("import os\n\ndef other():\n    return 1 < 2\n" + SOURCE)[3:] == marks(SOURCE)
    twice = SOURCE.replace("    return a == 5", "    a == 5\n    return a == 5")
    assert len(set(marks(twice))) == len(marks(twice))
    assert marks(SOURCE.replace("a == 5", "a == 6")) != marks(SOURCE)


@pytest.mark.slow
def test_every_name_of_the_broker_is_one_of_its_kind() -> None:
    names = [one.name for one in overlay.everything(overlay.source_root())]
    assert len(names) == len(set(names)) > 3000


SEEN = """
import nodes.core.epochs as e
for request, known in {pairs}:
    e.controller_epoch_is_stale(request, known)
"""


@pytest.fixture(scope="module")
def root() -> Path:
    return overlay.source_root()


@pytest.fixture(scope="module")
def boundary(root: Path) -> Generated:
    """``request < known`` becomes ``request <= known``."""
    return next(
        one
        for one in overlay.everything(root, ["nodes/core"])
        if one.site.operator == "compare-boundary" and "request_controller_epoch" in one.site.says
    )


def run_in(folder: Path, code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


@pytest.mark.parametrize(
    ("pairs", "told"),
    [([], set()), ([(3, 5)], {"reached"}), ([(3, 5), (5, 5)], {"reached", "differed"})],
)
def test_an_overlay_tells_whether_it_was_reached_and_made_a_difference(
    tmp_path: Path, root: Path, boundary: Generated, pairs: list[tuple[int, int]], told: set[str]
) -> None:
    folder = overlay.lay(root, boundary, tmp_path / "overlay")
    run_in(folder, SEEN.format(pairs=pairs))
    assert overlay.told(folder) == told


def test_a_watched_package_tells_the_same_of_every_place_and_does_what_it_did(
    tmp_path: Path, root: Path, boundary: Generated
) -> None:
    folder = overlay.lay_watched(root, tmp_path / "watched", ["nodes/core"])
    run_in(folder, SEEN.format(pairs=[(3, 5)]) + "assert not e.controller_epoch_is_stale(9, 5)")
    assert f"reached {boundary.name}" in overlay.told(folder)
    assert f"differed {boundary.name}" not in overlay.told(folder)
    run_in(folder, SEEN.format(pairs=[(5, 5)]) + "assert not e.controller_epoch_is_stale(5, 5)")
    assert f"differed {boundary.name}" in overlay.told(folder)


@pytest.mark.slow
def test_the_broker_passes_its_own_tests_while_every_place_is_watched(
    tmp_path: Path, root: Path
) -> None:
    """What is evaluated twice had no effect. (The other rooms' tests pass as well; they take
    longer.)"""
    folder = overlay.lay_watched(root, tmp_path / "watched")
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}
    tests = [root / "tests/nodes/core", root / "tests/nodes/api/test_administration.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, tests)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert len(overlay.told(folder)) > 800


PLACES = """
def place(self, a, rows, send):
    if a is not None and a.x > 3:
        self.kept = a.x
    self.sum += len(rows)
    rest = a or rows
    if rest:
        send(rest)
    while a is None and (self.sum or rows):
        break
    return rest
"""
CALLS = """
from types import SimpleNamespace as N
from nodes.core.places import place
self = N(sum=0, kept=5)
rest = place(self, None, [], None)
assert rest == []
assert (self.sum, self.kept) == (0, 5)
{more}
"""


@pytest.mark.parametrize(
    ("change", "more", "told"),
    [
        # dropped, the first half no longer keeps the second from raising
        ("a is not None and a.x > 3  ->  a.x > 3", "", "differed"),
        ("a is not None and a.x > 3  ->  a is not None", "", "reached"),
        (
            "a is not None and a.x > 3  ->  a is not None",
            "place(self, N(x=1), [], print)",
            "differed",
        ),
        # nothing was added, the same was kept
        ("self.sum += len(rows)  ->  (nothing)", "", "reached"),
        ("self.sum += len(rows)  ->  (nothing)", "place(self, None, [1], print)", "differed"),
        ("self.kept = a.x  ->  (nothing)", "place(self, N(x=5), [], print)", "reached"),
        ("self.kept = a.x  ->  (nothing)", "place(self, N(x=6), [], print)", "differed"),
        # whose value is used, not its truth alone
        ("a or rows  ->  rows", "", "reached"),
        ("a or rows  ->  rows", "place(self, N(x=5), [1], print)", "differed"),
        # whose truth is used, not its value
        ("rest  ->  True", "place(self, N(x=5), [1], print)", "differed"),
        ("rest  ->  False", "", "reached"),
        ("rest  ->  False", "place(self, None, [1], print)", "differed"),
        ("self.sum or rows  ->  rows", "place(self, None, [1], print)", "reached"),
        # an effect: that it was reached is all
        ("send(rest)  ->  (nothing)", "place(self, N(x=5), [1], print)", "reached"),
    ],
)
@pytest.mark.parametrize("watched", [True, False])
def test_what_a_difference_is(
    tmp_path: Path, change: str, more: str, told: str, watched: bool
) -> None:
    (tmp_path / "nodes" / "core").mkdir(parents=True)
    (tmp_path / "nodes" / "__init__.py").touch()
    (tmp_path / "nodes" / "core" / "places.py").write_text(PLACES)
    old, _, new = change.rpartition("  ->  ")
    one = next(
        one
        for one in overlay.everything(tmp_path, ["nodes/core"])
        if one.site.says.startswith(old) and one.site.says.endswith(new)
    )
    code = CALLS.format(more=more)
    if watched:
        folder = overlay.lay_watched(tmp_path, tmp_path / "o", ["nodes/core"])
        run_in(folder, code)
    else:
        folder = overlay.lay(tmp_path, one, tmp_path / "o")
        subprocess.run([sys.executable, "-Oc", code], cwd=folder, check=False, capture_output=True)
    name = f" {one.name}" if watched else ""
    assert f"reached{name}" in overlay.told(folder)
    assert (f"differed{name}" in overlay.told(folder)) == (told == "differed")


PURE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Row:
    n: int

@dataclass
class Rows:
    all: list
    def __post_init__(self): self.all.append(1)

class Log:
    def size(self) -> int:
        with self._lock:
            found = [row for row in self.rows if row.is_old(3)]
        return len(found)
    def is_old(self, n): return self.size() > n
    def grow(self):
        self.n += 1
    def grows(self): return self.grow()
    def waits(self): return self.queue.get()
    def goes(self): return self.goes()
    def both(self): return 1
    def told(self):
        with open("x") as file: return 1
    def each(self):
        for row in self.rows: yield row

class Other:
    def both(self): self.n = 2
"""


def test_a_function_is_pure_when_all_of_its_name_only_ask(tmp_path: Path) -> None:
    (tmp_path / "it.py").write_text(PURE)
    assert pure_names(tmp_path) == {"Row", "size", "is_old", "goes"}


@pytest.mark.parametrize(
    ("text", "pure"),
    [
        ("len(a) > max(1, b)", True),
        ("known(a)", True),
        ("a.known(b.known())", True),
        ("self.rows.get(tp) is None", True),
        ("self.queue.get(1)", False),
        ("self._session.get(path)", False),
        ("self.rows.pop(tp)", False),
        ("other(a)", False),
        ("any(rows)", False),  # it may be an iterator, which can be read once
        ("any(row > 1 for row in rows())", False),
        ("any(row > 1 for row in self.rows)", True),
        ("sorted(set(self.rows) - self.gone)", True),
        ("set(held) <= set(held)", True),
        ("set(held) <= set(rows)", False),
        ("all(row > 1 for row in held)", True),
        ("all(row > 1 for row in rows)", False),
        ("[row for row in held]", True),
        ("{row: 1 for row in rows}", False),
        ("(n := 1) > 0", False),
        ("callbacks[0]()", False),
    ],
)
def test_what_can_be_evaluated_twice(text: str, pure: bool) -> None:
    assert is_pure(ast.parse(text), frozenset({"known"}), frozenset({"held"})) == pure


HELD = """
def f(a: Sequence[int], b: Iterable[int], c, *, d: dict[str, int], e: Iterator, again: list[int]):
    made = [1 for _ in b]
    made = sorted(made)
    told: set[int] = set(made)
    later = (1 for _ in b)
    later = list(later)
    for one in a:
        pass
    again = iter(again)
    other = self.rows
"""


def test_what_is_known_to_be_no_iterator_can_be_read_again() -> None:
    (function,) = ast.parse(HELD).body
    assert isinstance(function, ast.FunctionDef)
    assert read_again(function) == {"a", "d", "made", "told"}


# -- survey, hunt, fates ---------------------------------------------------------------------------


def generated(name: str, operator: str = "compare-flip", *, blind: bool = False) -> Generated:
    site = Site(operator, 0, 1, f"{name} < b  ->  {name} >= b", within=name, blind=blind)
    return Generated("nodes/core/isr.py", site)


A, B, C = generated("a"), generated("b"), generated("c")
BLIND = generated("d", "call-omitted", blind=True)


def entry(
    verdict: str, one: Generated = A, scenario: str = "s", seed: int = 1, **more: Any
) -> Entry:
    play = Play(scenario=scenario, seed=seed, planes="dual", bug=one.name)
    rules = tuple(more.pop("rules", ()))
    return Entry(play=play, verdict=verdict, rules=rules, reasons=("why",), extra=more)


def recorded(folder: Path) -> Recorded:
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    return Recorded(scenario="s", folder=folder, log_dirs=[], keep_data=False, seconds=1.0)


def look_of(scenario: str, *told: str, digest: str = "d") -> Entry:
    play = Play(scenario=scenario, seed=1, planes="dual", bug=f"watched-{digest}")
    return Entry(play=play, verdict="valid", extra={"told": list(told)})


SURVEY = survey_of(
    [
        look_of("s", f"reached {A.name}", f"reached {BLIND.name}", f"reached {B.name}"),
        look_of("t", f"reached {A.name}", f"differed {A.name}"),
        look_of("u", f"differed {B.name}", digest="of other sources"),
    ],
    "d",
)


def test_a_mutant_is_played_where_it_can_be_noticed() -> None:
    assert SURVEY.chances(A, ["s", "t"]) == ["t"]
    assert SURVEY.chances(B, ["s", "t"]) == []
    assert SURVEY.chances(BLIND, ["s", "t"]) == ["s"]  # that it differs cannot be told
    assert SURVEY.chances(B, ["s", "t", "u"]) == ["u"]  # never looked at
    assert SURVEY.alone(A) == "t"
    assert SURVEY.alone(B) == ""


def tried(one: Generated, *entries: Entry, left: int = 0) -> Attempts:
    more = [Play(scenario="x", seed=n, planes="dual", bug=one.name) for n in range(left)]
    return Attempts(one, entries, more)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (tried(A, entry("valid", reached=True, differed=True)), "survived"),
        (tried(A, entry("valid", reached=True, differed=True), left=1), "open"),
        (tried(A, entry("valid"), entry("invalid")), "found"),
        (tried(A, entry("unknown")), "stopped"),
        (tried(A, entry("unknown"), left=2), "open"),
        (tried(A, *[entry("unknown", seed=n) for n in range(3)], left=2), "stopped"),
        (tried(A, entry("valid"), entry("unknown")), "survived"),
        (tried(B), "equal"),
        (tried(B, left=1), "open"),
        (tried(generated("nowhere")), "unreached"),
        (tried(generated("nowhere"), left=1), "open"),
        (tried(BLIND, entry("valid", BLIND, reached=True)), "survived"),  # it cannot tell
    ],
)
def test_what_became_of_a_mutant(now: Attempts, expected: str) -> None:
    assert fate(now, SURVEY) == expected
    if expected == "survived":
        assert fate(now, SURVEY, {now.one.name}) == "listed"


class Hunted:
    """A hunt over made-up mutants: no overlay, no cluster."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdicts: dict[str, str]):
        self.verdicts, self.path = verdicts, tmp_path / "ledger.jsonl"
        self.played: list[tuple[str, str, int]] = []
        self.entries: list[Entry] = []
        monkeypatch.setattr(overlay, "lay", lambda root, one, folder: folder)

    def go(
        self,
        *mutants: Generated,
        tries: int = 9,
        runs: int = 99,
        spared: Any = (),
        later: bool = False,
    ) -> None:
        by_folder = {one.name.replace("/", "-").replace(":", "-"): one.name for one in mutants}

        def record(this: Play) -> Recorded:
            assert this.bug == ""  # it is in the sources
            bug = by_folder[Path(os.environ["BIPLANE_NODES"]).name]
            self.played.append((bug, this.scenario, this.seed))
            return recorded(self.path.parent / f"run-{len(self.played)}")

        def judge(folder: Path) -> Future[tuple[dict[str, Any], float]]:
            bug, scenario, _ = self.played[int(folder.name.removeprefix("run-")) - 1]
            done: Future[tuple[dict[str, Any], float]] = Future()
            verdict = self.verdicts.get(f"{bug} {scenario}", "valid")
            done.set_result(({"verdict": verdict, "reasons": []}, 1.0))
            return done

        times = iter([0.0] * (runs + 1) + [9.0] * 99)
        found = hunt(
            mutants,
            root=Path(),
            scratch=self.path.parent,
            survey=SURVEY,
            scenarios=["s", "t", "u"],
            seeds=[1, 2],
            tries=tries,
            desk=Desk(Ledger(self.path), record, judge, later=later),
            budget=Budget(1.0, now=lambda: next(times)),
            spared=spared,
        )
        self.entries += found


def test_all_get_their_first_run_before_one_gets_its_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunted = Hunted(tmp_path, monkeypatch, {f"{BLIND.name} u": "invalid"})
    hunted.go(A, BLIND, runs=1)
    hunted.go(A, BLIND, runs=2)  # it goes on where it was
    hunted.go(A, BLIND)
    assert {bug for bug, _, _ in hunted.played[:2]} == {A.name, BLIND.name}
    assert [n for bug, _, n in hunted.played if bug == A.name] == [SEED, SEED, 1, 1]
    assert {(s, n) for bug, s, n in hunted.played if bug == A.name} == {
        (s, n) for s in "tu" for n in (1, 2)
    }
    of_blind = [(s, n) for bug, s, n in hunted.played if bug == BLIND.name]
    assert of_blind[-1] == ("u", SEED)  # found: no more of it
    assert len(hunted.played) == len(set(hunted.played))


def test_a_mutant_is_played_no_more_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunted = Hunted(tmp_path, monkeypatch, {})
    hunted.go(A, BLIND, tries=2, spared={BLIND.name})
    assert [bug for bug, _, _ in hunted.played] == [A.name] * 2


def test_a_cluster_that_never_works_is_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunted = Hunted(tmp_path, monkeypatch, {f"{A.name} {s}": "unknown" for s in "tu"})
    hunted.go(A)
    assert len(hunted.played) == 3


def test_what_is_to_be_judged_later_is_judged_by_the_next_hunt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunted = Hunted(tmp_path, monkeypatch, {f"{A.name} {s}": "invalid" for s in "tu"})
    hunted.go(A, BLIND, tries=1, later=True)
    hunted.go(A, BLIND, tries=1, later=True)
    assert [bug for bug, _, _ in hunted.played] == [A.name, BLIND.name]
    assert hunted.entries == []
    hunted.go(A, BLIND, tries=2)
    assert [bug for bug, _, _ in hunted.played] == [A.name, BLIND.name, BLIND.name]
    assert [e.verdict for e in hunted.entries] == ["invalid", "valid", "valid"]


class Surveyed:
    """A study of two scenarios and no mutants, on a clock that each run moves by one."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(overlay, "lay_watched", lambda root, folder: folder)
        monkeypatch.setattr(overlay, "digest", lambda root: "d")
        monkeypatch.setattr(overlay, "draw", lambda *_: [])
        self.path, self.did = tmp_path, list[str]()

    def go(self, scenarios: list[str], until: int, *, later: bool = False) -> list[str]:
        """What it did, in order, and which verdicts came of it."""

        def record(this: Play) -> Recorded:
            self.did.append(this.scenario)
            return recorded(self.path / f"run-{this.scenario}")

        def judge(folder: Path) -> Future[tuple[dict[str, Any], float]]:
            self.did.append(f"judged {folder.name}")
            done: Future[tuple[dict[str, Any], float]] = Future()
            done.set_result(({"verdict": "valid", "reasons": []}, 1.0))
            return done

        study = Study(
            count=1,
            seed=1,
            seeds=[1],
            tries=1,
            scenarios=scenarios,
            store=self.path,
            reasons=self.path / "none",
        )
        self.did.clear()
        budget = Budget(until, now=lambda: len([one for one in self.did if len(one) == 1]))
        return [e.play.scenario for _, e in study.go(record, judge, budget, later=later)]


def test_a_survey_waits_for_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    surveyed = Surveyed(tmp_path, monkeypatch)
    assert surveyed.go(["s", "t", "u"], 99) == ["s", "t", "u"]
    assert surveyed.did == ["s", "t", "u", "judged run-s", "judged run-t", "judged run-u"]
    assert surveyed.go(["s", "t", "u"], 99) == []
    assert surveyed.did == []


def test_what_a_survey_left_to_be_judged_waits_until_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    surveyed = Surveyed(tmp_path, monkeypatch)
    assert surveyed.go(["s", "t", "u"], 2) == []
    assert surveyed.did == ["s", "t"]
    assert surveyed.go(["s", "t", "u"], 99, later=True) == []
    assert surveyed.did == ["u"]
    assert surveyed.go(["s", "t", "u", "v"], 0) == ["s", "t", "u"]  # nothing but judging
    assert "v" not in surveyed.did


def test_the_scenario_that_has_found_most_comes_first() -> None:
    scenarios = ["mixture", "broker-restart", "log-recovery"]
    log = Generated("nodes/log/log.py", A.site)
    rooms = {B.name: "nodes/log", BLIND.name: "nodes/core"}
    assert order(log, scenarios, rooms, [], Survey()) == scenarios
    entries = [entry("invalid", B, "mixture", n) for n in range(9)]
    entries += [entry("valid", B, "broker-restart", n) for n in range(3)]
    by_found = ["mixture", "log-recovery", "broker-restart"]
    assert order(log, scenarios, rooms, entries, Survey()) == by_found
    others = [entry("invalid", BLIND, "log-recovery", n) for n in range(9)]
    assert order(log, scenarios, rooms, others, Survey()) == scenarios  # of another room


def test_the_scenario_that_makes_most_of_its_file_comes_first() -> None:
    log = Generated("nodes/log/log.py", A.site)
    seen = {
        "few": ["log/log:a", "core/isr:a", "core/isr:b", "core/isr:c"],
        "most": ["log/log:a", "log/log:b", "log/log:c"],
        "none": ["core/isr:a"],
    }
    survey = Survey(differed={scenario: frozenset(names) for scenario, names in seen.items()})
    scenarios = ["none", "few", "unseen", "most"]
    assert [round(survey.share(log, s), 2) for s in scenarios] == [0, 0.33, 0.5, 1]
    assert order(log, scenarios, {}, [], survey) == ["most", "unseen", "few", "none"]
    rooms = {B.name: "nodes/log"}
    vain = [entry("valid", B, "most", n) for n in range(3)]
    assert order(log, scenarios, rooms, vain, survey)[0] == "unseen"


# -- the page --------------------------------------------------------------------------------------


def test_the_page_names_what_is_not_found_and_what_a_rule_finds_alone() -> None:
    found = entry("invalid", A, "t", rules=("records: duplicate-append",))
    late = entry("valid", A, "s")
    both = entry("invalid", C, "s", rules=("records: duplicate-append", "groups: gone-back"))
    done = [tried(A, late, found), tried(C, both), tried(BLIND, entry("valid", BLIND)), tried(B)]
    sound = [look_of("s"), dataclasses.replace(look_of("t"), verdict="invalid", reasons=("false",))]
    text = page(done, survey=SURVEY, sound=sound, reasons={}, command="biplane mutate")
    assert "**2/3 (21% to 94%)**" in text
    assert "Of the 3 that were played, the first run alone found **1/3 (6% to 79%)**" in text
    assert "| records: duplicate-append | 2 | 1 |" in text
    assert "| groups: gone-back | 1 | 0 |" in text
    assert "| t | 1 | 1 | 1 | 1 | 1 | 1 |" in text
    assert f"- **survived** `{BLIND.name}`" in text
    assert "1 valid, 0 unknown, 1 invalid" in text
    assert "- t: invalid: false" in text


def test_a_listed_mutant_is_shown_with_its_reason_and_counted_apart(tmp_path: Path) -> None:
    path = tmp_path / "mutants.toml"
    path.write_text(f'[[mutant]]\nname = "{BLIND.name}"\nchange = "c"\nwhy = "A gauge."\n')
    done = [tried(A, entry("invalid", A, "t")), tried(BLIND, entry("valid", BLIND))]
    text = page(done, survey=SURVEY, sound=[], reasons=reasons(path), command="biplane mutate")
    assert "**1/2 (9% to 91%)**" in text
    assert "**1/1 (21% to 100%)**" in text
    assert f"- **listed** `{BLIND.name}`" in text
    assert "A gauge." in text
    path.write_text('[[mutant]]\nname = "x"\nwhy = ""\n')
    with pytest.raises(ValueError, match="table 1: it needs name, change and why"):
        reasons(path)


@pytest.mark.slow
def test_the_reasons_in_the_tree_are_of_mutants_that_are_told_alike(root: Path) -> None:
    """Those whose place has changed since are no reasons any more, and do no harm."""
    says = {one.name: one.says.partition(": ")[2] for one in overlay.everything(root)}
    tables = tomllib.loads((root / "docs" / "mutants.toml").read_text()).get("mutant", [])
    assert all(says.get(t["name"], t["change"]) == t["change"] for t in tables)
    assert len({t["name"] for t in tables}) == len(tables)


def test_a_ledger_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    one = entry("invalid", rules=["a: b"], reached=True)
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
