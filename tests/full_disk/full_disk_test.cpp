// Full disks: every act that needs space fails with a reason, leaves nothing behind, and the heap goes on.
//
// Fault model: from some moment on the file system refuses blocks (ENOSPC). A store to a block that was handed out must
// never meet a hole: that would be SIGBUS, and the end of this process. What the durability promises is what a copy of
// the open heap's files recovers to.
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "full_disk/full_disks.hpp"
#include "kill/world.hpp"
#include "powerloss/mounts.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

/// A durability; `emulated` is `atomic` with the instructions of DAX.
enum class way : std::uint8_t { commit, collect, atomic, emulated };

using parameters = std::tuple<const char*, way>;

/// Runs on tmpfs and on ext4, which differ in where a lack of space shows.
class full_disk : public on_small_disk<parameters> {
protected:
    [[nodiscard]] static bool on_tmpfs() { return std::string(std::get<0>(GetParam())) == "tmpfs"; }
    [[nodiscard]] static way how() { return std::get<1>(GetParam()); }

    void SetUp() override { mount(std::get<0>(GetParam()), 48, 64); }

    [[nodiscard]] static open_options small_segments() {
        open_options wanted;
        wanted.segment_size = 4 * mebibyte;
        wanted.commit_on_close = false;
        wanted.durability = how() == way::commit    ? durability::commit
                            : how() == way::collect ? durability::collect
                                                    : durability::atomic;
        wanted.accept_process_crash_only = true;
        wanted.domain =
            how() == way::emulated ? open_options::domain_choice::emulated : open_options::domain_choice::page_cache;
        return wanted;
    }

    [[nodiscard]] std::uint64_t bytes_of_log() const {
        std::uint64_t bytes = 0;
        for (const auto& entry : fs::directory_iterator(path_)) {
            bytes += entry.path().filename().string().starts_with("log.") ? entry.file_size() : 0;
        }
        return bytes;
    }
    /// The files as they are, as if the process had died now.
    [[nodiscard]] std::string copy_files() {
        const std::string copy = room_->path() + "/copy" + std::to_string(copies_++);
        fs::copy(path_, copy, fs::copy_options::recursive);
        return copy;
    }
    /// The world, and at least and at most so many blocks more. `collect`: stale words may keep a few besides.
    static void expect_world(const manager& found, const world_state& world, std::size_t least, std::size_t most) {
        EXPECT_EQ(found.check(true), std::vector<std::string>()) << found.path();
        EXPECT_EQ(examine(found).digest, world.digest) << found.path();
        EXPECT_GE(found.statistics().allocated_blocks, world.blocks + least);
        EXPECT_LE(found.statistics().allocated_blocks, world.blocks + most + (how() == way::collect ? 16 : 0));
    }
    /// What a crash now would leave. `commit`: the world of the last commit, and no block more. The others: the world
    /// as it is, and the first of these blocks, to which roots lead; `atomic`: all of them, and no other block.
    void expect_survives(manager& heap, const world_state& world, const std::vector<block>& blocks = {}) {
        constexpr std::size_t first_root = 8;
        const std::size_t reached = how() == way::commit ? 0 : std::min<std::size_t>(blocks.size(), 100);
        for (std::size_t i = 0; i < reached; ++i) {
            heap.root(first_root + i) = blocks[i].at;
        }
        const manager found(open_read_only, copy_files());  // recovers in memory
        expect_world(found, world,
                     how() == way::collect  ? reached
                     : how() == way::commit ? 0
                                            : blocks.size(),
                     how() == way::commit ? 0 : blocks.size());
        for (std::size_t i = 0; i < reached; ++i) {
            const block same{static_cast<std::byte*>(found.root(first_root + i).get()), blocks[i].size, blocks[i].seed};
            ASSERT_NE(same.at, nullptr);
            EXPECT_GE(found.usable_size(same.at), same.size);
            EXPECT_TRUE(intact(same));
            heap.root(first_root + i) = nullptr;
        }
    }
    void expect_no_room(const std::string& reason) const {
        EXPECT_NE(reason.find("No space left on device"), std::string::npos) << reason;
        EXPECT_NE(reason.find(path_), std::string::npos) << reason;
    }

