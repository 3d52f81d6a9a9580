#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "persist/sync.hpp"

namespace holdfast::persist {
namespace {

/// Only sync() does something.
class synced_file final : public file {
public:
    using action = base::result<void> (*)(synced_file&);

    synced_file(std::string path, action act, void* with) : path_(std::move(path)), act_(act), with_(with) {}

    [[nodiscard]] const std::string& path() const noexcept override { return path_; }
    base::result<std::uint64_t> size() override { return std::uint64_t{0}; }
    base::result<void> read_at(std::uint64_t /*offset*/, std::span<std::byte> /*buffer*/) override { return {}; }
    base::result<void> write_at(std::uint64_t /*offset*/, std::span<const std::byte> /*data*/,
                                site /*where*/) override {
        return {};
    }
    base::result<void> write_gather(std::uint64_t /*offset*/, std::span<const std::span<const std::byte>> /*parts*/,
                                    site /*where*/) override {
        return {};
    }
    base::result<void> sync(site /*where*/) override {
        ++syncs;
        return act_(*this);
    }
    void flush_mapped(std::uint64_t /*offset*/, std::span<const std::byte> /*mapped*/,
                      site /*where*/) noexcept override {}
    void fence_mapped(site /*where*/) noexcept override {}
    base::result<void> resize(std::uint64_t /*bytes*/, site /*where*/) override { return {}; }
    base::result<void> allocate(std::uint64_t /*offset*/, std::uint64_t /*length*/, site /*where*/) override {
        return {};
    }
    base::result<void> punch_hole(std::uint64_t /*offset*/, std::uint64_t /*length*/, site /*where*/) override {
        return {};
    }
    base::result<std::uint64_t> charged() override { return std::uint64_t{0}; }
    [[nodiscard]] int native_handle() const noexcept override { return handle; }

    [[nodiscard]] void* with() const noexcept { return with_; }
    std::atomic<int> syncs{0};
    int handle = 0;  ///< -1: of a simulation

private:
    std::string path_;
    action act_;
    void* with_;
};

void take_long() {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(2)) {
    }
}

base::result<void> succeed(synced_file& /*of*/) { return {}; }
base::result<void> succeed_late(synced_file& /*of*/) {
    take_long();
    return {};
}
base::result<void> fail(synced_file& of) { return base::os_failure(EIO, "fdatasync", of.path()); }
base::result<void> have_no_memory(synced_file& /*of*/) { throw std::bad_alloc(); }
/// Returns when all others are in it, too.
base::result<void> wait_for_others(synced_file& of) {
    static_cast<std::barrier<>*>(of.with())->arrive_and_wait();
    return {};
}

class sync_together_test : public testing::Test {
protected:
    synced_file& add(synced_file::action act, void* with = nullptr) {
        auto made = std::make_shared<synced_file>(std::to_string(files_.size()), act, with);
        synced_file& there = *made;
        files_.push_back(std::move(made));
        return there;
    }
    [[nodiscard]] base::result<void> sync() const { return sync_together(files_, "test.sync"); }
    [[nodiscard]] int syncs_of(std::size_t i) const { return static_cast<synced_file&>(*files_.at(i)).syncs; }

    std::vector<std::shared_ptr<file>> files_;
};

TEST_F(sync_together_test, needs_no_files) { EXPECT_TRUE(sync()); }

TEST_F(sync_together_test, each_file_is_synced_once) {
    for (int i = 0; i < 40; ++i) {
        add(i == 3 ? succeed_late : succeed);
    }
    ASSERT_TRUE(sync());
    for (std::size_t i = 0; i < files_.size(); ++i) {
        EXPECT_EQ(syncs_of(i), 1) << i;
    }
}

TEST_F(sync_together_test, behind_a_long_one_the_others_wait_together) {
    constexpr int others = 8;
    std::barrier<> all(others);
    add(succeed_late);
    for (int i = 0; i < others; ++i) {
        add(wait_for_others, &all);
    }
    EXPECT_TRUE(sync());  // one after the other they would wait for ever
}

/// A simulation explores crashes within a sync.
TEST_F(sync_together_test, files_of_a_simulation_are_synced_by_the_caller) {
    static thread_local bool is_caller = false;
    is_caller = true;
    for (int i = 0; i < 4; ++i) {
        add([](synced_file& of) {
            EXPECT_TRUE(is_caller);
            return succeed_late(of);
        }).handle = -1;
    }
    EXPECT_TRUE(sync());
}

TEST_F(sync_together_test, a_failure_is_told_with_its_file) {
    for (const auto first : {succeed, succeed_late}) {
        files_.clear();
        add(first);
        add(succeed);
        add(fail);
        add(succeed);
        const auto done = sync();
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().path, "2");
        EXPECT_TRUE(is_failed_sync(done.error()));
    }
}

TEST_F(sync_together_test, none_is_begun_behind_a_failure) {
    add(fail);
    add(succeed);
    EXPECT_FALSE(sync());
    EXPECT_EQ(syncs_of(1), 0);
}

TEST_F(sync_together_test, a_sync_without_memory_is_no_success) {
    for (const auto first : {succeed, succeed_late}) {
        files_.clear();
        add(first);
        add(have_no_memory);
        const auto done = sync();
        ASSERT_FALSE(done);
        EXPECT_TRUE(is_failed_sync(done.error())) << "the kernel tells it once";
    }
}

}  // namespace
}  // namespace holdfast::persist
