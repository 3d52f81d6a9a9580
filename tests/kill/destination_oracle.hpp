// The observer of the kill tests with destinations: starts workers on a heap, kills each at a random moment, and
// compares what is left with their reports.
//
// Durability `atomic` and `collect` promise the same here: a call in flight is there as a whole or not at all, and no
// destination points to memory that is free or another allocation's. In `atomic` nothing else is allocated. In
// `collect` conservative tracing may keep blocks that some content seems to point to; an emptied heap has none.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <holdfast/manager.hpp>

#include "base/process_test_support.hpp"
#include "kill/destination_actor.hpp"
#include "kill/destination_model.hpp"

namespace holdfast::test::destinations {

struct oracle_tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t calls = 0;              ///< that returned
    std::uint64_t in_flight_before = 0;   ///< without effect
    std::uint64_t in_flight_after = 0;    ///< with full effect
    std::uint64_t in_flight_between = 0;  ///< partial batches, and moves between their stores
    std::uint64_t in_open = 0;            ///< kills before the heap was open, some of them in recovery
    std::uint64_t in_close = 0;
    std::uint64_t closed = 0;    ///< the worker closed before the signal
    std::uint64_t examined = 0;  ///< opens that compared everything
    std::uint64_t blocks = 0;    ///< compared
    std::uint64_t pending = 0;   ///< records
    std::uint64_t replayed = 0;  ///< words
    std::uint64_t rolled_back = 0;
    std::uint64_t unreached = 0;  ///< durability `collect`: allocated blocks that no destination points to

    void print(std::ostream& out, const std::string& title) const;
};

class oracle {
public:
    /// `tested`: atomic or collect.
    oracle(std::string directory, std::uint64_t seed, durability tested);
    oracle(const oracle&) = delete;
    oracle& operator=(const oracle&) = delete;

    /// A worker, its death, and an examination: what is wrong, or nothing.
    [[nodiscard]] std::string cycle();
    /// Frees all blocks, shows that nothing is left, and begins another heap.
    [[nodiscard]] std::string next_heap();
    [[nodiscard]] const oracle_tally& numbers() const noexcept { return tally_; }

private:
    std::uint64_t below(std::uint64_t limit) { return source_() % limit; }
    open_options options(durability kind);
    std::string run_and_kill();
    void follow_reports();
    std::string examine_all();
    std::string examine_read_only();
    std::string examine_writable();
    std::string examine_copy();
    std::string empty_heap();
    /// Decides the calls in flight (once), then compares everything.
    std::string examine(const manager& heap);
    void resolve(const manager& heap, holdings& set, const call_record& cut_off);
    std::string compare(const manager& heap);

    std::string directory_;
    std::string heap_;
    std::mt19937_64 source_;
    durability tested_;
    base::shared_memory<shared_region> region_;
    std::vector<holdings> sets_;
    bool resolved_ = true;  ///< the last worker's calls in flight are decided
    oracle_tally tally_;
};

}  // namespace holdfast::test::destinations
