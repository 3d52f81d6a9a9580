#include "heap/atomic/atomic_operations.hpp"

#include "heap/atomic/atomic_operations_of.hpp"

namespace holdfast::heap {

namespace {

template <persist::persistence_domain Domain>
base::result<std::unique_ptr<atomic_operations>> make(Domain domain, segment::space_view space,
                                                      segment::lane_area& area, slab::block_allocator& blocks,
                                                      const lane::lane_options& options,
                                                      const segment::zero_pages& zeros) {
    auto made = std::make_unique<atomic_operations_of<Domain>>(std::move(domain), space, area, blocks, options, zeros);
    HF_TRY(made->open());
    return std::unique_ptr<atomic_operations>(std::move(made));
}

}  // namespace

base::result<std::unique_ptr<atomic_operations>> make_atomic_operations(
    persist::domain_kind domain, persist::mapped_sync& memory, segment::space_view space, segment::lane_area& area,
    slab::block_allocator& blocks, const lane::lane_options& options, const segment::zero_pages& zeros) {
    switch (domain) {
        case persist::domain_kind::eadr: return make(persist::eadr_domain(), space, area, blocks, options, zeros);
        case persist::domain_kind::page_cache:
            return make(persist::page_cache_domain(), space, area, blocks, options, zeros);
        case persist::domain_kind::disk: return make(persist::disk_domain(memory), space, area, blocks, options, zeros);
        default: return make(persist::dax_domain(), space, area, blocks, options, zeros);
    }
}

}  // namespace holdfast::heap
