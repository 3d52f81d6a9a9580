// Pages of watched memory that the last commits found, by blocks. They stay in memory, protected: a program often
// stores to the same pages again, which then takes one fault and no copy, and a scan looks into these blocks first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.hpp"

namespace holdfast::segment {

/// Not thread-safe. A page that is in it may have been mapped anew since, or be private no more.
class warm_pages {
public:
    static constexpr std::uint64_t block_pages = 64;
    static constexpr std::uint64_t block_size = block_pages * base::page_size;
    struct block {
        std::byte* begin = nullptr;  ///< a multiple of its size
        std::uint64_t pages = 0;     ///< a bit for each
    };

    /// The page's block comes first then. False, and nothing is changed, where there is no memory for it.
    [[nodiscard]] bool add(std::byte* page) noexcept;
    [[nodiscard]] bool has(const std::byte* page) const noexcept;
    /// Some are to go.
    [[nodiscard]] bool is_full() const noexcept { return blocks_.size() > most_blocks || pages_ > most_pages; }
    /// The last found come first.
    [[nodiscard]] const std::vector<block>& blocks() const noexcept { return blocks_; }
    void forget() noexcept {
        blocks_.clear();
        pages_ = 0;
    }
    /// The half that was found first goes: calls `each(page)`.
    template <class Each>
    void shrink(Each&& each) {
        while (blocks_.size() > most_blocks / 2 || pages_ > most_pages / 2) {
            drop_last(each);
        }
    }
    template <class Each>
    void drop_all(Each&& each) {
        while (!blocks_.empty()) {
            drop_last(each);
        }
    }

private:
    template <class Each>
    void drop_last(Each&& each) {
        const block gone = blocks_.back();
        blocks_.pop_back();
        for (std::uint64_t i = 0; i < block_pages; ++i) {
            if ((gone.pages >> i & 1) != 0) {
                --pages_;
                each(gone.begin + i * base::page_size);
            }
        }
    }
    static constexpr std::size_t most_blocks = 32;
    static constexpr std::uint64_t most_pages = 1024;

    std::vector<block> blocks_;
    std::uint64_t pages_ = 0;
};

}  // namespace holdfast::segment