    /// Allocates and fills until there is no more.
    std::vector<block> use_up(manager& heap, std::size_t size) {
        std::vector<block> blocks;
        try {
            while (true) {
                blocks.push_back(
                    {static_cast<std::byte*>(heap.allocate(size)), size, static_cast<int>(blocks.size() % 251)});
                fill(blocks.back());
            }
        } catch (const bad_alloc& failure) {
            reason_ = failure.what();
        }
        return blocks;
    }

    std::string reason_;
    int copies_ = 0;
};

/// What only a commit does.
class full_disk_commit : public full_disk {};

TEST_P(full_disk, allocation_says_why_and_goes_on) {
    manager heap(create_only, path_, small_segments());
    make_world(heap);
    heap.commit();
    const world_state before = examine(heap);
    for (const std::size_t size : {std::size_t{100}, std::size_t{5000}, std::size_t{100'000}, std::size_t{3'000'000}}) {
        std::vector<block> blocks = use_up(heap, size);
        EXPECT_GT(blocks.size() * size, 20 * mebibyte) << "blocks of " << size;
        expect_no_room(reason_);
        EXPECT_EQ(heap.allocate(8 * mebibyte, std::nothrow), nullptr);
        EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
        // What is freed can be had again.
        for (std::size_t i = 0; i < blocks.size(); i += 2) {
            heap.deallocate(blocks[i].at);
            blocks[i].at = static_cast<std::byte*>(heap.allocate(size));
            fill(blocks[i]);
        }
        EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
        EXPECT_EQ(heap.check(false), std::vector<std::string>());
        expect_survives(heap, before, blocks);
        for (const block& each : blocks) {
            heap.deallocate(each.at);
        }
    }
    expect_survives(heap, before);
    EXPECT_EQ(examine(heap).digest, before.digest);
    heap.commit();
    expect_survives(heap, before);
}

/// A call that finds no space has no effect; where space returns, it is done.
TEST_P(full_disk, destinations_keep_what_they_have) {
    manager heap(create_only, path_, small_segments());
    make_world(heap);
    heap.commit();
    const world_state before = examine(heap);
    auto full = std::make_unique<ballast>(directory_, 4 * mebibyte);
    constexpr std::size_t size = 8 * mebibyte;
    const std::vector<block> blocks = use_up(heap, 5000);
    ASSERT_GT(blocks.size(), 2U);
    heap.root(1) = blocks[0].at;
    const std::uint64_t allocated = heap.statistics().allocated_blocks;
    ptr<void>* const both[] = {&heap.root(2), &heap.root(3)};
    const auto expect_refused = [&](const auto& call) {
        try {
            call();
            ADD_FAILURE() << "8 MiB on a full disk";
        } catch (const bad_alloc& failure) {
            expect_no_room(failure.what());
        }
        EXPECT_EQ(heap.root(1), blocks[0].at);
        EXPECT_TRUE(heap.root(2) == nullptr && heap.root(3) == nullptr);
        EXPECT_EQ(heap.statistics().allocated_blocks, allocated);
    };
    expect_refused([&] { heap.realloc_to(heap.root(1), size); });
    expect_refused([&] { heap.allocate_to(heap.root(2), size, {.zeroed = true}); });
    expect_refused([&] { heap.allocate_batch<void>(both, size); });
    expect_refused([&] { static_cast<void>(heap.reserve(size)); });
    EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
    EXPECT_EQ(heap.check(false), std::vector<std::string>());
    expect_survives(heap, before, blocks);
    full.reset();
    const block grown{static_cast<std::byte*>(heap.realloc_to(heap.root(1), size)), 5000, blocks[0].seed};
    EXPECT_TRUE(intact(grown));
    fill({grown.at, size, 1});
    heap.allocate_batch<void>(both, size);
    EXPECT_EQ(heap.statistics().allocated_blocks, allocated + 2);
    EXPECT_TRUE(std::all_of(blocks.begin() + 1, blocks.end(), intact));
    EXPECT_EQ(heap.check(false), std::vector<std::string>());
}

TEST_P(full_disk_commit, commit_without_room_changes_nothing_and_may_be_repeated) {
    manager heap(create_only, path_, small_segments());
    make_world(heap);
    random numbers(7);
    change_world(heap, numbers, {.shard_bytes = mebibyte});
    std::vector<block> blocks;
    for (int i = 0; i < 16; ++i) {
        blocks.push_back({static_cast<std::byte*>(heap.allocate(mebibyte / 2)), mebibyte / 2, i});
        fill(blocks.back());
    }
    heap.commit();
    const world_state before = examine(heap);
    const std::uint64_t sequence = heap.statistics().commit_sequence;
    auto full = std::make_unique<ballast>(directory_, 0);
    for (block& each : blocks) {
        each.seed += 100;
        fill(each);
    }
    for (int attempt = 0; attempt < 3; ++attempt) {
        try {
            heap.commit();
            ADD_FAILURE() << "a commit of 8 MiB on a full disk";
        } catch (const error& failure) {
            EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
        }
        EXPECT_EQ(heap.statistics().commit_sequence, sequence);
        EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
    }
    EXPECT_EQ(heap.check(false), std::vector<std::string>());
    const std::string copy = copy_files();
    full.reset();
    heap.commit();
    EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
    EXPECT_LE(bytes_of_log(), 4 * mebibyte) << "of 8 MiB, where the disk is short";
    // The copy of then still has the blocks of then.
    const manager old(open_read_only, copy);
    EXPECT_EQ(examine(old).digest, before.digest);
    EXPECT_EQ(old.check(true), std::vector<std::string>());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const void* const then = old.get_address_from_handle(heap.get_handle_from_address(blocks[i].at));
        EXPECT_EQ(*static_cast<const std::byte*>(then), static_cast<std::byte>(i));
    }
}

/// On tmpfs a block takes its space with the commit that writes it: who takes the space before is the commit's failure,
/// never a heap that is neither the last commit nor this one.
TEST_P(full_disk_commit, a_commit_whose_blocks_lost_their_space_to_others_is_refused) {
    manager heap(create_only, path_, small_segments());
    make_world(heap);
    const block untouched{static_cast<std::byte*>(heap.allocate(8 * mebibyte)), 8 * mebibyte, 1};
    heap.root(1) = untouched.at;
    heap.commit();
    const world_state before = examine(heap);
    const block fresh{static_cast<std::byte*>(heap.allocate(8 * mebibyte)), 8 * mebibyte, 2};
    auto full = std::make_unique<ballast>(directory_, 4 * mebibyte);
    fill(untouched);
    fill(fresh);
    for (int attempt = 0; attempt < 3; ++attempt) {
        try {
            heap.commit();
            ADD_FAILURE() << "a commit of 16 MiB where 4 MiB are left";
        } catch (const error& failure) {
            EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
        }
        const manager last(open_read_only, copy_files());
        EXPECT_EQ(last.check(true), std::vector<std::string>());
        EXPECT_EQ(examine(last).digest, before.digest);
    }
    full.reset();
    heap.commit();
    EXPECT_TRUE(intact(untouched) && intact(fresh));
    EXPECT_EQ(heap.check(true), std::vector<std::string>());
}

/// Was: the log went with its room, and the next commit on a full disk failed, though it would have given space back.
TEST_P(full_disk_commit, a_shrink_leaves_room_for_commits_that_only_free) {
    manager heap(create_only, path_, small_segments());
    std::array<void*, 3> blocks{};
    for (void*& each : blocks) {
        each = std::memset(heap.allocate(5 * mebibyte), 1, 5 * mebibyte);
    }
    heap.commit();
    heap.deallocate(blocks[0]);
    heap.shrink();
    const ballast full(directory_, 0);
    const std::uint64_t before = charged(path_);
    heap.deallocate(blocks[1]);
    heap.commit();
    EXPECT_LT(charged(path_), before);
}

TEST_P(full_disk, create_leaves_nothing_behind) {
    // From no room at all to nearly enough.
    int refused = 0;
    for (std::uint64_t room = 0; room < 4 * mebibyte; room += 192 * 1024) {
        const ballast full(directory_, room);
        const std::set<std::string> before = everything_in(directory_);
        try {
            const manager heap(create_only, path_, small_segments());
            EXPECT_EQ(heap.check(true), std::vector<std::string>());
        } catch (const error& failure) {
            ++refused;
            EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
            EXPECT_EQ(everything_in(directory_), before) << "room " << room;
        }
        if (fs::exists(path_)) {
            EXPECT_TRUE(manager::remove(path_));
        }
    }
    EXPECT_GT(refused, 3);
}

TEST_P(full_disk_commit, close_fails_and_can_be_repeated) {
    manager heap(create_only, path_, small_segments());
    make_world(heap);
    const block big{static_cast<std::byte*>(heap.allocate(8 * mebibyte)), 8 * mebibyte, 1};
    heap.root(1) = big.at;
    fill(big);
    heap.commit();
    const auto first_byte = [](const std::string& path) {
        const manager copy(open_read_only, path);
        EXPECT_EQ(copy.check(true), std::vector<std::string>());
        return static_cast<int>(*static_cast<const unsigned char*>(copy.root(1).get()));
    };
    {
        const ballast full(directory_, 0);
        fill({big.at, big.size, 2});
        try {
            heap.close(true);
            ADD_FAILURE() << "a commit of 8 MiB on a full disk";
        } catch (const error& failure) {
            EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
        }
        EXPECT_TRUE(heap.is_open());
        EXPECT_EQ(first_byte(copy_files()), 1);
    }
    heap.close(true);
    EXPECT_EQ(first_byte(path_), 2);
}

/// A heap that has all its space closes, recovers and opens where there is no more.
TEST_P(full_disk, close_and_open_without_room) {
    manager heap(create_only, path_, small_segments());
    make_world(heap);
    random numbers(3);
    change_world(heap, numbers, {.shard_bytes = mebibyte});
    heap.commit();
    const world_state before = examine(heap);
    fs::copy(path_, directory_ + "/crashed", fs::copy_options::recursive);
    const ballast full(directory_, 0);
    heap.close(true);
    for (const std::string& path : {path_, directory_ + "/crashed"}) {
        manager again(open_only, path, small_segments());
        expect_world(again, before, 0, 0);
        again.close(true);
    }
}

TEST_P(full_disk, snapshot_and_copy_leave_nothing_behind) {
    manager heap(create_only, path_, small_segments());
    make_world(heap);
    random numbers(5);
    for (int i = 0; i < 6; ++i) {
        change_world(heap, numbers, {.shard_bytes = 3 * mebibyte});
    }
    heap.commit();
    const world_state state = examine(heap);
    int refused = 0;
    const auto try_both = [&](std::uint64_t room) {
        const ballast full(directory_, room);
        const std::set<std::string> before = everything_in(directory_);
        try {
            heap.snapshot(directory_ + "/snapshot");
            expect_world(manager(open_read_only, directory_ + "/snapshot"), state, 0, 0);
            manager::remove(directory_ + "/snapshot");
        } catch (const error& failure) {
            ++refused;
            EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
        }
        EXPECT_EQ(everything_in(directory_), before) << "room " << room;
        EXPECT_EQ(examine(heap).digest, state.digest);
    };
    for (const std::uint64_t room : {std::uint64_t{0}, std::uint64_t{64 * 1024}, mebibyte, 2 * mebibyte}) {
        try_both(room);
    }
    expect_survives(heap, state);
    heap.close(true);
    {
        const ballast full(directory_, mebibyte / 2);
        const std::set<std::string> before = everything_in(directory_);
        EXPECT_THROW(manager::copy(path_, directory_ + "/copy"), error);
        EXPECT_EQ(everything_in(directory_), before);
    }
    EXPECT_GT(refused, 1);
    expect_world(manager(open_read_only, path_), state, 0, 0);
}

TEST_P(full_disk, names_use_up_the_disk) {
    manager heap(create_only, path_, small_segments());
    heap.commit();
    const std::uint64_t free_before = heap.statistics().allocated_blocks;
    std::uint64_t made = 0;
    {
        const ballast full(directory_, mebibyte);
        const std::string long_name(2000, 'n');
        try {
            for (; made < 100'000; ++made) {
                static_cast<void>(heap.construct<std::uint64_t>(long_name + std::to_string(made))(made));
            }
            ADD_FAILURE() << "names without end";
        } catch (const bad_alloc& failure) {
            expect_no_room(failure.what());
        }
        // The object whose name found no room is not there, nor its memory.
        EXPECT_GT(made, 0U);
        EXPECT_EQ(heap.get_num_named_objects(), made);
        EXPECT_EQ(heap.statistics().allocated_blocks, free_before + made);
        EXPECT_EQ(heap.check(false), std::vector<std::string>());
        // One less, one more.
        EXPECT_TRUE(heap.destroy<std::uint64_t>(long_name + "0"));
        EXPECT_NE(heap.construct<std::uint64_t>(long_name + "0")(0U), nullptr);
        EXPECT_EQ(*heap.find<std::uint64_t>(long_name + std::to_string(made - 1)).first, made - 1);
    }
    heap.commit();
    EXPECT_EQ(heap.check(true), std::vector<std::string>());
    EXPECT_EQ(manager(open_read_only, copy_files()).get_num_named_objects(), made);
}

/// What is freed on a full disk can be had again in other pieces.
class full_disk_space : public full_disk {
protected:
    [[nodiscard]] static open_options options() {
        open_options wanted = small_segments();
        wanted.decay = std::chrono::milliseconds(-1);
        return wanted;
    }
    /// Blocks that are held already: of 40 KiB, until there is no more; every second one goes.
    static std::uint64_t free_every_second(manager& heap, std::vector<block>& blocks) {
        std::vector<block> kept;
        std::uint64_t freed = 0;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            if (i % 2 == 0) {
                kept.push_back(blocks[i]);
            } else {
                heap.deallocate(blocks[i].at);
                freed += blocks[i].size;
            }
        }
        blocks = std::move(kept);
        return freed;
    }
    static std::uint64_t bytes_of(const std::vector<block>& blocks) {
        std::uint64_t bytes = 0;
        for (const block& each : blocks) {
            bytes += each.size;
        }
        return bytes;
    }
};

