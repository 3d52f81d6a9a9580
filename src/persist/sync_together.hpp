// A sync waits for the device, and syncs of several files that wait together mostly wait for the same flush of it.
#pragma once

#include <memory>
#include <span>

#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

/// Files that are synced and closed give some back.
[[nodiscard]] bool is_out_of_descriptors(const base::failure& what) noexcept;

/// All are durable on return. Threads make the other syncs behind one that has taken long. After a failure some files
/// were not tried; a sync that ends for want of memory counts as a failed one (`out_of_memory`, "fdatasync").
[[nodiscard]] base::result<void> sync_together(std::span<const std::shared_ptr<file>> files, site where);

}  // namespace holdfast::persist
