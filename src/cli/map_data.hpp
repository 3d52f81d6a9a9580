// The extents of a heap in few bytes, for the page that draws them (map_page/model.js reads it).
//
// A record an extent, in order of address; every number is a varint (7 bits a byte, the lowest first, the highest bit
// set in all but the last byte):
//
//     kind + 8 * backing + 32 * pages       kind: 0 free, 1 block, 3 roots, 4 reserved
//     2 + 8 * backing + 32 * class, live    a slab: index into classes(), live blocks
//     7 + 8 * count                         the extent before, `count` times more
//
// backing: 0 none of it is on disk, 1 all, 2 a part: the bytes follow.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/manager.hpp>

namespace holdfast_cli {

inline constexpr std::uint64_t map_page_size = 4096;
inline constexpr std::uint64_t slab_pages = 16;

class map_encoder {
public:
    /// Block size and blocks of a slab; the first stands for damaged slabs.
    using slab_class = std::pair<std::uint32_t, std::uint32_t>;

    void add(const holdfast::extent_info& extent);
    /// Writes what waits; comes last, once.
    void finish();

    [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
    [[nodiscard]] const std::vector<slab_class>& classes() const noexcept { return classes_; }

private:
    [[nodiscard]] std::uint64_t class_index(const holdfast::extent_info& slab);

    std::string bytes_;
    std::string last_;
    std::uint64_t repeats_ = 0;
    std::vector<slab_class> classes_{{0, 0}};
};

/// As RFC 4648 has it, padded.
[[nodiscard]] std::string base64(const std::string& bytes);

}  // namespace holdfast_cli