class full_disk_space_of_commit : public full_disk_space {};
class full_disk_space_of_collect : public full_disk_space {};
class full_disk_checkpoint : public full_disk_space {};

TEST_P(full_disk_space, can_be_had_in_larger_pieces) {
    manager heap(create_only, path_, options());
    constexpr std::size_t size = 40 * 1024;
    // A commit needs room for its record.
    const std::uint64_t spare = how() == way::commit ? 2 * mebibyte : 0;
    std::ofstream(directory_ + "/spare") << std::string(spare, 'x');
    std::vector<block> blocks = use_up(heap, size);
    fs::remove(directory_ + "/spare");
    expect_no_room(reason_);
    ASSERT_GT(bytes_of(blocks), 15 * mebibyte);
    if (how() == way::commit) {
        heap.commit();
    }
    const std::uint64_t freed = free_every_second(heap, blocks);
    if (how() == way::commit) {
        heap.shrink();  // no hole of a commit goes before the next
    }
    std::vector<block> larger = use_up(heap, 2 * size);
    EXPECT_GE(bytes_of(larger) * 10, freed * 9 + spare * 5) << "of " << freed << " bytes freed: " << reason_;
    EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
    EXPECT_TRUE(std::all_of(larger.begin(), larger.end(), intact));
    EXPECT_EQ(heap.check(false), std::vector<std::string>());
    // On it goes.
    for (const block& each : larger) {
        heap.deallocate(each.at);
    }
    const shrink_report done = heap.shrink();
    // On tmpfs no commit has reserved the larger blocks.
    const bool charged = how() != way::commit || !on_tmpfs();
    EXPECT_LE(done.charged_after + (charged ? freed / 2 : 0), done.charged_before);
    std::vector<block> small = use_up(heap, 5000);
    EXPECT_GE(bytes_of(small) * 10, freed * 8) << reason_;
    EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
    for (const block& each : small) {
        heap.deallocate(each.at);
    }
    heap.shrink();
    EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
    heap.close(how() != way::commit);
    const manager again(open_only, path_, options());
    EXPECT_EQ(again.check(true), std::vector<std::string>());
}

