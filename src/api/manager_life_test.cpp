// The life of a heap: creation, opening, commit, close, copies, other addresses, other processes.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"
#include "base/units.hpp"

namespace holdfast {

/// A type with a raw pointer, allowed on purpose: for heaps that stay at their address.
struct chained {
    chained* next;
    int value;
};

namespace {

namespace fs = std::filesystem;
using segment::names_in;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using base::mebibyte;

/// Occupies addresses as long as it lives.
class occupied {
public:
    occupied(void* address, std::size_t bytes)
        : address_(::mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)),
          bytes_(bytes) {
        EXPECT_EQ(address_, address);
    }
    occupied(const occupied&) = delete;
    occupied& operator=(const occupied&) = delete;
    ~occupied() { ::munmap(address_, bytes_); }

private:
    void* address_;
    std::size_t bytes_;
};

// --- creation and opening ---

TEST_F(manager_test, is_created_where_nothing_is) {
    create().close();
    EXPECT_EQ(reason_of([&] { create(); }), errc::already_exists);
    EXPECT_EQ(reason_of([&] { open("nothing"); }), errc::not_found);
    EXPECT_EQ(reason_of([&] { const manager heap(open_read_only, path("nothing")); }), errc::not_found);
    std::ofstream(path("file")) << "not a heap";
    for (const auto reason : {reason_of([&] { create("file"); }), reason_of([&] { open("file"); }),
                              reason_of([&] { const manager heap(open_or_create, path("file")); })}) {
        EXPECT_TRUE(reason == errc::already_exists || reason == errc::not_a_heap);
    }
    fs::create_directory(path("empty"));
    EXPECT_EQ(reason_of([&] { open("empty"); }), errc::not_a_heap);
    create("empty").close();
    open("empty").close();
    EXPECT_EQ(reason_of([&] { create("no/such/directory"); }), errc::not_found);
}

TEST_F(manager_test, is_opened_or_created) {
    {
        manager heap(open_or_create, path(), small_options());
        static_cast<void>(heap.construct<int>("n")(1));
    }
    const manager heap(open_or_create, path());
    EXPECT_EQ(*heap.find<int>("n").first, 1);
    EXPECT_EQ(heap.statistics().reserved_address_space, std::uint64_t{1} << 30) << "as it was created";
}

TEST_F(manager_test, has_the_size_that_was_asked_for) {
    {
        const manager heap(create_only, path(), std::size_t{20} * mebibyte);
        EXPECT_GE(heap.get_size(), 20 * mebibyte);
        EXPECT_GE(heap.statistics().charged_bytes, 20 * mebibyte);
    }
    {
        manager heap(open_or_create, path(), std::size_t{1});
        EXPECT_EQ(heap.allocate(100 * mebibyte, std::nothrow), nullptr);
        EXPECT_NE(heap.allocate(19 * mebibyte, std::nothrow), nullptr) << "a heap that is there keeps its own";
    }
    {
        manager heap(open_or_create, path(), std::size_t{200} * mebibyte);
        EXPECT_EQ(heap.allocate(100 * mebibyte, std::nothrow), nullptr) << "larger ones, too, as in Boost";
    }
    const manager heap(open_only, path(), nullptr);
    EXPECT_GE(heap.get_size(), 20 * mebibyte);
}

/// Was: an open with `verify` and check(true) were content where there was nothing to compare.
TEST_F(manager_test, tells_how_many_pages_were_compared) {
    for (const auto durability : {holdfast::durability::commit, holdfast::durability::collect}) {
        open_options options = small_options();
        options.durability = durability;
        options.accept_process_crash_only = true;
        static_cast<void>(manager(create_only, path(), options).construct<int>("number")(1));
        options.verify = true;
        {
            const manager heap(open_only, path(), options);
            const manager::page_comparison opened = heap.last_comparison();
            EXPECT_EQ(opened.compared != 0, durability == holdfast::durability::commit);
            EXPECT_GT(opened.without_checksum, 0U);
            EXPECT_THAT(heap.check(true), IsEmpty());
            EXPECT_EQ(heap.last_comparison().compared, opened.compared);
        }
        EXPECT_TRUE(manager::remove(path()));
    }
}

TEST_F(manager_test, refuses_options_without_a_meaning) {
    const auto with = [&](auto change) {
        open_options options = small_options();
        change(options);
        return reason_of([&] { const manager heap(create_only, path(), options); });
    };
    EXPECT_EQ(with([](open_options& o) { o.segment_size = 3 * mebibyte; }), errc::invalid_argument);
    EXPECT_EQ(with([](open_options& o) { o.segment_size = mebibyte; }), errc::invalid_argument);
    EXPECT_EQ(with([](open_options& o) { o.reservation = 3 * mebibyte; }), errc::invalid_argument);
    EXPECT_EQ(with([](open_options& o) { o.reservation = std::uint64_t{1} << 47; }), errc::invalid_argument);
    EXPECT_EQ(with([](open_options& o) { o.base_address = reinterpret_cast<void*>(0x700000001000); }),
              errc::invalid_argument);
    EXPECT_EQ(with([](open_options& o) { o.durability = holdfast::durability::collect; }), errc::promise_unavailable);
    EXPECT_EQ(with([](open_options& o) {
                  o.durability = holdfast::durability::collect;
                  o.domain = open_options::domain_choice::disk;
              }),
              errc::promise_unavailable);
    EXPECT_EQ(with([](open_options& o) {
                  o.durability = holdfast::durability::atomic;
                  o.domain = open_options::domain_choice::page_cache;
              }),
              errc::promise_unavailable);
    EXPECT_EQ(with([](open_options& o) { o.durability = holdfast::durability{4}; }), errc::invalid_argument);
    EXPECT_THAT(names_in(directory_.path()), IsEmpty()) << "nothing is left behind";
}

TEST_F(manager_test, says_what_it_is) {
    const manager heap = create();
    EXPECT_EQ(heap.path(), path());
    EXPECT_EQ(heap.get_version(), "2");
    EXPECT_EQ(manager::get_version(path()), "2");
    EXPECT_EQ(heap.get_uuid().size(), 36U);
    EXPECT_EQ(manager::get_uuid(path()), heap.get_uuid());
    EXPECT_EQ(heap.domain(), "page-cache");
    EXPECT_EQ(heap.durability(), durability::commit);
    EXPECT_FALSE(heap.read_only());
    EXPECT_TRUE(heap.check_sanity());
    EXPECT_NE(create("other").get_uuid(), heap.get_uuid());
}

// --- commit and close ---

TEST_F(manager_test, keeps_what_was_committed_and_no_more) {
    {
        manager heap = create();
        int* const number = heap.construct<int>("n")(1);
        heap.commit();
        *number = 2;
        heap.flush();
        *number = 3;
        static_cast<void>(heap.construct<int>("later")(1));
        static_cast<void>(heap.allocate(50 * mebibyte));
        heap.close(false);
    }
    manager heap = open();
    EXPECT_FALSE(heap.statistics().recovered) << "closed, not crashed";
    EXPECT_EQ(*heap.find<int>("n").first, 2);
    EXPECT_EQ(heap.find<int>("later").first, nullptr);
    EXPECT_LT(heap.get_size(), 50 * mebibyte);
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_F(manager_test, closes_with_or_without_a_commit_as_the_options_said) {
    open_options options = small_options();
    options.commit_on_close = false;
    {
        manager heap(create_only, path(), options);
        static_cast<void>(heap.construct<int>("n")(1));
        heap.commit();
        *heap.find<int>("n").first = 2;
    }
    {
        manager heap(open_only, path(), options);
        EXPECT_EQ(*heap.find<int>("n").first, 1);
        *heap.find<int>("n").first = 3;
        heap.close();
    }
    {
        manager heap(open_only, path(), options);
        EXPECT_EQ(*heap.find<int>("n").first, 1);
        *heap.find<int>("n").first = 4;
        heap.close(true);
    }
    manager heap = open();
    EXPECT_EQ(*heap.find<int>("n").first, 4);
}

TEST_F(manager_test, closed_refuses_everything_but_closing) {
    manager heap = create();
    EXPECT_TRUE(heap.is_open());
    heap.close();
    EXPECT_FALSE(heap.is_open());
    heap.close();
    heap.close(true);
    EXPECT_EQ(reason_of([&] { heap.commit(); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.find<int>("n")); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<int>("n")(1)); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate(1)); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.statistics()); }), errc::invalid_argument);
    EXPECT_EQ(heap.allocate(1, std::nothrow), nullptr);
    EXPECT_EQ(heap.get_address(), nullptr);
    EXPECT_FALSE(heap.belongs_to_segment(&heap));
    open().close();
}

