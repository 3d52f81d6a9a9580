#include "slab/pool/slab_check.hpp"

#include <fmt/format.h>

namespace holdfast::slab {

using base::granule;

std::optional<base::failure> header_fault(const segment::slab_header_on_media& header, granule of) {
    base::failure what;
    what.code = base::failure_code::corrupt;
    what.field = fmt::format("slab header {}", of.value);
    what.found = fmt::format("block size {}, {} blocks, flags {:#x}, type {}", header.block_size, header.block_count,
                             header.flags, header.type);
    if (!has_known_class(header)) {
        what.expected = "SLAB-1: the block size of a size class";
    } else if (!has_right_count(header)) {
        what.expected = fmt::format("SLAB-2: {} blocks", base::granule_size / header.block_size);
    } else if (!has_possible_flags(header)) {
        what.expected = "SLAB-3: flags and reserved fields zero, or the flags of a morphed slab";
    } else if (!has_possible_type(header)) {
        what.expected = fmt::format("SLAB-11: a type number below {}", segment::type_limit);
    } else {
        return std::nullopt;
    }
    return what;
}

}  // namespace holdfast::slab