/// What nothing reaches is room, too, once it is collected: on a full disk.
TEST_P(full_disk_space_of_collect, can_be_had_again_once_it_was_collected) {
    manager heap(create_only, path_, options());
    make_world(heap);
    const world_state before = examine(heap);
    std::uint64_t lost = bytes_of(use_up(heap, 40 * 1024));
    ASSERT_GT(lost, 15 * mebibyte);
    for (const std::size_t size : {std::size_t{40 * 1024}, std::size_t{5000}, std::size_t{80 * 1024}}) {
        heap.collect();
        const std::vector<block> again = use_up(heap, size);
        EXPECT_GE(bytes_of(again) * 10, lost * 8) << "blocks of " << size << ": " << reason_;
        EXPECT_TRUE(std::all_of(again.begin(), again.end(), intact));
        expect_survives(heap, before, again);
        lost = bytes_of(again);
    }
    heap.collect();
    expect_world(heap, before, 0, 0);
}

/// A commit needs no space twice for what fills its holes: neither in the session that made them nor in the next.
TEST_P(full_disk_space_of_commit, that_fills_the_holes_is_not_needed_twice) {
    auto heap = std::make_unique<manager>(create_only, path_, options());
    std::ofstream(directory_ + "/spare") << std::string(2 * mebibyte, 'x');
    std::vector<block> blocks = use_up(*heap, 40 * 1024);
    fs::remove(directory_ + "/spare");
    heap->commit();
    for (const bool reopened : {false, true}) {
        const std::uint64_t freed = free_every_second(*heap, blocks);
        ASSERT_GT(freed, 6 * mebibyte);
        heap->shrink();
        if (reopened) {
            const auto held = [&](const block& each) { return heap->get_handle_from_address(each.at); };
            std::vector<manager::handle_t> handles;
            std::transform(blocks.begin(), blocks.end(), std::back_inserter(handles), held);
            heap->close(true);
            heap = std::make_unique<manager>(open_only, path_, options());
            for (std::size_t i = 0; i < blocks.size(); ++i) {
                blocks[i].at = static_cast<std::byte*>(heap->get_address_from_handle(handles[i]));
            }
        }
        const std::vector<block> filled = use_up(*heap, 40 * 1024);
        EXPECT_GT(bytes_of(filled) * 10, freed * 9) << reason_;
        heap->commit();
        EXPECT_LT(fs::space(directory_).available, 2 * mebibyte) << "the heap grows by no less";
        blocks.insert(blocks.end(), filled.begin(), filled.end());
        EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
        EXPECT_EQ(heap->check(true), std::vector<std::string>());
    }
}

