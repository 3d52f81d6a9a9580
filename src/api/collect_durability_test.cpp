// Durability `collect` without a crash: what it promises when it is closed, and what media say while it is open.
#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"
#include "heap/objects/object_format.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast {
namespace {

using domain_choice = open_options::domain_choice;
using testing::IsEmpty;

constexpr std::size_t flags_at = offsetof(segment::superblock_on_media, flags);

class collect_durability_test : public manager_test, public testing::WithParamInterface<domain_choice> {
protected:
    static open_options options(durability wanted = durability::collect) {
        open_options all = small_options();
        all.durability = wanted;
        all.domain = GetParam();
        all.accept_process_crash_only = true;
        return all;
    }
    manager create_collect() const { return {create_only, path(), options()}; }
    manager open_collect() const { return {open_only, path(), options()}; }

    [[nodiscard]] std::uint32_t flags_on_media() const {
        const auto bytes = segment::content_of(path() + "/superblock");
        std::uint32_t flags = 0;
        std::memcpy(&flags, bytes.data() + flags_at, sizeof flags);
        return flags;
    }
    static std::map<std::uint64_t, std::uint64_t> blocks_of(const manager& heap) {
        std::map<std::uint64_t, std::uint64_t> found;
        heap.for_each_block([&](const block_info& block) {
            found[static_cast<std::uint64_t>(static_cast<std::byte*>(block.address) -
                                             static_cast<std::byte*>(heap.get_address()))] = block.size;
        });
        return found;
    }
};

TEST_P(collect_durability_test, has_everything_after_it_was_closed) {
    std::map<std::uint64_t, std::uint64_t> held;
    {
        manager heap = create_collect();
        EXPECT_EQ(heap.durability(), durability::collect);
        std::vector<void*> blocks;
        for (const std::size_t bytes : {1U, 24U, 500U, 4096U, 14336U, 20000U, 70000U, 3U << 20U, 17U << 20U}) {
            for (int i = 0; i < 20 && (bytes < (1U << 20U) || i < 2); ++i) {
                blocks.push_back(heap.allocate(bytes));
                std::memset(blocks.back(), static_cast<int>(bytes % 251), bytes);
            }
        }
        for (std::size_t i = 0; i < blocks.size(); i += 3) {
            heap.deallocate(blocks[i]);
        }
        heap.construct<int>("answer")(42);
        heap.root(3) = heap.find<int>("answer").first;
        held = blocks_of(heap);
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    for (const durability next : {durability::collect, durability::commit, durability::atomic, durability::collect}) {
        manager heap(open_only, path(), options(next));
        EXPECT_FALSE(heap.statistics().recovered);
        EXPECT_EQ(blocks_of(heap), held);
        EXPECT_EQ(*heap.find<int>("answer").first, 42);
        EXPECT_EQ(heap.root(3).get(), heap.find<int>("answer").first);
        EXPECT_THAT(heap.check(true), IsEmpty());
    }
    EXPECT_EQ(blocks_of(manager(open_read_only, path())), held);
}

TEST_P(collect_durability_test, is_marked_on_media_while_it_is_open) {
    manager heap = create_collect();
    EXPECT_NE(flags_on_media() & segment::flag_tracing, 0U);
    EXPECT_EQ(flags_on_media() & segment::flag_lanes, 0U);
    heap.close();
    EXPECT_EQ(flags_on_media() & segment::flag_tracing, 0U);
    manager(open_only, path(), options(durability::commit)).close();
    EXPECT_EQ(flags_on_media() & segment::flag_tracing, 0U);
}

TEST_P(collect_durability_test, refuses_frees_of_what_is_no_block) {
    manager heap = create_collect();
    for (const std::size_t bytes : {64U, 70000U}) {
        auto* const block = static_cast<std::byte*>(heap.allocate(bytes));
        EXPECT_EQ(reason_of([&] { heap.deallocate(block + 8); }), errc::bad_address);
        heap.deallocate(block);
        EXPECT_EQ(reason_of([&] { heap.deallocate(block); }), errc::bad_address) << bytes;
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_P(collect_durability_test, keeps_types_and_alignments) {
    manager heap = create_collect();
    for (const std::size_t bytes : {64U, 70000U}) {
        void* const typed = heap.allocate_to(heap.root(0), bytes, {.type = 7});
        EXPECT_EQ(heap.type_of(typed), 7U);
        heap.free_from(heap.root(0));
        void* const aligned = heap.allocate_aligned(bytes, 8192);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % 8192, 0U);
        heap.deallocate(aligned);
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_P(collect_durability_test, gives_space_back_and_takes_it_again) {
    manager heap = create_collect();
    std::vector<void*> blocks;
    for (int i = 0; i < 64; ++i) {
        blocks.push_back(heap.allocate(1U << 20U));
    }
    for (void* const block : blocks) {
        heap.deallocate(block);
    }
    const shrink_report report = heap.shrink();
    EXPECT_LT(report.charged_after, report.charged_before);
    EXPECT_GT(report.shortened, 0U);
    auto* const again = static_cast<std::byte*>(heap.allocate(32U << 20U));
    std::memset(again, 1, 32U << 20U);
    EXPECT_THAT(heap.check(false), IsEmpty());
    heap.close();
    EXPECT_THAT(open_collect().check(true), IsEmpty());
}

TEST_P(collect_durability_test, serves_many_threads_at_once) {
    manager heap = create_collect();
    constexpr unsigned threads = 4;
    {
        std::vector<std::jthread> running;
        for (unsigned t = 0; t < threads; ++t) {
            running.emplace_back([&heap, t] {
                std::mt19937 random(t);
                std::vector<void*> mine;
                for (int i = 0; i < 4000; ++i) {
                    if (mine.size() > 50 || (random() % 3 == 0 && !mine.empty())) {
                        std::swap(mine[random() % mine.size()], mine.back());
                        heap.deallocate(mine.back());
                        mine.pop_back();
                    } else {
                        const std::size_t bytes = random() % 16 == 0 ? 20000 + random() % 100000 : 1 + random() % 600;
                        mine.push_back(heap.allocate(bytes));
                        std::memset(mine.back(), static_cast<int>(t), bytes);
                    }
                }
                for (void* const block : mine) {
                    heap.deallocate(block);
                }
            });
        }
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
    heap.close();
    EXPECT_TRUE(open_collect().all_memory_deallocated());
}

TEST_P(collect_durability_test, snapshots_are_clean_heaps) {
    manager heap = create_collect();
    heap.construct<int>("answer")(42);
    heap.snapshot(path("copy"));
    heap.close();
    const manager copy(open_only, path("copy"), options(durability::commit));
    EXPECT_FALSE(copy.statistics().recovered);
    EXPECT_EQ(*copy.find<int>("answer").first, 42);
    EXPECT_THAT(copy.check(true), IsEmpty());
}

struct link {
    ptr<link> next;
    std::uint64_t value = 0;
};

/// A list of the length from root 0 on, an object "kept" that has one of its own, and `lost` blocks that nothing
/// reaches; then the process is killed.
void leave_lists(manager& heap, std::uint64_t length, int lost) {
    for (std::uint64_t i = 0; i < length; ++i) {
        auto* const fresh = new (heap.allocate(sizeof(link))) link;  // lint-allow(hand-memory): the heap's
        fresh->next = static_cast<link*>(heap.root(0).get());
        fresh->value = i;
        heap.root(0) = fresh;
    }
    auto* const kept = heap.construct<link>("kept")();
    kept->next = new (heap.allocate(100'000)) link;  // lint-allow(hand-memory): the heap's
    kept->next->value = 7;
    for (int i = 0; i < lost; ++i) {
        static_cast<void>(heap.allocate(i % 10 == 0 ? 50'000 : 40));
    }
    ::raise(SIGKILL);
}

TEST_P(collect_durability_test, after_a_kill_what_is_reached_is_allocated_and_the_rest_is_free) {
    create_collect().close();
    constexpr std::uint64_t length = 3000;
    for (const durability next : {durability::collect, durability::commit, durability::atomic}) {
        const base::process_end end = base::run_in_child([&] {
            manager heap = open_collect();
            heap.destroy<link>("kept");
            heap.root(0) = nullptr;
            leave_lists(heap, length, 2000);
        });
        ASSERT_TRUE(end.was_killed()) << end;
        EXPECT_NE(flags_on_media() & segment::flag_tracing, 0U);
        const auto expect_lists = [&](const manager& heap) {
            EXPECT_EQ(blocks_of(heap).size(), length + 2);
            std::uint64_t expected = length;
            for (const auto* at = static_cast<link*>(heap.root(0).get()); at != nullptr; at = at->next.get()) {
                ASSERT_EQ(at->value, --expected);
            }
            EXPECT_EQ(expected, 0U);
            EXPECT_EQ(heap.find<link>("kept").first->next->value, 7U);
            EXPECT_THAT(heap.check(true), IsEmpty());
        };
        manager::copy(path(), path("copy"));
        {
            SCOPED_TRACE("read-only");
            expect_lists(manager(open_read_only, path()));
            EXPECT_NE(flags_on_media() & segment::flag_tracing, 0U) << "a reader changes nothing";
        }
        for (const char* const name : {"heap", "copy"}) {
            SCOPED_TRACE(name);
            manager heap(open_only, path(name), options(next));
            EXPECT_EQ(heap.durability(), next);
            expect_lists(heap);
            heap.close();
            expect_lists(manager(open_only, path(name), options(durability::commit)));
        }
        manager::remove(path("copy"));
    }
}

TEST_P(collect_durability_test, recovery_knows_no_visitors_and_keeps_every_word_that_may_be_a_pointer) {
    constexpr std::uint32_t type = 5;
    const auto visitor = [](void* block, std::size_t, pointer_visitor& visit) {
        visit(static_cast<link*>(block)->next);
    };
    create_collect().close();
    const base::process_end end = base::run_in_child([&] {
        manager heap = open_collect();
        heap.register_visitor(type, visitor);
        auto& root = reinterpret_cast<ptr<link>&>(heap.root(0));
        link* const shown = heap.allocate_to(root, sizeof(link), {.zeroed = true, .type = type});
        heap.allocate_to(shown->next, sizeof(link), {.zeroed = true});
        // The number is, as a word, a pointer that the visitor does not show.
        heap.allocate_to(reinterpret_cast<ptr<link>&>(shown->value), sizeof(link), {.zeroed = true});
        ::raise(SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
    manager heap = open_collect();
    EXPECT_EQ(blocks_of(heap).size(), 3U);
    heap.register_visitor(type, visitor);
    EXPECT_EQ(heap.collect({.mode = collect_options::marking::precise}).blocks_freed, 1U);
    EXPECT_EQ(blocks_of(heap).size(), 2U);
}

TEST_P(collect_durability_test, a_kill_while_an_object_was_made_leaves_a_heap_that_opens) {
    create_collect().close();
    const base::process_end end = base::run_in_child([&] {
        manager heap = open_collect();
        heap.construct<link>("half of it is written")();
        leave_lists(heap, 10, 10);
    });
    ASSERT_TRUE(end.was_killed()) << end;
    // As the directory leaves it between its first store and its last one.
    const auto bytes = segment::content_of(path() + "/objects");
    const std::string name = "half of it is written";
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    const std::size_t at = std::string_view(text, bytes.size()).find(name);
    ASSERT_NE(at, std::string_view::npos);
    std::vector<std::byte> magic(sizeof heap::unfinished_magic);
    std::memcpy(magic.data(), &heap::unfinished_magic, magic.size());
    segment::overwrite(path() + "/objects", at - sizeof(heap::object_record_on_media), magic);
    EXPECT_FALSE(manager(open_read_only, path()).find<link>(name).first);
    const manager heap = open_collect();
    EXPECT_FALSE(heap.find<link>(name).first);
    EXPECT_EQ(heap.find<link>("kept").first->next->value, 7U);
    EXPECT_EQ(blocks_of(heap).size(), 12U) << "what the record led to is free";
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(collect_durability_test, tells_a_child_of_fork_that_the_heap_is_its_parents) {
    manager heap = create_collect();
    void* const block = heap.allocate(64);
    const base::process_end end = base::run_in_child([&] {
        const bool told = reason_of([&] { static_cast<void>(heap.allocate(64)); }) == errc::wrong_process &&
                          reason_of([&] { heap.deallocate(block); }) == errc::wrong_process &&
                          reason_of([&] { heap.commit(); }) == errc::wrong_process;
        return told;
    });
    EXPECT_TRUE(end.succeeded()) << end;
    heap.deallocate(block);
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(collect_durability_test, opens_a_heap_that_crashed_in_durability_atomic) {
    manager(create_only, path(), options(durability::atomic)).close();
    const base::process_end end = base::run_in_child([&] {
        manager heap(open_only, path(), options(durability::atomic));
        heap.allocate_to(heap.root(7), 64);
        ::raise(SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
    const manager heap = open_collect();
    EXPECT_TRUE(heap.root(7));
    EXPECT_EQ(blocks_of(heap).size(), 1U);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(domains, collect_durability_test,
                         testing::Values(domain_choice::page_cache, domain_choice::emulated), [](const auto& choice) {
                             return choice.param == domain_choice::emulated ? "emulated" : "page_cache";
                         });

}  // namespace
}  // namespace holdfast
