"""Which frames a rule means, what becomes of them, and how often: pure.

A rule counts the frames that it means (by API, direction, node, link and client), lets the first
``skip`` of them pass, acts on the next ``times`` (0: on all) and then on none. The first rule that
acts on a frame has it; others count it all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

MAX_RULES: Final = 64
MAX_DELAY_MS: Final = 600_000


class Direction(StrEnum):
    """Seen from the listener."""

    REQUEST = "request"
    RESPONSE = "response"


class Action(StrEnum):
    """What becomes of a frame. What comes after it on its connection waits for it, as bytes do."""

    HOLD = "hold"  # until the rule is removed
    DELAY = "delay"  # for delay_ms, or until the rule is removed
    DROP = "drop"  # as if it had never been sent; the connection lives on
    DUPLICATE = "duplicate"
    ERROR = "error"  # a request is not passed on, but answered with error_code
    CLOSE = "close"  # and the connection with it


class BadRule(ValueError):
    """The message names the field and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """See the module. ``client``: a regular expression for the whole client id."""

    id: str
    api: int
    action: Action
    direction: Direction = Direction.REQUEST
    node: int | None = None
    link: str | None = None
    client: str | None = None
    skip: int = 0
    times: int = 0
    delay_ms: int = 0
    error_code: int = 0

    @classmethod
    def of(cls, data: Any) -> Rule:
        """From JSON. Raises `BadRule`."""
        if not isinstance(data, Mapping):
            raise BadRule("a rule; allowed: an object")
        known = {f.name for f in fields(cls)}
        for name in data:
            if name not in known:
                raise BadRule(f"{name}: is unknown; allowed: {', '.join(sorted(known))}")
        values = dict(data)
        for name, kind in (("action", Action), ("direction", Direction)):
            if name in values:
                try:
                    values[name] = kind(values[name])
                except ValueError:
                    allowed = ", ".join(kind)
                    raise BadRule(f"{name}: {values[name]!r}; allowed: {allowed}") from None
        for name in ("api", "node", "skip", "times", "delay_ms", "error_code"):
            value = values.get(name, 0)
            if name == "node" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value < 2**31:
                raise BadRule(f"{name}: {value!r}; allowed: an integer")
        if values.get("delay_ms", 0) > MAX_DELAY_MS:
            raise BadRule(f"delay_ms: {values['delay_ms']}; allowed: at most {MAX_DELAY_MS}")
        for name in ("id", "link", "client"):
            value = values.get(name)
            if value is not None and not (isinstance(value, str) and 0 < len(value) <= 200):
                raise BadRule(f"{name}: {value!r}; allowed: a text")
        try:
            if values.get("client"):
                re.compile(values["client"])
            rule = cls(**values)
        except (TypeError, re.error) as error:
            raise BadRule(f"a rule; {error}") from None
        if rule.action is Action.ERROR and rule.direction is Direction.RESPONSE:
            raise BadRule("action: error; allowed: for requests")
        return rule


@dataclass(frozen=True, slots=True)
class Seen:
    """A frame as rules see it."""

    node: int
    link: str
    direction: Direction
    api: int
    client_id: str


def means(rule: Rule, frame: Seen) -> bool:
    """Whether the rule counts the frame."""
    return (
        rule.api == frame.api
        and rule.direction is frame.direction
        and rule.node in (None, frame.node)
        and rule.link in (None, frame.link)
        and (rule.client is None or re.fullmatch(rule.client, frame.client_id) is not None)
    )


@dataclass(slots=True)
class Count:
    """Of one rule: frames that it meant, and those that it acted on."""

    matched: int = 0
    applied: int = 0


@dataclass(slots=True)
class RuleBook:
    """The rules in force. One thread."""

    rules: dict[str, Rule] = field(default_factory=dict)
    counts: dict[str, Count] = field(default_factory=dict)

    def add(self, rule: Rule) -> None:
        """Raises `BadRule` for an id in use, or too many."""
        if rule.id in self.rules:
            raise BadRule(f"id: {rule.id!r}; allowed: one that is not in use")
        if len(self.rules) >= MAX_RULES:
            raise BadRule(f"a rule; allowed: {MAX_RULES} at a time")
        self.rules[rule.id] = rule
        self.counts[rule.id] = Count()

    def remove(self, rule_id: str) -> Count:
        """Idempotent: what a rule did, nothing when there is none."""
        self.rules.pop(rule_id, None)
        return self.counts.pop(rule_id, Count())

    def decide(self, frame: Seen, can: Callable[[Rule], bool] = lambda _: True) -> Rule | None:
        """Count the frame; the rule that acts on it, if one does. ``can``: whether a rule is able
        to act on this frame at all; one that is not has met it and has done nothing."""
        acting: Rule | None = None
        for rule in self.rules.values():
            if not means(rule, frame):
                continue
            count = self.counts[rule.id]
            count.matched += 1
            if acting is None and self._is_due(rule, count) and can(rule):
                count.applied += 1
                acting = rule
        return acting

    @staticmethod
    def _is_due(rule: Rule, count: Count) -> bool:
        return count.matched > rule.skip and (rule.times == 0 or count.applied < rule.times)
