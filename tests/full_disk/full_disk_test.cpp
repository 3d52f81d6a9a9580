// Full disks: every act that needs space fails with a reason, leaves nothing behind, and the heap goes on.
//
// Fault model: from some moment on the file system refuses blocks (ENOSPC). A store to a block that was handed out must
// never meet a hole: that would be SIGBUS, and the end of this process.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
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

std::set<std::string> everything_in(const std::string& directory) {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
        names.insert(entry.path().string());
    }
    return names;
}

struct block {
    std::byte* at;
    std::size_t size;
    int seed;
};

void fill(const block& filled) { std::memset(filled.at, filled.seed, filled.size); }

bool intact(const block& filled) {
    const auto* const bytes = filled.at;
    return std::all_of(bytes, bytes + filled.size,
                       [&](std::byte b) { return b == static_cast<std::byte>(filled.seed); });
}

/// Runs on tmpfs and on ext4: they differ in where a lack of space shows.
class full_disk : public ::testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        if (!mounts_unavailable().empty()) {
            report_unavailable(mounts_unavailable());
            GTEST_SKIP() << mounts_unavailable();
        }
        if (std::string(GetParam()) == "tmpfs") {
            memory_ = std::make_unique<memory_file_system>("size=48m");
            directory_ = memory_->path();
        } else {
            image_ = std::make_unique<image_file_system>(file_system_kind::ext4, 64 * mebibyte);
            directory_ = image_->path();
        }
        // Copies of what is committed go where there is room.
        room_ = std::make_unique<memory_file_system>("mode=700");
        path_ = directory_ + "/heap";
    }

    [[nodiscard]] static open_options small_segments() {
        open_options options;
        options.segment_size = 4 * mebibyte;
        options.commit_on_close = false;
        return options;
    }

    /// The last commit, as a copy of the files shows it.
    world_state committed() {
        const std::string copy = room_->path() + "/copy" + std::to_string(copies_++);
        fs::copy(path_, copy, fs::copy_options::recursive);
        const manager heap(open_read_only, copy);
        return examine_and_check(heap);
    }
    void expect_committed(const world_state& expected) {
        const world_state found = committed();
        EXPECT_EQ(found.problems, std::vector<std::string>());
        EXPECT_EQ(found.digest, expected.digest);
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

    std::unique_ptr<memory_file_system> memory_;
    std::unique_ptr<image_file_system> image_;
    std::unique_ptr<memory_file_system> room_;
    std::string directory_;
    std::string path_;
    std::string reason_;
    int copies_ = 0;
};

