// For the tests of holdfast::manager in durability `atomic`: a heap in each domain, and processes that are killed.
#pragma once

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {

using domain_choice = open_options::domain_choice;

inline std::string name_of(domain_choice domain) {
    return domain == domain_choice::emulated ? "emulated" : domain == domain_choice::disk ? "disk" : "page_cache";
}

struct node {
    ptr<node> next;
    std::uint64_t value = 0;
    explicit node(std::uint64_t number) : value(number) {}
};

class manager_atomic_test : public manager_test, public testing::WithParamInterface<domain_choice> {
protected:
    static open_options options() {
        open_options wanted = small_options();
        wanted.durability = durability::atomic;
        wanted.domain = GetParam();
        wanted.accept_process_crash_only = true;
        return wanted;
    }
    manager create_atomic() const { return {create_only, path(), options()}; }
    manager open_atomic() const { return {open_only, path(), options()}; }

    /// In a process that is killed then.
    template <class Work>
    void run_and_kill(Work work) const {
        const base::process_end end = base::run_in_child([&] {
            manager heap(open_or_create, path(), options());
            work(heap);
            ::raise(SIGKILL);  // before the heap is closed
        });
        ASSERT_TRUE(end.was_killed()) << end;
    }
    static std::size_t count_blocks(const manager& heap) {
        std::size_t count = 0;
        heap.for_each_block([&count](const block_info&) { ++count; });
        return count;
    }
};

}  // namespace holdfast
