"""Memory of an array that a device stores to by its physical pages: here io_uring, by a buffer that is registered."""

import ctypes
import mmap
import os
import struct

import numpy
import pytest

import holdfast

LIBC = ctypes.CDLL(None, use_errno=True)
SETUP, ENTER, REGISTER = 425, 426, 427  # system calls, by the same numbers on all machines but Alpha
READ_FIXED, REGISTER_BUFFERS, GET_EVENTS, SQES_AT = 4, 0, 1, 0x10000000


class Ring:
    """One buffer that the kernel keeps the pages of, and reads of a file into it."""

    def __init__(self, array):
        parameters = ctypes.create_string_buffer(120)
        self.fd = LIBC.syscall(SETUP, 1, parameters)
        if self.fd < 0:
            pytest.skip(f"NOT TESTED HERE: no io_uring for this process ({os.strerror(ctypes.get_errno())})")
        fields = struct.unpack("30I", parameters.raw)
        self._sq, self._cq = fields[10:17], fields[20:27]  # offsets of head, tail, mask, ...
        size = max(self._sq[6] + 4 * fields[0], self._cq[5] + 16 * fields[1])
        self._rings = mmap.mmap(self.fd, size, mmap.MAP_SHARED)
        self._entries = mmap.mmap(self.fd, 64 * fields[0], mmap.MAP_SHARED, offset=SQES_AT)
        self._place = array.__array_interface__["data"][0], array.nbytes
        vector = struct.pack("QQ", *self._place)
        if LIBC.syscall(REGISTER, self.fd, REGISTER_BUFFERS, vector, 1) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def read(self, file):
        """From the file's begin into the array. Returns the bytes."""
        at, size = self._place
        self._entries[:64] = struct.pack("BBHiQQIIQH22x", READ_FIXED, 0, 0, file, 0, at, size, 0, 0, 0)
        tail = struct.unpack_from("I", self._rings, self._sq[1])[0]
        struct.pack_into("I", self._rings, self._sq[6], 0)
        struct.pack_into("I", self._rings, self._sq[1], tail + 1)
        assert LIBC.syscall(ENTER, self.fd, 1, 1, GET_EVENTS, None, 0) == 1
        head = struct.unpack_from("I", self._rings, self._cq[0])[0]
        mask = struct.unpack_from("I", self._rings, self._cq[2])[0]
        result = struct.unpack_from("i", self._rings, self._cq[5] + 16 * (head & mask) + 8)[0]
        struct.pack_into("I", self._rings, self._cq[0], head + 1)
        return result

    def close(self):
        """The kernel lets go of the pages."""
        self._rings.close()
        self._entries.close()
        os.close(self.fd)


@pytest.fixture
def frames(tmp_path):
    """A file, and what is in it."""
    content = numpy.arange(64 * 1024, dtype="u4")
    content.tofile(tmp_path / "frames")
    file = os.open(tmp_path / "frames", os.O_RDONLY)
    yield file, content
    os.close(file)


@pytest.mark.parametrize("is_pinned", [True, False])
def test_what_a_device_stores_behind_a_commit_is_seen_where_the_array_is_pinned(path, frames, is_pinned):
    """Without pin() the commit takes the pages from the device: this is what pin() is for."""
    file, content = frames
    with holdfast.open(path) as heap:
        frame = heap.array("frame", len(content), "u4")
        frame[:] = 1
        if is_pinned:
            heap.pin(frame)
        ring = Ring(frame)
        heap.commit()
        assert ring.read(file) == content.nbytes
        assert (frame == content).all() == is_pinned
        heap.commit()
        ring.close()
        if is_pinned:
            heap.unpin(frame)
    with holdfast.open(path, "r") as heap:
        assert (heap["frame"] == content).all() == is_pinned


def test_what_a_device_stores_in_a_heap_of_atomic_needs_no_commit(tmp_path, frames):
    """On tmpfs; the kernel refuses to register pages of files that it writes back."""
    if not os.path.isdir("/dev/shm"):
        pytest.skip("NOT TESTED HERE: there is no /dev/shm")
    file, content = frames
    path = f"/dev/shm/holdfast-devices-{os.getpid()}.hf"
    try:
        with holdfast.open(path, durability="atomic", accept_process_crash_only=True) as heap:
            frame = heap.array("frame", len(content), "u4")
            heap.pin(frame)
            ring = Ring(frame)
            heap["x"] = 1
            assert ring.read(file) == content.nbytes and (frame == content).all()
            ring.close()
            heap.unpin(frame)
            del frame
        with holdfast.open(path, "r") as heap:
            assert (heap["frame"] == content).all()
    finally:
        for name in os.listdir(path):
            os.unlink(os.path.join(path, name))
        os.rmdir(path)
