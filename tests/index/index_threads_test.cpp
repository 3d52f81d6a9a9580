// An ordered index and many threads: nothing is lost, and what each call returns fits one order of all calls.
//
// Source of the check: J. Wing and C. Gong, "Testing and verifying concurrent objects", 1993. Calls on one key are
// judged apart from those on others, because linearizability is local (M. Herlihy and J. Wing, 1990).
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <ctime>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "index/index_test_support.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

/// One call, and between which ticks of a common clock it ran.
struct call {
    enum class kind : std::uint8_t { insert, update, upsert, remove, find } what = kind::find;
    std::uint64_t argument = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool result = false;
    std::uint64_t found = 0;
};
using value_of_key = std::optional<std::uint64_t>;

/// Whether the call, made at one moment on this value, returns what it did; then the value is what it leaves.
bool fits(const call& made, value_of_key& value) {
    const bool is_there = value.has_value();
    switch (made.what) {
        case call::kind::insert:
            if (!is_there) {
                value = made.argument;
            }
            return made.result == !is_there;
        case call::kind::update:
            if (is_there) {
                value = made.argument;
            }
            return made.result == is_there;
        case call::kind::upsert: value = made.argument; return made.result == !is_there;
        case call::kind::remove: value.reset(); return made.result == is_there;
        case call::kind::find: break;
    }
    return made.result == is_there && (!is_there || made.found == *value);
}

/// Whether some order of the calls on one key, in which none comes before one that had ended, explains all results.
class linearization {
public:
    explicit linearization(std::vector<call> calls) : calls_(std::move(calls)) {}
    [[nodiscard]] bool exists(const value_of_key& before) { return search(0, before); }

private:
    [[nodiscard]] bool search(std::uint64_t done, const value_of_key& value) {
        if (done == (std::uint64_t{1} << calls_.size()) - 1) {
            return true;
        }
        if (!seen_.emplace(done, value).second) {
            return false;
        }
        std::uint64_t first_end = ~std::uint64_t{0};
        for (std::size_t i = 0; i < calls_.size(); ++i) {
            if ((done >> i & 1U) == 0) {
                first_end = std::min(first_end, calls_[i].end);
            }
        }
        for (std::size_t i = 0; i < calls_.size(); ++i) {
            value_of_key next = value;
            if ((done >> i & 1U) == 0 && calls_[i].begin < first_end && fits(calls_[i], next) &&
                search(done | std::uint64_t{1} << i, next)) {
                return true;
            }
        }
        return false;
    }
    std::vector<call> calls_;
    std::set<std::pair<std::uint64_t, value_of_key>> seen_;
};

TEST(linearization, tells_histories_that_no_order_explains) {
    const call inserted{call::kind::insert, 5, 1, 2, true, 0};
    EXPECT_FALSE(linearization({inserted, {call::kind::find, 0, 3, 4, false, 0}}).exists({}));
    EXPECT_TRUE(linearization({inserted, {call::kind::find, 0, 1, 4, false, 0}}).exists({}));
    EXPECT_FALSE(linearization({inserted, {call::kind::find, 0, 1, 4, true, 6}}).exists({}));
    EXPECT_FALSE(linearization({inserted, {call::kind::insert, 6, 1, 4, true, 0}}).exists({}));
    EXPECT_FALSE(
        linearization({{call::kind::find, 0, 1, 2, true, 5}, {call::kind::upsert, 5, 3, 4, true, 0}}).exists({}));
}

TEST(version_lock, a_thread_that_waits_long_uses_no_processor) {
    using namespace std::chrono_literals;
    detail::version_lock lock;
    std::atomic<bool> waits{false};
    double used_ms = 1e9;
    std::uint64_t seen = 0;
    lock.lock();
    {
        const std::jthread waiting([&] {
            waits = true;
            seen = lock.version();
            timespec used{};
            ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
            used_ms = static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
        });
        while (!waits) {
            std::this_thread::yield();
        }
        std::this_thread::sleep_for(150ms);  // lint-allow(sleep): how long the other thread must wait
        lock.unlock();
    }
    EXPECT_TRUE(lock.is_still(seen));
    EXPECT_LT(used_ms, 50);
}

