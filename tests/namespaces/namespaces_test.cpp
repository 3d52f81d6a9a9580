// Containers that share a heap or a store: processes in namespaces of their own, of processes and of mounts, in which
// both are process 1 and see the directory at another path.
//
// Numbers of processes and paths say nothing there about who holds what. A process that is killed holds up nobody.
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/store.hpp>
#include <holdfast/transaction.hpp>

#include "base/process_test_support.hpp"
#include "base/scratch_test_support.hpp"

namespace holdfast::test {
namespace {

using texts = map<int, string>;

/// What the processes tell one another. Zero bytes are a valid value.
struct notes {
    std::atomic<int> is_process_1{0};
    std::atomic<int> at{0};
    std::atomic<int> go{0};
    std::atomic<int> changes{0};
};

class namespaces : public testing::Test {
protected:
    static constexpr int not_allowed = 77;

    void SetUp() override {
        std::filesystem::create_directory(seen_at_);
        std::filesystem::create_directory(directory_);
        const base::process_end end =
            base::run_in_child([this] { return in_container([](const std::string&) { return 0; }); });
        if (end.exit_status() == not_allowed) {
            GTEST_SKIP() << "NOT TESTED HERE: needs namespaces, and rights to mount";
        }
        ASSERT_TRUE(end.succeeded()) << end;
    }

    /// In a child, which is process 1 of its namespace; the directory lies at another path there.
    template <class Work>
    int in_container(const Work& work) {
        if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount(directory_.c_str(), seen_at_.c_str(), nullptr, MS_BIND, nullptr) != 0) {
            return not_allowed;
        }
        base::child_process inside([&] {
            notes_->is_process_1 += ::getpid() == 1 ? 1 : 0;
            return work(seen_at_);
        });
        return inside.wait().exit_status();
    }
    /// A container that runs until it ends or is killed, with all in it.
    template <class Work>
    auto container(const Work& work) {
        return std::make_unique<base::child_process>([this, work] { return in_container(work); });
    }
    /// `works` counts its changes, until it may end.
    template <class Work>
    void change_by_two_of_which_one_is_killed(const Work& works) {
        const auto one = container(works);
        auto other = container(works);
        for (int round = 1; round <= 20; ++round) {
            const int before = notes_->changes;
            ASSERT_TRUE(one->runs_until([&] { return notes_->changes > before + 10; })) << round;
            other->kill();
            const int after = notes_->changes;
            ASSERT_TRUE(one->runs_until([&] { return notes_->changes > after + 10; })) << "after a death, " << round;
            other = container(works);
        }
        notes_->go = 1;
        EXPECT_TRUE(one->wait().succeeded());
        EXPECT_TRUE(other->wait().succeeded());
        EXPECT_GE(notes_->is_process_1, 3) << "else all of them are one's changes";
    }
    [[nodiscard]] bool reaches(const base::child_process& one, int at) {
        return one.runs_until([&] { return notes_->at >= at; }) && notes_->at >= at;
    }
    /// What is in a container ends a moment after it.
    template <class Reached>
    static bool becomes(const Reached& reached) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!reached() && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::yield();
        }
        return reached();
    }
    void wait_for(int go) const {
        while (notes_->go < go) {
            std::this_thread::yield();
        }
    }
    static void fill(manager& heap, int value) {
        auto& all = *heap.find_or_construct<vector<int>>("numbers")(heap.get_allocator<int>());
        all.assign(10'000, value);
        heap.commit();
    }
    [[nodiscard]] static bool is_filled(const manager& heap, int value) {
        const auto* const all = heap.find<vector<int>>("numbers").first;
        return all != nullptr && all->size() == 10'000 && std::ranges::count(*all, value) == 10'000;
    }

    base::scratch_directory place_;
    std::string directory_ = place_.path("there");
    std::string seen_at_ = place_.path("elsewhere");
    base::shared_memory<notes> notes_;
};

