// Tracing after a crash against a simple reference marker; crashes in the middle of a trace; hostile media.
#include "heap/trace/trace.hpp"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heap/trace/trace_test_support.hpp"

namespace holdfast::heap {
namespace {

using base::failure_code;
using segment::must;
using testing::HasSubstr;
using testing::IsEmpty;

trace_options with(trace_mode mode, unsigned threads, bool raw = false) {
    trace_options options;
    options.mode = mode;
    options.threads = threads;
    options.raw_pointers = raw;
    return options;
}

struct traced_way {
    trace_mode mode;
    unsigned threads;
    bool raw;
};

class trace_of_random_graphs : public testing::TestWithParam<traced_way> {};

TEST_P(trace_of_random_graphs, reaches_what_the_reference_marker_reaches) {
    const type_registry types = example_types();
    const trace_options options = with(GetParam().mode, GetParam().threads, GetParam().raw);
    std::size_t found_in_all = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        traced_heap heap;
        std::mt19937_64 random(seed);
        const auto blocks = random_graph(heap, random, 40 * seed * seed);
        const std::vector<std::uint64_t> objects{blocks.back()};
        heap.crash(seed);
        reference_marker reference(heap, types, options);
        const auto expected = reference.mark(objects);
        const trace_report report = must(heap.trace(types, options, objects));
        heap.open();
        EXPECT_EQ(heap.live(), expected) << "seed " << seed;
        EXPECT_EQ(report.blocks_reached, expected.size());
        EXPECT_EQ(report.bytes_reached, reference.bytes());
        EXPECT_THAT(heap.problems(), IsEmpty());
        found_in_all += expected.size();
        for (int i = 0; i < 100; ++i) {
            EXPECT_FALSE(expected.contains(heap.allocate(100)));  // only unreached blocks are reused
        }
    }
    EXPECT_GT(found_in_all, 1000U) << "the graphs are no graphs";
}

INSTANTIATE_TEST_SUITE_P(
    all_ways, trace_of_random_graphs,
    testing::Values(traced_way{trace_mode::conservative, 1, false}, traced_way{trace_mode::conservative, 2, true},
                    traced_way{trace_mode::conservative, 4, false}, traced_way{trace_mode::precise, 1, false},
                    traced_way{trace_mode::precise, 3, true}, traced_way{trace_mode::precise, 4, false}),
    [](const auto& each) {
        return std::string(each.param.mode == trace_mode::precise ? "precise" : "conservative") + "_" +
               std::to_string(each.param.threads) + (each.param.raw ? "_raw" : "");
    });

/// A stale word that led to what lies behind an older block reached a block that overlaps that one.
TEST(trace_of_a_morphed_slab, reaches_no_block_that_an_older_block_covers) {
    traced_heap heap;
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 3000; ++i) {
        blocks.push_back(heap.allocate(64));
    }
    const base::granule slab = base::granule_of(base::heap_offset{blocks[1500]});
    const std::uint64_t older = base::offset_of(slab).value + 5 * std::uint64_t{320};
    for (const std::uint64_t block : blocks) {
        if (block != older) {
            heap.free(block);
        }
    }
    heap.blocks().small().flush_this_thread();
    ASSERT_TRUE(heap.blocks().morph(slab, slab::class_for(320, 1), 100));
    heap.root(0, older);
    heap.root(1, older + 64);  // was a block; the sixth of 320 bytes, which nobody was given, begins at `older`
    heap.crash(1);
    must(heap.trace(example_types(), with(trace_mode::conservative, 1)));
    heap.open();
    EXPECT_EQ(heap.live(), std::set<std::uint64_t>{older});
    EXPECT_THAT(heap.problems(), IsEmpty());
}

TEST(trace_test, conservative_marking_keeps_all_that_precise_marking_keeps) {
    const type_registry types = example_types();
    for (std::uint64_t seed = 20; seed < 30; ++seed) {
        traced_heap heap;
        std::mt19937_64 random(seed);
        random_graph(heap, random, 500);
        heap.crash(seed);
        trace_options dry = with(trace_mode::precise, 2, true);
        const auto precise = reference_marker(heap, types, dry).mark();
        dry.dry_run = true;
        EXPECT_EQ(must(heap.trace(types, dry)).blocks_reached, precise.size());
        must(heap.trace(types, with(trace_mode::conservative, 2, true)));
        heap.open();
        const auto conservative = heap.live();
        EXPECT_TRUE(std::includes(conservative.begin(), conservative.end(), precise.begin(), precise.end()));
    }
}