template <class Index>
class caller {
public:
    caller(Index& tested, std::atomic<std::uint64_t>& clock, std::uint64_t seed)
        : tested_(tested), clock_(clock), random_(seed) {}
    call make(const typename Index::owned_key& key, std::uint64_t argument) {
        call made;
        made.what = static_cast<call::kind>(random_() % 5);
        made.argument = argument;
        made.begin = ++clock_;
        switch (made.what) {
            case call::kind::insert: made.result = tested_.insert(key, argument); break;
            case call::kind::update: made.result = tested_.update(key, argument); break;
            case call::kind::upsert: made.result = tested_.upsert(key, argument); break;
            case call::kind::remove: made.result = tested_.remove(key); break;
            case call::kind::find: {
                const auto found = tested_.find(key);
                made.result = found.has_value();
                made.found = found.value_or(0);
            }
        }
        made.end = ++clock_;
        return made;
    }

private:
    Index& tested_;
    std::atomic<std::uint64_t>& clock_;
    std::mt19937_64 random_;
};

/// Rounds of a few calls by three threads on four keys, among others that make leaves split and unite meanwhile.
template <class Index>
class histories {
public:
    histories(Index& tested, std::uint64_t rounds) : tested_(tested), rounds_(rounds) {}

    void run() {
        std::vector<std::jthread> running;
        for (std::size_t t = 0; t < threads; ++t) {
            running.emplace_back([this, t] { make_calls(t); });
        }
        for (std::uint64_t round = 0; round < rounds_; ++round) {
            std::array<value_of_key, keys> before;
            for (std::size_t i = 0; i < keys; ++i) {
                before[i] = tested_.find(key_of(i));
            }
            barrier_.arrive_and_wait();
            barrier_.arrive_and_wait();
            for (std::size_t i = 0; i < keys; ++i) {
                EXPECT_TRUE(linearization(calls_on(i)).exists(before[i])) << "key " << i << " of round " << round;
            }
        }
    }

private:
    using key = typename Index::key_type;
    static constexpr std::size_t threads = 3;
    static constexpr std::size_t keys = 4;
    static constexpr std::size_t calls_a_round = 8;

    [[nodiscard]] static auto key_of(std::size_t i) { return made_from<key>(1000 + 100 * i); }
    void make_calls(std::size_t t) {
        caller<Index> own(tested_, clock_, t);
        std::mt19937_64 random(t);
        for (std::uint64_t round = 0; round < rounds_; ++round) {
            barrier_.arrive_and_wait();
            for (std::size_t i = 0; i < calls_a_round; ++i) {
                const std::size_t which = random() % keys;
                calls_[t][which].push_back(own.make(key_of(which), round * 100 + t * calls_a_round + i));
                // Neighbours of these keys, of this thread alone: they come in some rounds, and go in others.
                const auto other = made_from<key>(1001 + random() % 400 / 4 * 4 + t);
                static_cast<void>(round / 32 % 2 == 0 ? tested_.insert(other, 1) : tested_.remove(other));
            }
            barrier_.arrive_and_wait();
        }
    }
    [[nodiscard]] std::vector<call> calls_on(std::size_t i) {
        std::vector<call> all;
        for (auto& each : calls_) {
            all.insert(all.end(), each[i].begin(), each[i].end());
            each[i].clear();
        }
        return all;
    }

    Index& tested_;
    std::uint64_t rounds_;
    std::barrier<> barrier_{threads + 1};
    std::atomic<std::uint64_t> clock_{0};
    std::array<std::array<std::vector<call>, keys>, threads> calls_;
};
template <class Index>
void run_histories(manager& heap, std::uint64_t rounds) {
    Index tested(heap, "histories");
    histories<Index>(tested, rounds).run();
    EXPECT_THAT(tested.check(), IsEmpty());
}

