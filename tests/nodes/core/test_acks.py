"""Acknowledgement rules."""

from hypothesis import given
from hypothesis import strategies as st

from nodes.core import acks
from nodes.core.errors import Errors

SMALL = st.integers(0, 6)


@given(SMALL, SMALL, SMALL, SMALL)
def test_only_committed_records_are_acknowledged(
    required_offset: int, high_watermark: int, isr_size: int, min_isr: int
) -> None:
    done, error = acks.acknowledgement(required_offset, high_watermark, isr_size, min_isr)
    assert done == (high_watermark >= required_offset)
    if done and error is Errors.NONE:
        assert isr_size >= min_isr
    if done and isr_size < min_isr:
        assert error is Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_only_acks_all_is_refused_for_a_small_isr() -> None:
    assert not acks.may_append(-1, 1, 2)
    assert acks.may_append(-1, 2, 2)
    assert acks.may_append(1, 1, 2)
    assert acks.may_append(0, 0, 2)


def test_the_minimum_is_never_more_than_the_assignment() -> None:
    assert acks.effective_min_isr(2, 1) == 1
    assert acks.effective_min_isr(2, 3) == 2


def test_clients_read_to_the_high_watermark() -> None:
    assert acks.readable_end(False, 3, 9) == 3
    assert acks.readable_end(True, 3, 9) == 9
