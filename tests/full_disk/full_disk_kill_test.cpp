// Heaps on a disk that another program fills and empties, beside SIGKILL at any moment.
//
// No process dies by a signal of its own; a call fails for want of space or works; frees work. Afterwards the heap has
// what was acknowledged: in durability `commit` the last commit, or the one that was being made; else all that calls
// returned, but for the root that was being changed. It opens when the other program has gone. By hand:
// full_disk_kill_test --cycles N --seed N.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "base/process_test_support.hpp"
#include "full_disk/full_disks.hpp"
#include "kill/options.hpp"
#include "kill/world.hpp"

namespace holdfast::test {
namespace {

constexpr unsigned cycles_of_a_heap = 40;
constexpr std::size_t slot_count = 256;
constexpr std::size_t no_slot = slot_count;
constexpr std::size_t counter_root = 500;
constexpr std::size_t attempts_kept = 64;

/// What a root leads to: a block of so many bytes with a tag, and then one byte throughout. 0 bytes: nothing.
struct content {
    std::uint32_t bytes = 0;
    std::uint32_t seed = 0;
    friend bool operator==(const content&, const content&) = default;
    [[nodiscard]] std::uint64_t tag() const noexcept { return std::uint64_t{bytes} << 32U | seed | 0x8000'0000U; }
};
struct contents {
    std::array<content, slot_count> roots{};
    std::uint64_t entries = 0;  ///< of the container, in durability `commit`
};
/// The key's text is the value.
using container = holdfast::map<std::uint64_t, holdfast::string>;
inline std::string text_of(std::uint64_t key) { return std::string(20 + key % 300, static_cast<char>('a' + key % 26)); }

/// In memory that the processes share. Zero bytes are a valid value.
struct record {
    contents now{};
    std::atomic<bool> is_full{false};  ///< the disk, for as long as the test wants
    /// Of the last commits, by number % attempts_kept; one may have failed before its end or behind it.
    std::array<contents, attempts_kept> attempted{};
    std::atomic<std::uint64_t> attempted_number{0};
    std::atomic<std::uint64_t> committed_number{0};  ///< of the last that returned
    std::atomic<std::uint64_t> changing{no_slot};
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> refused{0};
    std::array<char, 512> problem{};

    void report(const std::string& what) noexcept {
        if (problem[0] == '\0') {
            std::memcpy(problem.data(), what.data(), std::min(what.size(), problem.size() - 1));
        }
    }
};

struct plan {
    std::string path;
    durability how = durability::commit;
    [[nodiscard]] open_options options() const {
        open_options wanted;
        wanted.segment_size = 4 * mebibyte;
        wanted.durability = how;
        wanted.accept_process_crash_only = true;
        wanted.decay = std::chrono::milliseconds(5);
        return wanted;
    }
};

std::uint64_t counter_of(const manager& heap) {
    const void* const counter = heap.root(counter_root).get();
    return counter == nullptr ? 0 : *static_cast<const std::uint64_t*>(counter);
}

/// Which commit the heap has, and so what it must hold. False: one that nobody made.
bool follow_heap(const manager& heap, const plan& with, record& of) {
    if (with.how != durability::commit) {
        return true;
    }
    const std::uint64_t found = counter_of(heap);
    const bool is_known = found >= of.committed_number && found <= of.attempted_number;
    of.committed_number = found;
    of.attempted_number = found;
    of.now = of.attempted[found % attempts_kept];
    return is_known;
}

bool holds_entries(const manager& heap, std::uint64_t count) {
    const container& entries = *heap.find<container>("entries").first;
    std::uint64_t key = 0;
    for (const auto& entry : entries) {
        if (entry.first != key || std::string_view(entry.second) != text_of(key)) {
            return false;
        }
        ++key;
    }
    return key == count && entries.size() == count;
}

bool holds(const manager& heap, std::size_t slot, const content& expected) {
    const auto* const block = static_cast<const std::byte*>(heap.root(slot).get());
    if (block == nullptr || expected.bytes == 0) {
        return block == nullptr && expected.bytes == 0;
    }
    const auto byte = static_cast<std::byte>(expected.seed);
    std::uint64_t tag = 0;
    std::memcpy(&tag, block, sizeof(tag));
    return tag == expected.tag() && block[sizeof(tag)] == byte &&
           std::memcmp(block + sizeof(tag), block + sizeof(tag) + 1, expected.bytes - sizeof(tag) - 1) == 0;
}

class victim {
public:
    victim(const plan& with, record& of, std::uint64_t seed) : plan_(with), record_(of), random_(seed) {}

