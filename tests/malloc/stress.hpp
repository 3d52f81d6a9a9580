// Threads that allocate, keep, hand over to each other and free blocks of all sizes, and end at random, with blocks of
// theirs still alive: the pattern of mimalloc's stress test, as its authors describe it (sizes fall off by powers of
// two, some blocks are very large; what is left in a shared array is freed by whoever comes by).
//
// Every word of a block says where it stands, so that two blocks that overlap, and a block that lost its content, are
// noticed by whoever frees or grows it. It knows nothing of Holdfast.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::stress {

struct block {
    void* address = nullptr;
    std::size_t words = 0;
};

/// A word that no other place of memory bears.
[[nodiscard]] inline std::uintptr_t word_at(const std::uintptr_t* place) noexcept {
    return reinterpret_cast<std::uintptr_t>(place) ^ 0x5a5a5a5aU;
}

/// `Allocator` has the static functions allocate(bytes), allocate_aligned(bytes, alignment), allocate_zeroed(count,
/// bytes), reallocate(block, bytes) and free(block), as those of C. Thread-safe as that is.
template <class Allocator>
class exercise {
public:
    struct effort {
        unsigned threads = 4;
        unsigned generations = 3;       ///< of threads: each takes over what the last one left
        unsigned allocations = 20'000;  ///< a thread, about
    };

    /// What went wrong, as the number of blocks whose content was not what it should be, or that could not be had.
    [[nodiscard]] std::uint64_t run(const effort& wanted) {
        for (unsigned generation = 0; generation < wanted.generations; ++generation) {
            std::vector<std::thread> running;
            for (unsigned i = 0; i < wanted.threads; ++i) {
                running.emplace_back([this, seed = generation * 100U + i, count = wanted.allocations] {
                    worker(*this, seed).work(count);
                });
            }
            for (std::thread& one : running) {
                one.join();
            }
        }
        for (auto& place : shared_) {
            release(place.exchange(nullptr));
        }
        return wrong_.load();
    }

private:
    static constexpr std::size_t places = 1000;

    class worker {
    public:
        worker(exercise& of, std::uint64_t seed) : of_(of), state_(seed * 2654435761U + 1) {}

        void work(unsigned allocations) {
            for (unsigned left = allocations; left > 0; --left) {
                act();
                if (below(20'000) == 0) {
                    break;  // ends with what it has
                }
            }
            for (std::size_t i = 0; i < kept_.size(); ++i) {
                i % 4 == 0 ? hand_over(kept_[i]) : of_.release(kept_[i]);
            }
        }

    private:
        void act() {
            const std::uint64_t which = below(100);
            if (which < 50 || kept_.empty()) {
                kept_.push_back(make());
            } else if (which < 75) {
                of_.release(take());
            } else if (which < 85) {
                kept_.push_back(regrow(take()));
            } else {
                hand_over(take());
            }
        }
        [[nodiscard]] std::uint64_t below(std::uint64_t limit) {
            state_ = state_ * 6364136223846793005U + 1442695040888963407U;
            return (state_ >> 33U) % limit;
        }
        /// Words: small ones mostly, each power of two half as often as the one before; one in a thousand large.
        [[nodiscard]] std::size_t some_words() {
            const auto shift = static_cast<unsigned>(std::countr_zero(below(1U << 12U) | 1U << 11U));
            const std::size_t most = below(1000) == 0 ? 100'000 : std::size_t{4} << shift;
            return header_words + below(most);
        }
        [[nodiscard]] std::uintptr_t* make() {
            const std::size_t words = some_words();
            const std::size_t bytes = words * sizeof(std::uintptr_t);
            const std::uint64_t how = below(10);
            void* const got = how == 0   ? Allocator::allocate_aligned(bytes, std::size_t{16} << below(10))
                              : how == 1 ? Allocator::allocate_zeroed(words, sizeof(std::uintptr_t))
                                         : Allocator::allocate(bytes);
            if (how == 1) {
                of_.expect_zeros({got, words});
            }
            return of_.fill({got, words});
        }
        /// Larger or smaller; what both have of it stays.
        [[nodiscard]] std::uintptr_t* regrow(std::uintptr_t* old) {
            if (old == nullptr) {
                return nullptr;
            }
            const std::size_t words = some_words();
            const std::size_t kept = words < old[0] ? words : old[0];
            of_.check(old);
            std::vector<std::uintptr_t> content(old, old + kept);
            auto* const fresh =
                static_cast<std::uintptr_t*>(Allocator::reallocate(old, words * sizeof(std::uintptr_t)));
            if (fresh == nullptr) {
                of_.release(old);
                ++of_.wrong_;
                return nullptr;
            }
            for (std::size_t i = header_words; i < kept; ++i) {
                of_.wrong_ += fresh[i] == content[i] ? 0U : 1U;
            }
            return of_.fill({fresh, words});
        }
        [[nodiscard]] std::uintptr_t* take() {
            std::swap(kept_[below(kept_.size())], kept_.back());
            std::uintptr_t* const one = kept_.back();
            kept_.pop_back();
            return one;
        }
        /// To whoever comes by; what was there is freed here.
        void hand_over(std::uintptr_t* one) { of_.release(of_.shared_[below(places)].exchange(one)); }

        exercise& of_;
        std::uint64_t state_;
        std::vector<std::uintptr_t*> kept_;
    };

    static constexpr std::size_t header_words = 1;  ///< how many words it has

    [[nodiscard]] std::uintptr_t* fill(block made) {
        auto* const words = static_cast<std::uintptr_t*>(made.address);
        if (words == nullptr) {
            ++wrong_;
            return nullptr;
        }
        words[0] = made.words;
        for (std::size_t i = header_words; i < made.words; ++i) {
            words[i] = word_at(words + i);
        }
        return words;
    }
    void check(const std::uintptr_t* words) {
        for (std::size_t i = header_words; i < words[0]; ++i) {
            if (words[i] != word_at(words + i)) {
                ++wrong_;
                return;
            }
        }
    }
    void expect_zeros(block made) {
        const auto* const words = static_cast<const std::uintptr_t*>(made.address);
        for (std::size_t i = 0; words != nullptr && i < made.words; ++i) {
            wrong_ += words[i] == 0 ? 0U : 1U;
        }
    }
    void release(std::uintptr_t* words) {
        if (words != nullptr) {
            check(words);
            Allocator::free(words);
        }
    }

    std::vector<std::atomic<std::uintptr_t*>> shared_{places};
    std::atomic<std::uint64_t> wrong_{0};
};

}  // namespace holdfast::stress
