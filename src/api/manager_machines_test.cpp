// File systems that several machines may share: none has such a heap here, so the kernel's answer is exchanged.
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"

namespace {

std::uint32_t pretended_file_system = 0;  ///< 0: what the kernel says

}  // namespace

/// Takes the place of the C library's in this program.
extern "C" int fstatfs(int file, struct statfs* found) noexcept {
    const long done = ::syscall(SYS_fstatfs, file, found);
    if (done == 0 && pretended_file_system != 0) {
        found->f_type = pretended_file_system;
    }
    return static_cast<int>(done);
}

namespace holdfast {
namespace {

using machines = std::pair<std::uint32_t, const char*>;

class manager_machines_test : public manager_test, public testing::WithParamInterface<machines> {
protected:
    void SetUp() override { pretended_file_system = GetParam().first; }
    void TearDown() override { pretended_file_system = 0; }
    template <class Try>
    static std::string refusal_of(const Try& attempt) {
        try {
            attempt();
        } catch (const error& refused) {
            return refused.what();
        }
        return "nothing was refused";
    }
};

TEST_P(manager_machines_test, refuse_writers_by_turns_by_name) {
    create().close();
    const std::string why = refusal_of([&] { static_cast<void>(share()); });
    EXPECT_THAT(why, testing::HasSubstr(std::string(GetParam().second) + ", a file system that machines share"));
}

TEST_P(manager_machines_test, refuse_readers_beside_a_writer_by_name) {
    {
        const manager writer = create();
        const std::string why = refusal_of([&] { manager(open_read_only, path()); });
        EXPECT_THAT(why, testing::HasSubstr(std::string("on ") + GetParam().second));
    }
    const manager reader(open_read_only, path());
    EXPECT_THAT(refusal_of([&] { manager(open_only, path()); }), testing::HasSubstr("lock"));
}

INSTANTIATE_TEST_SUITE_P(all, manager_machines_test,
                         testing::Values(machines(NFS_SUPER_MAGIC, "NFS"), machines(V9FS_MAGIC, "9p"),
                                         machines(SMB_SUPER_MAGIC, "SMB"), machines(0xfe534d42, "SMB"),
                                         machines(0x00c36400, "Ceph"), machines(0x65735546, "FUSE"),
                                         machines(AFS_SUPER_MAGIC, "AFS")));

}  // namespace
}  // namespace holdfast