std::string name_of_parameter(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

TEST_P(full_disk, allocation_says_why_and_goes_on) {
    manager heap(create_only, path_, small_segments());
    make_world(heap);
    heap.commit();
    const world_state before = examine(heap);
    for (const std::size_t size : {std::size_t{100}, std::size_t{5000}, std::size_t{100'000}, std::size_t{3'000'000}}) {
        std::vector<block> blocks = use_up(heap, size);
        EXPECT_GT(blocks.size() * size, 20 * mebibyte) << "blocks of " << size;
        EXPECT_NE(reason_.find("No space left on device"), std::string::npos) << reason_;
        EXPECT_NE(reason_.find(path_), std::string::npos) << reason_;
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
        for (const block& each : blocks) {
            heap.deallocate(each.at);
        }
    }
    expect_committed(before);
    EXPECT_EQ(examine(heap).digest, before.digest);
    heap.commit();
    expect_committed(before);
}

TEST_P(full_disk, commit_without_room_changes_nothing_and_may_be_repeated) {
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
    const std::string copy = room_->path() + "/before";
    fs::copy(path_, copy, fs::copy_options::recursive);
    full.reset();
    heap.commit();
    EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
    EXPECT_LT(fs::file_size(path_ + "/journal"), mebibyte) << "of 8 MiB, where the disk is short";
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
TEST_P(full_disk, a_commit_whose_blocks_lost_their_space_to_others_is_refused) {
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
        const std::string copy = room_->path() + "/refused" + std::to_string(attempt);
        fs::copy(path_, copy, fs::copy_options::recursive);
        const manager last(open_read_only, copy);
        EXPECT_EQ(last.check(true), std::vector<std::string>());
        EXPECT_EQ(examine(last).digest, before.digest);
    }
    full.reset();
    heap.commit();
    EXPECT_TRUE(intact(untouched) && intact(fresh));
    EXPECT_EQ(heap.check(true), std::vector<std::string>());
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

TEST_P(full_disk, close_fails_and_can_be_repeated) {
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
        fs::copy(path_, room_->path() + "/failed", fs::copy_options::recursive);
        EXPECT_EQ(first_byte(room_->path() + "/failed"), 1);
    }
    heap.close(true);
    EXPECT_EQ(first_byte(path_), 2);
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
            EXPECT_EQ(examine_and_check(manager(open_read_only, directory_ + "/snapshot")).digest, state.digest);
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
    heap.close(true);
    {
        const ballast full(directory_, mebibyte / 2);
        const std::set<std::string> before = everything_in(directory_);
        EXPECT_THROW(manager::copy(path_, directory_ + "/copy"), error);
        EXPECT_EQ(everything_in(directory_), before);
    }
    EXPECT_GT(refused, 1);
    expect_committed(state);
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
            reason_ = failure.what();
            EXPECT_NE(reason_.find("No space left on device"), std::string::npos) << reason_;
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
    fs::copy(path_, room_->path() + "/copy", fs::copy_options::recursive);
    EXPECT_EQ(manager(open_read_only, room_->path() + "/copy").get_num_named_objects(), made);
}

/// What is freed on a full disk can be had again in other pieces, in each durability.
class full_disk_space : public full_disk {
protected:
    enum class way : std::uint8_t { commit, page_cache, emulated };

    [[nodiscard]] static open_options options(way how) {
        open_options wanted = small_segments();
        wanted.decay = std::chrono::milliseconds(-1);
        if (how != way::commit) {
            wanted.durability = durability::atomic;
            wanted.accept_process_crash_only = true;
            wanted.domain =
                how == way::emulated ? open_options::domain_choice::emulated : open_options::domain_choice::page_cache;
        }
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

    void what_is_freed_can_be_had_in_larger_pieces(way how) {
        manager heap(create_only, path_, options(how));
        constexpr std::size_t size = 40 * 1024;
        // A commit needs room for its journal.
        const std::uint64_t spare = how == way::commit ? 2 * mebibyte : 0;
        std::ofstream(directory_ + "/spare") << std::string(spare, 'x');
        std::vector<block> blocks = use_up(heap, size);
        fs::remove(directory_ + "/spare");
        EXPECT_NE(reason_.find("No space left on device"), std::string::npos) << reason_;
        ASSERT_GT(bytes_of(blocks), 15 * mebibyte);
        if (how == way::commit) {
            heap.commit();
        }
        const std::uint64_t freed = free_every_second(heap, blocks);
        if (how == way::commit) {
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
        const bool charged = how != way::commit || std::string(GetParam()) != "tmpfs";
        EXPECT_LE(done.charged_after + (charged ? freed / 2 : 0), done.charged_before);
        std::vector<block> small = use_up(heap, 5000);
        EXPECT_GE(bytes_of(small) * 10, freed * 8) << reason_;
        EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
        for (const block& each : small) {
            heap.deallocate(each.at);
        }
        heap.shrink();
        EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(), intact));
        heap.close(how != way::commit);
        const manager again(open_only, path_, options(how));
        EXPECT_EQ(again.check(true), std::vector<std::string>());
    }
};

TEST_P(full_disk_space, commit_gives_room_for_larger_blocks) { what_is_freed_can_be_had_in_larger_pieces(way::commit); }
TEST_P(full_disk_space, atomic_on_the_page_cache_gives_room_for_larger_blocks) {
    what_is_freed_can_be_had_in_larger_pieces(way::page_cache);
}
TEST_P(full_disk_space, atomic_emulated_gives_room_for_larger_blocks) {
    what_is_freed_can_be_had_in_larger_pieces(way::emulated);
}

/// A commit needs no space twice for what fills its holes: neither in the session that made them nor in the next.
TEST_P(full_disk_space, commit_of_what_fills_the_holes_needs_no_more_space) {
    auto heap = std::make_unique<manager>(create_only, path_, options(way::commit));
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
            heap = std::make_unique<manager>(open_only, path_, options(way::commit));
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
TEST_P(full_disk_space, a_checkpoint_touches_no_hole) {
    open_options wanted = options(way::emulated);
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
        heap.free_from(heap.root(2 * i));  // fades at once
    }
    const ballast full(directory_, 0);
    heap.checkpoint();  // a store to a hole, or a flush of it, ended the process here
    for (std::size_t i = 0; i < holders; ++i) {
        EXPECT_NE(heap.root(2 * i + 1), nullptr);
    }
    EXPECT_EQ(heap.check(false), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(on, full_disk_space, ::testing::Values("tmpfs", "ext4"), name_of_parameter);
INSTANTIATE_TEST_SUITE_P(on, full_disk, ::testing::Values("tmpfs", "ext4"), name_of_parameter);

}  // namespace
}  // namespace holdfast::test
