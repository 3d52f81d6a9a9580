// Pages that a transaction in a full store took beyond the limit, which it may where it leaves the store no larger:
// they move to where the pages were that it freed.
#pragma once

#include "store/environment.hpp"

namespace holdfast::store_engine {

/// Behind a commit, with no lock held: a transaction of its own, where such pages are, nobody reads and nobody writes.
/// A failure does no harm: a later commit tries again.
void move_pages_within_limit(environment& env) noexcept;
/// Before the first write transaction of this process: what one that was killed left beyond the limit.
void move_pages_of_others_within_limit(environment& env) noexcept;

}  // namespace holdfast::store_engine
