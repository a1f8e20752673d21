"""Fencing rules, against the table that was checked on a real broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.core import epochs
from nodes.core.errors import Errors

EPOCHS = st.integers(min_value=-2, max_value=50)


@pytest.mark.parametrize(
    ("request_epoch", "own_epoch", "stale"),
    [(66, 67, True), (67, 67, False), (68, 67, False), (-1, 67, False), (0, 1, True)],
)
def test_only_an_older_broker_epoch_is_stale(
    request_epoch: int, own_epoch: int, stale: bool
) -> None:
    assert epochs.broker_epoch_is_stale(request_epoch, own_epoch) is stale


@given(EPOCHS, EPOCHS)
def test_controller_epochs_never_go_back(requested: int, known: int) -> None:
    assert epochs.controller_epoch_is_stale(requested, known) == (requested < known)
    assert epochs.metadata_epoch_is_stale(requested, known) == (requested < known)


@given(EPOCHS, EPOCHS)
def test_leader_and_isr_applies_higher_epochs_only(requested: int, current: int) -> None:
    applies = epochs.leader_and_isr_error(requested, current) is Errors.NONE
    assert applies == (requested > current)


@pytest.mark.parametrize(
    ("requested", "error"),
    [(6, 0), (5, 0), (4, 74), (-1, 0), (-2, 0)],
)
def test_stop_replica_applies_equal_epochs_and_deletions(requested: int, error: int) -> None:
    assert epochs.stop_replica_error(requested, 5) == error


@pytest.mark.parametrize(("requested", "error"), [(5, 0), (-1, 0), (4, 74), (6, 75)])
def test_a_reader_must_know_the_very_epoch(requested: int, error: int) -> None:
    assert epochs.client_epoch_error(requested, 5) == error