TEST_F(manager_test, moves) {
    manager first = create();
    int* const number = first.construct<int>("n")(1);
    manager second(std::move(first));
    EXPECT_EQ(second.find<int>("n").first, number) << "the mapping stays";
    manager other = create("other");
    static_cast<void>(other.construct<int>("o")(7));
    other = std::move(second);
    EXPECT_EQ(other.find<int>("n").first, number);
    *number = 2;
    vector<int> list(other.get_allocator<int>());
    list.push_back(1);
    EXPECT_TRUE(other.belongs_to_segment(list.data()));
    EXPECT_EQ(*open("other").find<int>("o").first, 7) << "what was assigned to was committed and closed";
}

TEST_F(manager_test, moved_from_is_as_closed) {
    manager first = create();
    const manager second(std::move(first));
    // NOLINTBEGIN(bugprone-use-after-move): what is left is what we ask about
    EXPECT_FALSE(first.is_open());
    EXPECT_EQ(reason_of([&] { first.commit(); }), errc::invalid_argument);
    EXPECT_EQ(first.allocate(1, std::nothrow), nullptr);
    EXPECT_EQ(first.get_segment_manager(), nullptr);
    EXPECT_EQ(first.path(), "");
    first.close();
    // NOLINTEND(bugprone-use-after-move)
}

