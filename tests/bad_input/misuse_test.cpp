// Calls that make no sense, and heaps and addresses that somebody else has.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "base/process_test_support.hpp"
#include "refusal.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class misuse : public ::testing::Test {
protected:
    /// An open heap at step 2.
    manager& heap() {
        if (!opened_) {
            make_heap(path_, 2);
            opened_.emplace(open_only, path_, small_segments());
        }
        return *opened_;
    }

    /// After all that was refused, the heap is what it was, and works.
    void expect_unharmed() {
        EXPECT_THAT(heap().check(true), IsEmpty());
        EXPECT_EQ(step_of(heap()), 2U);
        advance(heap(), 3);
        heap().close(true);
        EXPECT_EQ(step_when_opened(path_), 3U);
    }

    scratch_directory scratch_;
    std::string path_ = scratch_ / "heap";
    std::optional<manager> opened_;
};

TEST_F(misuse, a_name_constructed_twice_is_refused) {
    manager& opened = heap();
    int* const first = opened.construct<int>("number")(1);
    expect_refusal(path_, {errc::name_exists, path_, "object \"number\"", "constructed before", "a new name"},
                   [&] { static_cast<void>(opened.construct<int>("number")(2)); });
    expect_refusal(path_, {errc::name_exists, path_, "object \"number\"", "constructed before", "a new name"},
                   [&] { static_cast<void>(opened.construct<double>("number")(2)); });
    EXPECT_EQ(opened.construct<int>("number", std::nothrow)(2), nullptr);
    EXPECT_EQ(*first, 1);
    static_cast<void>(opened.construct<long>(unique_instance)(7));
    expect_refusal(path_, {errc::name_exists, path_, "object", "constructed before", "a new name"},
                   [&] { static_cast<void>(opened.construct<long>(unique_instance)(8)); });
    opened.destroy<int>("number");
    opened.destroy<long>(unique_instance);
    expect_unharmed();
}

TEST_F(misuse, find_with_another_type_names_both_types) {
    manager& opened = heap();
    static_cast<void>(opened.construct<int>("number")(1));
    const refusal wanted{errc::type_mismatch, path_, "object \"number\"", "type int (i) of 4 bytes",
                         "type double (d) of 8 bytes"};
    expect_refusal(path_, wanted, [&] { static_cast<void>(opened.find<double>("number")); });
    expect_refusal(path_, wanted, [&] { static_cast<void>(opened.find_or_construct<double>("number")(1.5)); });
    expect_refusal(path_, wanted, [&] { opened.destroy<double>("number"); });
    EXPECT_EQ(*opened.find<int>("number").first, 1);
    opened.destroy<int>("number");
    expect_unharmed();
}

TEST_F(misuse, zero_and_absurd_sizes_are_refused) {
    manager& opened = heap();
    const refusal zero{errc::invalid_argument, path_, "size of an allocation", "0", "at least 1"};
    expect_refusal(path_, zero, [&] { static_cast<void>(opened.allocate(0)); });
    expect_refusal(path_, zero, [&] { static_cast<void>(opened.allocate_aligned(0, 64)); });
    EXPECT_EQ(opened.allocate(0, std::nothrow), nullptr);
    constexpr std::size_t largest = std::numeric_limits<std::size_t>::max();
    for (const std::size_t bytes : {std::size_t{1} << 63U, largest, largest - 4095, largest - (2UL << 20U),
                                    std::size_t{1} << 46U, std::size_t{1} << 30U}) {
        SCOPED_TRACE(bytes);
        const auto before = files_under(path_);
        try {
            static_cast<void>(opened.allocate(bytes));
            ADD_FAILURE() << "allocated";
        } catch (const bad_alloc& what) {
            EXPECT_THAT(what.what(), HasSubstr(path_));
            EXPECT_THAT(what.what(), HasSubstr("found"));
            EXPECT_THAT(what.what(), HasSubstr("expected"));
        }
        EXPECT_EQ(opened.allocate(bytes, std::nothrow), nullptr);
        EXPECT_THROW(static_cast<void>(opened.allocate_aligned(bytes, 2UL << 20U)), bad_alloc);
        EXPECT_EQ(files_under(path_), before);
    }
    expect_unharmed();
}

