// Descriptors of files: one that is closed with its owner, and all of an owner, which a child of fork closes.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace holdfast::persist {

/// Errors of close() are ignored: what must be durable was synced before.
class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int number) noexcept : number_(number) {}
    descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            number_ = std::exchange(other.number_, -1);
        }
        return *this;
    }
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor() { reset(); }

    [[nodiscard]] int get() const noexcept { return number_; }
    [[nodiscard]] bool valid() const noexcept { return number_ >= 0; }
    [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }
    void reset() noexcept {
        if (number_ >= 0) {
            ::close(std::exchange(number_, -1));
        }
    }

private:
    int number_ = -1;
};

// The descriptors of one owner: a child of fork closes its copies whatever other threads of its parent were doing.

/// Numbers above the limit are not noted: a child keeps these. Thread-safe.
class noted_descriptors {
public:
    static constexpr std::size_t limit = 4096;

    /// Behind the call that opened it.
    void add(int number) noexcept {
        if (is_noted(number)) {
            word_of(number).fetch_or(bit_of(number), std::memory_order_release);
        }
    }
    /// Comes before its close().
    void remove(int number) noexcept {
        if (is_noted(number)) {
            word_of(number).fetch_and(~bit_of(number), std::memory_order_release);
        }
    }
    /// In a child of fork, which uses none of them.
    void close_all() noexcept {
        for (std::size_t at = 0; at < words_.size(); ++at) {
            for (std::uint64_t left = words_[at].exchange(0, std::memory_order_acquire); left != 0; left &= left - 1) {
                ::close(static_cast<int>(at * bits + static_cast<std::size_t>(std::countr_zero(left))));
            }
        }
    }

private:
    static constexpr std::size_t bits = 64;

    [[nodiscard]] static bool is_noted(int number) noexcept {
        return number >= 0 && static_cast<std::size_t>(number) < limit;
    }
    [[nodiscard]] static std::uint64_t bit_of(int number) noexcept {
        return std::uint64_t{1} << static_cast<std::size_t>(number) % bits;
    }
    [[nodiscard]] std::atomic<std::uint64_t>& word_of(int number) noexcept {
        return words_[static_cast<std::size_t>(number) / bits];
    }

    std::array<std::atomic<std::uint64_t>, limit / bits> words_{};
};

}  // namespace holdfast::persist
