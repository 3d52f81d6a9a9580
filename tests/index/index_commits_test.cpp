// Commits of durability `commit` beside threads that change an index: what was committed before stays.
#include <atomic>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "index/index_test_support.hpp"

namespace holdfast {
namespace {

template <class Index>
class index_commits_test : public manager_test {
protected:
    using Key = typename Index::key_type;
    using Value = typename Index::mapped_type;
    static constexpr std::uint64_t kept = 300;  ///< entries of the first commit, with even numbers

    static void change(Index& of, std::uint64_t number, bool put) {
        const auto key = made_from<Key>(2 * number + 1);
        put ? static_cast<void>(of.upsert(key, made_from<Value>(number))) : static_cast<void>(of.remove(key));
    }
    /// What a crash right now would leave.
    void expect_kept_after_a_crash(int nth) {
        const std::string copy = path("copy" + std::to_string(nth));
        std::filesystem::copy(path(), copy, std::filesystem::copy_options::recursive);
        manager heap(open_read_only, copy, small_options());
        Index entries(heap, "index");
        EXPECT_EQ(entries.check(), std::vector<std::string>{}) << "commit " << nth;
        std::uint64_t there = 0;
        for (std::uint64_t number = 0; number < kept; ++number) {
            const auto found = entries.find(made_from<Key>(2 * number));
            there += found.has_value() && Value(*found) == Value(made_from<Value>(number)) ? 1U : 0U;
        }
        EXPECT_EQ(there, kept) << "commit " << nth;
        heap.close();
        std::filesystem::remove_all(copy);
    }
};

using indexes =
    testing::Types<ordered_index<std::uint64_t, std::uint64_t>, hash_index<std::uint64_t, std::uint64_t>,
                   ordered_index<std::string_view, std::string_view>, hash_index<std::string_view, std::string_view>>;
TYPED_TEST_SUITE(index_commits_test, indexes);

/// An index has a part in memory, which no abort could take back.
TYPED_TEST(index_commits_test, a_transaction_over_everything_reads_it_and_cannot_change_it) {
    const auto key = [](std::uint64_t number) { return made_from<typename TypeParam::key_type>(number); };
    const auto value = [](std::uint64_t number) { return made_from<typename TypeParam::mapped_type>(number); };
    manager heap = this->create();
    auto* const word = heap.construct<int>("word")(1);
    TypeParam entries(heap, "index");
    for (std::uint64_t number = 0; number < this->kept; ++number) {
        entries.insert(key(number), value(number));
    }
    const auto refuses = [](auto change) {
        try {
            change();
            ADD_FAILURE() << "accepted";
        } catch (const error& refused) {
            EXPECT_EQ(refused.reason(), errc::invalid_argument);
            EXPECT_THAT(refused.what(), testing::HasSubstr("transact()"));
        }
    };
    const auto reads_and_tries = [&] {
        for (std::uint64_t number = 0; number < this->kept; ++number) {
            EXPECT_EQ(entries.find(key(number)), value(number));
        }
        EXPECT_FALSE(entries.contains(key(this->kept)));
        *word += 1;
        refuses([&] { entries.insert(key(this->kept), value(1)); });
        refuses([&] { entries.upsert(key(1), value(2)); });
        refuses([&] { entries.remove(key(1)); });
        refuses([&] { const TypeParam other(heap, "another"); });
        EXPECT_EQ(entries.find(key(1)), value(1));
    };
    heap.transact(reads_and_tries);
    heap.transact([&](transaction& tx) {
        reads_and_tries();
        tx.abort();
    });
    EXPECT_EQ(*word, 2);
    entries.remove(key(1));
    EXPECT_EQ(entries.size(), this->kept - 1);
    EXPECT_EQ(entries.check(), std::vector<std::string>{});
    EXPECT_EQ(heap.check(true), std::vector<std::string>{});
}

/// Was: of ten heaps, four lost entries of the first commit: a commit had one half of a split, or took back what a
/// thread had stored to a new leaf meanwhile.
TYPED_TEST(index_commits_test, threads_that_change_the_index_leave_what_was_committed) {
    constexpr int commits = 48;
    manager heap = this->create();
    TypeParam entries(heap, "index");
    for (std::uint64_t number = 0; number < this->kept; ++number) {
        entries.insert(made_from<typename TypeParam::key_type>(2 * number),
                       made_from<typename TypeParam::mapped_type>(number));
    }
    heap.commit();
    std::atomic<std::uint64_t> changes{0};
    {
        std::vector<std::jthread> others;
        for (unsigned seed = 0; seed < 2; ++seed) {
            others.emplace_back([&, seed](const std::stop_token& stop) {
                std::mt19937_64 random(seed);
                for (; !stop.stop_requested(); ++changes) {
                    this->change(entries, random() % 3000, random() % 3 != 0);
                }
            });
        }
        for (int nth = 0; nth < commits; ++nth) {
            const std::uint64_t before = changes.load();
            ASSERT_NO_THROW(heap.commit()) << "commit " << nth;
            while (changes.load() < before + 10) {
                std::this_thread::yield();
            }
            if (nth % 8 == 7) {
                this->expect_kept_after_a_crash(nth);
            }
        }
    }
    EXPECT_EQ(entries.check(), std::vector<std::string>{});
    heap.commit();
    this->expect_kept_after_a_crash(commits);
}

TYPED_TEST(index_commits_test, readers_beside_the_writer_see_whole_versions) {
    using key = typename TypeParam::key_type;
    using value = typename TypeParam::mapped_type;
    manager heap = this->create();
    TypeParam entries(heap, "index");
    heap.commit();
    manager reader(open_read_only, this->path());
    for (std::uint64_t round = 1; round <= 6; ++round) {
        for (std::uint64_t number = 0; number < this->kept; ++number) {
            if ((number + round) % 4 == 0) {
                entries.remove(made_from<key>(number));
            } else {
                entries.upsert(made_from<key>(number), made_from<value>(number * round));
            }
        }
        heap.commit();
        heap.refresh();  // of a writer: nothing, though it has an index open
        reader.refresh();
        entries.upsert(made_from<key>(this->kept), made_from<value>(1));  // no commit has it
        TypeParam seen(reader, "index");
        EXPECT_EQ(seen.check(), std::vector<std::string>{}) << "round " << round;
        for (std::uint64_t number = 0; number < this->kept; ++number) {
            const auto found = seen.find(made_from<key>(number));
            ASSERT_EQ(found.has_value(), (number + round) % 4 != 0) << number;
            EXPECT_TRUE(!found.has_value() || value(*found) == value(made_from<value>(number * round))) << number;
        }
        EXPECT_FALSE(seen.find(made_from<key>(this->kept)).has_value());
        EXPECT_EQ(reason_of([&] { reader.refresh(); }), errc::invalid_argument) << "the index is open";
        entries.remove(made_from<key>(this->kept));
    }
}

}  // namespace
}  // namespace holdfast