TEST_F(manager_test, reports_what_a_commit_did) {
    manager heap = create();
    auto* const block = static_cast<char*>(heap.allocate(10 * mebibyte));
    heap.commit();
    for (std::size_t page = 0; page < 100; ++page) {
        block[page * 5 * 4096] = 1;
    }
    heap.commit();
    const commit_report report = heap.last_commit();
    EXPECT_GE(report.dirty_pages, 100U);
    EXPECT_LE(report.dirty_pages, 104U);
    EXPECT_GE(report.logged_pages, 100U);
    EXPECT_EQ(report.fresh_pages, 0U);
    EXPECT_GE(report.written_bytes, std::uint64_t{200 * 4096});
    EXPECT_GE(report.total_ns, report.scan_ns);
    heap.commit();
    EXPECT_EQ(heap.last_commit().dirty_pages, 0U);
}

TEST_F(manager_test, recovers_from_the_death_of_its_process) {
    create().close();
    EXPECT_FALSE(open().statistics().recovered);
    EXPECT_TRUE(base::succeeds_in_child([&] {
        manager heap = open();
        static_cast<void>(heap.construct<int>("n")(1));
        heap.commit();
        *heap.find<int>("n").first = 2;
        ::_exit(0);  // no destructor runs
    }));
    {
        EXPECT_TRUE(manager::consistent(path()));
        manager heap = open();
        EXPECT_TRUE(heap.statistics().recovered);
        EXPECT_EQ(*heap.find<int>("n").first, 1);
        heap.commit();
        EXPECT_EQ(heap.statistics().recoveries, 1U);
    }
    EXPECT_FALSE(open().statistics().recovered);
}

// --- addresses ---

TEST_F(manager_test, is_mapped_where_it_is_told_to) {
    void* base = nullptr;
    {
        const manager heap = create();
        base = heap.get_address();
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(base) % (2 * mebibyte), 0U);
    }
    {
        const manager heap(open_only, path(), base);
        EXPECT_EQ(heap.get_address(), base);
    }
    const occupied taken(static_cast<char*>(base) + 64 * mebibyte, 4096);
    try {
        const manager heap(open_only, path(), base);
        FAIL();
    } catch (const error& thrown) {
        EXPECT_EQ(thrown.reason(), errc::address_taken);
        EXPECT_EQ(thrown.path(), path());
        EXPECT_FALSE(thrown.found().empty());
    }
    open().close();
}

