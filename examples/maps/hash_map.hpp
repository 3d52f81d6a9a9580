// A hash map with chains, whose table doubles when there are two entries for each bucket.
#pragma once

#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "map.hpp"

namespace maps {

class hash_map final : public checked_map {
public:
    /// Opens or makes the map of that name.
    hash_map(holdfast::manager& heap, const char* name);

    bool insert(std::uint64_t key, std::uint64_t value) override;
    std::optional<std::uint64_t> remove(std::uint64_t key) override;
    [[nodiscard]] std::optional<std::uint64_t> look_up(std::uint64_t key) const override;
    bool for_each(const visitor& visit) const override;  // NOLINT(modernize-use-nodiscard)
    [[nodiscard]] std::string problem() const override;
    [[nodiscard]] std::uint64_t block_count() const override;

private:
    struct entry {
        std::uint64_t key = 0;
        std::uint64_t value = 0;
        holdfast::ptr<entry> next;
    };
    using link = holdfast::ptr<entry>;
    struct head {
        std::uint64_t size = 0;
        std::uint64_t bits = 0;  ///< the table has 2^bits buckets; 0: there is none yet
        holdfast::ptr<link> table;
    };

    [[nodiscard]] std::uint64_t bucket_count() const noexcept;
    /// The link that leads to the key's entry, or the null one at the end of its chain. There must be a table.
    [[nodiscard]] link& find(std::uint64_t key) const;
    /// With a table of twice as many buckets, the first time of the least size.
    void grow();

    holdfast::manager& heap_;
    head& head_;
};

}  // namespace maps
