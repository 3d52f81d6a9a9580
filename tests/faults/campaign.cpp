#include "campaign.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "base/process_test_support.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::faults {

namespace {

namespace fs = std::filesystem;

using support::scratch_directory;
using ::testing::IsEmpty;

constexpr unsigned seconds_a_trial = 60;

/// All calls of a kind, with each error, alone and with all that follow: `make soak` (HOLDFAST_FAULTS=all).
bool tries_all() {
    const char* const wanted = std::getenv("HOLDFAST_FAULTS");
    return wanted != nullptr && std::strcmp(wanted, "all") == 0;
}

std::vector<fault> all_faults(call which, std::uint64_t calls) {
    std::vector<fault> faults;
    for (const bool from_then_on : {false, true}) {
        for (const int os_error : errors_of(which)) {
            for (std::uint64_t nth = 1; nth <= calls; ++nth) {
                faults.push_back({which, nth, from_then_on, os_error});
            }
        }
    }
    return faults;
}

/// One call of each place alone, and of every third with all that follow: the errors in turn, and the calls of a place,
/// too.
std::vector<fault> faults_by_place(call which, std::span<const std::uint64_t> places) {
    constexpr std::size_t followed = 3;
    std::vector<std::vector<std::uint64_t>> calls_of;
    std::map<std::uint64_t, std::size_t> index_of;
    for (std::size_t i = 0; i < places.size(); ++i) {
        const auto [found, is_new] = index_of.try_emplace(places[i], calls_of.size());
        if (is_new) {
            calls_of.emplace_back();
        }
        calls_of[found->second].push_back(i + 1);
    }
    const auto errors = errors_of(which);
    std::vector<fault> faults;
    for (std::size_t i = 0; i < calls_of.size(); ++i) {
        const fault one{which, calls_of[i][i % calls_of[i].size()], false, errors[i % errors.size()]};
        faults.push_back(one);
        if (i % followed == 0) {
            faults.push_back(one);
            faults.back().from_then_on = true;
        }
    }
    return faults;
}

/// Address space that a process may have gained by a scenario that leaks none: its allocator's arenas.
constexpr std::uint64_t harmless_growth = std::uint64_t{512} << 20U;

std::uint64_t open_descriptors() {
    return static_cast<std::uint64_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

std::uint64_t address_space() {
    std::ifstream file("/proc/self/statm");
    std::uint64_t pages = 0;
    file >> pages;
    return pages * 4096;
}

bool is_mapped(const std::string& path) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(path) != std::string::npos) {
            return true;
        }
    }
    return false;
}

void complain(progress& told, const std::string& text) {
    fmt::format_to_n(told.complaint, sizeof told.complaint - 1, "{}", text);
}

/// In the child: the scenario under the fault, and what it must not leave in the process.
void run_trial(const scenario& subject, const trial& one, const fault& planned, called_from& places) {
    ::alarm(seconds_a_trial);
    set_error_handler([](const error&) {});
    const std::uint64_t descriptors = open_descriptors();
    const std::uint64_t space = address_space();
    arm(planned, planned.nth == 0 ? &places : nullptr);
    try {
        subject.run(one);
        one.told.succeeded = true;
    } catch (const error& what) {
        disarm();
        if (what.path().empty() && what.field().empty()) {
            complain(one.told, fmt::format("an error that says too little: {}", what.what()));
        }
    } catch (const support::wrong_content& what) {
        disarm();
        complain(one.told, fmt::format("wrong content: {}", what.what()));
    } catch (const std::bad_alloc&) {
        disarm();  // holdfast::bad_alloc, or the process has no memory
    } catch (const std::exception& what) {
        disarm();
        complain(one.told, fmt::format("an exception of another kind: {}", what.what()));
    }
    disarm();
    one.told.fired = fired();
    const auto counted = calls();
    std::copy(counted.begin(), counted.end(), one.told.calls);
    if (open_descriptors() != descriptors) {
        complain(one.told, fmt::format("{} file descriptors before, {} after", descriptors, open_descriptors()));
    }
    if (is_mapped(one.heap) || address_space() > space + harmless_growth) {
        complain(one.told, "the heap's addresses are still mapped");
    }
}