TEST(trace_test, a_dry_run_changes_nothing) {
    traced_heap heap;
    std::mt19937_64 random(5);
    random_graph(heap, random, 300);
    heap.crash(5);
    const auto all = heap.metadata();
    const std::vector<std::uint64_t> before(all.begin(), all.end());
    trace_options options = with(trace_mode::conservative, 2);
    options.dry_run = true;
    EXPECT_GT(must(heap.trace({}, options)).blocks_freed, 0U);
    EXPECT_TRUE(std::equal(all.begin(), all.end(), before.begin()));
}

TEST(trace_test, a_list_of_a_million_blocks_needs_no_stack) {
    traced_heap heap(256 * base::mebibyte);
    std::uint64_t next = 0;
    for (int i = 0; i < 1'000'000; ++i) {
        const std::uint64_t node = heap.allocate(16);
        if (next != 0) {
            heap.point(node, next);
        }
        next = node;
    }
    heap.root(7, next);
    heap.crash(1);
    EXPECT_EQ(must(heap.trace({}, with(trace_mode::conservative, 1))).blocks_reached, 1'000'000U);
}

TEST(trace_test, a_huge_array_is_read_in_pieces_and_spills_to_the_common_list) {
    for (const unsigned threads : {1U, 4U}) {
        traced_heap heap(256 * base::mebibyte);
        constexpr std::uint64_t count = 200'000;
        const std::uint64_t array = heap.allocate(count * 8);
        const std::uint64_t typed = heap.allocate(count * 24, 4);
        for (std::uint64_t i = 0; i < count; ++i) {
            heap.point(array + 8 * i, heap.allocate(16));
            heap.point(typed + 24 * i + 16, heap.allocate(16));
        }
        heap.root(0, array);
        heap.root(1, typed);
        heap.crash(2);
        EXPECT_EQ(must(heap.trace(example_types(), with(trace_mode::precise, threads))).blocks_reached, 2 * count + 2);
    }
}

// --- crashes in the middle ------------------------------------------------------------------------------------------

class cut_trace : public testing::Test {
protected:
    void SetUp() override {
        std::mt19937_64 random(77);
        random_graph(heap_, random, 400);
        heap_.crash(77);
        const auto all = heap_.metadata();
        before_.assign(all.begin(), all.end());
        must(trace());
        after_.assign(all.begin(), all.end());
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (before_[i] != after_[i]) {
                (heap_.is_page_entry(all[i]) ? entries_ : bitmaps_).push_back(i);
            }
        }
        heap_.open();
        expected_ = heap_.live();
    }
    base::result<trace_report> trace() { return heap_.trace(types_, options_); }
    /// Traces the media that a crash left.
    void expect_same(const std::set<std::size_t>& written) {
        heap_.crash(1);  // makes new allocators
        const auto all = heap_.metadata();
        std::copy(before_.begin(), before_.end(), all.begin());
        for (const std::size_t at : written) {
            all[at] = after_[at];
        }
        must(trace());
        heap_.open();
        EXPECT_EQ(heap_.live(), expected_) << "after " << written.size() << " writes";
        EXPECT_THAT(heap_.problems(), IsEmpty());
    }

    traced_heap heap_;
    type_registry types_ = example_types();
    trace_options options_ = with(trace_mode::precise, 2);
    std::vector<std::uint64_t> before_;
    std::vector<std::uint64_t> after_;
    std::vector<std::size_t> bitmaps_;  ///< positions of words that the sweep changed
    std::vector<std::size_t> entries_;
    std::set<std::uint64_t> expected_;
};

TEST_F(cut_trace, is_finished_by_the_next_after_every_write) {
    ASSERT_GT(bitmaps_.size(), 100U);
    ASSERT_GT(entries_.size(), 5U);
    std::set<std::size_t> written;
    expect_same(written);
    for (const auto* const phase : {&bitmaps_, &entries_}) {
        for (const std::size_t at : *phase) {
            written.insert(at);
            expect_same(written);
        }
    }
}

TEST_F(cut_trace, is_finished_by_the_next_in_whatever_order_words_reached_the_media) {
    std::mt19937_64 random(3);
    for (int times = 0; times < 200; ++times) {
        std::set<std::size_t> written;
        const bool all_bitmaps = times % 2 == 0;  // bitmaps are durable before the first page entry changes (TRACE-4)
        for (const std::size_t at : bitmaps_) {
            if (all_bitmaps || random() % 2 == 0) {
                written.insert(at);
            }
        }
        for (const std::size_t at : entries_) {
            if (all_bitmaps && random() % 2 == 0) {
                written.insert(at);
            }
        }
        expect_same(written);
    }
}

