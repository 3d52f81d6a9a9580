// Whether the mapping of a store's file is persistent memory: what is stored there is durable once its lines are
// written back and a fence has waited for them, without a system call. The mapping is one with MAP_SYNC, so the kernel
// has made durable what leads to a page before the first store to it succeeds.
#pragma once

#include <atomic>
#include <cstdint>

#include "persist/domain.hpp"
#include "persist/storage.hpp"

namespace holdfast::store_engine {

/// How writers of a file make durable what they stored to its mapping: `dax`, `eadr`, `emulated` by instructions, else
/// `disk`, by system calls. Where the kernel cannot be asked whether a store would be a signal (Linux before 5.14), and
/// where it does not answer, it is `disk`, which is right for any file. `emulated`: wanted on any file.
[[nodiscard]] persist::domain_kind find_medium(persist::file& of, bool emulated) noexcept;

class persistent_memory {
public:
    /// `address`: where a writable mapping of the file begins.
    explicit persistent_memory(const std::atomic<std::byte*>& address) noexcept : address_(address) {}
    /// `writes`: this process may write the file; else nothing is there.
    void use(persist::file& of, persist::domain_kind medium, bool writes) noexcept {
        file_ = medium == persist::domain_kind::disk || !writes ? nullptr : &of;
        medium_ = medium;
        has_called_.store(false);
    }
    [[nodiscard]] bool is_there() const noexcept { return file_ != nullptr; }
    /// How writers make durable what they store. They all have to do the same.
    [[nodiscard]] persist::domain_kind medium() const noexcept { return medium_; }
    /// Of mmap(), for stores.
    [[nodiscard]] int mapping_flags() const noexcept;

    // Where it is there.

    /// Durable with the next fence() of this thread.
    void write_back(std::uint64_t offset, std::uint64_t size, persist::site where) const noexcept {
        if (medium_ != persist::domain_kind::eadr) {
            file_->flush_mapped(offset, {address_.load(std::memory_order_relaxed) + offset, size}, where);
        }
    }
    /// Stores and writes back.
    void write(std::uint64_t offset, const void* bytes, std::size_t size, persist::site where) const noexcept;
    void fence(persist::site where) const noexcept { file_->fence_mapped(where); }
    /// Something was written by a call, where a store would have been a signal: a sync by the kernel is due.
    void note_call() const noexcept { has_called_.store(is_there(), std::memory_order_release); }
    /// False from then on.
    bool forget_call() const noexcept { return has_called_.exchange(false, std::memory_order_acq_rel); }
    [[nodiscard]] bool has_called() const noexcept { return has_called_.load(std::memory_order_acquire); }

private:
    const std::atomic<std::byte*>& address_;
    persist::file* file_ = nullptr;
    persist::domain_kind medium_ = persist::domain_kind::disk;
    mutable std::atomic<bool> has_called_{false};
};

}  // namespace holdfast::store_engine
