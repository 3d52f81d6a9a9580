// Whether the mapping of a store's file is persistent memory: what is stored there is durable once its lines are
// written back and a fence has waited for them, without a system call. The mapping is one with MAP_SYNC, so the kernel
// has made durable what leads to a page before the first store to it succeeds.
#pragma once

#include <atomic>
#include <cstdint>

#include "persist/domain.hpp"
#include "persist/storage.hpp"

namespace holdfast::store_engine {

class persistent_memory {
public:
    /// `address`: where a writable mapping of the file begins.
    explicit persistent_memory(const std::atomic<std::byte*>& address) noexcept : address_(address) {}
    /// A file that this process may write. `emulated`: its memory is treated so, whatever it is.
    void find(persist::file& of, bool emulated) noexcept;
    /// There is none.
    void forget() noexcept { file_ = nullptr; }
    [[nodiscard]] bool is_there() const noexcept { return file_ != nullptr; }
    /// Of mmap(), for stores.
    [[nodiscard]] int mapping_flags() const noexcept;

    // Where it is there.

    /// Durable with the next fence() of this thread.
    void write_back(std::uint64_t offset, std::uint64_t size, persist::site where) const noexcept {
        if (kind_ != persist::domain_kind::eadr) {
            file_->flush_mapped(offset, {address_.load(std::memory_order_relaxed) + offset, size}, where);
        }
    }
    /// Stores and writes back.
    void write(std::uint64_t offset, const void* bytes, std::size_t size, persist::site where) const noexcept;
    void fence(persist::site where) const noexcept { file_->fence_mapped(where); }

private:
    const std::atomic<std::byte*>& address_;
    persist::file* file_ = nullptr;
    persist::domain_kind kind_ = persist::domain_kind::disk;
};

}  // namespace holdfast::store_engine
