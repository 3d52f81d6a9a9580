#include <holdfast/size_classes.hpp>

#include "slab/classes/size_classes.hpp"
#include "slab/pool/slab_table.hpp"

namespace holdfast {

std::vector<size_class_information> size_classes() {
    std::vector<size_class_information> classes;
    std::uint64_t before = 0;
    for (const slab::size_class& kind : slab::size_classes) {
        const std::uint64_t size = kind.block_size;
        classes.push_back({size, before + 1, size & (~size + 1), kind.block_count,
                           std::uint64_t{kind.block_count} / slab::parts_of(kind)});
        before = size;
    }
    return classes;
}

}  // namespace holdfast