/// A destination in a block that went back: the checkpoint that writes its line back must not meet a hole.
TEST_P(full_disk_checkpoint, touches_no_hole) {
    open_options wanted = options();
    wanted.decay = std::chrono::milliseconds(0);
    manager heap(create_only, path_, wanted);
    constexpr std::size_t holders = 40;
    constexpr std::size_t size = 20 * 1024;
    for (std::size_t i = 0; i < holders; ++i) {
        auto* const words = static_cast<ptr<void>*>(heap.allocate_to(heap.root(2 * i), size, {.zeroed = true}));
        heap.allocate_to(heap.root(2 * i + 1), size);  // so that none is united with the next
        heap.allocate_to(words[100], 64);
        heap.free_from(words[100]);
    }
    for (std::size_t i = 0; i < holders; ++i) {
        heap.free_from(heap.root(2 * i));  // decays at once
    }
    const ballast full(directory_, 0);
    heap.checkpoint();  // a store to a hole, or a flush of it, ended the process here
    for (std::size_t i = 0; i < holders; ++i) {
        EXPECT_NE(heap.root(2 * i + 1), nullptr);
    }
    EXPECT_EQ(heap.check(false), std::vector<std::string>());
}

std::string name_of_parameters(const ::testing::TestParamInfo<parameters>& info) {
    constexpr std::array names{"commit", "collect", "atomic", "emulated"};
    return std::string(std::get<0>(info.param)) + "_" + names.at(static_cast<std::size_t>(std::get<1>(info.param)));
}

template <class... Ways>
auto on_each_disk(Ways... ways) {
    return ::testing::Combine(::testing::Values("tmpfs", "ext4"), ::testing::Values(ways...));
}

INSTANTIATE_TEST_SUITE_P(on, full_disk, on_each_disk(way::commit, way::collect, way::atomic), name_of_parameters);
INSTANTIATE_TEST_SUITE_P(on, full_disk_commit, on_each_disk(way::commit), name_of_parameters);
INSTANTIATE_TEST_SUITE_P(on, full_disk_space, on_each_disk(way::commit, way::collect, way::atomic, way::emulated),
                         name_of_parameters);
INSTANTIATE_TEST_SUITE_P(on, full_disk_space_of_commit, on_each_disk(way::commit), name_of_parameters);
INSTANTIATE_TEST_SUITE_P(on, full_disk_space_of_collect, on_each_disk(way::collect), name_of_parameters);
INSTANTIATE_TEST_SUITE_P(on, full_disk_checkpoint, on_each_disk(way::atomic, way::emulated), name_of_parameters);

}  // namespace
}  // namespace holdfast::test
