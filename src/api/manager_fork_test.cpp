// A heap that is open in a process that forks while its threads use the heap: what the child ends it leaves as it is.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/containers.hpp>
#include <holdfast/holdfast.h>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.h>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr unsigned longest_seconds = 20;

struct kind {
    holdfast::durability durability;
    open_options::domain_choice domain;
};

open_options options_of(const kind& of) {
    open_options wanted = small_options();
    wanted.durability = of.durability;
    wanted.domain = of.domain;
    wanted.accept_process_crash_only = true;
    return wanted;
}

const std::array kinds{kind{durability::commit, open_options::domain_choice::detect},
                       kind{durability::collect, open_options::domain_choice::page_cache},
                       kind{durability::atomic, open_options::domain_choice::page_cache},
                       kind{durability::atomic, open_options::domain_choice::disk}};

std::string name_of(const kind& of) {
    return std::to_string(static_cast<int>(of.durability)) + ", " + std::to_string(static_cast<int>(of.domain));
}

/// What this process has open.
std::vector<std::string> open_files(int but = -1) {
    std::vector<std::string> found;
    for (const auto& each : fs::directory_iterator("/proc/self/fd")) {
        const std::string number = each.path().filename();
        std::error_code gone;
        const std::string leads_to = fs::read_symlink(each.path(), gone);
        if (number != std::to_string(but) && !leads_to.ends_with("/fd")) {
            found.push_back(leads_to);
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

/// Calls `use` in a thread until it goes.
class busy_thread {
public:
    explicit busy_thread(std::function<void()> use)
        : runs_([this, use = std::move(use)] {
              while (!ends_) {
                  use();
              }
          }) {}
    busy_thread(const busy_thread&) = delete;
    busy_thread& operator=(const busy_thread&) = delete;
    ~busy_thread() { ends_ = true; }

private:
    std::atomic<bool> ends_{false};
    std::jthread runs_;
};

void grow_and_shrink(manager& heap) {
    std::array<void*, 100> blocks{};
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        blocks.at(i) = heap.allocate(16U << i % 12);
    }
    if (heap.durability() == durability::commit) {
        heap.commit();
    }
    for (void* const each : blocks) {
        heap.deallocate(each);
    }
}

/// Was: the child destroyed lists that another thread of its parent was changing, and died.
TEST_F(manager_test, a_child_that_ends_it_leaves_it_to_its_parent) {
    for (const kind& each : kinds) {
        {
            manager heap(create_only, path(), options_of(each));
            const busy_thread other([&] { grow_and_shrink(heap); });
            for (int i = 0; i < 20; ++i) {
                EXPECT_TRUE(holdfast::base::succeeds_in_child([&] {
                    ::alarm(longest_seconds);
                    const manager ends(std::move(heap));
                    return true;
                })) << name_of(each);
            }
        }
        manager::remove(path());
    }
}

TEST_F(manager_test, a_child_that_ended_it_has_nothing_open_and_no_lock) {
    for (const kind& each : kinds) {
        const std::vector<std::string> before = open_files();
        std::array<int, 2> ends{};
        ASSERT_EQ(::pipe(ends.data()), 0);
        {
            manager heap(create_only, path(), options_of(each));
            grow_and_shrink(heap);
            holdfast::base::child_process child([&] {
                ::alarm(longest_seconds);
                { const manager gone(std::move(heap)); }
                ::close(ends[0]);
                const char is_right = open_files(ends[1]) == before ? 'y' : 'n';
                static_cast<void>(::write(ends[1], &is_right, 1));
                ::pause();
            });
            char told = 0;
            ASSERT_EQ(::read(ends[0], &told, 1), 1);
            EXPECT_EQ(told, 'y') << name_of(each);
            heap.close();
            const manager again(open_only, path(), options_of(each));  // while the child lives
        }
        ::close(ends[0]);
        ::close(ends[1]);
        manager::remove(path());
    }
}

/// Was: it waited for the gate of a commit that nobody ends in the child, or for a lock of a thread that it lacks.
TEST_F(manager_test, a_thread_that_ended_in_a_child_waited_for_a_commit_of_the_parent) {
    manager heap = create();
    const busy_thread other([&] { grow_and_shrink(heap); });
    std::jthread([&] {
        heap.deallocate(heap.allocate(100));
        for (int i = 0; i < 30; ++i) {
            EXPECT_TRUE(holdfast::base::succeeds_in_child([] {
                ::alarm(longest_seconds);
                std::atexit([] { ::_exit(0); });  // before anybody looks for leaks: the parent's threads are not here
                ::pthread_exit(nullptr);
            }));
        }
    }).join();
}

/// Was: it destroyed the list of threads that another thread of its parent was changing.
TEST_F(manager_test, a_child_that_discards_it_leaves_it_to_its_parent) {
    hf_heap* heap = nullptr;
    ASSERT_EQ(hf_create(path().c_str(), nullptr, &heap), HF_OK);
    {
        const busy_thread other([&] {
            std::jthread([&] {
                hf_transaction* part = nullptr;
                if (hf_begin(heap, &part) == HF_OK) {
                    static_cast<void>(hf_abort(part));
                }
            }).join();
        });
        for (int i = 0; i < 20; ++i) {
            EXPECT_TRUE(holdfast::base::succeeds_in_child([&] {
                ::alarm(longest_seconds);
                return hf_discard(heap) == HF_WRONG_PROCESS;
            }));
        }
    }
    EXPECT_EQ(hf_close(heap), HF_OK);
}

}  // namespace
}  // namespace holdfast
