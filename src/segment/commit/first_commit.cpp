#include "segment/commit/first_commit.hpp"

#include "base/assert.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

base::result<void> write_first_commit(const heap_location& location, commit_plan& plan, transaction_report& report) {
    report.stage = commit_stage::unchanged;
    HF_ASSERT(plan.changed.empty());
    HF_TRY(write_home(location.storage(), location.paths(), {plan.fresh, plan.fresh_checksums, {}},
                      "create.fresh.write", "create.fresh.sync", report));
    HF_TRY_ASSIGN(auto file,
                  location.storage().open(location.paths().unfinished_superblock(), persist::access_mode::read_write));
    HF_TRY_ASSIGN(plan.superblock.file_identity,
                  location.storage().file_identity(location.paths().unfinished_superblock()));
    seal(plan.superblock);
    HF_TRY(write_superblocks(*file, plan.superblock));
    if (location.paths().nodes() != 0) {
        HF_TRY(sync_segment_names(location.storage(), location.paths(), "create.node.sync"));
    }
    HF_TRY(location.storage().sync_directory(location.paths().directory(), "create.directory.sync"));
    HF_TRY(location.storage().rename(location.paths().unfinished_superblock(), location.paths().superblock(),
                                     "create.superblock.rename"));
    report.stage = commit_stage::uncertain;
    HF_TRY(location.storage().sync_directory(location.paths().directory(), "create.directory.sync_name"));
    HF_TRY(location.storage().sync_directory(location.paths().parent(), "create.parent.sync"));
    report.stage = commit_stage::complete;
    return {};
}

}  // namespace holdfast::segment