TEST_F(manager_test, works_at_another_address) {
    using words = map<string, int>;
    void* base = nullptr;
    {
        manager heap = create();
        base = heap.get_address();
        auto* const table = heap.construct<words>("words")(heap.get_allocator<char>());
        for (int i = 0; i < 1000; ++i) {
            table->emplace(
                string(fmt::format("a word of some length, number {}", i).c_str(), heap.get_allocator<char>()), i);
        }
        heap.root(3) = table;
    }
    const occupied taken(base, 4096);
    manager heap = open();
    EXPECT_NE(heap.get_address(), base);
    auto* const table = heap.find<words>("words").first;
    EXPECT_EQ(heap.root(3).get(), table);
    ASSERT_EQ(table->size(), 1000U);
    for (auto& [word, value] : *table) {
        EXPECT_EQ(word.c_str(), fmt::format("a word of some length, number {}", value));
    }
    table->clear();
    EXPECT_TRUE(heap.destroy<words>("words"));
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

}  // namespace
template <>
struct persistable<chained> : std::true_type {};
namespace {

TEST_F(manager_test, stays_at_its_address_where_it_was_created_so) {
    open_options options = small_options();
    options.same_address = true;
    void* base = nullptr;
    {
        manager heap(create_only, path(), options);
        base = heap.get_address();
        auto* const first = heap.construct<chained>("first")(chained{nullptr, 1});
        first->next = heap.construct<chained>(anonymous_instance)(chained{first, 2});
    }
    {
        const occupied below(static_cast<char*>(base) - 2 * mebibyte - (std::size_t{1} << 33), 4096);
        const manager heap = open();
        EXPECT_EQ(heap.get_address(), base);
        EXPECT_EQ(heap.find<chained>("first").first->next->value, 2);
        EXPECT_EQ(heap.find<chained>("first").first->next->next->value, 1);
    }
    const occupied taken(base, 4096);
    EXPECT_EQ(reason_of([&] { open(); }), errc::address_taken);
    EXPECT_EQ(reason_of([&] { const manager heap(open_read_only, path()); }), errc::address_taken);
}

// --- readers ---

TEST_F(manager_test, opened_read_only_changes_nothing) {
    {
        manager heap = create();
        static_cast<void>(heap.construct<int>("n")(1));
    }
    const auto superblock = segment::content_of(path() + "/superblock");
    const auto content = segment::content_of(path() + "/segment.000000");
    {
        manager heap(open_read_only, path());
        EXPECT_TRUE(heap.read_only());
        int* const number = heap.find<int>("n").first;
        *number = 2;
        EXPECT_EQ(*number, 2) << "a store goes to a private page";
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate(1)); }), errc::read_only);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate_aligned(1, 4096)); }), errc::read_only);
        EXPECT_EQ(heap.allocate(1, std::nothrow), nullptr);
        EXPECT_EQ(reason_of([&] { heap.deallocate(number); }), errc::read_only);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.construct<int>("m")(1)); }), errc::read_only);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.destroy<int>("n")); }), errc::read_only);
        EXPECT_EQ(reason_of([&] { heap.commit(); }), errc::read_only);
        EXPECT_NE(reason_of([&] { static_cast<void>(heap.get_allocator<int>().allocate(1)); }), errc::none);
        EXPECT_EQ(*heap.find_or_construct<int>("n")(5), 2);
        EXPECT_THAT(heap.check(true), IsEmpty());
        const manager second(open_read_only, path());
        EXPECT_EQ(*second.find<int>("n").first, 1);
    }
    EXPECT_EQ(segment::content_of(path() + "/superblock"), superblock);
    EXPECT_EQ(segment::content_of(path() + "/segment.000000"), content);
    EXPECT_EQ(*open().find<int>("n").first, 1);
}

