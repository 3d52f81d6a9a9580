// Power is lost twice, each time within the writing of records: what the first loss left of a record, and what the
// second left of one in its place, make no record that was gone count again.
#include "store/simulated_medium_test_support.hpp"
#include "store/store_format.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

using simulated::at_a_moment;
using simulated::at_risk;
using simulated::medium;
using simulated::sector_size;
using image = std::vector<char>;

struct entry {
    std::string key;
    std::string value;
};

/// The medium, and what programs saw, when the power was lost.
struct moment_of_loss {
    image durable;
    image seen;
    /// Of the log, where both differ: offsets.
    [[nodiscard]] std::vector<std::size_t> sectors() const {
        meta_on_media meta{};
        std::memcpy(&meta, durable.data(), sizeof(meta));
        std::vector<std::size_t> found;
        for (std::size_t at = meta.log_page * page_size; at < (meta.log_page + meta.log_pages) * page_size;
             at += sector_size) {
            if (std::memcmp(&durable[at], &seen[at], sector_size) != 0) {
                found.push_back(at);
            }
        }
        return found;
    }
    [[nodiscard]] image with(const std::vector<std::size_t>& written) const {
        image made = durable;
        for (const std::size_t at : written) {
            std::memcpy(&made[at], &seen[at], sector_size);
        }
        return made;
    }
};

std::vector<std::size_t> without(std::vector<std::size_t> all, std::size_t index) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(index));
    return all;
}

class torn_records : public testing::Test {
protected:
    torn_records() {
        at_a_moment = [this](bool is_sync) {
            if (is_sync) {
                last_ = {medium_.durable(), medium_.content()};
            }
        };
    }
    ~torn_records() override {
        at_risk = nullptr;
        at_a_moment = {};
    }

    /// The power is lost in the sync of the last commit or, with MDB_NOSYNC, after it.
    moment_of_loss commit(const image& start, const std::vector<entry>& entries, unsigned flags = 0) {
        begin_with(start);
        at_risk = &medium_;
        MDB_env* const env = open(flags);
        for (const entry& each : entries) {
            MDB_txn* in = nullptr;
            EXPECT_EQ(mdb_txn_begin(env, nullptr, 0, &in), 0);
            EXPECT_EQ(put(in, 1, each.key, each.value), 0);
            EXPECT_EQ(mdb_txn_commit(in), 0);
        }
        at_risk = nullptr;
        if ((flags & MDB_NOSYNC) != 0) {
            medium_.look();
            last_ = {medium_.durable(), medium_.content()};
        }
        mdb_env_close(env);
        return last_;
    }
    [[nodiscard]] content_of_store found_in(const image& start) {
        begin_with(start);
        MDB_env* const env = open(MDB_RDONLY);
        const content_of_store found = content_of(env);
        mdb_env_close(env);
        return found;
    }
    /// A store with an entry, closed.
    [[nodiscard]] image base() {
        at_risk = &medium_;
        MDB_env* const env = open(0);
        EXPECT_EQ(content_of(env), content_of_store{});
        MDB_txn* in = nullptr;
        EXPECT_EQ(mdb_txn_begin(env, nullptr, 0, &in), 0);
        EXPECT_EQ(put(in, 1, "base", "b"), 0);
        EXPECT_EQ(mdb_txn_commit(in), 0);
        mdb_env_close(env);
        at_risk = nullptr;
        return medium_.durable();
    }

    const entry long_{"key1", std::string(3000, 'L')};
    const entry other_{"key2", std::string(3000, 'M')};

private:
    void begin_with(const image& start) {
        std::filesystem::remove(medium_.path() + "-lock");
        medium_.become(start);
    }
    [[nodiscard]] MDB_env* open(unsigned flags) const {
        MDB_env* env = nullptr;
        EXPECT_EQ(mdb_env_create(&env), 0);
        EXPECT_EQ(mdb_env_open(env, medium_.path().c_str(), flags | MDB_NOSUBDIR, 0664), 0);
        return env;
    }

    store_directory directory_{::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp"};
    medium medium_{directory_.path() + "/store"};
    moment_of_loss last_;
};

/// Was: a commit that a loss of power had undone, and that nobody found afterwards, was there after the next loss. A
/// sector of another commit was as the lost one of its record.
TEST_F(torn_records, are_not_completed_by_another_commit) {
    const moment_of_loss first = commit(base(), {long_});
    const std::vector<std::size_t> of_first = first.sectors();
    ASSERT_GT(of_first.size(), 4U);
    for (std::size_t lost = 0; lost < of_first.size(); ++lost) {
        const image torn = first.with(without(of_first, lost));
        ASSERT_EQ(found_in(torn), (content_of_store{{"base", "b"}}));
        const moment_of_loss second = commit(torn, {{"key3", long_.value}});
        for (const std::size_t written : second.sectors()) {
            const content_of_store found = found_in(second.with({written}));
            ASSERT_FALSE(found.contains(long_.key)) << "sectors " << of_first[lost] << ", " << written;
        }
    }
}

/// Was: a program repeated a commit that was lost, and what had followed it then was there, over what it did now.
TEST_F(torn_records, are_not_completed_behind_a_commit_that_is_repeated) {
    const image start = base();
    const moment_of_loss first = commit(start, {long_, other_}, MDB_NOSYNC);
    const std::vector<std::size_t> of_both = first.sectors();
    ASSERT_GT(of_both.size(), 8U);
    const std::size_t lost_of_first = 2;
    for (std::size_t lost = of_both.size() / 2 + 1; lost < of_both.size(); ++lost) {
        const image torn = first.with(without(without(of_both, lost), lost_of_first));
        ASSERT_EQ(found_in(torn), (content_of_store{{"base", "b"}}));
        const moment_of_loss second = commit(torn, {long_, {"key3", other_.value}});
        for (const std::size_t written : second.sectors()) {
            const content_of_store found = found_in(second.with({written}));
            ASSERT_TRUE(found.contains(long_.key));
            ASSERT_FALSE(found.contains(other_.key)) << "sectors " << of_both[lost] << ", " << written;
        }
    }
}

}  // namespace
}  // namespace holdfast::store_engine