TEST_F(namespaces, a_reader_in_a_container_follows_a_writer_outside) {
    manager writer(create_only, directory_ + "/heap");
    fill(writer, 1);
    const auto reader = container([this](const std::string& at) {
        manager heap(open_read_only, at + "/heap");
        for (int value = 1; value < 20; ++value) {
            if (!is_filled(heap, value)) {
                return 1;
            }
            notes_->at = value;
            wait_for(value);
            heap.refresh();
        }
        notes_->at = 20;
        wait_for(1000);
        return 0;
    });
    for (int value = 1; value < 20; ++value) {
        ASSERT_TRUE(reaches(*reader, value)) << value;
        fill(writer, value + 1);
        notes_->go = value;
    }
    ASSERT_TRUE(reaches(*reader, 20));
    EXPECT_EQ(notes_->is_process_1, 2);  // in SetUp, too
    EXPECT_EQ(writer.neighbours().readers.size(), 1U);
    reader->kill();
    EXPECT_TRUE(becomes([&] { return writer.neighbours().readers.empty(); })) << "a dead reader holds a version";
    fill(writer, 30);
}

TEST_F(namespaces, a_writer_in_a_container_keeps_others_out_until_it_is_killed) {
    const auto writer = container([this](const std::string& at) {
        manager heap(create_only, at + "/heap");
        fill(heap, 7);
        notes_->at = 1;
        wait_for(1000);
        return 0;
    });
    ASSERT_TRUE(reaches(*writer, 1));
    const auto opens = [](const std::string& at) {
        try {
            const manager heap(open_only, at + "/heap");
            return is_filled(heap, 7) ? 0 : 2;
        } catch (const error& refused) {
            return refused.reason() == errc::locked ? 1 : 3;
        }
    };
    EXPECT_EQ(opens(directory_), 1);
    EXPECT_EQ(base::run_in_child([&] { return in_container(opens); }).exit_status(), 1);
    EXPECT_TRUE(is_filled(manager(open_read_only, directory_ + "/heap"), 7));
    writer->kill();
    int answer = 1;
    becomes([&] { return (answer = opens(directory_)) != 1; });
    EXPECT_EQ(answer, 0);
}

TEST_F(namespaces, containers_take_turns_and_one_is_killed) {
    open_options options;
    options.shared = true;
    {
        manager heap(create_only, directory_ + "/heap");
        heap.construct<texts>("texts")();
        heap.commit();
    }
    const auto works = [this, options](const std::string& at) {
        manager heap(open_only, at + "/heap", options);
        while (notes_->go == 0) {
            heap.transact([&] {
                auto& all = *heap.find<texts>("texts").first;
                const int key = static_cast<int>(all.size());
                all.emplace(key, string(std::to_string(key).c_str(), heap.get_allocator<char>()));
            });
            ++notes_->changes;
        }
        return 0;
    };
    ASSERT_NO_FATAL_FAILURE(change_by_two_of_which_one_is_killed(works));
    const manager heap(open_only, directory_ + "/heap");
    EXPECT_TRUE(heap.check(true).empty());
    const auto& all = *heap.find<texts>("texts").first;
    EXPECT_GE(all.size(), static_cast<std::size_t>(notes_->changes));
    int key = 0;
    for (const auto& entry : all) {
        ASSERT_EQ(entry.first, key);
        ASSERT_EQ(entry.second, std::to_string(key).c_str());
        ++key;
    }
}

TEST_F(namespaces, containers_write_one_store_and_one_is_killed) {
    const auto works = [this](const std::string& at) {
        store shop(at + "/shop");
        while (notes_->go == 0) {
            auto change = shop.write();
            const std::string count = std::string(change.get("count").value_or("0"));
            const std::string next = std::to_string(std::stoi(count) + 1);
            change.put("key " + next, next);
            change.put("count", next);
            change.commit();
            ++notes_->changes;
        }
        return 0;
    };
    ASSERT_NO_FATAL_FAILURE(change_by_two_of_which_one_is_killed(works));
    const store shop(directory_ + "/shop");
    const auto view = shop.read();
    const int count = std::stoi(std::string(view.get("count").value_or("0")));
    EXPECT_GE(count, notes_->changes);
    for (int i = 1; i <= count; ++i) {
        ASSERT_EQ(view.get("key " + std::to_string(i)).value_or(""), std::to_string(i));
    }
}

}  // namespace
}  // namespace holdfast::test
