"""What a controller makes of a topic where it chooses itself: one that obeys, and others."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cluster import placements
from harness.cluster.placements import TOPIC, Elsewhere, _Asker, _placed, placed, placement
from harness.cluster.state import Topic, topic_id_of, topic_uuid
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.build import build

LIVE = (1, 2, 3)
ID = "Q3o-BIrrTv2gu74u48kt6g"
SERVED = {
    int(api): (0, 9)
    for api in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS)
}
SPREAD = {0: (1, 2), 1: (2, 3), 2: (3, 1)}


class Controller:
    """Also stands for what ZooKeeper holds. ``more``: of its answer to who makes a topic;
    ``grown``: where partitions are put then; ``by_id``: which topic goes, and is said to."""

    def __init__(
        self,
        made: dict[int, tuple[int, ...]] | None = None,
        grown: dict[int, tuple[int, ...]] | None = None,
        by_id: tuple[str, str] = (TOPIC, TOPIC),
        error: int = 0,
        **more: Any,
    ) -> None:
        self.made = SPREAD if made is None else made
        self.grown = {3: (1, 3), 4: (2, 1)} if grown is None else grown
        self.by_id, self.error, self.more = by_id, error, more
        self.held = {"other": Topic(name="other", topic_id=None, replicas={0: (1,)}, moving=False)}
        self.of_topic: dict[str, str] = {}

    def topics(self) -> list[Topic]:
        return list(self.held.values())

    def settings(self, _topic: str) -> dict[str, str]:
        return self.of_topic

    def pending(self) -> list[tuple[str, str]]:
        return []

    def ask(self, _address: Any, entity: Any, _timeout_s: float) -> Any:
        api = ApiKey(entity.__api_key__)
        version = entity.__version__
        return build(response_class(api, version), **self.answer(api, entity))

    def answer(self, api: ApiKey, entity: Any) -> dict[str, Any]:
        if api == ApiKey.DELETE_TOPICS:
            by_id = entity.__version__ >= 6
            gone, called = self.by_id if by_id else (TOPIC, TOPIC)
            if by_id:
                assert entity.topics[0].topic_id == topic_uuid(ID)
            self.held.pop(gone, None)
            return {"responses": [{"name": called, "error_code": 0}]}
        if api == ApiKey.CREATE_PARTITIONS:
            old = self.held[TOPIC].replicas
            self.hold({**old, **self.grown})
            return {"results": [{"name": TOPIC, "error_code": 0}]}
        if self.error:
            return {"topics": [{"name": TOPIC, "error_code": self.error}]}
        self.hold(self.made)
        self.of_topic = {c.name: c.value for c in entity.topics[0].configs}
        configs = [{"name": n, "value": v} for n, v in self.of_topic.items()]
        row = {"name": TOPIC, "num_partitions": 3, "replication_factor": 2, "configs": configs}
        return {"topics": [{**row, "topic_id": topic_uuid(ID), **self.more}]}

    def hold(self, replicas: dict[int, tuple[int, ...]]) -> None:
        self.held[TOPIC] = Topic(name=TOPIC, topic_id=ID, replicas=replicas, moving=False)


def rows(monkeypatch: pytest.MonkeyPatch, controller: Controller) -> dict[str, tuple[str, str]]:
    monkeypatch.setattr(placements, "ask", controller.ask)
    asker = _Asker(controller, lambda _: ("h", 1), 1, SERVED)  # type: ignore[arg-type]
    monkeypatch.setattr(placements, "_lived_through", lambda _: [])
    return {key: (told, truth) for _, key, told, truth in _placed(asker, LIVE)}


def wrong(found: dict[str, tuple[str, str]]) -> set[str]:
    return {key for key, (told, truth) in found.items() if told != truth}


def test_a_topic_is_made_as_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller()
    found = rows(monkeypatch, controller)
    assert not wrong(found)
    assert len(found) == 5
    assert found["what it says that it made"][1] == str([3, 2, "7200000", ID])
    assert set(controller.held) == {"other"}, "all is as it was"


MADE = "a topic, to be placed by the controller"
GROWN = "more partitions, to be placed by the controller"
ENDED = "the end of a topic, by its id"
SAID = "what it says that it made"


@pytest.mark.parametrize(
    ("controller", "keys"),
    [
        (Controller({0: (1,), 1: (2,), 2: (3,)}), {MADE, GROWN, SAID}),
        (Controller({**SPREAD, 2: (3, 3)}), {MADE, GROWN}),
        (Controller({0: (1, 2), 1: (1, 3), 2: (1, 2)}), {MADE, GROWN}),
        (Controller({0: (1, 2), 1: (2, 3)}), {MADE, GROWN, SAID}),
        (Controller(grown={3: (1,), 4: (2,)}), {GROWN}),
        (Controller(grown={3: (1, 3)}), {GROWN}),
        (Controller(grown={0: (2, 1), 3: (1, 3), 4: (3, 1)}), {GROWN}),
        (Controller(by_id=("other", "other")), {ENDED}),
        (Controller(by_id=(TOPIC, "other")), {ENDED}),
        (Controller(num_partitions=2), {SAID}),
        (Controller(replication_factor=3), {SAID}),
        (Controller(configs=[]), {SAID}),
        (Controller(topic_id=None), {SAID}),
        (Controller(error=38), {MADE}),
    ],
)
def test_what_is_made_otherwise(
    monkeypatch: pytest.MonkeyPatch, controller: Controller, keys: set[str]
) -> None:
    assert wrong(rows(monkeypatch, controller)) == keys
    assert TOPIC not in controller.held, "whatever came of it"


def test_who_cannot_do_it_just_now_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Elsewhere):
        rows(monkeypatch, Controller(error=41))


def test_where_replicas_may_lie() -> None:
    assert placed(SPREAD, LIVE, 3, 2) == placement(3, 2)
    assert placed({0: (2, 3), 1: (3, 1), 2: (1, 2)}, LIVE, 3, 2) == placement(3, 2)
    assert placed({0: (1, 2), 1: (2, 3), 2: (3, 4)}, LIVE, 3, 2).startswith("{0: [1, 2]")
    assert placed({0: (1, 2), 1: (2, 3), 3: (3, 1)}, LIVE, 3, 2) != placement(3, 2)
    assert placed({0: (1,), 1: (1,), 2: (1,)}, (1,), 3, 1) == placement(3, 1)


def test_an_id_is_written_as_kafka_prints_it() -> None:
    found = topic_uuid(ID)
    assert found is not None
    assert topic_id_of(found) == ID
