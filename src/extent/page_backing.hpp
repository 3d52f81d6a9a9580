// Which free pages have space on disk. A free page is known to be backed, or to be a hole, or neither. No page of an
// extent in use is a hole (EXT-8).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"

namespace holdfast::extent {

/// A bit for each page. Takes memory only where bits were set. One thread at a time; another may read a bit while
/// single bits change.
class page_bits {
public:
    [[nodiscard]] base::result<void> reset(base::pages pages, const char* purpose) {
        HF_TRY_ASSIGN(words_, base::sparse_table<std::uint64_t>::create(base::divide_up(pages.value, bits), purpose));
        return {};
    }
    [[nodiscard]] bool operator[](base::pages page) const noexcept {
        const std::uint64_t word =
            std::atomic_ref<std::uint64_t>(words_[page.value / bits]).load(std::memory_order_acquire);
        return (word >> (page.value % bits) & 1) != 0;
    }
    void set(base::pages page) noexcept {
        std::uint64_t& word = words_[page.value / bits];
        store(word, word | std::uint64_t{1} << (page.value % bits));
    }
    void clear(base::pages page) noexcept {
        std::uint64_t& word = words_[page.value / bits];
        store(word, word & ~(std::uint64_t{1} << (page.value % bits)));
    }
    void set(base::pages start, base::pages length) noexcept {
        for_each_word(start, length, [this](std::uint64_t word, std::uint64_t mask) {
            if ((words_[word] & mask) != mask) {
                words_[word] |= mask;
            }
        });
    }
    void clear(base::pages start, base::pages length) noexcept {
        for_each_word(start, length, [this](std::uint64_t word, std::uint64_t mask) {
            if ((words_[word] & mask) != 0) {  // reading takes no memory
                words_[word] &= ~mask;
            }
        });
    }
    [[nodiscard]] base::pages count(base::pages start, base::pages length) const noexcept {
        std::uint64_t found = 0;
        for_each_word(start, length, [this, &found](std::uint64_t word, std::uint64_t mask) {
            found += static_cast<std::uint64_t>(std::popcount(words_[word] & mask));
        });
        return {found};
    }
    [[nodiscard]] bool all(base::pages start, base::pages length) const noexcept {
        return count(start, length) == length;
    }
    [[nodiscard]] std::optional<base::pages> last_up_to(base::pages page) const noexcept {
        std::uint64_t index = page.value / bits;
        std::uint64_t word = words_[index] & (~std::uint64_t{0} >> (bits - 1 - page.value % bits));
        while (word == 0 && index > 0) {
            word = words_[--index];
        }
        if (word == 0) {
            return std::nullopt;
        }
        return base::pages{index * bits + (bits - 1 - static_cast<std::uint64_t>(std::countl_zero(word)))};
    }
    [[nodiscard]] base::pages last_clear_up_to(base::pages page) const noexcept {
        std::uint64_t index = page.value / bits;
        std::uint64_t word = ~words_[index] & (~std::uint64_t{0} >> (bits - 1 - page.value % bits));
        while (word == 0) {
            word = ~words_[--index];
        }
        return {index * bits + (bits - 1 - static_cast<std::uint64_t>(std::countl_zero(word)))};
    }

private:
    static constexpr std::uint64_t bits = 64;

    /// One writer needs no read-modify-write instruction.
    static void store(std::uint64_t& word, std::uint64_t value) noexcept {
        std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
    }

    template <class Each>
    static void for_each_word(base::pages start, base::pages length, Each each) noexcept {
        const std::uint64_t end = start.value + length.value;
        for (std::uint64_t page = start.value; page < end;) {
            const std::uint64_t first = page % bits;
            const std::uint64_t here = std::min(bits - first, end - page);
            each(page / bits, (here == bits ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1) << first);
            page += here;
        }
    }

    base::sparse_table<std::uint64_t> words_;
};

/// Nothing is known at first. The caller holds a lock.
class page_backing {
public:
    [[nodiscard]] base::result<void> reset(base::pages pages) {
        HF_TRY(backed_.reset(pages, "pages with space"));
        return holes_.reset(pages, "pages without space");
    }

    void set_backed(base::pages start, base::pages length) noexcept {
        backed_.set(start, length);
        holes_.clear(start, length);
    }
    void set_hole(base::pages start, base::pages length) noexcept {
        backed_.clear(start, length);
        holes_.set(start, length);
    }
    void forget_backed(base::pages start, base::pages length) noexcept { backed_.clear(start, length); }
    void forget_holes(base::pages start, base::pages length) noexcept { holes_.clear(start, length); }

    [[nodiscard]] bool all_backed(base::pages start, base::pages length) const noexcept {
        return backed_.all(start, length);
    }
    [[nodiscard]] base::pages holes(base::pages start, base::pages length) const noexcept {
        return holes_.count(start, length);
    }
    [[nodiscard]] base::pages not_holes(base::pages start, base::pages length) const noexcept {
        return length - holes_.count(start, length);
    }
    [[nodiscard]] base::pages last_not_backed(base::pages page) const noexcept {
        return backed_.last_clear_up_to(page);
    }
    [[nodiscard]] base::pages last_not_hole(base::pages page) const noexcept { return holes_.last_clear_up_to(page); }

private:
    page_bits backed_;
    page_bits holes_;
};

}  // namespace holdfast::extent
