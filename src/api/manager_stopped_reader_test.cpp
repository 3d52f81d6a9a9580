// A reader that is stopped while it opens a heap: whatever others do meanwhile, what it has found is whole, and nobody
// waits for it.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"
#include "segment/commit/recovery.hpp"
#include "segment/format/commit_format.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast {
namespace {

/// Of a reader that has begun to open the heap, and does not go on: what it has found, as one that goes on would map
/// it.
class stopped_reader {
public:
    explicit stopped_reader(const std::string& path)
        : paths_(path), found_(segment::must(segment::open_and_recover(persist::posix_storage(), paths_))) {}
    stopped_reader(const stopped_reader&) = delete;
    stopped_reader& operator=(const stopped_reader&) = delete;
    ~stopped_reader() = default;

    [[nodiscard]] bool is_beside() const noexcept { return found_.directories->locks.empty(); }
    /// All segments and the directory of objects, as its version has them.
    [[nodiscard]] std::vector<std::byte> content() const {
        const segment::superblock_on_media& version = found_.state.superblock;
        const std::uint64_t segments = base::divide_up(version.frontier, version.segment_size);
        std::vector<std::byte> all;
        for (std::uint64_t i = 0; i < segments; ++i) {
            append(all, i, segment::geometry_of(version).file_size());
        }
        append(all, segment::objects_file_id, version.objects_size);
        return all;
    }

private:
    void append(std::vector<std::byte>& to, std::uint64_t id, std::uint64_t bytes) const {
        const std::size_t at = to.size();
        to.resize(at + bytes);
        const std::span<std::byte> content(to.data() + at, bytes);
        persist::storage& held = *found_.directories->storage;
        const auto file = segment::must(held.open(paths_.file(id), persist::access_mode::read_only));
        segment::must(file->read_at(0, content));
        if (found_.state.overlay) {
            segment::patch_reader log(held, paths_, *found_.state.overlay);
            segment::must(log.lay_over(segment::place_of(id, 0), content));
        }
    }

    segment::heap_paths paths_;
    segment::reader_state found_;
};

class manager_stopped_reader_test : public manager_test {
protected:
    static std::uint64_t& number_of(const manager& heap) { return *heap.find<std::uint64_t>("number").first; }
    void make_heap() const {
        create().transact([] {});
        manager heap = open();
        heap.construct<std::uint64_t>("number")(0U);
        heap.construct<std::array<char, block_bytes>>("block")();
    }
    /// So few pages that none goes home before its record, and all bytes of them.
    static void change(manager& heap, int transactions) {
        for (int i = 0; i < transactions; ++i) {
            heap.transact([&] {
                const std::uint64_t number = ++number_of(heap);
                std::ranges::fill(*heap.find<std::array<char, block_bytes>>("block").first, static_cast<char>(number));
            });
        }
    }
    static constexpr std::size_t block_bytes = 50'000;
};

class manager_stopped_reader_of_turns_test : public manager_stopped_reader_test,
                                             public testing::WithParamInterface<bool> {};

TEST_P(manager_stopped_reader_of_turns_test, keeps_nobody_waiting_while_it_opens_the_heap) {
    make_heap();
    std::optional<manager> one(share());
    change(*one, 2);
    std::optional<stopped_reader> stopped;
    if (GetParam()) {
        one->transact([&] { stopped.emplace(path()); });
    } else {
        stopped.emplace(path());
    }
    ASSERT_TRUE(stopped->is_beside());
    const std::vector<std::byte> content = stopped->content();
    const auto die_with_the_turn = [&] {
        EXPECT_TRUE(base::run_in_child([&] {
                        manager heap = share();
                        heap.transact([&] {
                            number_of(heap) = 0;
                            ::raise(SIGKILL);
                        });
                    }).was_killed());
    };
    die_with_the_turn();
    change(*one, 30);  // that has the heap open
    EXPECT_EQ(stopped->content(), content);
    die_with_the_turn();
    one.reset();
    one.emplace(share());  // that opens it
    change(*one, 30);
    EXPECT_EQ(stopped->content(), content);
    one.reset();
    for (int i = 0; i < 3; ++i) {  // that has it alone, and closes it
        manager alone = open();
        change(alone, 30);
        alone.commit();
    }
    EXPECT_EQ(stopped->content(), content);
    EXPECT_EQ(number_of(open()), 2U + 5U * 30U);
}

// Home has all that it has found: the next session begins a log of its own.
TEST_F(manager_stopped_reader_test, keeps_the_log_of_a_session_that_has_ended) {
    make_heap();
    std::optional<manager> heap(open());
    change(*heap, 3);
    heap->commit();
    const stopped_reader stopped(path());
    ASSERT_TRUE(stopped.is_beside());
    const std::vector<std::byte> content = stopped.content();
    heap.reset();
    heap.emplace(open());
    change(*heap, 60);
    EXPECT_EQ(stopped.content(), content);
    heap.reset();
    EXPECT_EQ(stopped.content(), content);
    EXPECT_EQ(number_of(open()), 63U);
}

INSTANTIATE_TEST_SUITE_P(while_a_process_has_the_turn_or_none, manager_stopped_reader_of_turns_test, testing::Bool());

}  // namespace
}  // namespace holdfast