TEST_F(manager_test, has_one_writer) {
    {
        const manager heap = create();
        EXPECT_EQ(reason_of([&] { open(); }), errc::locked);
        EXPECT_EQ(reason_of([&] { manager::remove(path()); }), errc::locked);
        EXPECT_TRUE(manager::consistent(path())) << "a reader comes beside the writer";
    }
    const manager alone(open_only, path(), {.durability = durability::atomic, .accept_process_crash_only = true});
    for (const auto reason :
         {reason_of([&] { open(); }), reason_of([&] { const manager reader(open_read_only, path()); }),
          reason_of([&] { manager::remove(path()); }), reason_of([&] { manager::copy(path(), path("copy")); })}) {
        EXPECT_EQ(reason, errc::locked);
    }
    EXPECT_FALSE(manager::consistent(path()));
    EXPECT_THAT(names_in(directory_.path()), ElementsAre("heap"));
}

// --- copies ---

TEST_F(manager_test, is_copied_while_it_is_open) {
    {
        manager heap = create();
        auto* const list = heap.construct<vector<int>>("list")(heap.get_allocator<int>());
        list->assign(100000, 5);
        heap.snapshot(path("snapshot"));
        list->assign(10, 6);
        EXPECT_EQ(reason_of([&] { heap.snapshot(path("snapshot")); }), errc::already_exists);
        EXPECT_NE(manager::get_uuid(path("snapshot")), heap.get_uuid());
        const manager copy(open_read_only, path("snapshot"));
        EXPECT_EQ(copy.find<vector<int>>("list").first->size(), 100000U);
        EXPECT_FALSE(copy.statistics().recovered);
        EXPECT_EQ(reason_of([&] { open("snapshot"); }), errc::locked) << "allocators could not tell the two apart";
    }
    {
        manager copy = open("snapshot");
        copy.find<vector<int>>("list").first->push_back(7);
        EXPECT_THAT(copy.check(true), IsEmpty());
    }
    EXPECT_EQ(open().find<vector<int>>("list").first->size(), 10U) << "the heap itself was not touched";
}

TEST_F(manager_test, is_copied_and_removed_while_it_is_closed) {
    {
        manager heap = create();
        static_cast<void>(heap.construct<int>("n")(1));
        heap.set_description("the first");
    }
    manager::copy(path(), path("a"));
    manager::copy_async(path(), path("b")).get();
    EXPECT_EQ(reason_of([&] { manager::copy(path(), path("a")); }), errc::already_exists);
    EXPECT_EQ(reason_of([&] { manager::copy_async(path(), path("a")).get(); }), errc::already_exists);
    EXPECT_NE(reason_of([&] { manager::copy(path("nothing"), path("c")); }), errc::none);
    EXPECT_FALSE(fs::exists(path("c")));
    EXPECT_NE(manager::get_uuid(path("a")), manager::get_uuid(path()));
    EXPECT_NE(manager::get_uuid(path("a")), manager::get_uuid(path("b")));
    EXPECT_EQ(manager::get_description(path("b")), "the first");
    EXPECT_TRUE(manager::remove(path()));
    EXPECT_FALSE(manager::remove(path()));
    EXPECT_TRUE(manager::remove_async(path("b")).get());
    EXPECT_EQ(*open("a").find<int>("n").first, 1);
    EXPECT_THAT(names_in(directory_.path()), ElementsAre("a"));
}

TEST_F(manager_test, is_removed_without_anything_else) {
    create().close();
    std::ofstream(path() + "/notes.txt") << "mine";
    EXPECT_EQ(reason_of([&] { manager::remove(path()); }), errc::invalid_argument);
    EXPECT_TRUE(manager::consistent(path()));
    fs::remove(path() + "/notes.txt");
    EXPECT_TRUE(manager::remove(path()));
    EXPECT_FALSE(manager::consistent(path()));
    fs::create_directory(path("empty"));
    EXPECT_EQ(reason_of([&] { manager::remove(path("empty")); }), errc::not_a_heap);
    EXPECT_TRUE(fs::exists(path("empty")));
}

