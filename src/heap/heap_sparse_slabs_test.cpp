// Sparse slabs on real files: a commit gives back free pages, and live blocks keep their content.
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heap/heap.hpp"
#include "segment/test_support.hpp"

namespace holdfast::heap {
namespace {

using persist::access_mode;
using segment::must;
using testing::IsEmpty;

constexpr std::size_t small_bytes = 150;

class heap_sparse_slabs_test : public testing::Test {
protected:
    void SetUp() override { heap_ = must(engine::create(directory_.path("heap"), options(durability_kind::commit))); }

    [[nodiscard]] engine_options options(durability_kind durability) const {
        engine_options wanted;
        wanted.durability = durability;
        wanted.accept_process_crash_only = true;
        wanted.domain = persist::domain_kind::page_cache;
        wanted.files.segment_size = segment::minimum_segment_size;
        wanted.files.mapping.reservation = base::gibibyte;
        wanted.decay_ns = decay_ns_;
        return wanted;
    }
    void open(durability_kind durability, access_mode mode = access_mode::read_write) {
        heap_.reset();
        heap_ = must(engine::open(directory_.path("heap"), mode, options(durability)));
    }
    [[nodiscard]] std::byte* at(std::uint64_t offset) const { return heap_->files().view().base() + offset; }
    void put(std::size_t bytes) {
        void* const block = heap_->allocate(bytes, 1);
        ASSERT_NE(block, nullptr) << engine::last_failure().message();
        const auto pattern = static_cast<unsigned char>(random_());
        std::memset(block, pattern, bytes);
        live_[heap_->files().view().offset(block).value] = {bytes, pattern};
    }
    void drop_at_random(double part) {
        std::bernoulli_distribution drops(part);
        for (auto each = live_.begin(); each != live_.end();) {
            if (drops(random_)) {
                must(heap_->deallocate(at(each->first)));
                each = live_.erase(each);
            } else {
                ++each;
            }
        }
    }
    /// Leaves a few of many blocks of a class, then allocates another class only.
    void end_a_phase() {
        for (int i = 0; i < 60'000; ++i) {
            put(small_bytes);
        }
        must(heap_->commit());
        drop_at_random(0.985);
        for (int i = 0; i < 400'000; ++i) {  // 49 slabs of a class into which no slab is morphed
            put(8);
        }
        heap_->blocks().small().flush_this_thread();
    }
    [[nodiscard]] std::uint64_t charged() const { return must(heap_->files().statistics()).charged_bytes; }
    void expect_all_kept() const {
        EXPECT_THAT(heap_->check(true), IsEmpty());
        for (const auto& [offset, what] : live_) {
            const std::byte* const block = at(offset);
            for (std::size_t i = 0; i < what.bytes; ++i) {
                ASSERT_EQ(static_cast<unsigned char>(block[i]), what.pattern) << "block at " << offset;
            }
        }
    }

    struct known {
        std::size_t bytes;
        unsigned char pattern;
    };
    std::uint64_t decay_ns_ = extent::decay_curve::never - 1;  // free extents stay; slabs may give pages back
    segment::test_directory directory_;
    std::unique_ptr<engine> heap_;
    std::map<std::uint64_t, known> live_;
    std::mt19937_64 random_{7};
};

TEST_F(heap_sparse_slabs_test, space_of_what_nobody_wants_any_more_goes_with_a_commit) {
    end_a_phase();
    const std::uint64_t before = charged();
    const segment::commit_statistics done = must(heap_->commit());
    EXPECT_GT(done.given_back_pages, 500U);
    EXPECT_LT(charged() + 400 * base::page_size, before);
    expect_all_kept();
    must(heap_->commit());
    EXPECT_THAT(heap_->blocks().slabs().make_sparse(false).holes, IsEmpty()) << "all of them are known";
    expect_all_kept();
}

TEST_F(heap_sparse_slabs_test, what_lives_is_there_in_every_durability) {
    end_a_phase();
    must(heap_->commit());
    must(heap_->close(true));
    for (int round = 0; round < 2; ++round) {
        open(durability_kind::commit, access_mode::read_only);
        expect_all_kept();
        for (const auto durability : {durability_kind::atomic, durability_kind::commit, durability_kind::collect}) {
            open(durability);
            expect_all_kept();
            drop_at_random(0.1);
            expect_all_kept();
            for (int i = 0; i < 3'000; ++i) {
                put(small_bytes);
            }
            expect_all_kept();
            must(heap_->close(true));
        }
    }
    open(durability_kind::commit);
    expect_all_kept();
    drop_at_random(1);
    heap_->blocks().small().release_unused();
    EXPECT_EQ(heap_->blocks().inspect().statistics().slabs, 0U);
    expect_all_kept();
}

TEST_F(heap_sparse_slabs_test, a_process_that_ends_without_closing_leaves_the_last_commit) {
    end_a_phase();
    must(heap_->commit());
    const auto committed = live_;
    drop_at_random(0.3);
    for (int i = 0; i < 5'000; ++i) {  // in slabs that need their pages again
        put(small_bytes);
    }
    open(durability_kind::commit);
    live_ = committed;
    expect_all_kept();
    for (int i = 0; i < 5'000; ++i) {
        put(small_bytes);
    }
    must(heap_->commit());
    expect_all_kept();
    open(durability_kind::atomic);
    expect_all_kept();
    must(heap_->close(true));
}

TEST_F(heap_sparse_slabs_test, what_is_repopulated_is_not_logged) {
    end_a_phase();
    must(heap_->commit());
    for (int i = 0; i < 5'000; ++i) {
        put(small_bytes);
    }
    const segment::commit_statistics done = must(heap_->commit());
    EXPECT_GT(done.fresh_pages, 50U);
    expect_all_kept();
    open(durability_kind::commit);
    expect_all_kept();
}

TEST_F(heap_sparse_slabs_test, shrink_asks_no_class_whether_it_is_idle) {
    for (int i = 0; i < 20'000; ++i) {
        put(small_bytes);
    }
    must(heap_->commit());
    drop_at_random(0.985);
    heap_->blocks().small().flush_this_thread();
    must(heap_->commit());
    const std::uint64_t before = charged();
    const shrink_report report = must(heap_->shrink(0, [](const shrink_report&) {}));
    EXPECT_GT(report.given_back, 200 * base::page_size);
    EXPECT_LT(charged(), before);
    expect_all_kept();
    put(small_bytes);
    must(heap_->commit());
    open(durability_kind::commit);
    expect_all_kept();
}

class heap_keeps_space_test : public heap_sparse_slabs_test {
protected:
    heap_keeps_space_test() { decay_ns_ = extent::decay_curve::never; }
};

TEST_F(heap_keeps_space_test, where_space_was_promised_nothing_becomes_sparse) {
    end_a_phase();
    EXPECT_EQ(must(heap_->commit()).given_back_pages, 0U);
    expect_all_kept();
    EXPECT_GT(must(heap_->shrink(0, [](const shrink_report&) {})).given_back, 0U) << "but where it is asked for";
    expect_all_kept();
}

}  // namespace
}  // namespace holdfast::heap
