#include "heap/collect/collect_operations.hpp"

#include "heap/collect/collect_operations_of.hpp"

namespace holdfast::heap {

std::unique_ptr<block_operations> make_collect_operations(persist::domain_kind domain, segment::space_view space,
                                                          extent::extent_allocator& extents,
                                                          slab::block_allocator& blocks) {
    if (domain == persist::domain_kind::eadr) {
        return std::make_unique<collect_operations_of<persist::eadr_domain>>(persist::eadr_domain(), space, extents,
                                                                             blocks);
    }
    return std::make_unique<collect_operations_of<persist::dax_domain>>(persist::dax_domain(), space, extents, blocks);
}

}  // namespace holdfast::heap
