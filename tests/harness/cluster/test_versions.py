"""One question in all its forms: brokers that say the same, and brokers that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pytest

from harness.cluster import versions
from harness.cluster.ask import request
from harness.cluster.versions import SAME, Form, Question, compared
from nodes.wire.apis import SUPPORTED, ApiKey, response_class
from nodes.wire.build import build
from nodes.wire.client import ConnectionFailed, RequestTimedOut
from nodes.wire.codec import encode_request

AT = ("127.0.0.1", 1)
ALL = Question(
    api=ApiKey.METADATA,
    about="all topics",
    forms=[Form(12, {"topics": None}), Form(5, {"topics": None}), Form(0, {"topics": []})],
)
ENDS = {"replica_id": -1, "isolation_level": 0, "topics": []}
POSITIONS = Question(
    api=ApiKey.OFFSET_FETCH,
    about="positions of g",
    forms=[
        Form(8, {"groups": [{"group_id": "g", "topics": None}]}),
        Form(2, {"group_id": "g", "topics": None}, ", all"),
    ],
    part=lambda answer: answer.groups[0] if hasattr(answer, "groups") else answer,
    counts=lambda entry: versions._is_position_in(entry, ["t"]),
)
Answers = Callable[[int], Any]
"""By version."""


class Talk:
    """Stands for a connection; ``answer``: to each request."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.request = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None: ...


def metadata(version: int, **otherwise: Any) -> Any:
    partition = {"partition_index": 0, "leader_id": 1, "leader_epoch": 7, "replica_nodes": [1, 2]}
    topics = [{"name": "t", "partitions": [{**partition, "isr_nodes": [1, 2], **otherwise}]}]
    brokers = [{"node_id": 1, "host": "a", "port": 9}]
    fields = {"brokers": brokers, "topics": topics, "controller_id": 1}
    return build(response_class(ApiKey.METADATA, version), **fields)


def positions(version: int, offset: int = 3, **more: int) -> Any:
    """``more``: of other topics."""
    topics = [
        {"name": name, "partitions": [{"partition_index": 0, "committed_offset": at}]}
        for name, at in {"t": offset, **more}.items()
    ]
    group = {"group_id": "g", "topics": topics}
    fields: dict[str, Any] = {"groups": [group]} if version >= 8 else {"topics": topics}
    return build(response_class(ApiKey.OFFSET_FETCH, version), **fields)


class Broker:
    """Stands for a connection to it."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def __call__(self, *_: Any) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def request(self, entity: Any) -> Any:
        return self.answers(entity.__version__)


class Listing:
    """A broker that tells where logs end, by partition; of what there is not, error 3.
    ``together``: what else it does where it is asked for several."""

    def __init__(self, together: Callable[[list[Any]], list[Any]] = lambda rows: rows) -> None:
        self.together = together
        self.requests = 0

    def __call__(self, entity: Any) -> Any:
        self.requests += 1
        asked = [(t.name, int(p.partition_index)) for t in entity.topics for p in t.partitions]
        rows = [self._row(*one) for one in asked]
        if len(rows) > 1:
            rows = self.together(rows)
        told = [(name, row) for (name, _), row in zip(asked, rows, strict=False)]
        topics = [
            {"name": name, "partitions": [row for of, row in told if of == name]}
            for name in dict.fromkeys(name for name, _ in told)
        ]
        return build(response_class(ApiKey.LIST_OFFSETS, entity.__version__), topics=topics)

    def _row(self, topic: str, partition: int) -> dict[str, Any]:
        there = topic != versions.NEVER_MADE
        found = {"error_code": 0, "offset": 10 + partition} if there else {"error_code": 3}
        return {"partition_index": partition, **found}


def ends(count: int) -> Question:
    """Of so many partitions, in one version."""
    led = {"t": [(p, 1) for p in range(count)]}
    served = {int(ApiKey.LIST_OFFSETS): (7, 7)}
    asked = versions._Asked(["t"], led, {"t": list(range(count))}, False, True, True, served)
    return next(q for q in versions.questions(asked) if q.about == "ends")


def swapped(rows: list[Any]) -> list[Any]:
    """Each is told what is another's."""
    return [
        {**row, "offset": other.get("offset", -1)}
        for row, other in zip(rows, [*rows[1:], rows[0]], strict=True)
    ]


