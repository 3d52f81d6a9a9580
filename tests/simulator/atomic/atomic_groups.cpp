// Groups: what a transaction does, in the simulator. Each thread has words of its own among the roots, and a block that
// one of them points to: transactions alone change them.
#include <array>
#include <span>

#include "segment/format/heap_format.hpp"
#include "simulator/atomic/atomic_scenarios.hpp"

namespace holdfast::simulator {

namespace {

/// A destination in each thread's block. Only the group that makes the block says that it is null.
constexpr std::uint64_t inside_block = 24;
constexpr std::uint64_t bytes_of_block = 64;
constexpr std::uint64_t bytes_of_large_block = 8 * base::page_size;

/// The number of the thread's transaction; behind it the pointer to its block.
constexpr std::uint64_t counter_of(unsigned thread) noexcept { return 128 + std::uint64_t{64} * thread; }
constexpr std::uint64_t pointer_of(unsigned thread) noexcept { return counter_of(thread) + 8; }
/// What exceeds half of a ring: one word in each of so many lines.
constexpr std::uint64_t many = 10;
constexpr std::uint64_t many_of(unsigned thread) noexcept { return 4096 + std::uint64_t{1024} * thread; }
/// Two words in two lines; in one line with those of another thread.
constexpr std::uint64_t pair_of(unsigned thread) noexcept { return 1016 + std::uint64_t{64} * thread; }

class group_maker {
public:
    void store(std::uint64_t offset, std::initializer_list<std::uint64_t> values) {
        heap::data_piece piece{offset, values.size(), {}};
        std::copy(values.begin(), values.end(), piece.values.begin());
        pieces_.push_back(piece);
        for (std::uint64_t i = 0; i < piece.words; ++i) {
            words_.push_back({offset + i * 8, piece.values.at(i)});
        }
    }
    [[nodiscard]] const std::vector<heap::data_piece>& pieces() const noexcept { return pieces_; }
    [[nodiscard]] const std::vector<data_word>& words() const noexcept { return words_; }

private:
    std::vector<heap::data_piece> pieces_;
    std::vector<data_word> words_;
};

}  // namespace

bool program_runner::transact(const step& one, unsigned thread) {
    const bool frees = one.what == verb::transact_free || one.what == verb::transact_replace;
    const bool makes = one.what == verb::transact_make || one.what == verb::transact_replace;
    const std::uint64_t old = target(pointer_of(thread));
    if ((old != 0) != (frees || one.what == verb::transact_change) && one.what != verb::transact_words) {
        return false;
    }
    const std::uint64_t bytes = one.size == request::big ? bytes_of_large_block : bytes_of_block;
    slab::held_block made;
    if (makes && !session_.heap().groups().hold({bytes, 16, false}, made)) {
        return true;
    }
    const std::uint64_t block = makes ? made.offset : no_offset;
    const std::uint64_t number = word(counter_of(thread)) + 1;
    group_maker group;
    if (makes) {
        group.store(counter_of(thread), {number, segment::encode_pointer(pointer_of(thread), block, 0)});
        const std::uint64_t value = number * 1000 + thread * 100;
        group.store(block, {value, value + 1, value + 2, segment::null_pointer(0)});
        group.store(block + 32, {value + 3, value + 4, value + 5, value + 6});
    } else if (frees) {
        group.store(counter_of(thread), {number, segment::null_pointer(0)});
    } else {
        group.store(counter_of(thread), {number});
        group.store(pair_of(thread), {number, number});
        if (one.what == verb::transact_change) {
            group.store(old + 16, {number});
            group.store(old + 48, {number, number});
        }
    }
    for (std::uint64_t i = 0; one.size == request::other && i < many; ++i) {
        group.store(many_of(thread) + i * base::cache_line_size, {number});
    }
    pending_change change{.allocated_bytes = makes ? bytes : 0, .target = block, .words = group.words()};
    if (frees) {
        change.freed = old;
    }
    model_.begin(thread, {change});
    void* const gone = frees ? space_.view().address({old}) : nullptr;
    if (!session_.heap().groups().commit({.made = {&made, makes ? std::size_t{1} : 0},
                                          .freed = {&gone, frees ? std::size_t{1} : 0},
                                          .data = group.pieces()})) {
        model_.failed(thread);
        return true;
    }
    finish(thread, {block});
    adopt_place_inside(thread);
    return true;
}

std::uint64_t program_runner::place_inside(unsigned thread) const {
    const std::uint64_t block = target(pointer_of(thread));
    return block == 0 ? no_offset : block + inside_block;
}

void program_runner::adopt_place_inside(unsigned thread) {
    const std::uint64_t inside = place_inside(thread);
    if (inside != no_offset && !model_.is_destination(inside)) {
        model_.add_destination(inside, 0);
    }
}

namespace {

constexpr step words{verb::transact_words};
constexpr step make{verb::transact_make};
constexpr step make_large{verb::transact_make, 0, 0, request::big};
constexpr step change{verb::transact_change};
constexpr step drop{verb::transact_free};
constexpr step replace{verb::transact_replace};
constexpr step replace_by_large{verb::transact_replace, 0, 0, request::big};
constexpr step many_words{verb::transact_words, 0, 0, request::other};
constexpr step replace_and_many{verb::transact_replace, 0, 0, request::other};
constexpr step point{verb::checkpoint};
constexpr step give_back{verb::give_back};
constexpr step publish{verb::publish, 0};
constexpr step take{verb::free, 0};
constexpr step publish_inside{verb::publish_inside};
constexpr step free_inside{verb::free_inside};

const std::vector<step>& alphabet() {
    static const std::vector<step> steps{words,
                                         make,
                                         make_large,
                                         change,
                                         drop,
                                         replace,
                                         replace_by_large,
                                         many_words,
                                         replace_and_many,
                                         point,
                                         give_back,
                                         publish,
                                         take,
                                         publish_inside,
                                         free_inside};
    return steps;
}

const std::vector<std::vector<step>>& starts() {
    static const std::vector<std::vector<step>> all{
        {},
        {make},
        {make, change, words, replace},
        {make, drop, give_back},
        {publish, make_large},
        {make, publish_inside, point, drop},
    };
    return all;
}

const std::vector<concurrent_program>& pairs() {
    static const std::vector<concurrent_program> all{
        {"groups of two threads, in one line", {}, {{{words, words}, {words, point, words}}}},
        {"a block goes from group to group", {}, {{{make, drop, make}, {make, drop, words}}}, false},
        {"a group and a block that another publishes", {}, {{{make, change, replace}, {publish, take, publish}}}},
        {"words that are destinations between groups",
         {make, publish_inside, point},
         {{{drop, make, publish_inside}, {make, publish_inside, drop}}}},
        {"a group with a payload beside another", {make}, {{{many_words, replace_and_many}, {words, many_words}}}},
        {"one fills its ring with groups while the other is in one",
         {},
         {{{make, change}, {words, words, make, change, drop, words, point, words}}}},
    };
    return all;
}

/// Room for several groups that are pending.
atomic_setting larger(atomic_setting setting) {
    setting.slots *= 2;
    return setting;
}

}  // namespace

std::size_t group_starts() { return starts().size(); }

atomic_report explore_groups(const atomic_setting& setting, const atomic_effort& effort, std::size_t start,
                             std::size_t length) {
    atomic_report all;
    for (const bool settled : {true, false}) {
        atomic_explorer explorer(larger(setting), effort);
        atomic_program program{starts().at(start), {}, 0, settled, 0};
        const auto go_on = [&](const auto& again) -> void {
            for (const step& next : alphabet()) {
                program.steps.push_back(next);
                program.cut_from = program.steps.size() - 1;
                if (explorer.run(program) && program.steps.size() < length) {
                    again(again);
                }
                program.steps.pop_back();
            }
        };
        go_on(go_on);
        all += explorer.report();
    }
    return all;
}

atomic_report explore_groups_of_two(const atomic_setting& setting, const atomic_effort& effort, unsigned preemptions,
                                    std::uint64_t random_programs) {
    atomic_report all;
    for (const concurrent_program& program : pairs()) {
        for (const atomic_setting& each : {setting, larger(setting)}) {
            atomic_explorer explorer(each, effort);
            explorer.run_all_orders(program, preemptions, 0, 1);
            all += explorer.report();
        }
    }
    atomic_explorer explorer(setting, effort);
    for (std::uint64_t seed = 0; seed < random_programs && !explorer.failed(); ++seed) {
        explorer.run_random(seed, alphabet(), 40);
    }
    all += explorer.report();
    return all;
}

}  // namespace holdfast::simulator
