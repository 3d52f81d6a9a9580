// A reader that is stopped while it opens a heap: whatever others do meanwhile, what it has found is whole, and nobody
// waits for it.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"
#include "segment/commit/recovery.hpp"
#include "segment/format/heap_format.hpp"
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

// Stopped at any moment, it would have what it has.
TEST_F(manager_stopped_reader_test, takes_no_lock_between_turns) {
    make_heap();
    manager one = share();
    change(one, 2);
    {
        const auto lock = segment::must(segment::heap_lock::acquire(persist::posix_storage(), path(),
                                                                    persist::access_mode::read_write,
                                                                    segment::heap_lock::missing_file::do_without));
        const stopped_reader reader(path());
        EXPECT_TRUE(reader.is_beside());
    }
    change(one, 2);
    EXPECT_EQ(number_of(one), 4U);
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

// A heap that was recovered has no log before the next commit. Who opens it until then, beside a reader that is about
// to read, begins behind a home of which media say so, and has the log that follows it all the same.
class manager_without_log_test : public manager_test {
protected:
    using small_block = std::array<char, 50'000>;
    using large_block = std::array<char, 1'500'000>;  // worth a way home

    void make_recovered() {
        {
            manager heap = create();
            heap.construct<small_block>("small")()->fill('0');
            heap.construct<large_block>("large")()->fill('0');
        }
        EXPECT_TRUE(base::run_in_child([&] {
                        manager heap = share();
                        heap.transact([&] { block_of<small_block>(heap, "small").fill('x'); });
                        heap.transact([&] { block_of<small_block>(heap, "small").fill('0'); });
                        heap.transact([] { ::raise(SIGKILL); });
                    }).was_killed());
        std::optional<stopped_reader> about_to_read;
        manager recovers = share();
        EXPECT_THROW(recovers.transact([&] {
            about_to_read.emplace(path());
            throw std::runtime_error("nothing is committed");
        }),
                     std::runtime_error);
        writer_.emplace(share());
        about_to_read.reset();
        reader_.emplace(open_read_only, path());
        keeps_home_.emplace(open_read_only, path());
    }
    template <class Block>
    static Block& block_of(const manager& heap, const char* name) {
        return *heap.find<Block>(name).first;
    }
    void change_small(char value) {
        writer_->transact([&] { block_of<small_block>(*writer_, "small").fill(value); });
    }
    void change_large(char value) {
        writer_->transact([&] { block_of<large_block>(*writer_, "large").fill(value); });
    }
    static void expect_filled(const manager& heap, char of_small, char of_large) {
        EXPECT_EQ(std::ranges::count(block_of<small_block>(heap, "small"), of_small), 50'000);
        EXPECT_EQ(std::ranges::count(block_of<large_block>(heap, "large"), of_large), 1'500'000);
    }

    std::optional<manager> writer_;
    std::optional<manager> reader_;
    std::optional<manager> keeps_home_;
};

TEST_F(manager_without_log_test, readers_see_each_version_when_home_goes_on) {
    make_recovered();
    change_small('1');
    reader_->refresh();
    change_large('2');
    keeps_home_.reset();
    change_large('3');  // home goes to the reader's version
    reader_->refresh();
    expect_filled(*reader_, '1', '3');
    expect_filled(*writer_, '1', '3');
    EXPECT_TRUE(writer_->check(true).empty());
}

TEST_F(manager_without_log_test, a_close_beside_readers_loses_nothing) {
    make_recovered();
    change_small('1');
    change_large('2');
    writer_.reset();
    expect_filled(open(), '1', '2');
    reader_->refresh();
    expect_filled(*reader_, '1', '2');
}

}  // namespace
}  // namespace holdfast
