#include "refusal.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>

#include "base/process_test_support.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::optional<error> expect_refusal(const std::string& directory, const refusal& wanted,
                                    const std::function<void()>& action) {
    const auto before = files_under(directory);
    std::optional<error> thrown;
    try {
        action();
        ADD_FAILURE() << "accepted; expected " << make_error_code(wanted.code).message();
    } catch (const error& what) {
        thrown = what;
        EXPECT_EQ(what.reason(), wanted.code) << what.what();
        EXPECT_EQ(what.path(), wanted.path) << what.what();
        for (const auto& [text, part] : {std::pair{what.field(), wanted.field}, std::pair{what.found(), wanted.found},
                                         std::pair{what.expected(), wanted.expected}}) {
            EXPECT_THAT(text, Not(IsEmpty())) << what.what();
            EXPECT_THAT(text, HasSubstr(part)) << what.what();
            EXPECT_THAT(what.what(), HasSubstr(text));
        }
        EXPECT_THAT(what.what(), HasSubstr(what.path()));
    }
    EXPECT_EQ(files_under(directory), before) << "the refusal changed files";
    return thrown;
}

void expect_no_open(const std::string& heap, const refusal& wanted) {
    expect_refusal(heap, wanted, [&] { const manager opened(open_only, heap, small_segments()); });
    expect_refusal(heap, wanted, [&] { const manager opened(open_read_only, heap, small_segments()); });
    EXPECT_FALSE(manager::consistent(heap));
}

std::uint64_t step_when_opened(const std::string& heap) {
    const auto before = files_under(heap);
    const manager opened(open_read_only, heap, small_segments());
    EXPECT_THAT(opened.check(true), IsEmpty());
    const std::uint64_t step = step_of(opened);
    EXPECT_EQ(files_under(heap), before) << "a reader changed files";
    return step;
}

void expect_heap_goes_on(const std::string& heap) {
    std::uint64_t step = 0;
    {
        manager opened(open_only, heap, small_segments());
        step = step_of(opened) + 1;
        advance(opened, step);
        opened.close(true);
    }
    EXPECT_EQ(step_when_opened(heap), step);
}

bool keep_mounts_apart() noexcept {
    return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool can_keep_mounts_apart() {
    return base::succeeds_in_child([] { return keep_mounts_apart(); });
}

void in_child(const std::function<void()>& action) {
    const base::process_end end = base::run_in_child(action);
    EXPECT_TRUE(end.succeeded()) << "the child " << end;
}

}  // namespace holdfast::support
