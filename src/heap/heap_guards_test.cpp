// Guard ranges of hardened heaps, in each durability: a store there kills the process. Heaps that are closed, killed,
// copied or shrunk contain none.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "heap/heap.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/test_support.hpp"

namespace holdfast::heap {
namespace {

using persist::access_mode;
using persist::domain_kind;
using segment::extent_kind;
using segment::must;
using testing::IsEmpty;

constexpr std::uint64_t block_bytes = 4096;
constexpr std::uint64_t blocks_a_slab = base::granule_size / block_bytes;

struct guarded_way {
    durability_kind durability;
    domain_kind domain;
};

std::string name_of(const testing::TestParamInfo<guarded_way>& tested) {
    const std::string domain = tested.param.domain == domain_kind::emulated ? "_emulated" : "_page_cache";
    switch (tested.param.durability) {
        case durability_kind::commit: return "commit";
        case durability_kind::collect: return "collect" + domain;
        default: return "atomic" + domain;
    }
}

struct end_of_child {
    bool was_ready = false;  ///< all went well up to the last step
    int signal = 0;          ///< that ended it; 0: none
};

/// `prepare` runs in a child of fork, then `last` with its result.
template <class Prepare, class Last>
end_of_child in_child(Prepare prepare, Last last) {
    const base::shared_memory<std::atomic<bool>> ready;
    const base::process_end end = base::run_in_child([&] {
        auto prepared = prepare();
        std::signal(SIGSEGV, SIG_DFL);  // instead of the sanitizers' handlers
        *ready = true;
        last(prepared);
        return true;
    });
    return {*ready, end.signal()};
}

void store(volatile char* at) { *at = 1; }
void load(const volatile char* at) { static_cast<void>(*at); }

class heap_guards_test : public testing::TestWithParam<guarded_way> {
protected:
    static engine_options options(bool hardened = true) {
        engine_options wanted;
        wanted.durability = GetParam().durability;
        if (wanted.durability != durability_kind::commit) {
            wanted.domain = GetParam().domain;
        }
        wanted.accept_process_crash_only = true;
        wanted.files.segment_size = segment::minimum_segment_size;
        wanted.files.mapping.reservation = base::gibibyte;
        wanted.hardened = hardened;
        return wanted;
    }
    [[nodiscard]] std::string path(const std::string& name = "heap") const { return directory_.path(name); }
    [[nodiscard]] std::unique_ptr<engine> create(const engine_options& wanted = options()) const {
        return must(engine::create(path(), wanted));
    }
    [[nodiscard]] std::unique_ptr<engine> open(bool hardened, const std::string& name = "heap") const {
        return must(engine::open(path(name), access_mode::read_write, options(hardened)));
    }
    static char* allocate(engine& heap, std::uint64_t bytes = block_bytes) {
        auto* const block = static_cast<char*>(heap.allocate(bytes, 16));
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        std::memset(block, 'x', bytes);
        return block;
    }
    static std::vector<char*> fill(engine& heap, std::size_t slabs) {
        std::vector<char*> blocks;
        for (std::size_t i = 0; i < slabs * blocks_a_slab; ++i) {
            blocks.push_back(allocate(heap));
        }
        return blocks;
    }
    static base::granule granule_of(engine& heap, const void* block) {
        return base::granule_of(heap.files().view().offset(block));
    }
    /// Of blocks directly before a guard range.
    static std::vector<char*> guarded_ends(engine& heap, const std::vector<char*>& blocks) {
        std::vector<char*> ends;
        for (char* const block : blocks) {
            const base::granule slab = granule_of(heap, block + block_bytes - 1);
            const base::granule behind = granule_of(heap, block + block_bytes);
            if (slab != behind && heap.blocks().slabs().source().guards().contains(behind)) {
                ends.push_back(block + block_bytes);
            }
        }
        if (ends.empty()) {
            throw std::runtime_error("no slab has a guard range");
        }
        return ends;
    }
    /// How many reserved extents the files of a closed heap hold.
    [[nodiscard]] std::size_t reserved_on_media(const std::string& name = "heap") const {
        const segment::heap_paths paths(path(name));
        const segment::geometry shape{segment::minimum_segment_size};
        std::vector<std::uint64_t> entries;
        const auto found_there =
            must(segment::recover(persist::posix_storage(), paths, persist::access_mode::read_only));
        const std::uint64_t end = found_there.superblock.frontier / base::page_size;
        for (std::uint64_t i = 0; entries.size() < end; ++i) {
            const auto bytes = segment::content_of(paths.segment(i));
            entries.resize(entries.size() + shape.pages());
            std::memcpy(entries.data() + i * shape.pages(), bytes.data() + shape.segment_size + shape.page_entries_at(),
                        shape.pages() * sizeof(std::uint64_t));
        }
        std::size_t found = 0;
        for (std::uint64_t page = 0; page < end;) {
            const segment::page_entry entry = segment::decode_page_entry(entries[page]);
            found += entry.kind == extent_kind::reserved ? 1 : 0;
            page += std::max<std::uint64_t>(entry.length.value, 1);
        }
        return found;
    }
    static void expect_sound(engine& heap) { EXPECT_THAT(heap.check(heap.atomic() == nullptr), IsEmpty()); }
    static void expect_all(const std::vector<char*>& blocks, char with) {
        for (const char* const block : blocks) {
            ASSERT_TRUE(std::all_of(block, block + block_bytes, [with](char byte) { return byte == with; }));
        }
    }
    /// After `before(heap)`, a store kills behind a slab that is older, and behind one made after it.
    template <class Before>
    void expect_deadly(Before before) const {
        for (const bool new_slab : {false, true}) {
            for (const bool first : {false, true}) {
                const auto end = in_child(
                    [&] {
                        auto heap = must(engine::create(path(new_slab ? first ? "1" : "2"
                                                             : first  ? "3"
                                                                      : "4"),
                                                        options()));
                        auto blocks = fill(*heap, 40);
                        before(*heap);
                        if (new_slab) {
                            blocks = fill(*heap, 40);
                        }
                        const auto ends = guarded_ends(*heap, blocks);
                        store(ends.front() - 1);
                        store(ends.back() - 1);
                        return std::pair{std::move(heap), first ? ends.front() : ends.back()};
                    },
                    [](const auto& prepared) { store(prepared.second); });
                EXPECT_TRUE(end.was_ready);
                EXPECT_EQ(end.signal, SIGSEGV) << (new_slab ? "a new slab" : "a slab from before");
            }
        }
    }

