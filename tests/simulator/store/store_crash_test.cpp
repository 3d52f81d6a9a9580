// The store (src/store/) without power: crash images of lives of each kind of store are opened. By hand:
// store_crash_test --programs N.
//
// Oracle: what is there is some commit as a whole, none older than the last that was promised, none that was never
// begun; the store is sound, and the same when it is opened again.
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "simulator/parallel.hpp"
#include "simulator/simulator_main.hpp"
#include "simulator/storage/recording_storage.hpp"
#include "simulator/store/store_life.hpp"
#include "simulator/store/store_subject.hpp"
#include "store/store_format.hpp"

namespace holdfast::simulator {
namespace {

TEST(store_crash_test, every_image_is_what_was_promised) {
    const std::uint64_t lives = options().programs_or(100, 4);
    constexpr std::uint64_t images_of_a_life = 300;
    std::mutex mutex;
    store_report total;
    for_each_in_parallel(lives * kinds_of_stores * 2, [&](std::size_t i) {
        const store_report one = live(kind_of(i), medium_of(i), i + 1, images_of_a_life);
        const std::lock_guard lock{mutex};
        total.images += one.images;
        total.commits += one.commits;
        total.older += one.older;
        if (!one.wrong.empty()) {
            total.wrong += "kind " + std::to_string(i % (2 * kinds_of_stores)) + ", seed " + std::to_string(i + 1) +
                           ": " + one.wrong + "\n";
        }
    });
    std::printf("%llu images, %llu commits, %llu images without the last one\n",
                static_cast<unsigned long long>(total.images), static_cast<unsigned long long>(total.commits),
                static_cast<unsigned long long>(total.older));
    EXPECT_EQ(total.wrong, "");
    EXPECT_GT(total.older, total.images / 100) << "the medium loses something";
}

// --- persistent memory -----------------------------------------------------------------------------------------------

/// What goes to the medium in a commit: each step that is no store.
TEST(store_on_persistent_memory, writes_the_record_back_and_fences_once) {
    const base::scratch_directory scratch{base::memory_directory()};
    const std::string live = scratch.path("live");
    std::filesystem::create_directory(live);
    recording_storage storage(live, 8);
    storage.record_memory();
    const store_subject store(live + "/store", storage, 0, nullptr, true);
    ASSERT_EQ(store.opened(), 0);
    ASSERT_EQ(store.put("key", "before"), 0);
    std::vector<std::string> steps;
    storage.set_observer([&] {
        const std::string at = storage.position();
        const std::string step = at.substr(at.find('(') + 1, at.find(')') - at.find('(') - 1);
        if (step != "simulator.mapped") {
            steps.push_back(step);
        }
    });
    ASSERT_EQ(store.put("key", "after"), 0);
    storage.set_observer({});
    EXPECT_EQ(steps, (std::vector<std::string>{"store.log.sync", "store.fence"}));
}

/// Was: the pages of the damaged record and of those behind it were not written back, and a checkpoint named them.
TEST(store_on_persistent_memory, writes_all_back_where_the_log_is_damaged) {
    const base::scratch_directory scratch{base::memory_directory()};
    const std::string live = scratch.path("live");
    const std::string path = live + "/store";
    std::filesystem::create_directory(live);
    recording_storage storage(live, 8);
    storage.record_memory();
    std::optional<store_subject> store;
    store.emplace(path, storage, 0, nullptr, true);
    ASSERT_EQ(store->opened(), 0);
    const std::string large(200'000, 'l');
    for (int i = 0; i < 6; ++i) {  // so that nothing grows afterwards, which would be a sync
        ASSERT_EQ(store->put("large", large), 0);
    }
    content_of_store expected{{"large", large}};
    for (int i = 0; i < 20; ++i) {
        const std::string key = "key" + std::to_string(i);
        expected[key] = std::string(300, static_cast<char>('a' + i));
        ASSERT_EQ(store->put(key, expected[key]), 0);
    }
    {
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
        std::array<store_engine::meta_on_media, 2> metas{};
        for (std::size_t i = 0; i < metas.size(); ++i) {
            file.seekg(static_cast<std::streamoff>(i * 4096));
            file.read(reinterpret_cast<char*>(&metas[i]), sizeof(metas[i]));
        }
        const auto& last = metas[metas[0].sequence < metas[1].sequence ? 1 : 0];
        file.seekp(static_cast<std::streamoff>(last.log_page * 4096 + 60));
        file.write("damaged", 7);
    }
    store.reset();
    std::filesystem::remove(path + "-lock");
    storage.for_each_crash_image({0, 0, 0, 0}, 1, [&](const storage_image& durable) {
        const std::string place = scratch.path("crashed");
        std::filesystem::create_directory(place);
        EXPECT_TRUE(durable.materialise(live, place).ok());
        const store_subject after(place + "/store", persist::posix_storage(), 0, nullptr);
        EXPECT_EQ(after.opened(), 0);
        EXPECT_EQ(after.content(), expected);
        return false;
    });
}

// --- two losses of power --------------------------------------------------------------------------------------------

struct entry {
    std::string key;
    std::string value;
};

/// The medium, and what programs saw, when the power was lost.
struct moment_of_loss {
    storage_image durable;
    storage_image seen;
};

/// Power is lost twice, each time within the writing of records.
class torn_records : public testing::Test {
protected:
    using bytes = std::vector<std::byte>;

    torn_records() {
        std::filesystem::create_directory(live_);
        storage_ = std::make_unique<recording_storage>(live_, sector);
        storage_->record_mappings();
        storage_->set_observer([this] {
            if (storage_->position().find("store.log.sync") == std::string::npos) {
                keep_moment();
            }
        });
    }

    /// The power is lost in the sync of the last commit or, with MDB_NOSYNC, after it.
    moment_of_loss commit(const storage_image& start, const std::vector<entry>& entries, unsigned flags = 0) {
        must(storage_->restart(start));
        {
            const store_subject store(path_, *storage_, flags, nullptr);
            EXPECT_EQ(store.opened(), 0);
            for (const entry& each : entries) {
                EXPECT_EQ(store.put(each.key, each.value), 0);
            }
            if ((flags & MDB_NOSYNC) != 0) {
                storage_->look_at_mappings();
                keep_moment();
            }
            storage_->forsake_files();
        }
        std::filesystem::remove(path_ + "-lock");
        return last_;
    }
    [[nodiscard]] content_of_store found_in(const storage_image& left) const {
        const std::string place = scratch_.path("crashed");
        std::filesystem::remove_all(place);
        std::filesystem::create_directory(place);
        must(left.materialise(live_, place));
        const store_subject store(place + "/store", persist::posix_storage(), MDB_RDONLY, nullptr);
        EXPECT_EQ(store.opened(), 0);
        const auto found = store.content();
        EXPECT_TRUE(found.has_value());
        return found.value_or(content_of_store{});
    }
    /// A store with an entry, closed.
    [[nodiscard]] storage_image base() {
        {
            const store_subject store(path_, *storage_, 0, nullptr);
            EXPECT_EQ(store.put("base", "b"), 0);
        }
        std::filesystem::remove(path_ + "-lock");
        keep_moment();
        return last_.durable;
    }
    /// Of the log, where the two differ: offsets.
    [[nodiscard]] std::vector<std::size_t> sectors(const moment_of_loss& of) const {
        const bytes durable = of.durable.bytes_of(path_);
        const bytes seen = of.seen.bytes_of(path_);
        store_engine::meta_on_media meta{};
        std::memcpy(&meta, durable.data(), sizeof(meta));
        std::vector<std::size_t> found;
        for (std::size_t at = meta.log_page * page; at < (meta.log_page + meta.log_pages) * page; at += sector) {
            if (std::memcmp(&durable[at], &seen[at], sector) != 0) {
                found.push_back(at);
            }
        }
        return found;
    }
    /// What the medium holds when so many of them were written.
    [[nodiscard]] storage_image with(const moment_of_loss& of, const std::vector<std::size_t>& written) const {
        storage_image made = of.durable;
        const bytes seen = of.seen.bytes_of(path_);
        auto& node = made.nodes[made.names->at(normal_path(path_))];
        auto content = std::make_shared<sparse_content>(*node.content);
        for (const std::size_t at : written) {
            content->write(at, std::span(seen).subspan(at, sector));
        }
        node.content = std::move(content);
        return made;
    }

    const entry long_{"key1", std::string(3000, 'L')};
    const entry other_{"key2", std::string(3000, 'M')};

private:
    static constexpr std::size_t sector = 512;
    static constexpr std::size_t page = 4096;

    static void must(const base::result<void>& done) { EXPECT_TRUE(done.ok()) << done.error().message(); }
    void keep_moment() {
        bool is_first = true;
        storage_->for_each_crash_image({0, 0, 0, 0}, 1, [&](const storage_image& left) {
            (is_first ? last_.durable : last_.seen) = left;
            return std::exchange(is_first, false);
        });
    }

    base::scratch_directory scratch_;
    std::string live_ = scratch_.path("live");
    std::string path_ = live_ + "/store";
    std::unique_ptr<recording_storage> storage_;
    moment_of_loss last_;
};

std::vector<std::size_t> without(std::vector<std::size_t> all, std::size_t index) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(index));
    return all;
}

/// Was: a commit that a loss of power had undone, and that nobody found afterwards, was there after the next loss. A
/// sector of another commit was as the lost one of its record.
TEST_F(torn_records, are_not_completed_by_another_commit) {
    const moment_of_loss first = commit(base(), {long_});
    const std::vector<std::size_t> of_first = sectors(first);
    ASSERT_GT(of_first.size(), 4U);
    for (std::size_t lost = 0; lost < of_first.size(); ++lost) {
        const storage_image torn = with(first, without(of_first, lost));
        ASSERT_EQ(found_in(torn), (content_of_store{{"base", "b"}}));
        const moment_of_loss second = commit(torn, {{"key3", long_.value}});
        ASSERT_GT(sectors(second).size(), 1U);
        for (const std::size_t written : sectors(second)) {
            const content_of_store found = found_in(with(second, {written}));
            ASSERT_FALSE(found.contains(long_.key)) << "sectors " << of_first[lost] << ", " << written;
        }
    }
}

/// Was: a program repeated a commit that was lost, and what had followed it then was there, over what it did now.
TEST_F(torn_records, are_not_completed_behind_a_commit_that_is_repeated) {
    const moment_of_loss first = commit(base(), {long_, other_}, MDB_NOSYNC);
    const std::vector<std::size_t> of_both = sectors(first);
    ASSERT_GT(of_both.size(), 8U);
    const std::size_t lost_of_first = 2;
    for (std::size_t lost = of_both.size() / 2 + 1; lost < of_both.size(); ++lost) {
        const storage_image torn = with(first, without(without(of_both, lost), lost_of_first));
        ASSERT_EQ(found_in(torn), (content_of_store{{"base", "b"}}));
        const moment_of_loss second = commit(torn, {long_, {"key3", other_.value}});
        ASSERT_GT(sectors(second).size(), 1U);
        for (const std::size_t written : sectors(second)) {
            const content_of_store found = found_in(with(second, {written}));
            ASSERT_TRUE(found.contains(long_.key));
            ASSERT_FALSE(found.contains(other_.key)) << "sectors " << of_both[lost] << ", " << written;
        }
    }
}

}  // namespace
}  // namespace holdfast::simulator

int main(int count, char** arguments) { return holdfast::simulator::simulator_main(count, arguments); }