class campaign {
public:
    explicit campaign(const scenario& subject)
        : subject_(subject),
          told_(new(shared_memory(sizeof(progress))) progress{}),
          places_(new(shared_memory(sizeof(called_from))) called_from),
          one_{scratch_ / "heap", scratch_ / "other", *told_} {
        subject_.prepare(template_ / "heap");
    }
    campaign(const campaign&) = delete;
    campaign& operator=(const campaign&) = delete;
    ~campaign() {
        ::munmap(places_, sizeof(called_from));
        ::munmap(told_, sizeof(progress));
    }

    void run() {
        try_fault({});
        ASSERT_TRUE(told_->succeeded) << "without a fault";
        std::array<std::uint64_t, call_count> counts{};
        std::copy(std::begin(told_->calls), std::end(told_->calls), counts.begin());
        std::string text;
        for (std::size_t i = 0; i < call_count; ++i) {
            if (counts.at(i) != 0) {
                text += fmt::format(" {} {}", counts.at(i), name_of(static_cast<call>(i)));
            }
        }
        fmt::print("{}:{}\n", subject_.name, text);
        for (std::size_t i = 0; i < call_count; ++i) {
            const call which = static_cast<call>(i);
            const auto noted = std::span(places_->place.at(i)).first(std::min(counts.at(i), called_from::most));
            for (const fault& each : tries_all() ? all_faults(which, counts.at(i)) : faults_by_place(which, noted)) {
                try_fault(each);
            }
        }
        fmt::print("{}: {} trials, {} with a fault, {} succeeded in spite of it\n", subject_.name, trials_, hit_,
                   survived_);
    }

private:
    static void* shared_memory(std::size_t bytes) {
        return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    }

    void try_fault(const fault& planned) {
        if (::testing::Test::HasFailure()) {
            return;
        }
        SCOPED_TRACE(fmt::format("{}: {} number {} fails {}with errno {}", subject_.name, name_of(planned.which),
                                 planned.nth, planned.from_then_on ? "and all later ones " : "", planned.os_error));
        fs::remove_all(one_.heap);
        fs::remove_all(one_.other);
        if (fs::exists(template_ / "heap")) {
            support::copy_directory(template_ / "heap", one_.heap);
        }
        *told_ = progress{};
        std::fflush(nullptr);
        const base::process_end end = base::run_in_child([&] { run_trial(subject_, one_, planned, *places_); });
        ASSERT_TRUE(end.succeeded()) << end;
        ASSERT_STREQ(told_->complaint, "");
        ++trials_;
        hit_ += told_->fired != 0 ? 1 : 0;
        survived_ += told_->fired != 0 && told_->succeeded ? 1 : 0;
        try {
            subject_.judge(one_, !planned.from_then_on);
        } catch (const std::exception& what) {
            ADD_FAILURE() << "afterwards: " << what.what();
        }
    }

    const scenario& subject_;
    scratch_directory template_;
    scratch_directory scratch_;
    progress* told_;
    called_from* places_;
    trial one_;
    std::uint64_t trials_ = 0;
    std::uint64_t hit_ = 0;
    std::uint64_t survived_ = 0;
};

}  // namespace

void run_campaign(const scenario& subject) { campaign(subject).run(); }

void judge_commits(const trial& one, bool /*once*/) {
    std::uint64_t step = 0;
    {
        manager opened(open_only, one.heap, support::small_segments());
        EXPECT_THAT(opened.check(true), IsEmpty());
        step = support::step_of(opened);
        EXPECT_TRUE(step == one.told.acknowledged || step == one.told.attempted)
            << "step " << step << ", acknowledged " << one.told.acknowledged << ", attempted " << one.told.attempted;
        support::advance(opened, step + 1);
        opened.close(true);
    }
    const manager again(open_read_only, one.heap, support::small_segments());
    EXPECT_EQ(support::step_of(again), step + 1);
    EXPECT_THAT(again.check(true), IsEmpty());
}

}  // namespace holdfast::faults
