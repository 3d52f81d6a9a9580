// An ordered and a hash index around a split and around a merge: every sequence of up to so many calls (--cycles N) is
// cut off at every step of the protocol of durability `atomic`, by a process that ends there, and the index is opened
// again. The steps are the sites of mutants that the thread passes, so this test works in a build that has them (preset
// `crash`).
// In the domain `emulated` also as a loss of power leaves it: what was not made durable may be lost (index_power).
//
// Oracle: the entries are those after all calls that returned or, wholly, also the call in flight; all invariants hold;
// no block but those of the index is allocated.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <holdfast/hash_index.hpp>
#include <holdfast/ordered_index.hpp>

#include "base/process_test_support.hpp"
#include "base/scratch_test_support.hpp"
#include "kill/options.hpp"
#include "kill/power_image.hpp"
#include "persist/mutant.hpp"
#include "support/index_entries.hpp"

/// Another type than std::uint64_t.
using of_mutant = unsigned long long;
template <>
inline constexpr bool holdfast::detail::splits_clear_before_they_link<of_mutant> = true;

namespace holdfast::test {
namespace {

#if HOLDFAST_MUTANTS

struct cut_progress {
    std::uint64_t returned;
    char problem[400];
};

using loss = power_image::loss;

std::uint64_t steps_left = 0;  ///< 0: they are not counted
loss loss_of_cut = loss::nothing;
power_image image_of_cut;
void count_step() {
    if (steps_left != 0 && --steps_left == 0) {
        image_of_cut.lose(loss_of_cut, 1);
        ::_exit(3);
    }
}

template <class Index>
class cut_world {
public:
    using key = typename Index::key_type;
    using content = std::map<typename Index::owned_key, std::uint64_t>;
    enum class kind : std::uint8_t { put, remove, load, clear };
    struct call {
        kind what;
        std::uint64_t number;  ///< load: of entries
        std::uint64_t value;
    };

    /// Entries that are inserted first, those of them that are removed then, and the calls that make sequences.
    cut_world(std::vector<std::uint64_t> numbers, std::vector<std::uint64_t> gone, std::vector<call> calls)
        : numbers_(std::move(numbers)), gone_(std::move(gone)), calls_(std::move(calls)) {}

    /// Without assertions: what was found first, or nothing.
    [[nodiscard]] std::string find_fault_in_order_of_stores() {
        durability_ = durability::collect;
        for (std::size_t one = 0; one < calls_.size(); ++one) {
            bool ended = false;
            for (std::uint64_t step = 1; !ended; ++step) {
                const std::string found = cut({one}, step, ended);
                if (!found.empty()) {
                    return found;
                }
            }
            ++sequences_;
        }
        std::printf("%llu images\n", static_cast<unsigned long long>(images_));
        return {};
    }
    void run(open_options::domain_choice domain, std::vector<loss> losses = {loss::nothing}, std::uint64_t most = 6) {
        domain_ = domain;
        losses_ = std::move(losses);
        const bool loses = losses_ != std::vector{loss::nothing};  // such images take longer
        const std::uint64_t longest =
            loses ? std::clamp<std::uint64_t>(options().cycles / 3, 1, std::min(most, std::uint64_t{4}))
                  : std::min(options().cycles, most);
        std::vector<std::size_t> sequence;
        for (std::uint64_t length = 1; length <= longest && !testing::Test::HasFailure(); ++length) {
            sequence.assign(length, 0);
            do {
                for (const loss each : losses_) {
                    loss_of_cut = each;
                    cut_everywhere(sequence);
                }
            } while (!testing::Test::HasFailure() && next(sequence));
        }
        std::printf("%llu images of %llu sequences\n", static_cast<unsigned long long>(images_),
                    static_cast<unsigned long long>(sequences_));
    }

private:
    /// Keys with the order of the numbers.
    [[nodiscard]] static auto key_of(std::uint64_t number) {
        if constexpr (std::is_same_v<key, std::string_view>) {
            return fmt::format("key {:06}", number);
        } else {
            return key{number};
        }
    }
    [[nodiscard]] bool next(std::vector<std::size_t>& sequence) const {
        for (std::size_t& each : sequence) {
            if (++each < calls_.size()) {
                return true;
            }
            each = 0;
        }
        return false;
    }
    [[nodiscard]] open_options heap_options() const {
        open_options wanted;
        wanted.durability = durability_;
        wanted.accept_process_crash_only = true;
        wanted.segment_size = std::uint64_t{2} << 20U;
        wanted.reservation = std::uint64_t{1} << 30U;
        wanted.domain = domain_;
        return wanted;
    }
    static void apply(content& to, const call& made) {
        switch (made.what) {
            case kind::put: to[key_of(made.number)] = made.value; break;
            case kind::remove: to.erase(key_of(made.number)); break;
            case kind::load:
                if (to.empty()) {
                    to = loaded(made);
                }
                break;
            case kind::clear: to.clear(); break;
        }
    }
    static void make(Index& on, const call& made) {
        switch (made.what) {
            case kind::put: on.upsert(key_of(made.number), made.value); break;
            case kind::remove: on.remove(key_of(made.number)); break;
            case kind::load:
                if (on.empty()) {
                    const content all = loaded(made);
                    on.bulk_load(all.begin(), all.end());
                }
                break;
            case kind::clear: on.clear(); break;
        }
    }
    [[nodiscard]] static content loaded(const call& made) {
        content all;
        for (std::uint64_t i = 0; i < made.number; ++i) {
            all.emplace(key_of(i), made.value + i);
        }
        return all;
    }

