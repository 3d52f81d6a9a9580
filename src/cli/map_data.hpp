// A compact encoding of the extents of a heap, or of a store's file (map_page/model.js decodes it).
//
// One record for each extent, in order of address. Numbers are varints: 7 bits in a byte, the lowest first, the highest
// bit set in all bytes but the last:
//
//     kind + 8 * backing + 32 * pages       kind: 0 free, 1 block, 3 roots, 4 reserved; of a store: 0 free, 1 old,
//                                           3 meta, 4 branch, 5 long, 6 log
//     2 + 8 * backing + 32 * class, live    a slab: index into classes(), number of live blocks; of a store: a leaf,
//                                           whose blocks are bytes
//     7 + 8 * count                         the extent before, `count` times more
//
// backing: 0 none of the extent is on disk, 1 all of it, 2 a part: the number of bytes follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/manager.hpp>
#include <lmdb.h>

namespace holdfast_cli {

inline constexpr std::uint64_t map_page_size = 4096;
inline constexpr std::uint64_t slab_pages = 16;

class map_encoder {
public:
    /// Block size and number of blocks of a slab. Entry 0 of classes() stands for damaged slabs.
    using slab_class = std::pair<std::uint32_t, std::uint32_t>;

    void add(const holdfast::extent_info& extent);
    void add(const hf_lmdb_extent& extent);
    /// After the last add().
    void finish();

    [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
    [[nodiscard]] const std::vector<slab_class>& classes() const noexcept { return classes_; }

private:
    [[nodiscard]] std::uint64_t class_index(const slab_class& wanted);
    struct record {
        std::uint64_t operation;
        std::uint64_t pages_or_class;
        std::optional<std::uint32_t> live;
        std::uint64_t bytes;
        std::uint64_t backed_bytes;
    };
    void add(const record& one);

    std::string bytes_;
    std::string last_;
    std::uint64_t repeats_ = 0;
    std::vector<slab_class> classes_{{0, 0}};
};

/// Base64 of RFC 4648, with padding.
[[nodiscard]] std::string base64(const std::string& bytes);

}  // namespace holdfast_cli
