"""Which rule judges which field of a broker's answers, and what is unjudged, with the reason.

Declared in ``answers.toml``, beside this; a section of `biplane guarantees`. Tests hold it to
the schemas that brokers answer with (`nodes.wire`) and to the rules that there are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from nodes.wire.apis import SUPPORTED, ApiKey, response_class
from nodes.wire.plan import fields_of

TABLE: Final = Path(__file__).with_name("answers.toml")
EVERY: Final = "Every"
"""The section that holds for all APIs."""
REST: Final = "*"
"""The key for all fields of an answer that no other key stands for."""
Judged = list[str] | str
"""Names of rules, or why there are none."""


@cache
def table() -> Mapping[str, Mapping[str, Judged]]:
    """By API, as Kafka spells it: by key, what is said of it."""
    return tomllib.loads(TABLE.read_text())


def answer_fields(api: ApiKey) -> tuple[str, ...]:
    """What the API's answers hold, in any version served: paths as ``topics.partitions.offset``."""
    low, high = SUPPORTED[api]
    paths: dict[str, None] = {}
    for version in range(low, high + 1):
        paths.update(dict.fromkeys(_paths(response_class(api, version))))
    return tuple(paths)


def _paths(entity_class: Any, above: str = "") -> Iterator[str]:
    for field in fields_of(entity_class):
        path = above + field.name
        if field.entity:
            yield from _paths(field.entity, path + ".")
        else:
            yield path


def key_for(api: ApiKey, path: str) -> str | None:
    """The key that stands for a field: its own, the nearest above it, or the rest."""
    said = {**table().get(api.display_name, {}), **table()[EVERY]}
    names = path.split(".")
    above = (".".join(names[:count]) for count in range(len(names), 0, -1))
    return next((key for key in (*above, REST) if key in said), None)


def section() -> Iterator[str]:
    """Lines of Markdown."""
    yield "## Answers, field by field"
    yield ""
    yield (
        "What a broker answers, and which rules read what was recorded of it "
        "(`harness/studies/answers.toml`, traced by reading the code, not each by a planted "
        "bug). Where no rule does, an answer may "
        "say anything and a run be `valid` all the same; where `versions-disagree` alone does, it "
        "may, if it says so in all versions and forms. Of every answer: "
        + "; ".join(f"`{key}`: {_shown(said)}" for key, said in table()[EVERY].items())
        + "."
    )
    yield ""
    yield "| answer | field | judged by |"
    yield "|---|---|---|"
    for api, fields in table().items():
        if api != EVERY:
            for key, said in fields.items():
                yield f"| {api} | {_named(key, len(fields))} | {_shown(said)} |"
    yield ""


def _named(key: str, of: int) -> str:
    if key != REST:
        return f"`{key}`"
    return "all" if of == 1 else "all others"


def _shown(said: Judged) -> str:
    return f"*unjudged*: {said}" if isinstance(said, str) else ", ".join(f"`{r}`" for r in said)
