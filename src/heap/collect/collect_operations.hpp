// Durability `collect`: makes slab headers and the page entries of slabs and whole-page blocks durable, nothing else;
// recovery trusts these alone, and tracing finds which blocks live (Makalu, chapter 5).
//
// Thread safety: any number of threads, except write_back().
#pragma once

#include <memory>

#include "extent/extent.hpp"
#include "heap/operations/block_operations.hpp"
#include "persist/domain.hpp"
#include "segment/format/space.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// `domain` is not the page cache, where direct_operations are enough: a killed process loses no store. `extents` and
/// `blocks` outlive the result. write_back() makes page entries durable too. May throw std::bad_alloc.
std::unique_ptr<block_operations> make_collect_operations(persist::domain_kind domain, segment::space_view space,
                                                          extent::extent_allocator& extents,
                                                          slab::block_allocator& blocks);

}  // namespace holdfast::heap
