"""Many small answers with one system call that leaves the interpreter to others (io_uring).

The problem: sending an answer is the largest part of a small request's cost in the kernel, and each
``send`` gives the interpreter lock away and must win it back. As long as a network thread sends, no
handler can work undisturbed. A ring takes the sends of a whole turn: the entries are laid down in
shared memory, one ``io_uring_enter`` runs them all without the lock, and meanwhile a handler works.

Sends never wait here (MSG_DONTWAIT): a socket without room answers -EAGAIN at once, so that all
results are there when `submit` returns, in order of `add`.

Not everywhere: another platform, an older kernel, or a container whose seccomp profile forbids it
(Docker's default does). `SendRing.open` then answers None, and its owner sends one by one.

Layout (io_uring's ABI): one mapping holds the submission queue's head, tail, mask and array and the
completion queue's head, tail, mask and entries, at offsets that the kernel tells; another one holds
the 64-byte submission entries. Only the owner writes the submission tail and the completion head,
and the kernel looks at them within ``io_uring_enter`` alone, so that no barriers are needed.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import struct
from collections.abc import Sequence
from typing import Final

log = logging.getLogger("kafka.network.Processor")

MAX_ENTRIES: Final = 64
MAX_FRAME_BYTES: Final = 1024
"""Larger answers are not worth a copy."""

_SETUP: Final = 425
_ENTER: Final = 426
_GET_EVENTS: Final = 1
_OP_SEND: Final = 26
_MSG_FLAGS: Final = 0x40 | 0x4000  # MSG_DONTWAIT | MSG_NOSIGNAL
_PARAMS_BYTES: Final = 120
_FEATURES_AT: Final = 20
_SQ_OFFSETS_AT: Final = 40
_CQ_OFFSETS_AT: Final = 80
_SINGLE_MMAP: Final = 1
_ENTRIES_MAP: Final = 0x10000000
_U32: Final = struct.Struct("=I")
_OFFSETS: Final = struct.Struct("=7I")
_SQE: Final = struct.Struct("=BBHiQQIIQ24x")
_CQE: Final = struct.Struct("=Qii")


class SendRing:
    """Owned by one thread. `add` up to `MAX_ENTRIES` frames, then `submit`."""

    def __init__(self, fd: int, parameters: bytes) -> None:
        sq_entries, cq_entries = struct.unpack_from("=2I", parameters)
        _, self._sq_tail_at, sq_mask_at, _, _, _, array_at = _OFFSETS.unpack_from(
            parameters, _SQ_OFFSETS_AT
        )
        self._cq_head_at, _, cq_mask_at, _, _, self._cqes_at, _ = _OFFSETS.unpack_from(
            parameters, _CQ_OFFSETS_AT
        )
        self._fd = fd
        size = max(array_at + sq_entries * 4, self._cqes_at + cq_entries * _CQE.size)
        self._rings = mmap.mmap(fd, size)
        self._entries = mmap.mmap(fd, sq_entries * _SQE.size, offset=_ENTRIES_MAP)
        self._sq_mask: int = _U32.unpack_from(self._rings, sq_mask_at)[0]
        self._cq_mask: int = _U32.unpack_from(self._rings, cq_mask_at)[0]
        for index in range(sq_entries):
            _U32.pack_into(self._rings, array_at + 4 * index, index)
        # The kernel reads the frames where they are when the sends run: a place that stays.
        self._arena = mmap.mmap(-1, MAX_ENTRIES * MAX_FRAME_BYTES)
        self._arena_at = ctypes.addressof(ctypes.c_char.from_buffer(self._arena))
        self._tail = 0
        self._head = 0
        self._count = 0

    @classmethod
    def open(cls) -> SendRing | None:
        """None where io_uring is not to be had."""
        if struct.calcsize("P") != 8 or os.uname().sysname != "Linux":
            return None
        parameters = ctypes.create_string_buffer(_PARAMS_BYTES)
        fd = _syscall(_SETUP, MAX_ENTRIES, parameters)
        if fd < 0:
            return None
        (features,) = _U32.unpack_from(parameters.raw, _FEATURES_AT)
        if not features & _SINGLE_MMAP:
            os.close(fd)
            return None
        try:
            ring = cls(fd, parameters.raw)
        except OSError:
            os.close(fd)
            return None
        return ring

    def add(self, fd: int, frame: bytes) -> None:
        """One send of at most `MAX_FRAME_BYTES`; the frame is copied."""
        size = len(frame)
        index = self._count
        at = index * MAX_FRAME_BYTES
        self._arena[at : at + size] = frame
        _SQE.pack_into(
            self._entries,
            ((self._tail + index) & self._sq_mask) * 64,
            _OP_SEND,
            0,
            0,
            fd,
            0,
            self._arena_at + at,
            size,
            _MSG_FLAGS,
            index,
        )
        self._count = index + 1

    def submit(self) -> Sequence[int]:
        """Runs the sends; their results in order: bytes sent, or a negative errno.

        Raises OSError when the kernel did not take all of them: the ring is of no use then.
        """
        count, self._count = self._count, 0
        rings = self._rings
        self._tail = (self._tail + count) & 0xFFFFFFFF
        _U32.pack_into(rings, self._sq_tail_at, self._tail)
        taken = _syscall(_ENTER, self._fd, count, count, _GET_EVENTS, None, 0)
        if taken != count:
            raise OSError(f"io_uring took {taken} of {count} sends")
        results = [0] * count
        head, mask, cqes_at = self._head, self._cq_mask, self._cqes_at
        for at in range(head, head + count):
            index, result, _ = _CQE.unpack_from(rings, cqes_at + (at & mask) * 16)
            results[index] = result
        self._head = (head + count) & 0xFFFFFFFF
        _U32.pack_into(rings, self._cq_head_at, self._head)
        return results

    def close(self) -> None:
        os.close(self._fd)


_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