    segment::test_directory directory_;
};

// --- a store there kills ---

TEST_P(heap_guards_test, a_store_behind_a_slab_kills) {
    expect_deadly([](engine&) {});
}

TEST_P(heap_guards_test, a_store_behind_a_slab_kills_after_commits) {
    expect_deadly([](engine& heap) {
        must(heap.commit());
        static_cast<void>(fill(heap, 40));  // the heap grows, and the next commit maps the new part
        must(heap.commit());
    });
}

TEST_P(heap_guards_test, a_store_behind_a_slab_kills_after_a_snapshot) {
    expect_deadly([this](engine& heap) { must(heap.snapshot(path("snapshot" + std::to_string(::getpid())))); });
}

TEST_P(heap_guards_test, a_store_behind_a_slab_kills_after_the_heap_was_shrunk) {
    expect_deadly([](engine& heap) {
        must(heap.deallocate(allocate(heap, 8 * base::mebibyte)));
        must(heap.shrink(0, [](const shrink_report&) {}));
    });
}

TEST_P(heap_guards_test, a_load_behind_a_slab_kills_but_where_lines_are_flushed_late) {
    const auto end = in_child(
        [this] {
            auto heap = create();
            char* const behind = guarded_ends(*heap, fill(*heap, 4)).front();
            return std::pair{std::move(heap), behind};
        },
        [](const auto& prepared) { load(prepared.second); });
    EXPECT_TRUE(end.was_ready);
    const bool may_load =
        GetParam().durability == durability_kind::atomic && GetParam().domain == domain_kind::emulated;
    EXPECT_EQ(end.signal, may_load ? 0 : SIGSEGV);
}

TEST_P(heap_guards_test, without_hardening_a_store_behind_a_slab_is_not_noticed) {
    const auto heap = create(options(false));
    const auto blocks = fill(*heap, 4);
    EXPECT_EQ(must(heap->statistics()).guard_ranges, 0U);
    const auto inner = std::ranges::find_if(blocks, [&](const char* block) {
        return granule_of(*heap, block + block_bytes) == base::granule{granule_of(*heap, block).value + 1};
    });
    ASSERT_NE(inner, blocks.end());
    store(*inner + block_bytes);
}

// --- nothing else notices ---

// Guard ranges made where pages were dirty must not break a commit.
TEST_P(heap_guards_test, commits_pass_over_ranges_that_were_written_before) {
    std::vector<std::uint64_t> offsets;
    {
        const auto heap = create();
        for (int round = 0; round < 3; ++round) {
            auto* const big = allocate(*heap, 4 * base::mebibyte);
            if (round == 1) {
                must(heap->commit());
            }
            EXPECT_TRUE(heap->try_deallocate(big));
            const auto first = heap->files().view().offset(big);
            const auto blocks = fill(*heap, 20);
            EXPECT_TRUE(std::ranges::any_of(guarded_ends(*heap, blocks), [&](const char* behind) {
                const auto offset = heap->files().view().offset(behind);
                return offset >= first && offset.value < first.value + 4 * base::mebibyte;
            })) << "no range where the big block was";
            for (const char* const block : blocks) {
                offsets.push_back(heap->files().view().offset(block).value);
            }
            must(heap->commit());
            expect_sound(*heap);
        }
        must(heap->close(true));
    }
    const auto heap = open(false);
    expect_sound(*heap);
    std::vector<char*> blocks;
    for (const std::uint64_t offset : offsets) {
        blocks.push_back(reinterpret_cast<char*>(heap->files().view().address({offset})));
    }
    expect_all(blocks, 'x');
    must(heap->close(true));
}

TEST_P(heap_guards_test, ranges_of_slabs_that_are_gone_are_memory_as_any) {
    const auto heap = create();
    const auto blocks = fill(*heap, 30);
    const auto behind = guarded_ends(*heap, blocks);
    must(heap->commit());
    const std::uint64_t user_bytes = must(heap->statistics()).user_bytes;
    EXPECT_GE(must(heap->statistics()).guard_ranges, behind.size());
    for (char* const block : blocks) {
        EXPECT_TRUE(heap->try_deallocate(block));
    }
    heap->blocks().small().release_unused();
    EXPECT_EQ(must(heap->statistics()).guard_ranges, 0U);
    auto* const big = allocate(*heap, 3 * base::mebibyte);
    EXPECT_TRUE(std::ranges::any_of(
        behind, [&](const char* range) { return range >= big && range < big + 3 * base::mebibyte; }));
    EXPECT_EQ(must(heap->statistics()).user_bytes, user_bytes);
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_guards_test, a_closed_heap_has_no_trace_of_them) {
    std::array<engine_statistics, 2> numbers;
    for (const bool hardened : {false, true}) {
        {
            const auto heap = create(options(hardened));
            const auto blocks = fill(*heap, 20);
            EXPECT_EQ(heap->blocks().slabs().source().guards().count() != 0, hardened);
            must(heap->commit());
            for (std::size_t i = 0; i < blocks.size(); i += 2) {
                EXPECT_TRUE(heap->try_deallocate(blocks[i]));
            }
            must(heap->close(true));
        }
        EXPECT_EQ(reserved_on_media(), 0U);
        {
            const auto heap = open(false);
            numbers[hardened ? 1 : 0] = must(heap->statistics());
            expect_sound(*heap);
            EXPECT_EQ(heap->extents().count(extent_kind::reserved), 0U);
            must(heap->close(true));
        }
        EXPECT_TRUE(must(remove(path())));
    }
    EXPECT_EQ(numbers[0].allocated_blocks, numbers[1].allocated_blocks);
    EXPECT_EQ(numbers[0].allocated_bytes, numbers[1].allocated_bytes);
    EXPECT_EQ(numbers[0].slabs, numbers[1].slabs);
    EXPECT_EQ(numbers[0].extents, numbers[1].extents);
    EXPECT_EQ(numbers[1].guard_ranges, 0U);
}

TEST_P(heap_guards_test, the_next_open_of_a_killed_heap_finds_them_free) {
    constexpr std::size_t slabs = 20;
    const auto end = in_child(
        [this] {
            auto heap = create();
            const auto blocks = fill(*heap, slabs);
            // A chain from a root: tracing must keep all blocks.
            auto* previous = reinterpret_cast<std::uint64_t*>(heap->files().view().base());
            for (char* const block : blocks) {
                std::memset(block, 0, block_bytes);
                *previous = segment::encode_pointer(reinterpret_cast<std::uintptr_t>(previous),
                                                    reinterpret_cast<std::uintptr_t>(block), 0);
                previous = reinterpret_cast<std::uint64_t*>(block);
            }
            must(heap->commit());
            if (heap->blocks().slabs().source().guards().count() < slabs) {
                throw std::runtime_error("slabs without guard ranges");
            }
            return heap;
        },
        [](const auto&) { ::raise(SIGKILL); });
    EXPECT_TRUE(end.was_ready);
    EXPECT_EQ(end.signal, SIGKILL);
    EXPECT_GE(reserved_on_media(), slabs);
    const auto heap = open(false);
    EXPECT_TRUE(heap->files().recovered());
    EXPECT_EQ(heap->extents().count(extent_kind::reserved), 0U);
    const engine_statistics numbers = must(heap->statistics());
    EXPECT_EQ(numbers.allocated_blocks, slabs * blocks_a_slab);
    expect_sound(*heap);
    static_cast<void>(fill(*heap, slabs));
    EXPECT_EQ(must(heap->statistics()).user_bytes, numbers.user_bytes) << "their space can be had";
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_guards_test, a_snapshot_opens_clean) {
    constexpr std::size_t slabs = 20;
    {
        const auto heap = create();
        static_cast<void>(fill(*heap, slabs));
        EXPECT_GE(heap->blocks().slabs().source().guards().count(), slabs);
        must(heap->snapshot(path("copy")));
        must(heap->close(true));
    }
    for (const access_mode mode : {access_mode::read_only, access_mode::read_write}) {
        const auto copy = must(engine::open(path("copy"), mode, options(false)));
        EXPECT_FALSE(copy->files().recovered());
        EXPECT_EQ(must(copy->statistics()).allocated_blocks, slabs * blocks_a_slab);
        EXPECT_EQ(copy->extents().count(extent_kind::reserved), 0U);
        expect_sound(*copy);
        must(copy->close(true));
    }
}

TEST_P(heap_guards_test, shrinking_leaves_those_of_slabs_in_use) {
    const auto heap = create();
    const auto blocks = fill(*heap, 60);
    std::vector<char*> kept;
    std::set<std::uint64_t> slabs;
    for (char* const block : blocks) {
        if (granule_of(*heap, block).value % 16 < 2) {
            kept.push_back(block);
            slabs.insert(granule_of(*heap, block).value);
        } else {
            EXPECT_TRUE(heap->try_deallocate(block));
        }
    }
    const std::uint64_t before = must(heap->statistics()).user_bytes;
    const shrink_report done = must(heap->shrink(0, [](const shrink_report&) {}));
    EXPECT_LT(done.charged_after, done.charged_before);
    EXPECT_LE(must(heap->statistics()).user_bytes, before);
    EXPECT_EQ(heap->blocks().slabs().source().guards().count(), slabs.size());
    heap->blocks().slabs().source().guards().for_each(
        [&](base::granule range) { EXPECT_TRUE(slabs.contains(range.value - 1)) << range.value; });
    expect_all(kept, 'x');
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_guards_test, a_heap_at_the_limit_goes_on_without) {
    const auto heap = create();
    heap->blocks().slabs().source().guards().set_limit(5);
    const auto blocks = fill(*heap, 30);
    EXPECT_EQ(must(heap->statistics()).guard_ranges, 5U);
    EXPECT_EQ(must(heap->statistics()).allocated_blocks, blocks.size());
    expect_all(blocks, 'x');
    must(heap->commit());
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_guards_test, a_process_without_mappings_goes_on_without) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a process that is out of mappings; the other presets do this";
#endif
#endif
    const auto end = in_child(
        [this] {
            engine_options wanted = options();
            wanted.initial_bytes = 16 * base::mebibyte;
            auto heap = create(wanted);
            auto first = fill(*heap, 2);
            must(heap->commit());
            static_cast<void>(must(heap->statistics()));
            // Alternating rights: each page becomes a mapping of its own.
            constexpr std::uint64_t pages = 200'000;
            auto* const many = static_cast<char*>(::mmap(nullptr, pages * base::page_size, PROT_NONE,
                                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
            std::uint64_t page = 0;
            while (page < pages && ::mprotect(many + page * base::page_size, base::page_size, PROT_READ) == 0) {
                page += 2;
            }
            if (page >= pages) {
                throw std::runtime_error("this machine has mappings without end");
            }
            constexpr std::uint64_t left = 8;  // mappings that guard ranges may still use
            for (std::uint64_t i = 1; i <= left; ++i) {
                ::mprotect(many + (page - 2 * i) * base::page_size, base::page_size, PROT_NONE);
            }
            const auto more = fill(*heap, 40);
            const std::uint64_t guards = heap->blocks().slabs().source().guards().count();
            ::munmap(many, pages * base::page_size);
            if (guards >= 42 || guards < 2 || !heap->check(false).empty() ||
                !std::ranges::all_of(more, [](const char* block) { return block[block_bytes - 1] == 'x'; })) {
                throw std::runtime_error(std::to_string(guards) + " guard ranges");
            }
            must(heap->commit());
            must(heap->close(true));
            return 0;
        },
        [](int) {});
    EXPECT_TRUE(end.was_ready);
    EXPECT_EQ(end.signal, 0);
    const auto heap = open(false);
    EXPECT_EQ(must(heap->statistics()).allocated_blocks, 42 * blocks_a_slab);
    expect_sound(*heap);
    must(heap->close(true));
}

TEST_P(heap_guards_test, a_full_heap_holds_as_much_as_an_ordinary_one) {
    std::array<std::size_t, 2> held{};
    for (const bool hardened : {false, true}) {
        engine_options wanted = options(hardened);
        wanted.files.mapping.capacity = 8 * base::mebibyte;
        auto heap = create(wanted);
        while (void* const block = heap->allocate(block_bytes, 16)) {
            std::memset(block, 'y', block_bytes);
            ++held[hardened ? 1 : 0];
        }
        EXPECT_EQ(heap->blocks().slabs().source().guards().count(), 0U);
        expect_sound(*heap);
        must(heap->close(true));
        heap.reset();
        EXPECT_TRUE(must(remove(path())));
    }
    EXPECT_EQ(held[1], held[0]);
    EXPECT_GT(held[0], 1500U);
}

TEST_P(heap_guards_test, threads_make_and_release_them_at_once) {
    const auto heap = create();
    constexpr int threads = 4;
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) {
        all.emplace_back([&heap, i] {
            for (int round = 0; round < 10; ++round) {
                std::vector<char*> blocks;
                for (std::size_t k = 0; k < 200; ++k) {
                    blocks.push_back(allocate(*heap, 1000 + 1500 * static_cast<std::uint64_t>(i)));
                }
                for (char* const block : blocks) {
                    EXPECT_TRUE(heap->try_deallocate(block));
                }
            }
        });
    }
    for (std::thread& each : all) {
        each.join();
    }
    expect_sound(*heap);
    heap->blocks().small().release_unused();
    EXPECT_EQ(heap->blocks().slabs().source().guards().count(), 0U);
    expect_sound(*heap);
    must(heap->close(true));
}

/// The durabilities that have records of destinations.
class heap_guards_atomic_test : public heap_guards_test {};

// A checkpoint flushes the line of a destination whose block was freed, and may be a guard range by now.
TEST_P(heap_guards_atomic_test, checkpoints_flush_lines_where_ranges_are_now) {
    const auto heap = create();
    constexpr std::uint64_t big_bytes = 2 * base::mebibyte;  // too big for the caches of extents
    auto* const big = static_cast<char*>(heap->atomic()->allocate({big_bytes, base::granule_size, true}));
    ASSERT_NE(big, nullptr);
    for (std::uint64_t at = 0; at < big_bytes; at += base::granule_size) {
        auto& destination = *reinterpret_cast<std::uint64_t*>(big + at);
        ASSERT_NE(heap->atomic()->allocate_to(destination, {40'000}), nullptr);
        ASSERT_EQ(heap->atomic()->free_from(destination), operation_result::done);
    }
    ASSERT_TRUE(heap->try_deallocate(big));
    const auto blocks = fill(*heap, 20);
    const auto behind = guarded_ends(*heap, blocks);
    EXPECT_TRUE(std::ranges::any_of(behind, [&](const char* range) { return range >= big && range < big + big_bytes; }))
        << "no range where destinations were";
    heap->atomic()->checkpoint();
    expect_all(blocks, 'x');
    expect_sound(*heap);
    must(heap->close(true));
}

INSTANTIATE_TEST_SUITE_P(durabilities, heap_guards_test,
                         testing::Values(guarded_way{durability_kind::commit, domain_kind::page_cache},
                                         guarded_way{durability_kind::collect, domain_kind::page_cache},
                                         guarded_way{durability_kind::collect, domain_kind::emulated},
                                         guarded_way{durability_kind::atomic, domain_kind::page_cache},
                                         guarded_way{durability_kind::atomic, domain_kind::emulated}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(durabilities, heap_guards_atomic_test,
                         testing::Values(guarded_way{durability_kind::atomic, domain_kind::page_cache},
                                         guarded_way{durability_kind::atomic, domain_kind::emulated}),
                         name_of);

}  // namespace
}  // namespace holdfast::heap
