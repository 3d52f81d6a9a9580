// The storages that wrap another one: one fails on demand, one records everything.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "simulator/storage/fault_injecting_storage.hpp"
#include "simulator/storage/recording_storage.hpp"

namespace holdfast::simulator {
namespace {

using base::result;
using persist::access_mode;

result<void> use_everything(persist::storage& storage, const std::string& root) {
    HF_TRY(storage.make_directory(root + "/d", "use.mkdir"));
    HF_TRY_ASSIGN(auto a, storage.create(root + "/d/a", "use.create"));
    const std::vector<std::byte> data(10000, std::byte{5});
    HF_TRY(a->write_at(100, data, "use.write"));
    const std::vector<std::span<const std::byte>> parts{data, data};
    HF_TRY(a->write_gather(20000, parts, "use.gather"));
    HF_TRY(a->sync("use.sync"));
    HF_TRY(a->allocate(0, 60000, "use.allocate"));
    HF_TRY(a->punch_hole(4096, 8192, "use.punch"));
    HF_TRY(a->resize(50000, "use.resize"));
    HF_TRY_ASSIGN(const std::uint64_t size, a->size());
    std::vector<std::byte> back(size);
    HF_TRY(a->read_at(0, back));
    HF_TRY(a->charged());
    HF_TRY_ASSIGN(auto b, storage.create(root + "/d/b", "use.create_b"));
    HF_TRY(storage.copy_content(*a, *b, persist::shared_blocks::allowed, "use.copy"));
    HF_TRY(storage.rename(root + "/d/b", root + "/d/c", "use.rename"));
    HF_TRY(storage.exists(root + "/d/c"));
    HF_TRY(storage.make_link(root + "/d/l", root.empty() ? "/d" : root + "/d", "use.link"));
    HF_TRY(storage.link_target(root + "/d/l"));
    HF_TRY(storage.identity(root + "/d/l/c"));
    HF_TRY(storage.file_identity(root + "/d/l/c"));
    HF_TRY_ASSIGN(const auto held, storage.with({})->hold(root + "/d"));
    HF_TRY(held->permissions_of(root + "/d", root + "/d/c"));
    HF_TRY(held->location(root + "/d"));
    HF_TRY(held->list(root + "/d"));
    HF_TRY(storage.open(root + "/d/c", access_mode::read_only));
    HF_TRY(storage.remove(root + "/d/c", "use.remove"));
    return storage.sync_directory(root + "/d", "use.sync_directory");
}

TEST(fault_injecting_storage, EveryCallCanFailOnce) {
    simulated_storage counted(512);
    fault_injecting_storage counter(counted);
    counter.plan({});
    ASSERT_TRUE(use_everything(counter, "").ok());
    const std::uint64_t calls = counter.calls();
    EXPECT_EQ(counter.faults(), 0U);
    EXPECT_EQ(calls, 26U) << "one for each step of use_everything";
    for (std::uint64_t n = 1; n <= calls; ++n) {
        simulated_storage machine(512);
        fault_injecting_storage storage(machine);
        storage.plan({n, ENOSPC, fault_plan::repeat::once});
        const auto answer = use_everything(storage, "");
        ASSERT_FALSE(answer.ok()) << n;
        EXPECT_EQ(answer.error().code, base::failure_code::no_space);
        EXPECT_EQ(answer.error().hint, "injected at call " + std::to_string(n));
        EXPECT_EQ(storage.calls(), n);
    }
}

TEST(fault_injecting_storage, FromThenOnEverythingFails) {
    simulated_storage machine(512);
    fault_injecting_storage storage(machine);
    storage.plan({3, EIO, fault_plan::repeat::from_then_on});
    ASSERT_FALSE(use_everything(storage, "").ok());
    EXPECT_FALSE(storage.exists("/d").ok());
    EXPECT_FALSE(storage.exists("/d").ok());
    EXPECT_EQ(storage.faults(), 3U);
}

TEST(fault_injecting_storage, AFailedWriteLeavesHalfAndAFailedSyncStaysFailed) {
    simulated_storage machine(512);
    fault_injecting_storage storage(machine);
    storage.plan({2, EIO, fault_plan::repeat::once});
    const auto file = std::move(storage.create("/a", "use.create")).value();
    EXPECT_FALSE(file->write_at(0, std::vector<std::byte>(100), "use.write").ok());
    EXPECT_EQ(file->size().value(), 50U);
    storage.plan({1, EIO, fault_plan::repeat::once});
    const auto first = file->sync("use.sync");
    ASSERT_FALSE(first.ok());
    const auto second = file->sync("use.sync");
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().message(), first.error().message());
    EXPECT_GT(machine.pending_atoms(), 0U);
}

class scratch : public testing::Test {
protected:
    void SetUp() override { std::filesystem::create_directory(root_ + "/live"); }
    base::scratch_directory directory_{base::disk_directory()};
    std::string root_ = directory_.path();
};

using recording_storage_test = scratch;

TEST_F(recording_storage_test, TheMirrorEqualsTheRealDirectory) {
    recording_storage storage(root_ + "/live", 512);
    const auto done = use_everything(storage, root_ + "/live");
    ASSERT_TRUE(done.ok()) << done.error().message();
    const auto real = storage_image::load(root_ + "/live", root_ + "/live");
    ASSERT_TRUE(real.ok()) << real.error().message();
    EXPECT_EQ(*real->names == *storage.current().names, false) << "ids differ, names do not";
    EXPECT_EQ(real->hash(), storage.current().hash());
}

TEST_F(recording_storage_test, EveryImageCanBeWrittenOutAndReadBack) {
    recording_storage storage(root_ + "/live", 512);
    const std::string path = root_ + "/live/a";
    const auto file = std::move(storage.create(path, "use.create")).value();
    EXPECT_GE(file->native_handle(), 0);
    ASSERT_TRUE(storage.sync_directory(root_ + "/live", "use.sync_directory").ok());
    ASSERT_TRUE(file->resize(100000, "use.resize").ok());
    ASSERT_TRUE(file->sync("use.sync").ok());
    ASSERT_TRUE(file->write_at(70000, std::vector<std::byte>(1024, std::byte{3}), "use.write").ok());
    int images = 0;
    storage.for_each_crash_image({}, 1, [&](const storage_image& left) {
        const std::string target = root_ + "/image" + std::to_string(images++);
        std::filesystem::create_directory(target);
        const auto written = storage.materialise(left, target);
        EXPECT_TRUE(written.ok());
        const auto back = storage_image::load(target, root_ + "/live");
        EXPECT_TRUE(back.ok());
        EXPECT_EQ(back->hash(), left.hash());
        return true;
    });
    EXPECT_EQ(images, 8) << "a write that touches three sectors";
}

TEST_F(recording_storage_test, PathsElsewhereAreNotRecorded) {
    recording_storage storage(root_ + "/live", 512);
    ASSERT_TRUE(storage.create(root_ + "/beside", "use.create").ok());
    EXPECT_TRUE(std::filesystem::exists(root_ + "/beside"));
    EXPECT_EQ(storage.operations(), 0U);
}

}  // namespace
}  // namespace holdfast::simulator
