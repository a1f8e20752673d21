"""What "it exists already" means to who registers (KafkaZkClient.CheckedEphemeral, KAFKA-7165),
answer by answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.exceptions import AuthFailedError, NodeExistsError, NoNodeError

from nodes.coordination.registration import EphemeralRegistration
from nodes.coordination.requests import Delete, GetData, Multi

OWN, BEFORE, FOREIGN = 11, 10, 99
PATH = "/brokers/ids/1"


class Outcome:
    """An answer, or an error that `get` raises."""

    def __init__(self, answer: Any) -> None:
        self.error = answer if isinstance(answer, Exception) else None
        self._answer = answer

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self._answer


class Session:
    """Answers what is asked, kind by kind, with the next of its script."""

    def __init__(self, **script: list[Any]) -> None:
        self.session_id = OWN
        self._script = script
        self.asked: list[str] = []

    def request(self, asked: Any) -> Outcome:
        kind = {Multi: "create", GetData: "look", Delete: "delete"}[type(asked)]
        self.asked.append(kind)
        answer = self._script[kind].pop(0)
        if kind == "create":
            rolled_back = NoNodeError()
            failed = isinstance(answer, Exception)
            answer = (answer, rolled_back) if failed else (PATH, SimpleNamespace(czxid=answer))
        return Outcome(answer)


def owned_by(session_id: int, czxid: int = 5) -> Any:
    return b"", SimpleNamespace(ephemeralOwner=session_id, czxid=czxid)


EXISTS = NodeExistsError()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    made: list[float] = []
    now_s = [0.0]

    def sleep(seconds: float) -> None:
        made.append(seconds)
        now_s[0] += seconds

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now_s[0])
    monkeypatch.setattr("nodes.coordination.registration.time", clock)
    return made


def register(session: Session, wait_ms: int = 0, before: int = -1) -> int:
    registration = EphemeralRegistration(cast(Any, session))
    registration._registered_session_id = before
    return registration.create(PATH, b"", wait_ms=wait_ms)


def test_nobody_is_there() -> None:
    session = Session(create=[42])
    assert register(session) == 42
    assert session.asked == ["create"]


def test_our_own_request_came_twice() -> None:
    """Its first answer was lost: we are registered, by the znode that there is."""
    session = Session(create=[EXISTS], look=[owned_by(OWN, 37)])
    assert register(session) == 37


def test_an_earlier_session_of_ours_is_replaced() -> None:
    """ZOOKEEPER-2985; and whether it goes by itself meanwhile makes no difference."""
    for gone in (None, NoNodeError()):
        session = Session(create=[EXISTS, 43], look=[owned_by(BEFORE)], delete=[gone])
        assert register(session, before=BEFORE) == 43
        assert session.asked == ["create", "look", "delete", "create"]


def test_it_went_while_we_looked() -> None:
    session = Session(create=[EXISTS, EXISTS, 44], look=[NoNodeError(), NoNodeError()])
    assert register(session) == 44


def test_somebody_else_is_not_replaced(pauses: list[float]) -> None:
    session = Session(create=[EXISTS], look=[owned_by(FOREIGN)])
    with pytest.raises(NodeExistsError, match="another session"):
        register(session, before=BEFORE)
    assert pauses == []


def test_somebody_else_may_be_waited_for(pauses: list[float]) -> None:
    """As long as was said, and no longer."""
    session = Session(create=[EXISTS] * 2 + [45], look=[owned_by(FOREIGN)] * 2)
    assert register(session, wait_ms=200) == 45
    assert pauses == [0.05] * 2
    session = Session(create=[EXISTS] * 9, look=[owned_by(FOREIGN)] * 9)
    with pytest.raises(NodeExistsError):
        register(session, wait_ms=190)
    assert session.asked.count("create") == 5


def test_what_else_is_refused_is_raised() -> None:
    session = Session(create=[AuthFailedError()])
    with pytest.raises(AuthFailedError):
        register(session, wait_ms=200)
