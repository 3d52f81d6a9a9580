#include "heap/collect_operations.hpp"

#include "heap/collect_operations_of.hpp"

namespace holdfast::heap {

namespace {

template <persist::persistence_domain Domain>
base::result<std::unique_ptr<collect_operations>> make(segment::space_view space, extent::extent_allocator& extents,
                                                       slab::block_allocator& blocks) {
    return std::unique_ptr<collect_operations>(
        std::make_unique<collect_operations_of<Domain>>(Domain(), space, extents, blocks));
}

}  // namespace

base::result<std::unique_ptr<collect_operations>> make_collect_operations(persist::domain_kind domain,
                                                                          segment::space_view space,
                                                                          extent::extent_allocator& extents,
                                                                          slab::block_allocator& blocks) {
    switch (domain) {
        case persist::domain_kind::page_cache: return std::unique_ptr<collect_operations>();
        case persist::domain_kind::eadr: return make<persist::eadr_domain>(space, extents, blocks);
        default: return make<persist::dax_domain>(space, extents, blocks);
    }
}

}  // namespace holdfast::heap
