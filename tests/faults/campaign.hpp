// Runs something that a heap does once for every call that may fail in it, and judges what each failure left.
//
// Fault model: one call of one kind fails, or it and all later ones of its kind, with an error that the call may well
// give; a write that fails has written half. The process lives on. Each trial runs in a child of fork, so that a crash
// is told with its fault; the judge opens the heap afterwards, with no faults, in another process.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "interposer.hpp"
#include "support/counted_heap.hpp"

namespace holdfast::faults {

/// What the scenario tells the judge, in memory that both processes have. Steps: support/counted_heap.hpp.
struct progress {
    std::uint64_t acknowledged;  ///< of the last commit that returned
    std::uint64_t attempted;     ///< of the last commit that began
    bool succeeded;              ///< all that was asked for was done
    std::uint64_t fired;
    std::uint64_t calls[call_count];
    char complaint[1024];  ///< what was wrong in the child, "" if nothing
};

struct trial {
    std::string heap;   ///< the heap's directory
    std::string other;  ///< a directory that does not exist before, for copies
    progress& told;

    void begin(std::uint64_t step) const { told.attempted = step; }
    void done(std::uint64_t step) const { told.acknowledged = step; }
};

struct scenario {
    std::string name;
    /// Makes the heap at the path, without faults; called once.
    std::function<void(const std::string& heap)> prepare;
    /// What is tried. Exceptions may leave it; managers that it opened must not outlive it.
    std::function<void(const trial& one)> run;
    /// Judges the files afterwards, by failed expectations; `once`: only one call failed.
    std::function<void(const trial& one, bool once)> judge;
};

/// Faults in calls of every kind: in the suite one of each place that calls it, which is the three functions that lead
/// there; in `make soak` every call with each of its errors, once and from then on.
void run_campaign(const scenario& subject);

/// False where the call throws what a fault may cause; what a judge throws goes on.
template <class Call>
[[nodiscard]] bool is_done(Call&& call) {
    try {
        std::forward<Call>(call)();
        return true;
    } catch (const support::wrong_content&) {
        throw;
    } catch (const std::exception&) {
        return false;
    }
}

/// The usual judge: the heap opens, is sound, holds the last acknowledged commit or the one in flight, and goes on.
void judge_commits(const trial& one, bool once);

}  // namespace holdfast::faults