    void cut_everywhere(const std::vector<std::size_t>& sequence) {
        ++sequences_;
        bool ended = false;
        for (std::uint64_t step = 1; !ended && !testing::Test::HasFailure(); ++step) {
            EXPECT_EQ(cut(sequence, step, ended), "")
                << describe(sequence) << ", cut at step " << step << ", loss " << static_cast<int>(loss_of_cut);
        }
    }
    /// `ended`: there was no such step.
    [[nodiscard]] std::string cut(const std::vector<std::size_t>& sequence, std::uint64_t step, bool& ended) {
        *shown_ = {};
        const pid_t child = ::fork();  // lint-allow(fork): thousands of children, one after another
        if (child == 0) {
            ::_exit(work(sequence, step));
        }
        int status = 0;
        if (child < 0 || ::waitpid(child, &status, 0) != child) {
            ended = true;
            return "fork or waitpid failed";
        }
        ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) == 1) {
            ended = true;
            return fmt::format("the process failed: {}", static_cast<const char*>(shown_->problem));
        }
        ++images_;
        return examine(sequence);
    }
    /// In the child, which ends without closing the heap.
    [[nodiscard]] int work(const std::vector<std::size_t>& sequence, std::uint64_t step) {
        try {
            manager heap(create_only, path(), heap_options());
            fix_seed(heap, "index", static_cast<const Index*>(nullptr));
            Index index(heap, "index");
            for (const std::uint64_t number : numbers_) {
                index.insert(key_of(number), number);
            }
            for (const std::uint64_t number : gone_) {
                index.remove(key_of(number));
            }
            image_of_cut.begin(path(), count_step);
            for (const std::size_t each : sequence) {
                if (shown_->returned + 1 == sequence.size()) {  // earlier cuts are those of shorter sequences
                    steps_left = step;
                }
                make(index, calls_[each]);
                ++shown_->returned;
            }
            image_of_cut.lose(loss_of_cut, 2);
            ::_exit(0);
        } catch (const std::exception& failure) {
            fmt::format_to_n(&shown_->problem[0], sizeof shown_->problem - 1, "{}", failure.what());
        }
        return 1;
    }
    [[nodiscard]] std::string examine(const std::vector<std::size_t>& sequence) {
        std::string wrong;
        {
            manager heap(open_only, path(), heap_options());
            Index index(heap, "index");
            wrong = compare(heap, index, sequence);
        }
        manager::remove(path());
        return wrong;
    }
    [[nodiscard]] std::string compare(manager& heap, Index& index, const std::vector<std::size_t>& sequence) const {
        for (const auto& problems : {index.check(), heap.check(false)}) {
            if (!problems.empty()) {
                return problems.front();
            }
        }
        content found;
        for_each_entry(index, [&](const key& k, std::uint64_t value) { found.emplace(k, value); });
        content known;
        for (const std::uint64_t number : numbers_) {
            known.emplace(key_of(number), number);
        }
        for (const std::uint64_t number : gone_) {
            known.erase(key_of(number));
        }
        for (std::uint64_t i = 0; i < shown_->returned; ++i) {
            apply(known, calls_[sequence[i]]);
        }
        if (found != known && shown_->returned < sequence.size()) {
            apply(known, calls_[sequence[shown_->returned]]);
        }
        if (found != known) {
            return fmt::format("{} entries, which {} returned calls do not explain", found.size(), shown_->returned);
        }
        if (durability_ == durability::collect) {
            return "";  // tracing keeps a block that something looks like a pointer to
        }
        const std::uint64_t leaves = index.statistics().leaves;
        constexpr bool has_texts = std::is_same_v<key, std::string_view>;
        constexpr bool has_text_lows = has_texts && requires { index.first(); };
        const std::uint64_t blocks = 1 + leaves + (has_text_lows ? leaves - 1 : 0) + (has_texts ? found.size() : 0);
        const std::uint64_t allocated = heap.statistics().allocated_blocks;
        return allocated == blocks ? "" : fmt::format("{} blocks, expected {}", allocated, blocks);
    }
    [[nodiscard]] std::string describe(const std::vector<std::size_t>& sequence) const {
        std::string text;
        for (const std::size_t each : sequence) {
            constexpr std::array<const char*, 4> names{"put", "remove", "load", "clear"};
            text += fmt::format("{} {} ", names[static_cast<std::size_t>(calls_[each].what)], calls_[each].number);
        }
        return text;
    }
    [[nodiscard]] std::string path() const { return directory_.path() + "/heap"; }