def spoiled(rows: list[Any]) -> list[Any]:
    """One that there is not is why nothing is told of any."""
    if all(row["error_code"] == 0 for row in rows):
        return rows
    return [{**row, "error_code": 3} for row in rows]


def first_alone(rows: list[Any]) -> list[Any]:
    return rows[:1]


@pytest.mark.parametrize(
    ("together", "alone", "beside"),
    [
        (lambda rows: rows, True, True),
        (swapped, False, False),
        (spoiled, True, False),
        (first_alone, False, False),
    ],
)
def test_many_are_told_of_together_as_each_alone(
    monkeypatch: pytest.MonkeyPatch, together: Any, alone: bool, beside: bool
) -> None:
    broker = Listing(together)
    monkeypatch.setattr(versions, "Connection", lambda *_: Talk(broker))
    found = {key: (says == SAME, known) for key, says, known in compared(ends(3), AT)}
    assert found == {
        "version 7, one by one": (alone, True),
        "version 7, beside what there is not": (beside, True),
    }
    assert broker.requests == 1 + 3 + 1 + 1


def test_one_alone_is_asked_for_beside_what_there_is_not() -> None:
    assert [versions._how(form) for form in ends(1).forms] == [
        "version 7",
        "version 7, beside what there is not",
    ]


def test_what_is_asked_for_in_other_words_can_be_written() -> None:
    """Each form of each question, of a node that leads and coordinates something."""
    served = {int(api): bounds for api, bounds in SUPPORTED.items()}
    led = {"t": [(0, 3), (1, 2)], "u": [(0, 0)]}
    partitions = {"t": [0, 1], "u": [0]}
    asked = versions._Asked(["t", "u"], led, partitions, True, True, True, served, {}, ["g", "h"])
    forms = [(q, form) for q in versions.questions(asked) for form in q.forms]
    for question, form in forms:
        for fields in (form.fields, *form.more):
            assert encode_request(request(question.api, form.version, **fields), 0, "c")
    alone = {q.about: len(form.more) for q, form in forms if form.says == versions._ALONE}
    assert alone == {
        **{"topics": 1, "logs": 2, "beginnings": 2, "ends": 2, "ends of leader epochs": 2},
        **{"producers": 2, "the first records of what it leads": 2},
        **{"groups": 1, "positions of groups": 1},
    }
    beside = {(q.api, q.about) for q, form in forms if form.says == versions._BESIDE}
    assert len(beside) == len([form for _, form in forms if form.says == versions._ALONE])


def told(
    monkeypatch: pytest.MonkeyPatch, question: Question, answers: Answers
) -> dict[str, tuple[str, bool]]:
    monkeypatch.setattr(versions, "Connection", Broker(answers))
    return {key: (says, known) for key, says, known in compared(question, AT)}


def test_who_can_say_less_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, ALL, metadata)
    assert found == {"version 5": (SAME, True), "version 0": (SAME, True)}


