// check() of pointers in blocks of known type.
#include <cstring>

#include <fmt/format.h>

#include "heap/heap.hpp"
#include "segment/pointer_format.hpp"

namespace holdfast::heap {

namespace {

std::uint64_t word_at(const std::byte* at) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    return word;
}

}  // namespace

/// TYPE-4: in the first element of a block with a registered type, every `ptr` is null or points into the heap. How
/// many elements were made is unknown: words behind the first may hold anything.
void engine::check_pointers(std::vector<std::string>& problems) {
    constexpr std::size_t most = 100;
    type_registry types;
    if (const auto loaded = types.load(objects_); !loaded) {
        problems.push_back("TYPE-1: " + loaded.error().message());
        return;
    }
    if (types.entries().empty()) {
        return;
    }
    const std::uint64_t end = base::to_bytes(files_->frontier());
    const std::size_t allowed = problems.size() + most;
    blocks_.inspect().for_each_block([&](base::heap_offset block, std::uint64_t bytes, std::uint32_t type) {
        const type_registry::entry* const known = type == 0 ? nullptr : types.find(type);
        if (known == nullptr || bytes < known->description.size) {
            return;
        }
        for (const std::uint32_t where : known->description.pointers) {
            const std::uint64_t at = block.value + where;
            if ((where & raw_pointer_bit) != 0 || problems.size() >= allowed) {
                continue;
            }
            const std::uint64_t word = word_at(files_->view().base() + at);
            if (!segment::is_null_pointer(word) && segment::decode_pointer(at, word) >= end) {
                problems.push_back(fmt::format(
                    "TYPE-4: the block at offset {:#x}, type {} {}: the pointer at byte {} leads out of the heap",
                    block.value, type, known->description.name, where));
            }
        }
    });
}

}  // namespace holdfast::heap
