"""Many small stories judged in one pass, since Spark's jobs take long however little there is.

Each story is an arm of one history, and is given what judging it alone gives (`judged_apart`). A
test asks for it in passing:

    @judging(check)
    def test_a_sound_history(story: Any) -> Asks:
        handed_over(story)
        assert not (yield story).counts

All such tests of a module are played up to their first question, what they ask is judged at once,
and so on with what they ask next; each fails, or not, by itself. What a check does only where a
whole history has none of something (no row of a kind, no error) is not seen among neighbours that
have it: a story about that is yielded `apart`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding

if TYPE_CHECKING:
    from tests.checkers.conftest import Story

Check = Callable[[History], Outcome]
Asks = Generator["Story", Outcome, None]
_ALL = 10**9


def judged_apart(spark: Any, check: Check, stories: Mapping[Any, Story]) -> dict[Any, Outcome]:
    """By name, what came of each story. Those whose runs were asked for the same share a pass."""
    alike: dict[str, dict[Any, Story]] = {}
    for name, story in stories.items():
        own = {key: value for key, value in story.run.items() if key not in ("arms", "trials")}
        alike.setdefault(json.dumps(own, sort_keys=True), {})[name] = story
    found: dict[Any, Outcome] = {}
    for group in alike.values():
        found.update(_one_pass(spark, check, group))
    return {name: found[name] for name in stories}


def _one_pass(spark: Any, check: Check, stories: Mapping[Any, Story]) -> dict[Any, Outcome]:
    if len(stories) == 1:
        return {name: check(story.history(spark)) for name, story in stories.items()}
    rows: dict[str, list[dict[str, Any]]] = {}
    arms = {name: f"<arm {number:04}>" for number, name in enumerate(stories)}
    run = {**next(iter(stories.values())).run, "arms": {}, "trials": [], "merged": True}
    for name, story in stories.items():
        label = arms[name]
        for kind, items in story.rows.items():
            assert all(row["arm"] == story.arm for row in items)
            rows.setdefault(kind, []).extend({**row, "arm": label} for row in items)
        if story.arm in story.run["arms"]:
            facts = story.run["arms"][story.arm]
            # What one trial tells is expected of others of its system: each story has its own.
            run["arms"][label] = {**facts, "sut": f"{facts.get('sut')} of {label}"}
        run["trials"] += [{**trial, "arm": label} for trial in story.run.get("trials", ())]
    stands_for: dict[int, int] = {}

    def add(self: Outcome, finding: Finding, n: int = 1) -> None:
        stands_for[id(finding)] = n
        _ADD(self, finding, n)

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Finding, "KEPT", _ALL))
        patches.enter_context(mock.patch.object(Outcome, "add", add))
        whole = check(History.of(spark, rows, run))
        findings = whole.findings
    return {
        name: _own(whole, findings, stands_for, arms[name], story.arm)
        for name, story in stories.items()
    }


def said_of_each(
    edits: Mapping[str, Callable[[Story], Any]],
    sound: Callable[[], Story],
    says: Callable[[dict[str, list[dict[str, Any]]]], Iterable[tuple[tuple[str, int], str]]],
) -> dict[str, list[str]]:
    """For facts that say something of trials: each edit's story, ``sound`` before, is a trial of
    one history. By edit, what ``says`` gives of it, given all rows by kind."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, edit in enumerate(edits.values()):
        story = sound()
        edit(story)
        for kind, items in story.rows.items():
            rows.setdefault(kind, []).extend({**row, "trial": number} for row in items)
    names, found = list(edits), dict[str, list[str]]()
    for (_, trial), why in says(rows):
        found.setdefault(names[trial], []).append(why)
    return found


_ADD = Outcome.add


def _own(
    whole: Outcome,
    findings: Iterable[Finding],
    stands_for: Mapping[int, int],
    label: str,
    arm: str,
) -> Outcome:
    """One story's part, with its arm called as in the story. What a check says of no arm in
    particular, it says of each. ``stands_for``: how many each finding does, by its id."""
    own = Outcome()

    def told(lines: Iterable[str]) -> list[str]:
        mine = (line for line in lines if label in line or "<arm " not in line)
        return [line.replace(label, arm) for line in mine]

    for (of, trial, what), n in whole.evidence.items():
        own.saw(arm, trial, what, n * (of == label))
    for (of, trial, rule, excuse, what), n in whole.excused.items():
        own.excuse(arm, trial, rule, excuse, of=what, n=n * (of == label))
    own.unknowns, own.not_judged = told(whole.unknowns), told(whole.not_judged)
    if label in whole.arms:
        own.arms[arm] = whole.arms[label]
    for table, lines in whole.figures.items():
        own.figures[table] = [{**row, "arm": arm} for row in lines if row["arm"] == label]
    for finding in findings:
        if finding.arm == label:
            renamed = replace(finding, arm=arm, says=finding.says.replace(label, arm))
            own.add(renamed, stands_for[id(finding)])
    return own


