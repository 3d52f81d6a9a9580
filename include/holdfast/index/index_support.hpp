// What the templates of an index call in the library.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/detail/heap_watch.hpp>
#include <holdfast/manager.hpp>

namespace holdfast::detail {

/// error(corrupt), for what lies on media.
[[noreturn]] void throw_corrupt_index(const manager& heap, std::string_view name, std::string_view field,
                                      std::string_view found, std::string_view expected);
/// error(invalid_argument).
[[noreturn]] void throw_index_argument(const manager& heap, std::string_view field, std::string_view found,
                                       std::string_view expected);
[[noreturn]] void throw_read_only_index(const manager& heap, std::string_view name);
/// error(limit): more keys of one hash than a leaf holds.
[[noreturn]] void throw_index_limit(const manager& heap, std::string_view name);
/// error(invalid_argument); the manager may be gone.
[[noreturn]] void throw_closed_index(std::string_view name);
[[noreturn]] void throw_index_missing(const manager& heap, std::string_view name);
/// Not 0. Throws std::system_error where the system has no random numbers.
[[nodiscard]] std::uint64_t random_index_seed();
[[nodiscard]] std::string hexadecimal(std::uint64_t number);
[[nodiscard]] std::string address_text(const manager& heap, const void* address);

/// The one index of this process for a head: two would not see each other's changes. Throws error(locked) where there
/// is one.
class index_claim {
public:
    index_claim(const manager& heap, std::string_view name, const void* head);
    index_claim(const index_claim&) = delete;
    index_claim& operator=(const index_claim&) = delete;
    ~index_claim();

private:
    const void* head_;
    heap_watch heap_;
};

/// In huge pages where there is enough, because random look-ups miss the processor's table of pages. Throws
/// std::bad_alloc.
class node_memory {
public:
    explicit node_memory(std::size_t bytes);
    [[nodiscard]] void* begin() const noexcept { return memory_.get(); }

private:
    std::unique_ptr<void, void (*)(void*)> memory_;
};

/// A child of fork does not destroy it: other threads of the parent may have been changing it.
template <class T>
class left_to_parent : public T {
public:
    left_to_parent() = default;
    left_to_parent(const left_to_parent&) = delete;
    left_to_parent& operator=(const left_to_parent&) = delete;
    ~left_to_parent() {
        if (!is_own()) {
            try {
                static_cast<void>(std::make_unique<T>(std::move(static_cast<T&>(*this))).release());
            } catch (const std::bad_alloc& /*it is destroyed as ever*/) {
            }
        }
    }
    [[nodiscard]] bool is_own() const noexcept { return made_in_ == process_identity(); }

private:
    std::uint64_t made_in_ = process_identity();
};

/// Which of a few counters this thread uses.
[[nodiscard]] std::size_t index_stripe() noexcept;

/// Frees texts that have left the tree when all calls that began before have ended. Source: sleepable read-copy-update
/// (P. McKenney, 2006).
///
/// Thread safety: sections by any number of threads; the rest by one at a time.
class grace_periods {
public:
    static constexpr std::size_t stripes = 16;
    class section {
    public:
        explicit section(grace_periods& of) noexcept
            : counter_(of.readers_[index_stripe()].inside[of.phase_.load(std::memory_order_seq_cst) & 1U]) {
            counter_.fetch_add(1, std::memory_order_seq_cst);
        }
        section(const section&) = delete;
        section& operator=(const section&) = delete;
        ~section() { counter_.fetch_sub(1, std::memory_order_release); }

    private:
        std::atomic<std::uint64_t>& counter_;
    };

    /// For the next retire(). Throws std::bad_alloc.
    void reserve() { fresh_.reserve(fresh_.size() + 1); }
    void retire(std::unique_ptr<const std::string> text) noexcept;

private:
    [[nodiscard]] bool is_quiet(std::uint32_t phase) const noexcept;
    void free_what_can_be() noexcept;

    struct alignas(64) stripe {
        std::array<std::atomic<std::uint64_t>, 2> inside{};
    };
    std::array<stripe, stripes> readers_{};
    std::atomic<std::uint32_t> phase_{0};
    left_to_parent<std::vector<std::unique_ptr<const std::string>>> fresh_;
    left_to_parent<std::vector<std::unique_ptr<const std::string>>>
        waiting_;  ///< before the phase changed `changes_` times
    unsigned changes_ = 0;
};

}  // namespace holdfast::detail