def test_what_one_version_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what version 5 has no word for it says nothing else."""

    def answers(version: int) -> Any:
        return metadata(version, leader_id=2, leader_epoch=8) if version == 5 else metadata(version)

    found = told(monkeypatch, ALL, answers)
    assert found["version 5"] == ("topics t/partitions 0/leader_id: 2, and in the newest 1", True)
    assert found["version 0"] == (SAME, True)


def test_what_one_version_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = build(response_class(ApiKey.METADATA, 0), brokers=[], topics=[])
    found = told(monkeypatch, ALL, lambda version: metadata(version) if version else nothing)
    says, known = found["version 0"]
    assert known
    assert says.startswith("brokers 1/host: None, and in the newest a")


def test_what_changes_meanwhile_has_no_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    leaders = iter((1, 1, 1, 2))
    found = told(monkeypatch, ALL, lambda version: metadata(version, leader_id=next(leaders)))
    assert [known for _, known in found.values()] == [False, False]


@pytest.mark.parametrize(
    ("error", "known"), [(ConnectionFailed("closed"), True), (RequestTimedOut("late"), False)]
)
def test_a_version_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, known: bool
) -> None:
    def answers(version: int) -> Any:
        if version == 5:
            raise error
        return metadata(version)

    found = told(monkeypatch, ALL, answers)
    assert found["version 5"][0] != SAME
    assert found["version 5"][1] == known


def test_who_does_not_answer_at_all_is_judged_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(_version: int) -> Any:
        raise ConnectionFailed("closed")

    assert not told(monkeypatch, ALL, answers)


def test_the_newest_alone_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(version: int) -> Any:
        if version == 12:
            raise ConnectionFailed("closed")
        return metadata(version)

    assert told(monkeypatch, ALL, answers) == {"version 12": ("no answer: ConnectionFailed", True)}


@pytest.mark.parametrize(("old", "same"), [(3, True), (4, False), (-1, False)])
def test_positions_of_all_and_of_each(
    monkeypatch: pytest.MonkeyPatch, old: int, same: bool
) -> None:
    """Whoever is asked for all may tell of other topics, too."""

    def answers(version: int) -> Any:
        return positions(version) if version >= 8 else positions(version, old, u=9)

    (says,) = (says for says, _ in told(monkeypatch, POSITIONS, answers).values())
    assert (says == SAME) == same


@pytest.mark.parametrize(
    ("version", "new", "old", "same"),
    [
        *((4, 78, 5, True), (4, 78, 78, True), (4, 5, 78, False), (4, 78, 6, False)),
        *((4, 6, 5, False), (5, 78, 5, False), (5, 78, 78, True)),
    ],
)
def test_an_error_that_older_versions_do_not_know(
    monkeypatch: pytest.MonkeyPatch, version: int, new: int, old: int, same: bool
) -> None:
    """OFFSET_NOT_AVAILABLE came with version 5; before, it is LEADER_NOT_AVAILABLE (KIP-207)."""
    forms = [Form(7, ENDS), Form(version, ENDS)]
    ends = Question(api=ApiKey.LIST_OFFSETS, about="ends", forms=forms)

    def answers(version: int) -> Any:
        row = {"partition_index": 0, "error_code": new if version == 7 else old}
        topics = [{"name": "t", "partitions": [row]}]
        return build(response_class(ApiKey.LIST_OFFSETS, version), topics=topics)

    says, known = told(monkeypatch, ends, answers)[f"version {version}"]
    assert known
    assert (says == SAME) is same


@pytest.mark.parametrize("all_live", [True, False])
def test_the_oldest_has_no_word_for_who_is_away(all_live: bool) -> None:
    served = {int(ApiKey.METADATA): (0, 12)}
    asked = versions._Asked(["t"], {}, {"t": [0]}, False, all_live, True, served)
    found = {
        q.about: [form.version for form in q.forms if form.says != versions._BESIDE]
        for q in versions.questions(asked)
    }
    least = 0 if all_live else 1
    assert found == {
        **{about: list(range(12, least - 1, -1)) for about in ("all topics", "topics")},
        "no topic": list(range(12, 0, -1)),
    }


def test_an_empty_list_with_which_the_oldest_asks_for_all() -> None:
    asked = versions._Asked([], {}, {}, False, True, True, {int(ApiKey.METADATA): (0, 1)})
    (question, *_) = versions.questions(asked)
    assert [form.fields["topics"] for form in question.forms] == [None, []]


@pytest.mark.parametrize("has_controller", [True, False])
def test_without_zookeeper_any_may_be_named_controller(
    monkeypatch: pytest.MonkeyPatch, has_controller: bool
) -> None:
    served = {int(ApiKey.METADATA): (0, 12)}
    asked = versions._Asked([], {}, {}, False, True, has_controller, served)
    (question, *_) = versions.questions(asked)

    def answers(version: int) -> Any:
        named = 1 if version == 12 else 2
        return build(response_class(ApiKey.METADATA, version), controller_id=named)

    said = told(monkeypatch, question, answers)
    assert (said["version 1"][0] == SAME) is not has_controller
    assert said["version 0"][0] == SAME  # which has no word for it