    /// Until it is killed.
    [[nodiscard]] int run() {
        try {
            open();
            for (;;) {
                step();
                ++record_.calls;
            }
        } catch (const error& failure) {
            record_.report(failure.what());
        } catch (const std::exception& failure) {
            record_.report(failure.what());
        }
        return 1;
    }

private:
    /// False: there was no space.
    template <class Call>
    bool tries(const Call& call) {
        try {
            call();
            return true;
        } catch (const bad_alloc&) {
            ++record_.refused;
        } catch (const error& failure) {
            if (failure.reason() != errc::no_space) {
                throw;
            }
            ++record_.refused;
        }
        return false;
    }
    void open() {
        while (!tries([&] { heap_ = std::make_unique<manager>(open_only, plan_.path, plan_.options()); })) {
        }
        if (!follow_heap(*heap_, plan_, record_)) {
            throw std::runtime_error("a commit that nobody made");
        }
    }
    void step() {
        const std::uint64_t what = random_() % 1000;
        const std::size_t slot = random_() % slot_count;
        if (what < 300 && plan_.how == durability::commit) {
            change_container();
        } else if (what < 620) {
            allocate(slot);
        } else if (what < 970 || waits_for_space()) {
            free(slot);
        } else if (what < 990) {
            commit([this] { heap_->commit(); });
        } else if (what < 998) {
            commit([this] { static_cast<void>(heap_->shrink()); });
        } else {
            note_attempt();
            heap_.reset();
            open();
        }
    }
    void allocate(std::size_t slot) {
        const std::uint64_t kind = random_() % 20;
        const std::uint64_t most = kind == 0 ? mebibyte / 2 : kind < 5 ? 65536 : kind < 10 ? 8192 : 1024;
        const auto bytes = static_cast<std::uint32_t>(16 + random_() % most);
        const content made{.bytes = bytes, .seed = static_cast<std::uint32_t>(random_() & 0xFFFFU)};
        record_.changing = slot;
        free_now(slot);
        if (tries([&] { heap_->allocate_to(heap_->root(slot), bytes); })) {
            auto* const block = static_cast<std::byte*>(heap_->root(slot).get());
            const std::uint64_t tag = made.tag();
            std::memset(block + sizeof(tag), static_cast<int>(made.seed), bytes - sizeof(tag));
            std::memcpy(block, &tag, sizeof(tag));
            record_.now.roots[slot] = made;
        }
        record_.changing = no_slot;
    }
    void change_container() {
        container& entries = *heap_->find<container>("entries").first;
        std::uint64_t& count = record_.now.entries;
        if (random_() % 3 != 0) {
            count += tries([&] { entries.try_emplace(count, text_of(count).c_str()); }) ? 1U : 0U;
        } else if (count != 0) {
            entries.erase(--count);
        }
    }
    void free(std::size_t slot) {
        record_.changing = slot;
        free_now(slot);
        record_.changing = no_slot;
    }
    void free_now(std::size_t slot) {
        if (!holds(*heap_, slot, record_.now.roots[slot])) {
            throw std::runtime_error("root " + std::to_string(slot) + " changed while the process lived");
        }
        heap_->free_from(heap_->root(slot));
        record_.now.roots[slot] = {};
    }
    /// The half of the attempts that is left is for the time behind the full disk, however long that is full.
    [[nodiscard]] bool waits_for_space() const {
        return record_.is_full && record_.attempted_number - record_.committed_number >= attempts_kept / 2;
    }
    void note_attempt() {
        if (plan_.how == durability::commit) {
            const std::uint64_t number = record_.attempted_number + 1;
            if (number - record_.committed_number >= attempts_kept) {
                throw std::runtime_error("no commit finds space");
            }
            record_.attempted[number % attempts_kept] = record_.now;
            record_.attempted_number = number;
            *static_cast<std::uint64_t*>(heap_->root(counter_root).get()) = number;
        }
    }
    template <class Call>
    void commit(const Call& call) {
        note_attempt();
        if (tries(call)) {
            record_.committed_number = record_.attempted_number.load();
        }
    }