class index_threads_test : public testing::TestWithParam<test_configuration> {
protected:
    /// In the domain `disk` each call is some system calls.
    [[nodiscard]] static std::uint64_t calls(std::uint64_t elsewhere) {
        return GetParam().second == open_options::domain_choice::disk ? elsewhere / 4 : elsewhere;
    }
    segment::test_directory directory_;
    manager heap_{create_only, directory_.path("heap"), options_of(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(all, index_threads_test,
                         testing::Values(test_configuration{durability::atomic,
                                                            open_options::domain_choice::page_cache},
                                         test_configuration{durability::atomic, open_options::domain_choice::emulated},
                                         test_configuration{durability::atomic, open_options::domain_choice::disk}),
                         name_of_configuration);

TEST_P(index_threads_test, results_of_calls_on_numbers_fit_one_order) {
    run_histories<ordered_index<std::uint64_t, std::uint64_t>>(heap_, calls(1000));
}
TEST_P(index_threads_test, results_of_calls_on_hashed_numbers_fit_one_order) {
    run_histories<hash_index<std::uint64_t, std::uint64_t>>(heap_, calls(1000));
}
TEST_P(index_threads_test, results_of_calls_on_texts_fit_one_order) {
    run_histories<ordered_index<std::string_view, std::uint64_t>>(heap_, calls(500));
}

/// Each thread has keys of its own, next to those of the others, and finds them as it left them, while all leaves
/// change and others scan.
template <class Index>
void run_owners(manager& heap, std::uint64_t steps) {
    using key = typename Index::key_type;
    using value = typename Index::mapped_type;
    constexpr std::uint64_t threads = 3;
    constexpr std::uint64_t keys = 900;
    Index tested(heap, "owners");
    std::atomic<std::uint64_t> wrong{0};
    {
        std::atomic<std::uint64_t> working{threads};
        std::vector<std::jthread> running;
        for (std::uint64_t t = 0; t < threads; ++t) {
            running.emplace_back([&, t] {
                std::map<std::uint64_t, std::uint64_t> own;
                std::mt19937_64 random(t);
                for (std::uint64_t i = 0; i < steps; ++i) {
                    const std::uint64_t number = random() % keys * threads + t;
                    const bool grows = i / 400 % 2 == 0;
                    const auto known = own.find(number);
                    const auto k = made_from<key>(number);
                    if (random() % 8 == 0) {
                        const auto found = tested.find(k);
                        wrong += found.has_value() != (known != own.end()) ? 1U : 0U;
                        wrong += found && *found != made_from<value>(known->second) ? 1U : 0U;
                    } else if (random() % 8 == 1 ? !grows : grows) {
                        wrong += tested.upsert(k, made_from<value>(i)) != (known == own.end()) ? 1U : 0U;
                        own[number] = i;
                    } else {
                        wrong += tested.remove(k) != (known != own.end()) ? 1U : 0U;
                        own.erase(number);
                    }
                }
                for (const auto& [number, last] : own) {
                    const auto found = tested.find(made_from<key>(number));
                    wrong += !found || *found != made_from<value>(last) ? 1U : 0U;
                }
                --working;
            });
        }
        running.emplace_back([&] {
            while (working.load() != 0) {
                const index_statistics now = tested.statistics();
                wrong += now.leaves == 0 || now.slots % now.leaves != 0 ? 1U : 0U;
                std::optional<typename Index::owned_key> last;
                test::for_each_entry(tested, [&](const key& k, const value& /*value*/) {
                    const bool is_ordered = requires { tested.first(); };
                    wrong += is_ordered && last && !(*last < typename Index::owned_key(k)) ? 1U : 0U;
                    last = typename Index::owned_key(k);
                });
            }
        });
    }
    EXPECT_EQ(wrong.load(), 0U);
    EXPECT_THAT(tested.check(), IsEmpty());
}

TEST_P(index_threads_test, threads_keep_their_own_numbers) {
    run_owners<ordered_index<std::uint64_t, std::uint64_t>>(heap_, calls(4000));
}
TEST_P(index_threads_test, threads_keep_their_own_hashed_numbers) {
    run_owners<hash_index<std::uint64_t, std::uint64_t>>(heap_, calls(4000));
}
TEST_P(index_threads_test, threads_keep_their_own_hashed_texts) {
    run_owners<hash_index<std::string_view, std::string_view>>(heap_, calls(2000));
}
TEST_P(index_threads_test, threads_keep_their_own_texts) {
    run_owners<ordered_index<std::string_view, std::string_view>>(heap_, calls(2000));
}

using waiting = detail::waiting_put<std::uint64_t, std::uint64_t>;

TEST(put_queue, gives_out_what_is_wanted_and_takes_it_back) {
    using stage = waiting::stage;
    std::array<std::uint64_t, 3> numbers{1, 2, 3};
    waiting one{numbers[0], numbers[0], detail::put_mode::insert, 0};
    waiting two{numbers[1], numbers[1], detail::put_mode::insert, 0};
    waiting three{numbers[2], numbers[2], detail::put_mode::insert, 0};
    const waiting outside{numbers[2], numbers[2], detail::put_mode::insert, 0};
    detail::put_queue<std::uint64_t, std::uint64_t> queue;
    for (waiting* const each : {&one, &two, &three}) {
        queue.add(*each);
    }
    decltype(queue)::puts taken;
    queue.take(taken, outside, [](std::uint64_t key) { return key != 2; });
    ASSERT_EQ(taken.count, 2U);
    EXPECT_TRUE(one.now == stage::taken && two.now == stage::queued && three.now == stage::taken);
    queue.give_back(three);
    decltype(queue)::puts again;
    queue.take(again, outside, [](std::uint64_t /*key*/) { return true; });
    EXPECT_EQ(again.count, 2U) << "two and three";
    decltype(queue)::puts but_one;
    queue.give_back(two);
    queue.give_back(three);
    queue.take(but_one, two, [](std::uint64_t /*key*/) { return true; });
    EXPECT_EQ(but_one.count, 1U) << "three";
    queue.give_back(three);
    one.now = stage::stored;
    for (waiting* const each : {&one, &two, &three, &one}) {
        queue.remove(*each);
    }
    decltype(queue)::puts none;
    queue.take(none, outside, [](std::uint64_t /*key*/) { return true; });
    EXPECT_EQ(none.count, 0U);
}

/// One that leaves by an exception may be in the hands of another thread.
TEST(put_queue, waits_for_whoever_has_taken_a_put) {
    const std::uint64_t number = 1;
    waiting one{number, number, detail::put_mode::insert, 0};
    const waiting outside{number, number, detail::put_mode::insert, 0};
    detail::put_queue<std::uint64_t, std::uint64_t> queue;
    queue.add(one);
    decltype(queue)::puts taken;
    queue.take(taken, outside, [](std::uint64_t /*key*/) { return true; });
    std::atomic<bool> stores{false};
    std::atomic<bool> left{false};
    bool left_before = false;
    {
        const std::jthread leaves([&] {
            stores = true;
            queue.remove(one);
            left = true;
        });
        while (!stores) {
            std::this_thread::yield();
        }
        left_before = left;
        one.now = waiting::stage::stored;
    }
    EXPECT_FALSE(left_before);
    EXPECT_TRUE(left);
}

/// All put into the last leaf. Some find no memory: what was stored for others in the same transaction stays whole.
TEST(puts_on_a_disk, of_many_threads_are_all_there_where_the_heap_becomes_full) {
    constexpr std::size_t threads = 16;
    const segment::test_directory directory;
    open_options options = options_of({durability::atomic, open_options::domain_choice::disk});
    options.maximum_size = std::uint64_t{48} << 20U;
    manager heap(create_only, directory.path("heap"), options);
    using texts = ordered_index<std::string_view, std::string_view>;
    texts tested(heap, "texts");
    std::atomic<std::uint64_t> next{0};
    std::array<std::vector<std::uint64_t>, threads> stored;
    {
        std::vector<std::jthread> running;
        for (std::size_t t = 0; t < threads; ++t) {
            running.emplace_back([&, t] {
                try {
                    for (;;) {
                        const std::uint64_t number = next++;
                        const bool is_new =
                            tested.insert(fmt::format("{:09}", number), std::string(20'000 + number % 7, 'v'));
                        ASSERT_TRUE(is_new);
                        stored[t].push_back(number);
                    }
                } catch (const std::bad_alloc& /*full*/) {
                }
            });
        }
    }
    std::size_t all = 0;
    for (const auto& each : stored) {
        for (const std::uint64_t number : each) {
            const auto found = tested.find(fmt::format("{:09}", number));
            ASSERT_TRUE(found.has_value()) << number;
            EXPECT_EQ(found->size(), 20'000 + number % 7);
        }
        all += each.size();
    }
    EXPECT_GT(all, 1000U);
    EXPECT_EQ(tested.size(), all);
    EXPECT_THAT(tested.check(), IsEmpty());
}

}  // namespace
}  // namespace holdfast
