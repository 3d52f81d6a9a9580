// The file `node` in the directory of a node (docs/format.md, section "nodes"). Little endian.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::segment {

inline constexpr char node_magic[8] = {'H', 'F', 'S', 'T', 'N', 'O', 'D', 'E'};
inline constexpr std::uint32_t node_version = 1;
inline constexpr std::uint64_t node_marker_size = 4096;
inline constexpr std::uint64_t longest_heap_path = 4040;

struct node_marker_on_media {
    char magic[8];
    std::uint32_t version;
    std::uint32_t size;
    std::uint8_t uuid[16];
    std::uint32_t node;
    std::uint32_t nodes;
    std::uint32_t path_size;  ///< bytes of `heap` in use
    std::uint32_t reserved;
    char heap[longest_heap_path];  ///< the heap's directory when this one was made
    std::uint64_t checksum;        ///< of the bytes before it
};
static_assert(sizeof(node_marker_on_media) == node_marker_size);
static_assert(offsetof(node_marker_on_media, uuid) == 16);
static_assert(offsetof(node_marker_on_media, node) == 32);
static_assert(offsetof(node_marker_on_media, nodes) == 36);
static_assert(offsetof(node_marker_on_media, path_size) == 40);
static_assert(offsetof(node_marker_on_media, heap) == 48);
static_assert(offsetof(node_marker_on_media, checksum) == 4088);

}  // namespace holdfast::segment