TEST_F(misuse, alignments_that_are_none_are_refused) {
    for (const std::size_t alignment : {0UL, 3UL, 48UL, 4UL << 20U, std::size_t{1} << 63U}) {
        expect_refusal(
            path_, {errc::invalid_argument, heap().path(), "alignment", std::to_string(alignment), "a power of two"},
            [&] { static_cast<void>(opened_->allocate_aligned(64, alignment)); });
    }
    void* const block = heap().allocate_aligned(1, 2UL << 20U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (2UL << 20U), 0U);
    heap().deallocate(block);
    expect_unharmed();
}

TEST_F(misuse, objects_without_name_or_elements_are_refused) {
    manager& opened = heap();
    expect_refusal(path_, {errc::invalid_argument, path_, "name of an object", "\"\"", "a name"},
                   [&] { static_cast<void>(opened.construct<int>("")(1)); });
    expect_refusal(path_, {errc::invalid_argument, path_, "count of an object", "0", "at least 1"},
                   [&] { static_cast<void>(opened.construct<int>("none")[0](1)); });
    expect_refusal(path_, {errc::invalid_argument, path_, "size of an object", "elements of 8 bytes", "2^64"},
                   [&] { static_cast<void>(opened.construct<double>("many")[std::size_t{1} << 62U](1)); });
    EXPECT_THROW(static_cast<void>(opened.construct<double>("many")[std::size_t{1} << 58U](1)), bad_alloc);
    expect_refusal(path_, {errc::invalid_argument, path_ + "/objects", "name", "bytes", "at most"},
                   [&] { static_cast<void>(opened.construct<int>(std::string(std::size_t{4} << 20U, 'n'))(1)); });
    expect_refusal(path_, {errc::invalid_argument, path_, "root", "512", "less than 512"},
                   [&] { static_cast<void>(opened.root(512)); });
    EXPECT_EQ(opened.find<int>("none").first, nullptr);
    EXPECT_EQ(opened.find<double>("many").first, nullptr);
    expect_unharmed();
}

