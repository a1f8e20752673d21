"""The table of answers names every field that there is, and rules that there are."""

from __future__ import annotations

import pytest

from checkers.promises import promises
from harness.studies.answers import EVERY, REST, answer_fields, key_for, table
from nodes.wire.apis import SUPPORTED, ApiKey

RULES = {rule for promise in promises() for rule in promise.rules}
APIS = pytest.mark.parametrize("api", SUPPORTED, ids=lambda api: api.display_name)


@APIS
def test_every_field_of_an_answer_is_judged_or_said_to_be_unjudged(api: ApiKey) -> None:
    assert [path for path in answer_fields(api) if key_for(api, path) is None] == []


@APIS
def test_every_key_stands_for_a_field(api: ApiKey) -> None:
    used = {key_for(api, path) for path in answer_fields(api)}
    assert set(table()[api.display_name]) - used == set()


def test_no_other_apis_are_named() -> None:
    assert set(table()) == {EVERY, *(api.display_name for api in SUPPORTED)}


@pytest.mark.parametrize("api", table())
def test_what_is_said_names_rules_or_a_reason(api: str) -> None:
    for key, said in table()[api].items():
        assert said, f"{key}: neither a rule nor a reason"
        assert isinstance(said, str) or set(said) <= RULES, f"{key}: no such rule"


def test_a_field_that_nobody_named_has_no_key() -> None:
    assert key_for(ApiKey.METADATA, "topics.partitions.of_the_future") is None
    assert key_for(ApiKey.LEADER_AND_ISR, "topics.partition_errors.error_code") == "topics"
    assert key_for(ApiKey.LIST_GROUPS, "groups.group_state") == REST