    std::vector<std::uint64_t> numbers_;
    std::vector<std::uint64_t> gone_;
    std::vector<call> calls_;
    std::vector<loss> losses_;
    open_options::domain_choice domain_ = open_options::domain_choice::page_cache;
    durability durability_ = durability::atomic;
    base::scratch_directory directory_{options().memory_directory};
    base::shared_memory<cut_progress> shown_;
    std::uint64_t images_ = 0;
    std::uint64_t sequences_ = 0;
};

std::vector<std::uint64_t> numbers_between(std::uint64_t begin, std::uint64_t end) {
    std::vector<std::uint64_t> all;
    for (std::uint64_t i = begin; i < end; i += 10) {
        all.push_back(i);
    }
    return all;
}
/// A full leaf: an insertion in the middle, one at the end, a new value, a removal.
template <class Index>
void run_split(open_options::domain_choice domain, std::vector<loss> losses = {loss::nothing}) {
    using kind = typename cut_world<Index>::kind;
    cut_world<Index> world(numbers_between(10, 1090), {},
                           {{kind::put, 505, 1}, {kind::put, 1100, 2}, {kind::put, 20, 3}, {kind::remove, 1000, 0}});
    world.run(domain, std::move(losses));
}
/// Two leaves of which the first has 13 entries: the next removal from it unites the two.
template <class Index>
void run_merge(open_options::domain_choice domain, std::vector<loss> losses = {loss::nothing}) {
    std::vector<std::uint64_t> gone =
        numbers_between(140, 1090);  // 13 entries stay, up to the begin of the second leaf
    using kind = typename cut_world<Index>::kind;
    cut_world<Index> world(numbers_between(10, 1290), std::move(gone),
                           {{kind::remove, 10, 0}, {kind::remove, 20, 0}, {kind::put, 15, 1}, {kind::remove, 1200, 0}});
    world.run(domain, std::move(losses));
}
/// More leaves than one are loaded, in more than one transaction where keys are texts.
template <class Index>
void run_load(open_options::domain_choice domain, std::vector<loss> losses = {loss::nothing}) {
    using kind = typename cut_world<Index>::kind;
    constexpr std::uint64_t entries = std::is_same_v<typename Index::key_type, std::string_view> ? 130 : 250;
    cut_world<Index> world({}, {}, {{kind::load, entries, 7}, {kind::clear, 0, 0}, {kind::put, 5, 1}});
    world.run(domain, std::move(losses), 2);
}

/// Two leaves by the first bit of the hash, of which the first keeps 13 entries and the other one 40.
void run_merge_of_hashes(std::vector<loss> losses) {
    const detail::order_of_hashes<std::uint64_t> order(fixed_seed);
    const auto is_first = [order](std::uint64_t number) { return order.bound_of(number) >> 63U == 0; };
    const std::vector<std::uint64_t> all = numbers_between(10, 1290);
    std::vector<std::uint64_t> first;
    std::vector<std::uint64_t> other;
    std::partition_copy(all.begin(), all.end(), std::back_inserter(first), std::back_inserter(other), is_first);
    std::vector<std::uint64_t> gone(first.begin() + 13, first.end());
    gone.insert(gone.end(), other.begin() + 40, other.end());
    const std::uint64_t fresh = *std::find_if(first.begin(), first.end(), [&](auto i) { return is_first(i + 1); }) + 1;
    using world_of_hashes = cut_world<hash_index<std::uint64_t, std::uint64_t>>;
    using kind = world_of_hashes::kind;
    world_of_hashes world(
        all, std::move(gone),
        {{kind::remove, first[0], 0}, {kind::remove, first[1], 0}, {kind::put, fresh, 1}, {kind::remove, other[0], 0}});
    world.run(open_options::domain_choice::emulated, std::move(losses));
}