TEST_F(misuse, addresses_that_are_no_block_are_refused_and_nothing_is_freed) {
    manager& opened = heap();
    auto* const block = static_cast<std::byte*>(opened.allocate(1000));
    auto* const large = static_cast<std::byte*>(opened.allocate(100'000));
    int outside = 0;
    for (void* const wrong : {static_cast<void*>(block + 8), static_cast<void*>(large + 4096),
                              static_cast<void*>(&outside), opened.get_address(),
                              static_cast<void*>(static_cast<std::byte*>(opened.get_address()) + opened.get_size())}) {
        expect_refusal(path_, {errc::bad_address, path_, fmt::format("address {}", wrong), "", "start of an allocated"},
                       [&] { opened.deallocate(wrong); });
        EXPECT_THROW(static_cast<void>(opened.usable_size(wrong)), error);
    }
    opened.deallocate(block);
    expect_refusal(path_, {errc::bad_address, path_, "", "free", ""}, [&] { opened.deallocate(block); });
    opened.deallocate(large);
    expect_refusal(path_, {errc::bad_address, path_, "address", "", "an object"},
                   [&] { opened.destroy_ptr(static_cast<int*>(opened.get_address())); });
    expect_refusal(path_, {errc::bad_address, path_, "handle", "0x", "less than"},
                   [&] { static_cast<void>(opened.get_address_from_handle(opened.get_size())); });
    expect_unharmed();
}

TEST_F(misuse, options_that_make_no_sense_are_refused_and_make_nothing) {
    const std::string path = scratch_ / "new";
    const auto refused = [&](const open_options& options, const refusal& wanted) {
        expect_refusal(scratch_.path(), wanted, [&] { const manager made(create_only, path, options); });
        EXPECT_FALSE(fs::exists(path));
    };
    open_options options;
    options.segment_size = 3'000'000;
    refused(options, {errc::invalid_argument, path, "segment size", "3000000", "a power of two"});
    options.segment_size = 1UL << 20U;
    refused(options, {errc::invalid_argument, path, "segment size", "1048576", "from 2 MiB"});
    options = {};
    options.reservation = 1UL << 47U;
    refused(options, {errc::invalid_argument, path, "reservation", std::to_string(1UL << 47U), "a power of two"});
    options.reservation = 3UL << 30U;
    refused(options, {errc::invalid_argument, path, "reservation", std::to_string(3UL << 30U), "a power of two"});
    options = {};
    options.maximum_size = 4096;
    refused(options, {errc::no_space, path, "maximum size", "bytes", "at most 4096"});
    options = {};
    options.base_address = reinterpret_cast<void*>(std::uintptr_t{4096});
    refused(options, {errc::invalid_argument, path, "base address", "0x1000", "2 MiB"});
    options = {};
    options.durability = durability::collect;
    refused(options, {errc::promise_unavailable, path, "durability", "collect", "commit"});
    options.durability = durability::atomic;
    options.domain = open_options::domain_choice::page_cache;
    refused(options, {errc::promise_unavailable, path, "durability", "atomic", "commit"});
}

TEST_F(misuse, a_reader_may_not_change_the_heap) {
    make_heap(path_, 2);
    manager reader(open_read_only, path_, small_segments());
    expect_refusal(path_, {errc::read_only, path_, "", "read-only", "a writer"},
                   [&] { static_cast<void>(reader.construct<int>("number")(1)); });
    expect_refusal(path_, {errc::read_only, path_, "commit", "read-only", "a writer"}, [&] { reader.commit(); });
    expect_refusal(path_, {errc::read_only, path_, "destroy", "read-only", "a writer"},
                   [&] { reader.destroy_ptr(static_cast<const std::uint64_t*>(reader.anonymous_begin()->value())); });
    EXPECT_EQ(step_of(reader), 2U);
}

/// A child that has the heap open for writing until it is let go.
class other_writer {
public:
    explicit other_writer(const std::string& path)
        : process_([this, &path] {
              const manager held(open_only, path, small_segments());
              *ready_ = 1;
              for (;;) {
                  ::pause();
              }
          }) {
        EXPECT_TRUE(process_.runs_until([this] { return *ready_ != 0; }) && *ready_ != 0)
            << "the other process did not open the heap";
    }
    [[nodiscard]] pid_t pid() const noexcept { return process_.id(); }

private:
    base::shared_memory<std::atomic<int>> ready_;
    base::child_process process_;
};

TEST_F(misuse, a_heap_that_a_writer_has_open_is_refused_with_its_process_id) {
    make_heap(path_, 2);
    {
        const other_writer other(path_);
        const std::string who = fmt::format("writer, process {}", other.pid());
        const std::string lock = path_ + "/lock";
        expect_refusal(path_, {errc::locked, lock, "lock", who, "nobody"},
                       [&] { const manager opened(open_only, path_, small_segments()); });
        expect_refusal(path_, {errc::locked, lock, "lock", who, "nobody"},
                       [&] { const manager opened(open_or_create, path_, small_segments()); });
        expect_refusal(path_, {errc::locked, lock, "lock", who, "nobody"},
                       [&] { static_cast<void>(manager::remove(path_)); });
    }
    // A dead owner's lock is no lock.
    EXPECT_EQ(step_when_opened(path_), 2U);
    expect_heap_goes_on(path_);
}

TEST_F(misuse, readers_share_a_heap_and_keep_out_who_changes_it_in_place) {
    make_heap(path_, 2);
    const manager first(open_read_only, path_, small_segments());
    const manager second(open_read_only, path_, small_segments());
    const std::string who = fmt::format("reader, process {0}, reader, process {0}", ::getpid());
    open_options in_place = small_segments();
    in_place.durability = durability::atomic;
    in_place.accept_process_crash_only = true;
    expect_refusal(path_, {errc::locked, path_ + "/readers", "readers", who, "nobody"},
                   [&] { const manager opened(open_only, path_, in_place); });
    EXPECT_EQ(step_of(first), step_of(second));
}

TEST_F(misuse, readers_without_a_place_in_the_file_of_readers_keep_writers_out) {
    make_heap(path_, 2);
    fs::remove(path_ + "/readers");
    const manager first(open_read_only, path_, small_segments());
    const manager second(open_read_only, path_, small_segments());
    expect_refusal(path_,
                   {errc::locked, path_ + "/lock", "lock", fmt::format("reader, process {}", ::getpid()), "nobody"},
                   [&] { const manager opened(open_only, path_, small_segments()); });
    EXPECT_EQ(step_of(first), step_of(second));
}

TEST_F(misuse, a_copied_directory_opens_but_not_beside_its_original_in_one_process) {
    make_heap(path_, 2);
    fs::copy(path_, scratch_ / "copy", fs::copy_options::recursive);
    EXPECT_EQ(step_when_opened(scratch_ / "copy"), 2U);
    expect_heap_goes_on(scratch_ / "copy");
    EXPECT_EQ(step_when_opened(path_), 2U);
    {
        const manager original(open_only, path_, small_segments());
        EXPECT_EQ(step_when_opened(scratch_ / "copy"), 3U);
        // Allocators inside the heaps, which name them by a key that both share, could not tell them apart.
        expect_refusal(scratch_ / "copy", {errc::locked, scratch_ / "copy", "heap key", path_, "no other copy"},
                       [&] { const manager copy(open_only, scratch_ / "copy", small_segments()); });
    }
    expect_heap_goes_on(scratch_ / "copy");
}

/// Memory that lies where a heap should.
class occupied {
public:
    occupied(void* where, std::size_t bytes, const std::string& file) : bytes_(bytes) {
        const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
        memory_ = ::mmap(where, bytes, PROT_READ, MAP_SHARED | (where != nullptr ? MAP_FIXED_NOREPLACE : 0), fd, 0);
        EXPECT_NE(memory_, MAP_FAILED);
        ::close(fd);
    }
    occupied(const occupied&) = delete;
    occupied& operator=(const occupied&) = delete;
    ~occupied() { ::munmap(memory_, bytes_); }
    [[nodiscard]] void* at() const noexcept { return memory_; }

private:
    void* memory_ = nullptr;
    std::size_t bytes_;
};

TEST_F(misuse, an_address_range_that_is_taken_is_refused_with_its_occupant) {
    make_heap(path_, 2);
    const std::string file = scratch_ / "occupant";
    constexpr std::size_t alignment = 2UL << 20U;
    // With room around it, so that nobody else is in the way.
    constexpr std::size_t room = std::size_t{1} << 32U;
    void* const hole = ::mmap(nullptr, 2 * room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    ::munmap(hole, 2 * room);
    const occupied there(
        reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(hole) + room) / alignment * alignment), 2 * alignment,
        file);
    open_options options = small_segments();
    options.base_address = there.at();
    const refusal wanted{errc::address_taken, path_, "address range", file, "free"};
    expect_refusal(path_, wanted, [&] { const manager opened(open_only, path_, options); });
    expect_refusal(path_, wanted, [&] { const manager opened(open_read_only, path_, options); });
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends the process where mmap is asked for what follows; the other presets do this";
#endif
#endif
    // Addresses below which a heap's metadata do not fit, and beyond what a process has.
    for (const std::uintptr_t wrong : {alignment, ~std::uintptr_t{0} / alignment * alignment}) {
        options.base_address = reinterpret_cast<void*>(wrong);
        expect_refusal(path_, {errc::address_taken, path_, "address range", "", "free"},
                       [&] { const manager opened(open_only, path_, options); });
    }
    expect_heap_goes_on(path_);
}

TEST_F(misuse, a_heap_of_one_address_opens_there_or_says_who_is_in_the_way) {
    void* base = nullptr;
    const std::string path = scratch_ / "fixed";
    open_options options = small_segments();
    options.same_address = true;
    {
        manager made(create_only, path, options);
        advance(made, 1);
        base = made.get_address();
        made.close(true);
    }
    {
        const manager again(open_only, path, small_segments());
        EXPECT_EQ(again.get_address(), base);
        EXPECT_EQ(step_of(again), 1U);
    }
    {
        const std::string file = scratch_ / "occupant";
        const occupied there(base, 4096, file);
        expect_refusal(path, {errc::address_taken, path, "address range", file, "free"},
                       [&] { const manager opened(open_only, path, small_segments()); });
    }
    const manager again(open_only, path, small_segments());
    EXPECT_EQ(again.get_address(), base);
}

TEST_F(misuse, a_child_of_fork_may_not_commit_its_parents_heap) {
    manager& opened = heap();
    advance(opened, 3);
    in_child([&] {
        expect_refusal(path_,
                       {errc::wrong_process, path_, "process", std::to_string(::getpid()), "which opened the heap"},
                       [&] { opened.commit(); });
        expect_refusal(path_,
                       {errc::wrong_process, path_, "process", std::to_string(::getpid()), "which opened the heap"},
                       [&] { opened.close(true); });
    });
    opened.close(true);
    EXPECT_EQ(step_when_opened(path_), 3U);
}

TEST_F(misuse, a_closed_heap_answers_with_an_error) {
    heap().close(true);
    EXPECT_FALSE(opened_->is_open());
    EXPECT_THROW(static_cast<void>(opened_->allocate(8)), error);
    EXPECT_THROW(opened_->commit(), error);
    EXPECT_THROW(static_cast<void>(opened_->find<int>("x")), error);
    EXPECT_THROW(static_cast<void>(opened_->statistics()), error);
    EXPECT_EQ(opened_->get_address(), nullptr);
    opened_->close();
}

}  // namespace
}  // namespace holdfast::support
