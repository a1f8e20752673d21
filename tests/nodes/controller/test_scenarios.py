"""All that a controller does, in order (`scenarios`), line by line as Kafka 3.9 does it."""

from __future__ import annotations

import pytest

from tests.nodes.controller.scenarios import ALL
from tests.nodes.controller.transcript import Office
from tests.scenarios import expected, play


@pytest.mark.parametrize("name", ALL)
def test_it_does_just_this(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(ALL[name], Office(monkeypatch)) == expected(ALL[name])
