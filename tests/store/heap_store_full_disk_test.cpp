// A heap with a store in it on a file system that is full again and again: a transaction of both that finds no room
// leaves no trace in either, and both go on.
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <holdfast/store_in_heap.hpp>

#include "full_disk/full_disks.hpp"

namespace holdfast::test {
namespace {

constexpr std::size_t slot_count = 40;

/// What the heap has: a number, and blocks whose words are all alike.
struct shelf {
    std::uint64_t changes = 0;
    struct slot {
        ptr<std::uint64_t> block;
        std::uint64_t words = 0;
    };
    std::array<slot, slot_count> slots;
};

struct model {
    std::uint64_t changes = 0;
    std::map<std::size_t, std::uint64_t> blocks;  ///< words, by slot
    std::map<std::string, std::string> entries;
    bool operator==(const model&) const = default;
};

class heap_store_full_disk : public testing::TestWithParam<durability> {
protected:
    void SetUp() override {
        if (!mounts_unavailable().empty()) {
            report_unavailable(mounts_unavailable());
            GTEST_SKIP() << mounts_unavailable();
        }
    }
    void run(const std::string& directory, int rounds);

private:
    [[nodiscard]] bool in_memory() const { return GetParam() == durability::commit; }
    void open();
    void close();
    void change(transaction& tx, model& of);
    void try_change();
    void try_commit();
    [[nodiscard]] model found() const;

    std::mt19937_64 random_{20261125};
    std::string path_;
    std::optional<ballast> filler_;
    std::unique_ptr<manager> heap_;
    std::optional<heap_store> store_;
    shelf* shelf_ = nullptr;
    model now_;
    model durable_;
    int refused_ = 0;
    int done_ = 0;
};

void heap_store_full_disk::open() {
    open_options wanted;
    wanted.segment_size = 4 * mebibyte;
    wanted.durability = GetParam();
    wanted.accept_process_crash_only = true;
    wanted.commit_on_close = false;
    heap_ = std::make_unique<manager>(open_or_create, path_, wanted);
    shelf_ = heap_->find_or_construct<shelf>("shelf")();
    store_.emplace(*heap_, "store");
}

/// As a crash would: in `commit`, the heap is back at its last commit.
void heap_store_full_disk::close() {
    store_.reset();
    heap_->close(false);
    heap_.reset();
    now_ = in_memory() ? durable_ : now_;
}

void heap_store_full_disk::change(transaction& tx, model& of) {
    shelf& mine = tx.open(*shelf_);
    mine.changes = ++of.changes;
    for (std::uint64_t left = random_() % 4; left > 0; --left) {
        const std::size_t which = random_() % slot_count;
        shelf::slot& slot = mine.slots.at(which);
        if (slot.block != nullptr) {
            tx.free(slot.block.get());
            slot = {};
            of.blocks.erase(which);
        } else {
            slot.words = random_() % 4 == 0 ? random_() % 20'000 : random_() % 200 + 1;
            auto* const block = static_cast<std::uint64_t*>(tx.allocate(std::max<std::uint64_t>(slot.words, 1) * 8));
            std::fill_n(block, slot.words, slot.words);
            slot.block = block;
            of.blocks[which] = slot.words;
        }
    }
    for (std::uint64_t left = random_() % 20; left > 0; --left) {
        const std::string key = "key" + std::to_string(random_() % 150);
        if (random_() % 3 != 0) {
            of.entries[key] = std::string(random_() % 8 == 0 ? random_() % 90'000 : random_() % 5000, 'd');
            store_->write(tx).put(key, of.entries[key]);
        } else {
            EXPECT_EQ(store_->write(tx).erase(key), of.entries.erase(key) == 1);
        }
    }
}

void heap_store_full_disk::try_change() {
    model next = now_;
    try {
        if (in_memory() && random_() % 3 == 0) {
            transaction alone(*heap_);  // durable with a commit of the heap
            change(alone, next);
            alone.commit();
            now_ = std::move(next);
        } else {
            heap_->transact([&](transaction& tx) { change(tx, next); });
            durable_ = now_ = std::move(next);
        }
        ++done_;
    } catch (const store_error& what) {
        // Behind a commit of the heap that failed, the store keeps two states; a third finds no place.
        const bool is_busy = in_memory() && what.code() == EBUSY;
        EXPECT_TRUE(is_busy || what.code() == ENOSPC) << what.what();
        ++refused_;
    } catch (const error& what) {
        EXPECT_EQ(what.reason(), errc::no_space) << what.what();
        ++refused_;
    } catch (const std::bad_alloc&) {
        ++refused_;
    }
}

void heap_store_full_disk::try_commit() {
    try {
        heap_->commit();
        durable_ = now_;
    } catch (const error& what) {
        EXPECT_EQ(what.reason(), errc::no_space) << what.what();
        ++refused_;
    }
}

model heap_store_full_disk::found() const {
    model all;
    all.changes = shelf_->changes;
    for (std::size_t i = 0; i < slot_count; ++i) {
        const shelf::slot& slot = shelf_->slots.at(i);
        if (slot.block != nullptr) {
            all.blocks[i] = slot.words;
            EXPECT_EQ(std::count(slot.block.get(), slot.block.get() + slot.words, slot.words), slot.words);
        }
    }
    const store_view view = store_->read();
    for (const auto& [key, value] : view.all()) {
        all.entries.emplace(key, value);
    }
    EXPECT_NO_THROW(static_cast<void>(store_->check()));
    return all;
}

void heap_store_full_disk::run(const std::string& directory, int rounds) {
    path_ = directory + "/heap";
    open();
    try_commit();
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
        if (round % 25 == 24 && filler_) {
            filler_.reset();
        } else if (round % 25 == 24) {
            filler_.emplace(directory, 0);
        }
        try_change();
        if (round % 10 == 9) {
            try_commit();
        }
        if (round % 40 == 39) {
            ASSERT_TRUE(found() == now_) << "round " << round;
            close();
            try {
                open();
            } catch (const std::exception&) {
                filler_.reset();  // it needs room to open
                ASSERT_NO_THROW(open());
            }
            ASSERT_TRUE(found() == now_) << "opened again, round " << round;
        }
    }
    EXPECT_GT(refused_, rounds / 200);
    EXPECT_GT(done_, rounds / 4);

    EXPECT_TRUE(heap_->check_sanity());
    filler_.reset();
    close();
}

TEST_P(heap_store_full_disk, on_tmpfs) {
    const memory_file_system files("size=14m");
    run(files.path(), 1000);
}

TEST_P(heap_store_full_disk, on_ext4) {
    if (const std::string why = unavailable(file_system_kind::ext4); !why.empty()) {
        report_unavailable(why);
        GTEST_SKIP() << why;
    }
    const image_file_system files(file_system_kind::ext4, std::uint64_t{64} << 20U);
    std::filesystem::create_directory(files.path() + "/rest");
    const ballast rest(files.path() + "/rest", 14 * mebibyte);
    run(files.path(), 400);
}

INSTANTIATE_TEST_SUITE_P(of, heap_store_full_disk, testing::Values(durability::atomic, durability::commit),
                         [](const auto& info) { return info.param == durability::atomic ? "atomic" : "commit"; });

}  // namespace
}  // namespace holdfast::test
