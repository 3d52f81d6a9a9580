// Random attacks on the files of a heap, closed and open, one after the other: links, pipes, directories, sockets and
// second names in the place of its files; other heaps under its name; other working directories; processes that come at
// once. Fault model: whoever attacks may rename, link and make files in the directories around the heap and in that of
// the heap, but does not write into files that are the heap's. Oracle: nothing outside the heap changes, no call waits,
// and when all is put back the heap holds what it held, or what was committed last.
//
//     random_attack_test [--seconds N] [--seed N]
#include "attack/random_attack.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attack/attacked.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::attack {
namespace {

namespace fs = std::filesystem;
using support::files_under;

constexpr unsigned patience = 30;  // seconds

/// A heap, what is around it, and dice.
class world {
public:
    world(std::uint64_t seed, durability wanted) : dice_(seed), wanted_(wanted) {
        for (const char* const name : {"here", "there", "copies"}) {
            fs::create_directory(scratch_ / name);
        }
        make_heap(heap(), step_, wanted_);
        make_heap(scratch_ / "there/heap", 1, wanted_);
        support::write_bytes(victim(), 0, std::vector<char>(5000, 'v'));
        around_ = around();
    }

    /// One attack of any kind, and the proof that it came to nothing.
    void attack() {
        try {
            switch (dice_() % 4) {
                case 0: plant_while_closed(); break;
                case 1: plant_while_open(); break;
                case 2: move_while_open(); break;
                default: race(); break;
            }
            EXPECT_EQ(around(), around_) << "something outside the heap was changed";
            const std::uint64_t found = step_at(heap());
            EXPECT_GE(found, step_);
            EXPECT_LE(found, latest_);
            step_ = latest_ = found;
        } catch (const std::exception& what) {
            ADD_FAILURE() << what.what();
        }
    }
    [[nodiscard]] const std::string& story() const noexcept { return story_; }

private:
    [[nodiscard]] std::string heap() const { return scratch_ / "here/heap"; }
    [[nodiscard]] std::string victim() const { return scratch_ / "victim"; }
    [[nodiscard]] std::map<std::string, std::string> around() const {
        auto found = files_under(scratch_.path());
        std::erase_if(found, [](const auto& each) { return each.first.starts_with("here/heap"); });
        return found;
    }
    template <class Container>
    [[nodiscard]] auto one_of(const Container& choices) {
        return choices[dice_() % choices.size()];
    }
    [[nodiscard]] std::string name_of_a_file() {
        return one_of(std::vector<std::string>{"lock", "superblock", "log.000000", "objects", "segment.000000",
                                               "segment.000001", "segment.000002", "lanes", "superblock.new",
                                               "node.0"});
    }

    /// Makes something that is no file of the heap, and says what.
    std::string plant(const std::string& path) {
        switch (dice_() % 8) {
            case 0: fs::create_symlink(victim(), path); return "a link to a file";
            case 1: fs::create_symlink("nowhere", path); return "a link to nothing";
            case 2: fs::create_symlink(scratch_ / "there", path); return "a link to a directory";
            case 3: fs::create_symlink(scratch_ / "there/heap/superblock", path); return "a link to another heap's";
            case 4: fs::create_hard_link(victim(), path); return "a second name";
            case 5: fs::create_directory(path); return "a directory";
            case 6: EXPECT_EQ(::mkfifo(path.c_str(), 0666), 0); return "a pipe";
            default: EXPECT_EQ(::mknod(path.c_str(), S_IFSOCK | 0666, 0), 0); return "a socket";
        }
    }
    /// Takes away what is there, and what may have come instead, and puts the file back.
    void restore(const std::string& path, bool kept) {
        if (kept) {
            fs::remove_all(path);
            fs::rename(scratch_ / "kept", path);
        } else if (!fs::is_regular_file(fs::symlink_status(path)) || fs::hard_link_count(path) > 1) {
            fs::remove_all(path);
        }
    }
    /// False where nothing was there.
    bool put_aside(const std::string& path) {
        if (!fs::exists(fs::symlink_status(path))) {
            return false;
        }
        fs::rename(path, scratch_ / "kept");
        return true;
    }