TEST_F(manager_test, lives_beside_others) {
    std::vector<manager> heaps;
    for (int i = 0; i < 8; ++i) {
        heaps.push_back(create(fmt::format("heap {}", i)));
        static_cast<void>(heaps.back().construct<vector<int>>("list")(heaps.back().get_allocator<int>()));
    }
    for (int i = 0; i < 8000; ++i) {
        heaps[static_cast<std::size_t>(i % 8)].find<vector<int>>("list").first->push_back(i);
    }
    auto& first = *heaps[0].find<vector<int>>("list").first;
    auto& second = *heaps[1].find<vector<int>>("list").first;
    first = second;
    second = std::move(first);
    // NOLINTNEXTLINE(bugprone-use-after-move): what is left of it is asserted
    EXPECT_TRUE(heaps[0].belongs_to_segment(first.data()) || first.empty());
    EXPECT_TRUE(heaps[1].belongs_to_segment(second.data()));
    heaps.erase(heaps.begin() + 3);
    for (const manager& heap : heaps) {
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    EXPECT_EQ(open("heap 3").find<vector<int>>("list").first->back(), 7995);
}

// --- fork ---

TEST_F(manager_test, stays_its_processes_own_after_fork) {
    manager heap = create();
    int* const number = heap.construct<int>("n")(1);
    heap.commit();
    EXPECT_TRUE(base::succeeds_in_child([&] {
        *number = 2;
        bool right = *heap.find<int>("n").first == 2;
        right &= reason_of([&] { heap.commit(); }) == errc::wrong_process;
        right &= reason_of([&] { heap.snapshot(path("snapshot")); }) == errc::wrong_process;
        right &= reason_of([&] { static_cast<void>(heap.allocate(100 * mebibyte)); }) == errc::wrong_process;
        right &= reason_of([&] { heap.close(); }) == errc::wrong_process;
        manager moved(std::move(heap));  // and its destructor
        return right;
    }));
    EXPECT_FALSE(fs::exists(path("snapshot")));
    EXPECT_EQ(*number, 1);
    EXPECT_EQ(heap.find<int>("n").first, number);
    *number = 3;
    heap.close();
    EXPECT_EQ(*open().find<int>("n").first, 3);
}

TEST_F(manager_test, keeps_the_growth_that_a_child_asks_for_off_its_files) {
    manager heap = create();
    EXPECT_TRUE(base::succeeds_in_child([&] {
        // The parent's next segments bear the names that this growth would take.
        static_cast<void>(heap.allocate(10 * mebibyte, std::nothrow));
        ::_exit(0);
    }));
    EXPECT_FALSE(fs::exists(path() + "/segment.000001"));
    auto* const block = static_cast<char*>(heap.allocate(10 * mebibyte));
    std::memset(block, 5, 10 * mebibyte);
    heap.commit();
    EXPECT_TRUE(base::succeeds_in_child([&] { return heap.allocate(50 * mebibyte, std::nothrow) == nullptr; }));
    EXPECT_THAT(heap.check(true), IsEmpty());
}

// --- writers during a commit ---

#if HOLDFAST_CHECKED
/// Not seen by ThreadSanitizer: the race is what the test is about.
__attribute__((no_sanitize("thread"))) void write_until_told(volatile unsigned* target, const std::atomic<bool>* stop) {
    while (!stop->load(std::memory_order_relaxed)) {
        *target = *target + 1;
    }
}

TEST_F(manager_test, detects_a_write_during_a_commit) {
    manager heap = create();
    constexpr std::size_t bytes = 16 * mebibyte;
    auto* const block = static_cast<char*>(heap.allocate(bytes));
    heap.commit();
    std::atomic<bool> stop = false;
    std::thread writer(write_until_told, reinterpret_cast<volatile unsigned*>(block), &stop);
    errc reason = errc::none;
    std::uint64_t refused_at = 0;
    for (int attempt = 0; attempt < 1000 && reason == errc::none; ++attempt) {
        std::memset(block + 4096, attempt, bytes - 4096);
        refused_at = heap.statistics().commit_sequence;
        reason = reason_of([&] { heap.commit(); });
    }
    stop = true;
    writer.join();
    EXPECT_EQ(reason, errc::concurrent_modification);
    EXPECT_EQ(heap.statistics().commit_sequence, refused_at) << "the last commit stands";
    heap.commit();
    EXPECT_THAT(heap.check(true), IsEmpty());
}
#endif

}  // namespace
}  // namespace holdfast