    plan plan_;
    record& record_;
    random random_;
    std::unique_ptr<manager> heap_;
};

class full_disk_kill : public on_small_disk<std::tuple<const char*, durability>> {
protected:
    void SetUp() override {
        how_ = std::get<1>(GetParam());
        mount(std::get<0>(GetParam()), 24, 48);
    }
    void new_heap() {
        static_cast<void>(std::filesystem::remove_all(path_));
        plan_ = {.path = path_, .how = how_};
        record_ = std::make_unique<base::shared_memory<record>>();
        (*record_)->changing = no_slot;
        manager heap(create_only, path_, plan_.options());
        *static_cast<std::uint64_t*>(heap.allocate_to(heap.root(counter_root), sizeof(std::uint64_t))) = 0;
        heap.construct<container>("entries")();
    }
    void one_cycle(random& numbers) {
        record& of = **record_;
        const std::uint64_t calls = of.calls;
        const std::uint64_t seed = numbers();
        base::child_process child([&] { return victim(plan_, of, seed).run(); });
        ASSERT_TRUE(child.runs_until([&] { return of.calls > calls + 20; }));
        std::unique_ptr<ballast> full;
        for (int times = 0; times < 3; ++times) {
            static_cast<void>(child.ends_within(numbers() % 12'000'000));
            of.is_full = true;
            full = std::make_unique<ballast>(directory_, 0);
            static_cast<void>(child.ends_within(numbers() % 12'000'000));
            if (times < 2 || numbers() % 2 == 0) {
                full.reset();
                of.is_full = false;
            }
        }
        const base::process_end end = child.kill();
        of.is_full = false;
        EXPECT_TRUE(end.was_killed()) << end << ' ' << of.problem.data();
        if (full) {
            try {
                const manager heap(open_only, path_, plan_.options());
            } catch (const bad_alloc&) {
            } catch (const error& failure) {
                EXPECT_EQ(failure.reason(), errc::no_space) << failure.what();
            }
            full.reset();
        }
        manager heap(open_only, path_, plan_.options());
        ASSERT_TRUE(follow_heap(heap, plan_, of)) << counter_of(heap);
        EXPECT_EQ(heap.check(true), std::vector<std::string>());
        for (std::size_t slot = 0; slot < slot_count; ++slot) {
            if (how_ != durability::commit && slot == of.changing) {
                heap.free_from(heap.root(slot));  // before it, after it, or a block that is not filled yet
                of.now.roots[slot] = {};
            }
            EXPECT_TRUE(holds(heap, slot, of.now.roots[slot])) << "root " << slot;
        }
        of.changing = no_slot;
        EXPECT_TRUE(holds_entries(heap, of.now.entries));
    }

    durability how_ = durability::commit;
    plan plan_;
    std::unique_ptr<base::shared_memory<record>> record_;
};

TEST_P(full_disk_kill, leaves_what_was_acknowledged) {
    random numbers(options().seed);
    std::uint64_t calls = 0;
    std::uint64_t refused = 0;
    for (std::uint64_t cycle = 0; cycle < options().cycles && !HasFailure(); ++cycle) {
        SCOPED_TRACE("cycle " + std::to_string(cycle));
        if (cycle % cycles_of_a_heap == 0) {
            new_heap();
        }
        const std::uint64_t calls_before = (*record_)->calls;
        const std::uint64_t refused_before = (*record_)->refused;
        one_cycle(numbers);
        calls += (*record_)->calls - calls_before;
        refused += (*record_)->refused - refused_before;
    }
    std::cout << options().cycles << " cycles, " << calls << " calls, " << refused << " without space\n";
    EXPECT_GT(refused, 0U) << "else nothing is tested here";
}

INSTANTIATE_TEST_SUITE_P(of, full_disk_kill,
                         ::testing::Combine(::testing::Values("tmpfs", "ext4"),
                                            ::testing::Values(durability::commit, durability::atomic,
                                                              durability::collect)),
                         [](const auto& one) {
                             const durability how = std::get<1>(one.param);
                             return std::string(std::get<0>(one.param)) + (how == durability::commit   ? "_commit"
                                                                           : how == durability::atomic ? "_atomic"
                                                                                                       : "_collect");
                         });

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 400); }