    void open_and_use() {
        try {
            manager opened(open_only, heap(), options_for(wanted_));
            static_cast<void>(support::step_of(opened));
            opened.close(true);
        } catch (const error& what) {
            EXPECT_FALSE(what.path().empty()) << what.what();
        }
        try {
            manager opened(open_read_only, heap(), options_for(wanted_));
            static_cast<void>(support::step_of(opened));
            opened.snapshot(scratch_ / "copies/one");
        } catch (const error& what) {
            EXPECT_FALSE(what.path().empty()) << what.what();
        }
        fs::remove_all(scratch_ / "copies/one");
    }

    void plant_while_closed() {
        const std::string name = name_of_a_file();
        const std::string path = heap() + "/" + name;
        const bool kept = put_aside(path);
        story_ = fmt::format("closed, {} is {}", name, plant(path));
        EXPECT_TRUE(ends_within(patience, [&] { open_and_use(); }));
        restore(path, kept);
    }

    /// In a process of its own, for it may be stopped.
    void plant_while_open() {
        const std::string name = name_of_a_file();
        const std::string path = heap() + "/" + name;
        const bool large = dice_() % 2 == 0;
        EXPECT_TRUE(ends_within(patience, [&] {
            try {
                manager opened(open_only, heap(), options_for(wanted_));
                // Where each store is the heap's at once, a step that its growth cuts off would be none.
                const bool at_once = wanted_ != durability::commit;
                if (at_once) {
                    support::advance(opened, step_ + 1);
                }
                static_cast<void>(put_aside(path));
                static_cast<void>(plant(path));
                if (!at_once) {
                    support::advance(opened, step_ + 1);
                }
                if (large) {
                    opened.deallocate(opened.allocate(std::size_t{5} << 20U));
                }
                opened.commit();
                opened.close(true);
            } catch (const error& what) {
                EXPECT_FALSE(what.path().empty()) << what.what();
            } catch (const std::bad_alloc&) {
                return;  // its growth met what was planted
            }
        }));
        static_cast<void>(dice_());  // the child's throw is not ours
        story_ = fmt::format("open, something is put in the place of {}", name);
        restore(path, fs::exists(fs::symlink_status(scratch_ / "kept")));
        latest_ = step_ + 1;
        recover();
    }

    /// What a writer left that was stopped is taken up by the next.
    void recover() { manager(open_only, heap(), options_for(wanted_)).close(true); }

    void move_while_open() {
        const bool relative = dice_() % 2 == 0;
        const bool another_in_place = dice_() % 2 == 0;
        const std::string place = one_of(std::vector<std::string>{"there", "here", "copies", "."});
        story_ = fmt::format("open by a {} path, working directory {}, moved{}", relative ? "relative" : "full", place,
                             another_in_place ? ", another in its place" : "");
        const working_directory here(scratch_ / "here");
        {
            manager opened(open_only, relative ? "heap" : heap(), options_for(wanted_));
            const working_directory elsewhere(scratch_ / place);
            fs::rename(heap(), scratch_ / "moved");
            if (another_in_place) {
                fs::rename(scratch_ / "there/heap", heap());
            }
            support::advance(opened, step_ + 1);
            opened.deallocate(opened.allocate(std::size_t{3 + dice_() % 6} << 20U));
            if (dice_() % 2 == 0) {
                opened.commit();
            }
            opened.snapshot(scratch_ / "copies/one");
            opened.close(true);
        }
        EXPECT_EQ(step_at(scratch_ / "copies/one"), step_ + 1);
        fs::remove_all(scratch_ / "copies/one");
        if (another_in_place) {
            fs::rename(heap(), scratch_ / "there/heap");
        }
        fs::rename(scratch_ / "moved", heap());
        step_ = latest_ = step_ + 1;
    }

