// For tests: a device that stores to memory by its pages, which io_uring is with fixed buffers. By system calls alone,
// so that no library is needed.
#pragma once

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

#include "persist/descriptor.hpp"

namespace holdfast::persist {

/// One buffer, registered unless the device shall store to it by addresses alone. Throws std::system_error: EFAULT or
/// EOPNOTSUPP where the kernel refuses the memory.
class pinned_device {
public:
    pinned_device(const std::string& source, void* buffer, std::size_t bytes, bool registers = true)
        : source_(::open(source.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)),
          buffer_(buffer),
          bytes_(bytes) {
        io_uring_params asked{};
        ring_ = descriptor(static_cast<int>(check(::syscall(SYS_io_uring_setup, 1, &asked))));
        submissions_ = map(asked.sq_off.array + asked.sq_entries * sizeof(std::uint32_t), IORING_OFF_SQ_RING);
        completions_ = map(asked.cq_off.cqes + asked.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
        entries_ = map(asked.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
        places_ = asked;
        iovec registered{buffer, bytes};
        if (registers) {
            check(::syscall(SYS_io_uring_register, ring_.get(), IORING_REGISTER_BUFFERS, &registered, 1));
        }
    }
    pinned_device(const pinned_device&) = delete;
    pinned_device& operator=(const pinned_device&) = delete;
    ~pinned_device() = default;

    /// Fills the buffer.
    void store(char value) { read(value, IORING_OP_READ_FIXED); }
    /// Fills it by addresses: the kernel looks pages up for this one store.
    void store_by_addresses(char value) { read(value, IORING_OP_READ); }

private:
    void read(char value, std::uint8_t operation) {
        const std::string content(bytes_, value);
        check(::pwrite(source_.get(), content.data(), content.size(), 0));
        auto& entry = *static_cast<io_uring_sqe*>(entries_);
        entry = {};
        entry.opcode = operation;
        entry.fd = source_.get();
        entry.addr = reinterpret_cast<std::uint64_t>(buffer_);
        entry.len = static_cast<std::uint32_t>(bytes_);
        word(submissions_, places_.sq_off.array) = 0;
        std::atomic_ref(word(submissions_, places_.sq_off.tail)).fetch_add(1);
        check(::syscall(SYS_io_uring_enter, ring_.get(), 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0));
        std::uint32_t& head = word(completions_, places_.cq_off.head);
        const std::uint32_t at = head & word(completions_, places_.cq_off.ring_mask);
        const auto* const done =
            reinterpret_cast<const io_uring_cqe*>(static_cast<std::byte*>(completions_) + places_.cq_off.cqes) + at;
        const auto moved = static_cast<std::size_t>(check(done->res < 0 ? (errno = -done->res, -1) : done->res));
        std::atomic_ref(head).fetch_add(1);
        if (moved != bytes_) {
            throw std::system_error(EIO, std::generic_category(), "a short read");
        }
    }

    static long check(long answer) {
        if (answer < 0) {
            throw std::system_error(errno, std::generic_category(), "io_uring");
        }
        return answer;
    }
    /// Until the process ends.
    [[nodiscard]] void* map(std::size_t bytes, std::uint64_t offset) const {
        void* const ring = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_.get(),
                                  static_cast<off_t>(offset));
        check(ring == MAP_FAILED ? -1 : 0);
        return ring;
    }
    [[nodiscard]] static std::uint32_t& word(void* ring, std::uint32_t offset) {
        return *reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(ring) + offset);
    }

    descriptor source_;
    descriptor ring_;
    void* buffer_;
    std::size_t bytes_;
    io_uring_params places_{};
    void* submissions_ = nullptr;
    void* completions_ = nullptr;
    void* entries_ = nullptr;
};

}  // namespace holdfast::persist