TEST_F(cut_trace, flushes_every_bitmap_before_it_frees_an_extent_and_these_too) {
    heap_.crash(9);
    const auto all = heap_.metadata();
    std::copy(before_.begin(), before_.end(), all.begin());
    std::set<const std::uint64_t*> flushed;
    const auto note = [&](const void* begin, std::uint64_t bytes) {
        for (const std::size_t at : entries_) {
            EXPECT_TRUE(bytes == sizeof(std::uint64_t) || all[at] == before_[at]);
        }
        for (std::uint64_t i = 0; i < bytes / 8; ++i) {
            flushed.insert(static_cast<const std::uint64_t*>(begin) + i);
        }
    };
    must(heap_.trace(types_, options_, {}, note));
    for (const auto* const phase : {&bitmaps_, &entries_}) {
        for (const std::size_t at : *phase) {
            EXPECT_TRUE(flushed.contains(&all[at]));
        }
    }
}

TEST_F(cut_trace, comes_to_the_same_when_the_heap_crashes_again_once_it_is_open) {
    heap_.crash(4);
    must(trace());
    heap_.open();
    EXPECT_EQ(heap_.live(), expected_);
}

// --- hostile media --------------------------------------------------------------------------------------------------

TEST(trace_of_hostile_media, names_pointers_that_lead_to_no_block) {
    traced_heap heap;
    const std::uint64_t block = heap.allocate(64, 1);
    const std::uint64_t gone = heap.allocate(100'000);
    heap.root(0, block);
    heap.root(1, 8);                                                  // the root words themselves
    heap.point(block, base::to_bytes(heap.frontier()) + 64, 0xabcd);  // behind the heap
    heap.point(block + 24, gone);
    heap.free(gone);
    heap.root(2, block + 63);  // its last byte
    heap.crash(1);
    trace_options options = with(trace_mode::precise, 1);
    const trace_report report = must(heap.trace(example_types(), options));
    EXPECT_EQ(report.blocks_reached, 1U);
    EXPECT_EQ(report.refused_pointers, 2U);
    EXPECT_EQ(report.wild_pointers, 1U);
    EXPECT_THAT(report.lines,
                testing::UnorderedElementsAre(HasSubstr("leads to 0x8, where no block is"),
                                              HasSubstr("leads out of the heap"), HasSubstr("where no block is")));
}

TEST(trace_of_hostile_media, nulls_pointers_out_of_the_heap_where_asked_and_keeps_their_stamps) {
    traced_heap heap;
    const std::uint64_t block = heap.allocate(64, 1);
    const std::uint64_t other = heap.allocate(64, 2);
    heap.root(0, block);
    heap.point(block, base::to_bytes(heap.frontier()) + (1U << 20U), 0xabcd);
    heap.point(block + 24, other, 7);
    heap.word(block + 8) = 0x123456789;  // by its type not a pointer
    heap.word(other + 8) = 0x7fff12345678;
    const std::uint64_t inside = heap.word(block + 24);
    heap.crash(1);
    trace_options options = with(trace_mode::precise, 2, true);
    options.null_transient = true;
    options.dry_run = true;
    EXPECT_EQ(must(heap.trace(example_types(), options)).nulled_pointers, 0U);
    options.dry_run = false;
    EXPECT_EQ(must(heap.trace(example_types(), options)).nulled_pointers, 2U);
    EXPECT_EQ(heap.word(block), segment::null_pointer(0xabcd));
    EXPECT_EQ(heap.word(block + 24), inside);
    EXPECT_EQ(heap.word(block + 8), 0x123456789U);
    EXPECT_EQ(heap.word(other + 8), 0U);
}

TEST(trace_of_hostile_media, types_that_nobody_knows_are_read_conservatively_or_refused) {
    traced_heap heap;
    const std::uint64_t block = heap.allocate(64, 99);
    const std::uint64_t child = heap.allocate(64, 3);
    heap.point(block + 40, child);
    heap.root(0, block);
    heap.crash(1);
    const auto all = heap.metadata();
    const std::vector<std::uint64_t> before(all.begin(), all.end());
    trace_options options = with(trace_mode::precise, 2);
    options.unknown = unknown_types::fail;
    const auto refused = heap.trace(example_types(), options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::type_mismatch);
    EXPECT_EQ(refused.error().found, "99");
    EXPECT_TRUE(std::equal(all.begin(), all.end(), before.begin()));
    options.unknown = unknown_types::conservative;
    const trace_report report = must(heap.trace(example_types(), options));
    EXPECT_EQ(report.blocks_reached, 2U);
    EXPECT_EQ(report.unknown_type_blocks, 1U);
}

TEST(trace_of_hostile_media, a_slab_with_a_bad_header_is_left_alone_and_what_it_leads_to_is_kept) {
    traced_heap heap;
    const std::uint64_t damaged = heap.allocate(64);
    const std::uint64_t child = heap.allocate(4000);
    heap.point(damaged + 8, child);
    heap.root(0, damaged);
    heap.crash(1);
    const base::granule slab{damaged / base::granule_size};
    const std::uint64_t bits = heap.view().live_bitmap(slab)[0];
    heap.view().slab_header(slab).block_size = 65;
    const trace_report report = must(heap.trace({}, with(trace_mode::conservative, 2)));
    EXPECT_EQ(report.slabs_quarantined, 1U);
    EXPECT_EQ(report.blocks_reached, 1U);
    EXPECT_THAT(report.lines, testing::Contains(HasSubstr("SLAB-1")));
    EXPECT_EQ(heap.view().live_bitmap(slab)[0], bits);
    heap.open();
    EXPECT_TRUE(heap.live().contains(child));
}

TEST(trace_of_hostile_media, bad_page_entries_are_a_failure_and_nothing_is_changed) {
    traced_heap heap;
    const std::uint64_t block = heap.allocate(100'000);
    heap.root(0, block);
    heap.crash(1);
    heap.view().page_entry_word({block / base::page_size}) =
        segment::encode({segment::extent_kind::used, heap.frontier(), 0});
    const auto traced = heap.trace({}, {});
    ASSERT_FALSE(traced.ok());
    EXPECT_EQ(traced.error().code, failure_code::corrupt);
    EXPECT_THAT(traced.error().message(), HasSubstr("EXT-1"));
}

TEST(trace_of_hostile_media, noise_in_metadata_neither_crashes_nor_hangs) {
    const type_registry types = example_types();
    int traced = 0;
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        traced_heap heap;
        std::mt19937_64 random(seed);
        random_graph(heap, random, 150);
        heap.crash(seed);
        for (std::uint64_t times = 1 + random() % 4; times > 0; --times) {
            const base::pages page{random() % heap.frontier().value};
            switch (random() % 4) {
                case 0: heap.view().page_entry_word(page) = random(); break;
                case 1:
                    heap.view().page_entry_word(page) =
                        segment::encode({static_cast<segment::extent_kind>(random() % 6), {random() % 40}, 0});
                    break;
                case 2:
                    heap.view().slab_header(base::granule_of(page)).type = random() % (2 * segment::type_limit);
                    break;
                default:
                    heap.view().slab_header(base::granule_of(page)).block_size =
                        static_cast<std::uint32_t>(random() % 200);
            }
        }
        const auto mode = seed % 2 == 0 ? trace_mode::precise : trace_mode::conservative;
        traced += heap.trace(types, with(mode, static_cast<unsigned>(1 + seed % 3), seed % 5 == 0)).ok() ? 1 : 0;
    }
    EXPECT_GT(traced, 20);
}

TEST(trace_of_hostile_media, lines_are_bounded_and_counts_are_not) {
    traced_heap heap;
    for (std::uint64_t i = 0; i < root_count; ++i) {
        heap.root(i, 16);
    }
    heap.crash(1);
    trace_options options = with(trace_mode::conservative, 1);
    options.most_lines = 5;
    const trace_report report = must(heap.trace({}, options));
    EXPECT_EQ(report.lines.size(), 5U);
    EXPECT_EQ(report.refused_pointers, root_count);
}

// --- visitors -------------------------------------------------------------------------------------------------------

TEST(trace_with_visitors, follows_what_the_visitor_says_and_nothing_else) {
    traced_heap heap;
    type_registry types;
    must(types.add_visitor(5, [](void* block, std::uint64_t bytes, pointer_sink& sink) {
        auto* const words = static_cast<std::uint64_t*>(block);
        sink.pointer(&words[words[0] % (bytes / 8)]);  // the first word selects the pointer
        sink.pointer(words - 1);                       // outside its block
    }));
    const std::uint64_t block = heap.allocate(64, 5);
    const std::uint64_t kept = heap.allocate(32);
    const std::uint64_t lost = heap.allocate(32);
    heap.word(block) = 3;
    heap.point(block + 16, lost);
    heap.point(block + 24, kept);
    heap.root(0, block);
    heap.crash(1);
    const trace_report report = must(heap.trace(types, with(trace_mode::precise, 1)));
    EXPECT_EQ(report.refused_pointers, 1U);
    heap.open();
    EXPECT_EQ(heap.live(), (std::set<std::uint64_t>{block, kept}));
}

TEST(trace_with_visitors, an_exception_ends_it_with_a_failure) {
    traced_heap heap;
    type_registry types;
    must(types.add_visitor(5, [](void*, std::uint64_t, pointer_sink&) { throw std::runtime_error("no"); }));
    heap.root(0, heap.allocate(64, 5));
    heap.crash(1);
    for (const unsigned threads : {1U, 3U}) {
        const auto traced = heap.trace(types, with(trace_mode::precise, threads));
        ASSERT_FALSE(traced.ok());
        EXPECT_THAT(traced.error().field, HasSubstr("visitor of type 5"));
    }
}

}  // namespace
}  // namespace holdfast::heap