    void race() {
        story_ = "processes that come at once";
        const std::string fresh = scratch_ / "copies/fresh";
        const auto answer_of = [](const std::function<void()>& action) {
            try {
                action();
                return 0;
            } catch (const error& what) {
                return static_cast<int>(what.reason());
            }
        };
        std::vector<std::function<int()>> actions;
        for (int i = 0; i < 3; ++i) {
            actions.emplace_back([&, way = dice_() % 5] {
                return answer_of([&] {
                    switch (way) {
                        case 0: manager(open_or_create, fresh, options_for(wanted_)).close(true); break;
                        case 1: static_cast<void>(manager::remove(fresh)); break;
                        case 2: manager(open_or_create, heap(), options_for(wanted_)).close(true); break;
                        case 3: static_cast<void>(step_at(heap())); break;
                        default: manager::copy(heap(), scratch_ / fmt::format("copies/{}", ::getpid())); break;
                    }
                });
            });
        }
        for (const int answer : at_once(actions)) {
            const auto reason = static_cast<errc>(answer);
            // Where nothing but a lock is left, or not yet more, remove() says that it is no heap.
            EXPECT_TRUE(answer == 0 || reason == errc::locked || reason == errc::not_a_heap) << "reason " << answer;
        }
        for (const auto& entry : fs::directory_iterator(scratch_ / "copies")) {
            if (entry.path() != fresh) {
                EXPECT_EQ(step_at(entry.path()), step_);
            }
        }
        fs::remove_all(scratch_ / "copies");
        fs::create_directory(scratch_ / "copies");
    }

    support::scratch_directory scratch_;
    std::mt19937_64 dice_;
    durability wanted_;
    std::uint64_t step_ = 1;
    std::uint64_t latest_ = 1;  ///< that may have been committed
    std::map<std::string, std::string> around_;
    std::string story_;
};

TEST(random_attack, changes_nothing_outside_the_heap_and_loses_nothing_in_it) {
    set_error_handler([](const error&) {});
    constexpr int attacks_a_world = 12;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(chosen.seconds);
    std::uint64_t attacks = 0;
    for (std::uint64_t seed = chosen.seed; std::chrono::steady_clock::now() < end; ++seed) {
        world around_one(seed, durabilities.at(seed % durabilities.size()));
        for (int i = 0; i < attacks_a_world && std::chrono::steady_clock::now() < end; ++i, ++attacks) {
            around_one.attack();
            ASSERT_FALSE(HasFailure()) << fmt::format("seed {}, attack {}, {}: {}", seed, i,
                                                      name_of(durabilities.at(seed % durabilities.size())),
                                                      around_one.story());
        }
    }
    std::printf("%llu attacks\n", static_cast<unsigned long long>(attacks));
    EXPECT_GT(attacks, 0U);
}

/// The number behind `--name`; the program ends where there is none.
bool take(std::string_view name, std::string_view argument, const char* value, std::uint64_t& into) {
    if (argument != name || value == nullptr) {
        return false;
    }
    const std::string_view digits(value);
    return std::from_chars(digits.begin(), digits.end(), into).ptr == digits.end();
}

}  // namespace
}  // namespace holdfast::attack

int main(int count, char** arguments) {
    ::testing::InitGoogleTest(&count, arguments);
    using holdfast::attack::chosen;
    for (int i = 1; i < count; i += 2) {
        const char* const value = i + 1 < count ? arguments[i + 1] : nullptr;
        if (!holdfast::attack::take("--seconds", arguments[i], value, chosen.seconds) &&
            !holdfast::attack::take("--seed", arguments[i], value, chosen.seed)) {
            std::fprintf(stderr, "usage: %s [--seconds N] [--seed N]\n", arguments[0]);
            return 2;
        }
    }
    if (chosen.seed == 0) {
        chosen.seed = std::random_device{}();
        std::printf("seed %llu\n", static_cast<unsigned long long>(chosen.seed));
    }
    return RUN_ALL_TESTS();
}
