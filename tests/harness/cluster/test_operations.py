"""What becomes of what an operator asks for: a controller that obeys, and one that does not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster import operations
from harness.cluster.operations import OPERATIONS, POLICY, Held, operate
from nodes.wire.apis import ApiKey

HELD = Held({"min.insync.replicas": "2"}, 3, False)
AT = ("127.0.0.1", 1)
NOT_CONTROLLER, INVALID_CONFIG = 41, 40


class Controller:
    """Does what it is asked for, but for its faults."""

    def __init__(self, *, validates: bool = True, default: str = "delete", error: int = 0) -> None:
        self.held = HELD
        self.validates, self.default, self.error = validates, default, error

    def ask(self, _address: Any, entity: Any, _timeout_s: float) -> Any:
        api = ApiKey(entity.__api_key__)
        if not self.error and not (entity.validate_only and self.validates):
            self.do(api, entity)
        row = [SimpleNamespace(error_code=self.error)]
        return SimpleNamespace(topics=row, results=row, responses=row)

    def do(self, api: ApiKey, entity: Any) -> None:
        settings = dict(self.held.settings)
        if api == ApiKey.CREATE_PARTITIONS:
            self.held = replace(self.held, partitions=entity.topics[0].count)
        elif api == ApiKey.CREATE_TOPICS:
            self.held = replace(self.held, is_made=True)
        elif api == ApiKey.ALTER_CONFIGS:
            self.held = replace(self.held, settings={})
        else:
            (config,) = entity.resources[0].configs
            present = [one for one in settings.get(config.name, self.default).split(",") if one]
            match int(config.config_operation):
                case 0:
                    settings[config.name] = config.value
                case 1:
                    settings.pop(config.name)
                case 2:
                    settings[config.name] = ",".join([*present, config.value])
                case _:
                    left = [one for one in present if one != config.value]
                    settings[config.name] = ",".join(left)
            self.held = replace(self.held, settings=settings)


def asked(monkeypatch: pytest.MonkeyPatch, controller: Controller) -> dict[str, tuple[Any, str]]:
    monkeypatch.setattr(operations, "ask", controller.ask)
    return {one.says: operate(one, "t", lambda: controller.held, AT) for one in OPERATIONS}


def otherwise(found: dict[str, tuple[Any, str]]) -> set[str]:
    return {says for says, (told, truth) in found.items() if told != truth}


def test_what_is_asked_for_is_done_and_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller()
    found = asked(monkeypatch, controller)
    assert not otherwise(found)
    assert found["one more in a list"][1] == (
        "3 partitions; cleanup.policy=delete,compact, min.insync.replicas=2"
    )
    assert controller.held == HELD


def test_what_is_to_be_validated_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert otherwise(asked(monkeypatch, Controller(validates=False))) == {
        *("one partition more, to be validated", "a topic, to be validated"),
        *("no settings, to be validated", "another setting, to be validated"),
    }


def test_a_list_grows_from_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch, Controller(default=""))
    assert otherwise(found) == {"one more in a list"}
    assert found["one more in a list"][0] == (
        "3 partitions; cleanup.policy=compact, min.insync.replicas=2"
    )


def test_a_refusal_is_told_unless_it_says_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = asked(monkeypatch, Controller(error=INVALID_CONFIG))
    assert {told for told, _ in refused.values()} == {"refused: INVALID_CONFIG"}
    elsewhere = asked(monkeypatch, Controller(error=NOT_CONTROLLER))
    assert {told for told, _ in elsewhere.values()} == {None}


def test_in_the_end_all_is_as_it_was() -> None:
    held = HELD
    for operation in OPERATIONS:
        held = operation.then(held)
    assert (held, POLICY in held.settings) == (HELD, False)