using numbers = ordered_index<std::uint64_t, std::uint64_t>;
using texts = ordered_index<std::string_view, std::uint64_t>;

TEST(index_cut, around_a_split_of_numbers_on_the_page_cache) {
    run_split<numbers>(open_options::domain_choice::page_cache);
}
TEST(index_cut, around_a_split_of_numbers_with_fences) { run_split<numbers>(open_options::domain_choice::emulated); }
TEST(index_cut, around_a_split_of_texts_on_the_page_cache) {
    run_split<texts>(open_options::domain_choice::page_cache);
}
TEST(index_cut, around_a_split_of_texts_with_fences) { run_split<texts>(open_options::domain_choice::emulated); }

TEST(index_cut, around_a_split_of_hashed_numbers_with_fences) {
    run_split<hash_index<std::uint64_t, std::uint64_t>>(open_options::domain_choice::emulated);
}
TEST(index_cut, around_a_split_of_hashed_texts_with_fences) {
    run_split<hash_index<std::string_view, std::uint64_t>>(open_options::domain_choice::emulated);
}
TEST(index_cut, around_a_merge_of_hashed_numbers_with_fences) { run_merge_of_hashes({loss::nothing}); }
TEST(index_cut, around_a_merge_of_numbers_on_the_page_cache) {
    run_merge<numbers>(open_options::domain_choice::page_cache);
}
TEST(index_cut, around_a_merge_of_numbers_with_fences) { run_merge<numbers>(open_options::domain_choice::emulated); }
TEST(index_cut, around_a_merge_of_texts_with_fences) { run_merge<texts>(open_options::domain_choice::emulated); }

TEST(index_cut, around_a_load_of_texts_on_the_page_cache) { run_load<texts>(open_options::domain_choice::page_cache); }
TEST(index_cut, around_a_load_of_hashed_numbers_with_fences) {
    run_load<hash_index<std::uint64_t, std::uint64_t>>(open_options::domain_choice::emulated);
}
TEST(index_cut, around_a_load_of_hashed_texts_with_fences) {
    run_load<hash_index<std::string_view, std::uint64_t>>(open_options::domain_choice::emulated);
}

/// A full leaf of texts, in durability `collect`.
template <class Value>
std::string find_fault_of_splits() {
    using world_of_texts = cut_world<ordered_index<std::string_view, Value>>;
    using kind = typename world_of_texts::kind;
    world_of_texts world(numbers_between(10, 1090), {}, {{kind::put, 505, 1}, {kind::put, 1100, 2}});
    return world.find_fault_in_order_of_stores();
}

TEST(index_in_order, around_a_split_of_texts) { EXPECT_EQ(find_fault_of_splits<std::uint64_t>(), ""); }

/// Passed the kills of a short run: between the words that a split clears and the link, entries are in no leaf.
TEST(index_in_order, a_split_that_clears_before_it_links_is_found) {
    EXPECT_NE(find_fault_of_splits<of_mutant>().find("entries, which"), std::string::npos);
}

const std::vector<loss> power_losses{loss::everything, loss::words};

TEST(index_power, around_a_split_of_numbers) {
    run_split<numbers>(open_options::domain_choice::emulated, power_losses);
}
TEST(index_power, around_a_split_of_hashed_numbers) {
    run_split<hash_index<std::uint64_t, std::uint64_t>>(open_options::domain_choice::emulated, power_losses);
}
TEST(index_power, around_a_split_of_texts) { run_split<texts>(open_options::domain_choice::emulated, power_losses); }
TEST(index_power, around_a_merge_of_numbers) {
    run_merge<numbers>(open_options::domain_choice::emulated, power_losses);
}
TEST(index_power, around_a_merge_of_hashed_numbers) { run_merge_of_hashes(power_losses); }
TEST(index_power, around_a_load_of_texts) { run_load<texts>(open_options::domain_choice::emulated, power_losses); }

#else

TEST(index_cut, needs_the_sites_of_mutants) { GTEST_SKIP() << "NOT TESTED HERE: this build has no mutants"; }

#endif

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 3); }
