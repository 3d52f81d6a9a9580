#include "persist/mutant.hpp"

#include <gtest/gtest.h>

#if HOLDFAST_MUTANTS

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::persist {
namespace {

const std::vector<std::string>& many_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> made;
        for (int i = 0; i < 1000; ++i) {
            made.push_back("test.site." + std::to_string(i));
        }
        return made;
    }();
    return names;
}

void pass_all() {
    for (const std::string& name : many_names()) {
        static_cast<void>(mutant_active(name.c_str()));
    }
}

struct passes_sites_at_the_end {
    ~passes_sites_at_the_end() { pass_all(); }
    bool used = false;
};

/// A thread's cache gives slabs back when the thread ends, and passes sites then.
TEST(mutant_sites, are_passed_by_threads_that_end) {
    forget_sites();
    std::thread([] {
        thread_local passes_sites_at_the_end first;  // destroyed last
        first.used = true;
        static_cast<void>(mutant_active("test.first"));
    }).join();
    const std::vector<seen_site> seen = seen_sites();
    EXPECT_EQ(std::ranges::count_if(seen, [](const seen_site& one) { return one.name.starts_with("test.site."); }),
              1000);
}

TEST(mutant_sites, are_seen_again_after_they_were_forgotten) {
    pass_all();
    forget_sites();
    EXPECT_TRUE(seen_sites().empty());
    pass_all();
    EXPECT_EQ(seen_sites().size(), many_names().size());
    forget_sites();
}

}  // namespace
}  // namespace holdfast::persist

#endif
