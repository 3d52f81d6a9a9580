// open_options::check_transactions: finds what programs do to the memory of their transactions against the rules.
//
// - Two open transactions have opened or stored to the same words: their threads hold no common lock.
// - A store to an opened object itself: commit() would keep it or undo it by chance.
// - A store to the copy of an opened object after the transaction has ended. Such a copy is filled with `gone` until
//   the thread's next transaction, so that a read of it is seen, too.
// - An opened object that lies in no allocated block.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/manager_core.hpp"

namespace holdfast::detail {

/// Which transaction has which words. Thread-safe.
class open_ranges {
public:
    struct range {
        std::uint64_t begin = 0;  ///< offsets from the heap's base
        std::uint64_t end = 0;
        const void* owner = nullptr;
        std::string type;
        pid_t thread = 0;
    };
    /// Where another owner has some of the words, nothing changes, and its range is the result.
    [[nodiscard]] std::optional<range> enter(range wanted);
    void leave(const void* owner) noexcept;

private:
    std::mutex mutex_;
    std::map<std::uint64_t, range> by_begin_;  ///< without overlap: those of one owner are merged
};

/// Of a thread's transactions, one after the other.
class transaction_checks {
public:
    static constexpr unsigned char gone = 0xdb;

    /// The copy stays until inspect_ended().
    struct opened_object {
        const std::byte* object;
        std::byte* copy;
        std::size_t bytes;
        std::string type;
        std::uint64_t offset = 0;
    };

    transaction_checks() = default;
    transaction_checks(const transaction_checks&) = delete;
    transaction_checks& operator=(const transaction_checks&) = delete;
    ~transaction_checks() { inspect_ended(); }

    /// Off without the option.
    void begin(manager_core& heap) {
        if (heap.ranges() != nullptr) [[unlikely]] {
            watch(heap);
        }
    }
    [[nodiscard]] bool is_on() const noexcept { return heap_ != nullptr; }
    /// Before the copy. Throws error(concurrent_modification), error(bad_address), or error(invalid_argument) where the
    /// transaction has opened a part of the object, or what it is a part of.
    void expect_free(const std::byte* object, std::size_t bytes, const char* type);
    void opened(opened_object&& made);
    /// Throws as expect_free().
    void expect_free_to_store(const std::byte* place, std::size_t bytes);
    /// Throws error(concurrent_modification) where an opened object was stored to, or its block freed.
    void expect_untouched();
    /// Throws error(invalid_argument) where a word of the bytes is a `ptr` to a copy.
    void expect_no_pointer_to_copies(const std::byte* begin, std::size_t bytes) const;
    /// From `first` on.
    void drop(std::size_t first) noexcept;
    /// What was stored to an opened object goes to the error handler.
    void end(bool heap_is_open) noexcept;
    [[nodiscard]] bool keeps_copies() const noexcept { return !ended_.empty(); }
    /// Copies of ended transactions that were stored to go to the error handler. Their memory is not needed then.
    void inspect_ended() noexcept;

private:
    struct watched_object {
        opened_object is;
        std::vector<std::byte> before;   ///< the object's bytes
        std::vector<std::byte> waiting;  ///< the copy's: those before, or what waits for a sync
    };
    struct ended_copy {
        opened_object was;
        std::string path;
    };
    void watch(manager_core& heap);
    void enter(const std::byte* begin, std::size_t bytes, const char* type);
    [[nodiscard]] bool is_allocated(const std::byte* begin, std::size_t bytes) const;
    [[nodiscard]] std::uint64_t offset_of(const std::byte* address) const noexcept;
    [[nodiscard]] std::optional<base::failure> first_touched() const;

    manager_core* heap_ = nullptr;
    std::string path_;
    std::uint64_t process_ = 0;
    std::vector<watched_object> opened_;
    std::vector<ended_copy> ended_;
    bool looked_ = false;  ///< at what was stored to opened objects
};

}  // namespace holdfast::detail
