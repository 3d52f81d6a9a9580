// The first commit of a heap: what makes its directory a heap.
#pragma once

#include "base/result.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/files/heap_location.hpp"

namespace holdfast::segment {

/// Everything in `plan` is fresh. The name of the superblock, which comes last, makes the directory a heap: a crash
/// before it leaves what the next creation removes. Durable on return; `report` says after a failure how far it came.
base::result<void> write_first_commit(const heap_location& location, commit_plan& plan, transaction_report& report);

}  // namespace holdfast::segment
