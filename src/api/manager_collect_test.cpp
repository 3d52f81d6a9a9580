// collect() through the public API, in every durability; types, visitors, and frees that are kept back.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/offline_heap.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"

namespace collect_test {
struct item {
    holdfast::ptr<item> next;
    std::uint64_t looks_like_a_pointer;
    holdfast::ptr<item> other;
};
struct other_item {
    std::uint64_t which;
    holdfast::ptr<item> targets[3];
};
}  // namespace collect_test

template <>
struct holdfast::pointers_in<collect_test::item> {
    static constexpr std::array fields{pointer_field{offsetof(collect_test::item, next)},
                                       pointer_field{offsetof(collect_test::item, other)}};
};

namespace holdfast {
namespace {

using collect_test::item;
using collect_test::other_item;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::set<const void*> blocks_of(const manager& heap) {
    std::set<const void*> found;
    heap.for_each_block([&found](const block_info& each) { found.insert(each.address); });
    return found;
}

class manager_collect_test : public manager_test, public testing::WithParamInterface<durability> {
protected:
    [[nodiscard]] open_options options() const {
        open_options wanted = small_options();
        wanted.durability = GetParam();
        wanted.accept_process_crash_only = true;
        return wanted;
    }
    [[nodiscard]] manager create_heap() const { return {create_only, path(), options()}; }
    static ptr<item>& root_of(manager& heap, std::size_t index = 0) {
        return reinterpret_cast<ptr<item>&>(heap.root(index));
    }
    static item* make(manager& heap, ptr<item>& at, std::uint32_t type = 0) {
        return heap.allocate_to(at, sizeof(item), {.zeroed = true, .type = type});
    }
};

INSTANTIATE_TEST_SUITE_P(in, manager_collect_test, testing::Values(durability::commit, durability::atomic),
                         [](const auto& each) { return each.param == durability::atomic ? "atomic" : "commit"; });

TEST_P(manager_collect_test, elements_of_a_container_with_a_typed_allocator_are_read_by_their_layout) {
    manager heap(create_only, path(), options());
    heap.register_type<item>(3, "item");
    auto& items = *heap.construct<vector<item, typed_allocator<item, 3>>>("items")(heap.get_allocator<item>());
    items.resize(20);
    EXPECT_EQ(heap.type_of(items.data()), 3U);
    auto* const kept = static_cast<item*>(heap.allocate(sizeof(item), {.zeroed = true, .type = 3}));
    auto* const lost = static_cast<item*>(heap.allocate(sizeof(item), {.zeroed = true, .type = 3}));
    items[19].next = kept;
    reinterpret_cast<ptr<item>&>(items[19].looks_like_a_pointer) = lost;
    collect_options precisely;
    precisely.mode = collect_options::marking::precise;
    EXPECT_EQ(heap.collect(precisely).blocks_freed, 1U);
    EXPECT_EQ(heap.type_of(kept), 3U);
    EXPECT_THROW(static_cast<void>(heap.type_of(lost)), error);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_collect_test, nodes_and_nested_containers_take_a_typed_allocator_too) {
    manager heap(create_only, path(), options());
    using numbers = vector<int, typed_allocator<int, 5>>;
    using lists = list<numbers, scoped_allocator_adaptor<typed_allocator<numbers, 4>>>;
    auto& all = *heap.construct<lists>("lists")(heap.get_allocator<numbers>());
    all.emplace_back().assign(100, 7);
    EXPECT_EQ(heap.type_of(all.front().data()), 5U);
    std::map<std::uint32_t, int> blocks;
    heap.for_each_block([&blocks](const block_info& each) { ++blocks[each.type]; });
    EXPECT_EQ(blocks, (std::map<std::uint32_t, int>{{0, 1}, {4, 1}, {5, 1}}));
}

TEST_P(manager_collect_test, frees_what_leaked_and_keeps_what_roots_and_objects_lead_to) {
    {
        manager heap = create_heap();
        item* const first = make(heap, root_of(heap));
        make(heap, first->next);
        make(heap, first->next->next)->next = first;  // a ring
        auto* const named = heap.construct<item>("named")();
        make(heap, named->other);
        auto* const anonymous = heap.construct<item>(anonymous_instance)();
        make(heap, anonymous->next);
        auto* const words = heap.construct<vector<std::uint64_t>>(unique_instance)(heap.get_allocator<std::uint64_t>());
        words->assign(5000, 3);
        const auto kept = blocks_of(heap);
        for (int i = 0; i < 100; ++i) {
            static_cast<void>(heap.allocate(24));
        }
        static_cast<void>(heap.allocate(500'000));
        EXPECT_EQ(heap.collect({.dry_run = true}).blocks_freed, 101U);
        const collect_report report = heap.collect({.threads = 3});
        EXPECT_EQ(report.blocks_freed, 101U);
        ASSERT_THAT(report.freed, SizeIs(2));
        EXPECT_EQ(report.freed[0].blocks, 100U);
        EXPECT_EQ(report.freed[0].size, 32U);
        EXPECT_EQ(report.freed[1].bytes, report.freed[1].size);
        EXPECT_EQ(report.blocks_reached, kept.size());
        EXPECT_EQ(blocks_of(heap), kept);
        EXPECT_EQ(heap.collect().blocks_freed, 0U);
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    manager heap(open_only, path(), options());
    EXPECT_EQ(root_of(heap)->next->next->next, root_of(heap));
    EXPECT_EQ(heap.collect().blocks_freed, 0U);
    EXPECT_THAT(heap.check(true), IsEmpty());
}

/// Was: containers that lead into another heap, of which check() said nothing.
TEST_P(manager_collect_test, check_finds_pointers_that_lead_out_where_types_are_known) {
    manager heap = create_heap();
    heap.register_type<item>(1, "item");
    item* const first = make(heap, root_of(heap), 1);
    EXPECT_THAT(heap.check(false), IsEmpty());
    item outside{};
    first->other = &outside;
    EXPECT_THAT(heap.check(false), ElementsAre(AllOf(HasSubstr("TYPE-4"), HasSubstr("item"), HasSubstr("leads out"))));
    first->other = first;
    EXPECT_THAT(heap.check(false), IsEmpty());
    heap.root(7) = &outside;
    EXPECT_THAT(heap.check(false), ElementsAre(HasSubstr("HEAP-21: root 7 leads out")));
    heap.root(7) = nullptr;
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_collect_test, precisely_follows_registered_types_alone_and_remembers_them) {
    {
        manager heap = create_heap();
        heap.register_type<item>(1, "item");
        item* const first = make(heap, root_of(heap), 1);
        make(heap, first->other, 1);
        make(heap, root_of(heap, 1), 1);
        // A number that is, as a word, a pointer to the third block.
        reinterpret_cast<ptr<item>&>(first->looks_like_a_pointer) = root_of(heap, 1);
        root_of(heap, 1) = nullptr;
    }
    manager heap(open_only, path(), options());
    ASSERT_THAT(heap.registered_types(), SizeIs(1));
    EXPECT_EQ(heap.registered_types()[0].name, "item");
    EXPECT_EQ(heap.registered_types()[0].pointers[1].offset, offsetof(item, other));
    EXPECT_EQ(heap.collect({.dry_run = true}).blocks_freed, 0U) << "conservatively it is kept";
    const collect_report report = heap.collect({.mode = collect_options::marking::precise});
    EXPECT_EQ(report.blocks_freed, 1U);
    EXPECT_EQ(report.freed[0].type, 1U);
    EXPECT_EQ(report.freed[0].type_name, "item");
    EXPECT_EQ(report.unknown_type_blocks, 0U);
}

TEST_P(manager_collect_test, asks_visitors) {
    manager heap = create_heap();
    auto& root = reinterpret_cast<ptr<other_item>&>(heap.root(0));
    other_item* const chooser = heap.allocate_to(root, sizeof(other_item), {.zeroed = true, .type = 2});
    for (auto& target : chooser->targets) {
        make(heap, target);
    }
    chooser->which = 1;
    heap.register_visitor(2, [](void* block, std::size_t, pointer_visitor& visit) {
        auto& object = *static_cast<other_item*>(block);
        visit(object.targets[object.which]);
    });
    EXPECT_EQ(heap.collect({.mode = collect_options::marking::precise}).blocks_freed, 2U);
    EXPECT_EQ(heap.usable_size(chooser->targets[1].get()), 32U);
}

TEST_F(manager_test, what_only_a_reserved_block_leads_to_is_freed_and_the_reservation_stays) {
    open_options options = small_options();
    options.durability = durability::atomic;
    options.accept_process_crash_only = true;
    manager heap(create_only, path(), options);
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100'000}}) {
        auto* const reserved = static_cast<ptr<void>*>(heap.reserve(bytes));
        heap.allocate_to(heap.root(1), 40);
        heap.allocate_to(heap.root(2), 40);
        *reserved = heap.root(1);
        heap.root(1) = nullptr;
        EXPECT_EQ(heap.collect({.dry_run = true}).blocks_freed, 1U);
        EXPECT_EQ(heap.collect().blocks_freed, 1U);
        EXPECT_EQ(reason_of([&] { heap.deallocate(reserved->get()); }), errc::bad_address) << "it is free";
        *reserved = heap.root(2);
        heap.publish(heap.root(3), static_cast<void*>(reserved));
        EXPECT_EQ(heap.collect().blocks_freed, 0U);
        EXPECT_EQ(heap.free_from(heap.root(3)), true);
        EXPECT_EQ(heap.free_from(heap.root(2)), true);
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_P(manager_collect_test, refuses_unknown_types_where_asked) {
    manager heap = create_heap();
    make(heap, root_of(heap), 9);
    collect_options strict{.mode = collect_options::marking::precise, .unknown_types = collect_options::unknown::fail};
    EXPECT_EQ(reason_of([&] { heap.collect(strict); }), errc::type_mismatch);
    EXPECT_EQ(heap.collect({.mode = collect_options::marking::precise}).unknown_type_blocks, 1U);
}

TEST_P(manager_collect_test, names_pointers_to_free_blocks) {
    manager heap = create_heap();
    item* const first = make(heap, root_of(heap));
    first->next = static_cast<item*>(heap.allocate(24));
    heap.deallocate(first->next.get());
    const collect_report report = heap.collect();
    EXPECT_EQ(report.free_block_pointers, 1U);
    ASSERT_THAT(report.lines, SizeIs(1));
    EXPECT_THAT(report.lines[0], HasSubstr("that is free"));
}

TEST_P(manager_collect_test, tells_how_far_it_is_and_ends_with_what_progress_throws) {
    manager heap = create_heap();
    auto* const words = heap.construct<vector<std::uint64_t>>("words")(heap.get_allocator<std::uint64_t>());
    words->assign(4'000'000, 1);
    std::uint64_t last = 0;
    EXPECT_EQ(heap.collect({.threads = 1,
                            .progress =
                                [&last](const collect_progress& now) {
                                    EXPECT_LE(now.done_bytes, now.total_bytes);
                                    last = now.done_bytes;
                                }})
                  .blocks_freed,
              0U);
    EXPECT_GT(last, 0U);
    EXPECT_NE(
        reason_of([&] {
            heap.collect({.threads = 2, .progress = [](const collect_progress&) { throw std::runtime_error("no"); }});
        }),
        errc::out_of_memory);
}

TEST_F(manager_test, collect_of_a_read_only_heap_is_a_dry_run_or_refused) {
    create().close();
    manager heap(open_read_only, path());
    EXPECT_EQ(heap.collect({.dry_run = true}).blocks_freed, 0U);
    EXPECT_EQ(reason_of([&] { heap.collect(); }), errc::read_only);
    EXPECT_EQ(reason_of([&] { heap.register_type({1, 8, 8, {}}); }), errc::read_only);
}

TEST_F(manager_test, a_filter_sees_every_free_and_keeps_blocks_back) {
    manager heap = create();
    std::vector<void*> waiting;
    heap.set_free_filter([&waiting](void* block) {
        waiting.push_back(block);
        return waiting.size() % 2 == 1;
    });
    void* const kept = heap.allocate(100);
    void* const freed = heap.allocate(100);
    heap.deallocate(kept);
    heap.deallocate(freed);
    EXPECT_THAT(waiting, testing::ElementsAre(kept, freed));
    EXPECT_GE(heap.usable_size(kept), 100U) << "it is allocated still";
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.usable_size(freed)); }), errc::bad_address);
    EXPECT_EQ(reason_of([&] { heap.deallocate(freed); }), errc::bad_address) << "and the filter is not asked";
    EXPECT_THAT(waiting, SizeIs(2));
    heap.free_now(kept);
    EXPECT_EQ(reason_of([&] { heap.free_now(kept); }), errc::bad_address);
    heap.construct<vector<int>>("numbers")(1000U, 1, heap.get_allocator<int>());
    waiting.assign(1, nullptr);  // from here on it keeps none back, then one
    EXPECT_TRUE(heap.destroy<vector<int>>("numbers"));
    EXPECT_THAT(waiting, SizeIs(3)) << "the elements, by the allocator, and the object";
    heap.set_free_filter({});
    EXPECT_EQ(heap.collect().blocks_freed, 1U) << "what was kept back";
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_F(manager_test, a_filter_that_throws_keeps_the_block) {
    manager heap = create();
    heap.set_free_filter([](void*) -> bool { throw std::runtime_error("no"); });
    void* const block = heap.allocate(100);
    EXPECT_EQ(reason_of([&] { heap.deallocate(block); }), errc::invalid_argument);
    EXPECT_GE(heap.usable_size(block), 100U);
}

TEST_F(manager_test, frees_of_durability_atomic_cannot_be_kept_back) {
    open_options options = small_options();
    options.durability = durability::atomic;
    options.accept_process_crash_only = true;
    manager heap(create_only, path(), options);
    EXPECT_EQ(reason_of([&] { heap.set_free_filter([](void*) { return true; }); }), errc::unsupported);
}

/// In a process that dies: of three blocks the root leads to the first, a number in that to the second, nothing to the
/// third.
void crash_with_three_blocks(const std::string& path, const open_options& options) {
    const base::process_end end = base::run_in_child([&] {
        manager heap(create_only, path, options);
        heap.register_type<item>(1, "item");
        std::array<item*, 3> items{};
        for (item*& each : items) {
            each = static_cast<item*>(heap.allocate(sizeof(item), {.zeroed = true, .type = 1}));
        }
        heap.root(0) = items[0];
        reinterpret_cast<ptr<item>&>(items[0]->looks_like_a_pointer) = items[1];
        static_cast<void>(heap.allocate(100'000, {.type = 1}));  // nothing leads there either
        ::kill(::getpid(), SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
}

TEST_F(manager_test, precise_recovery_keeps_nothing_for_numbers_and_says_what_it_found) {
    open_options options = small_options();
    options.durability = durability::collect;
    options.accept_process_crash_only = true;
    for (const bool precise : {false, true}) {
        crash_with_three_blocks(path(), options);
        options.precise_recovery = precise;
        {
            const manager heap(open_only, path(), options);
            const std::optional<collect_report> report = heap.last_recovery_trace();
            ASSERT_TRUE(report.has_value());
            EXPECT_EQ(report->blocks_reached, precise ? 1U : 2U);
            EXPECT_EQ(blocks_of(heap).size(), report->blocks_reached);
            EXPECT_EQ(report->blocks_freed, 1U) << "of whole pages: which small ones were allocated nobody knows";
            ASSERT_THAT(report->freed, SizeIs(1));
            EXPECT_GE(report->freed[0].size, 100'000U);
            EXPECT_EQ(report->freed[0].type_name, "item");
            EXPECT_THAT(heap.check(false), IsEmpty());
        }
        EXPECT_FALSE(manager(open_only, path(), options).last_recovery_trace().has_value()) << "it was closed";
        EXPECT_TRUE(manager::remove(path()));
    }
}

TEST_F(manager_test, a_recovery_waits_until_the_program_has_restored_its_roots) {
    open_options options = small_options();
    options.durability = durability::collect;
    options.accept_process_crash_only = true;
    for (const durability reopened : {durability::collect, durability::commit}) {
        crash_with_three_blocks(path(), options);
        open_options again = options;
        again.durability = reopened;
        std::size_t second = 0;
        again.before_trace = [&](offline_heap& heap) {
            auto* const first = static_cast<item*>(heap.root(0).get());
            second = reinterpret_cast<std::uintptr_t>(reinterpret_cast<ptr<item>&>(first->looks_like_a_pointer).get()) -
                     reinterpret_cast<std::uintptr_t>(heap.get_address());
            EXPECT_LT(second, heap.get_size());
            heap.root(0) = nullptr;
            heap.root(1) = static_cast<std::byte*>(heap.get_address()) + second;
            EXPECT_THROW(static_cast<void>(heap.root(manager::root_count)), error);
            EXPECT_THROW(heap.keep(&heap), error);
        };
        {
            const manager heap(open_only, path(), again);
            EXPECT_EQ(blocks_of(heap).size(), 1U) << "the second block, from its new root";
            EXPECT_EQ(heap.root(0).get(), nullptr);
            EXPECT_EQ(heap.root(1).get(), static_cast<std::byte*>(heap.get_address()) + second);
        }
        EXPECT_TRUE(manager::remove(path()));
    }
}

TEST_F(manager_test, a_recovery_keeps_the_blocks_that_the_program_names_and_reads_them_as_its_visitor_says) {
    open_options options = small_options();
    options.durability = durability::collect;
    options.accept_process_crash_only = true;
    options.precise_recovery = true;
    crash_with_three_blocks(path(), options);
    std::size_t lost = 0;
    options.before_trace = [&](offline_heap& heap) {
        auto* const first = static_cast<item*>(heap.root(0).get());
        const void* const second = reinterpret_cast<ptr<item>&>(first->looks_like_a_pointer).get();
        heap.root(0) = nullptr;
        heap.keep(static_cast<const std::byte*>(second) + 8);  // the inside of a block stands for the block
        heap.register_visitor(1, [&lost](void* block, std::size_t, pointer_visitor& visit) {
            ++lost;
            visit(static_cast<item*>(block)->next);
        });
    };
    const manager heap(open_only, path(), options);
    EXPECT_EQ(blocks_of(heap).size(), 1U);
    EXPECT_EQ(lost, 1U) << "the visitor has seen the block that is kept";
}

TEST_F(manager_test, an_exception_before_the_trace_ends_the_open_and_the_next_one_traces) {
    open_options options = small_options();
    options.durability = durability::collect;
    options.accept_process_crash_only = true;
    crash_with_three_blocks(path(), options);
    open_options refusing = options;
    refusing.before_trace = [](offline_heap&) { throw std::runtime_error("my roots are not there"); };
    EXPECT_THROW(manager(open_only, path(), refusing), std::runtime_error);
    EXPECT_THROW(manager(open_read_only, path(), refusing), std::runtime_error);
    const manager heap(open_only, path(), options);
    EXPECT_EQ(blocks_of(heap).size(), 2U);
    ASSERT_TRUE(heap.last_recovery_trace().has_value());
}

TEST_F(manager_test, a_heap_at_one_address_is_traced_through_addresses) {
    open_options options = small_options();
    options.same_address = true;
    manager heap(create_only, path(), options);
    auto** const block = static_cast<void**>(heap.allocate(16));
    heap.root(0) = block;
    block[0] = heap.allocate(16);
    block[1] = nullptr;
    std::memset(block[0], 0, 16);
    EXPECT_EQ(heap.collect().blocks_freed, 0U);
    block[0] = nullptr;
    EXPECT_EQ(heap.collect().blocks_freed, 1U);
}

}  // namespace
}  // namespace holdfast