@cache
def ruled(rule: Callable[[History, Outcome], Iterable[Any]]) -> Check:
    """A check that is one rule, which yields its findings, or each with how many violations it
    stands for; the same of the same rule."""

    def check(history: History) -> Outcome:
        outcome = Outcome()
        for found in rule(history, outcome):
            finding, n = found if isinstance(found, tuple) else (found, 1)
            outcome.add(finding, n)
        return outcome

    return check


# ---- tests that ask ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asking:
    """A test that asks. ``begin``: plays it up to its first question, given its parameters."""

    check: Check
    begin: Callable[[Mapping[str, Any], Any], Asks]


def apart(story: Story, with_: Hashable = None) -> Story:
    """The story, to be judged alone, or with those only that are kept apart ``with_`` the same."""
    story.apart = id(story) if with_ is None else with_
    return story


def judging(check: Check, **begun: Callable[[Story], Any]) -> Callable[[Callable[..., Asks]], Any]:
    """For a test that yields a story whenever it wants it judged by ``check``, and is sent the
    `Outcome`. It may have ``story`` (a new one), ``spark`` and its parameters; ``begun``: by name,
    what else it may have, and how that is made of its story."""

    def decorate(test: Callable[..., Asks]) -> Any:
        assert inspect.isgeneratorfunction(test), f"{test.__name__} asks nothing"
        names = list(inspect.signature(test).parameters)
        made = {"story", "spark", *begun}

        def run(played: Mapping[str, BaseException | None], request: Any, **_: Any) -> None:
            error = played[request.node.nodeid]
            if error is not None:
                raise error

        def begin(values: Mapping[str, Any], spark: Any) -> Asks:
            from tests.checkers.conftest import Story

            story = Story()
            given = {"spark": spark, "story": story, **values}
            given |= {name: make(story) for name, make in begun.items()}
            return test(**{name: given[name] for name in names})

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        wanted = ["played", "request", *(name for name in names if name not in made)]
        asking: Any = run
        asking.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in wanted])
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(asking, name, getattr(test, name))
        asking.asking = _Asking(check, begin)
        return asking

    return decorate


def play(spark: Any, items: Sequence[pytest.Item]) -> dict[str, BaseException | None]:
    """By id of each test that asks: what it failed with."""
    asking = {item: item.obj.asking for item in items if hasattr(item.obj, "asking")}
    ended: dict[str, BaseException | None] = {}
    going = {
        item: test.begin(item.callspec.params if hasattr(item, "callspec") else {}, spark)
        for item, test in asking.items()
    }
    answers: dict[Any, Any] = dict.fromkeys(going)
    while answers:
        asked: dict[Any, Story] = {}
        for item, answer in answers.items():
            try:
                asked[item] = _next(going[item], answer)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # pytest's own are no Exceptions
                ended[item.nodeid] = None if isinstance(error, StopIteration) else error
        answers = _answers(spark, asking, asked)
    return ended


def _next(test: Asks, answer: Outcome | Exception | None) -> Story:
    if isinstance(answer, Exception):
        return test.throw(answer)
    return next(test) if answer is None else test.send(answer)


def _answers(
    spark: Any, asking: Mapping[Any, _Asking], asked: Mapping[Any, Story]
) -> dict[Any, Outcome | Exception]:
    """By test. Where a check crashed, each story is judged by itself, and told what it crashes
    with."""
    groups: dict[Any, dict[Any, Story]] = {}
    for item, story in asked.items():
        groups.setdefault((asking[item].check, story.apart), {})[item] = story
    found: dict[Any, Outcome | Exception] = {}
    for (check, _), stories in groups.items():
        try:
            found |= judged_apart(spark, check, stories)
        except Exception:
            found |= {item: _alone(spark, check, story) for item, story in stories.items()}
    return found


def _alone(spark: Any, check: Check, story: Story) -> Outcome | Exception:
    try:
        return check(story.history(spark))
    except Exception as error:
        return error
