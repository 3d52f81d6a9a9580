// The observer of the kill tests with destinations: starts workers on one heap, one after the other, kills each at a
// random moment, and compares what is left with what they reported.
//
// Durabilities `atomic` and `collect` promise the same here: a call in flight is there as a whole or not at all, and no
// destination leads to memory that is free or another's. They differ in what else is allocated. In `atomic` it is
// nothing; in `collect` tracing is conservative, and may keep a block that a word of some content resembles a pointer
// to. What only resemblance kept must go with what resembles it: a heap that was emptied has nothing left.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <holdfast/manager.hpp>

#include "kill/child_process.hpp"
#include "kill/destination_actor.hpp"
#include "kill/destination_model.hpp"

namespace holdfast::test::destinations {

struct oracle_tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t calls = 0;              ///< that returned
    std::uint64_t in_flight_before = 0;   ///< calls in flight that had no effect
    std::uint64_t in_flight_after = 0;    ///< that had all of it
    std::uint64_t in_flight_between = 0;  ///< batches done in part, moves between their stores
    std::uint64_t in_open = 0;            ///< kills before the heap was open: of those in recovery
    std::uint64_t in_close = 0;
    std::uint64_t closed = 0;    ///< the worker was faster than the signal
    std::uint64_t examined = 0;  ///< opens that compared everything
    std::uint64_t blocks = 0;    ///< compared
    std::uint64_t pending = 0;   ///< records
    std::uint64_t replayed = 0;  ///< words
    std::uint64_t rolled_back = 0;
    std::uint64_t unreached = 0;  ///< blocks that nothing leads to, in durability `collect`

    void print(std::ostream& out, const std::string& title) const;
};

class oracle {
public:
    /// `tested`: atomic or collect.
    oracle(std::string directory, std::uint64_t seed, durability tested);
    oracle(const oracle&) = delete;
    oracle& operator=(const oracle&) = delete;

    /// A worker, its death, and what is left. An empty string, or what is wrong.
    [[nodiscard]] std::string cycle();
    /// Empties the heap, block by block, shows that nothing is left, and begins another.
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
    /// Decides what became of the calls in flight (once), then compares everything.
    std::string examine(const manager& heap);
    void resolve(const manager& heap, holdings& set, const call_record& cut_off);
    std::string compare(const manager& heap);

    std::string directory_;
    std::string heap_;
    std::mt19937_64 source_;
    durability tested_;
    shared_memory<shared_region> region_;
    std::vector<holdings> sets_;
    bool resolved_ = true;  ///< the calls in flight of the last worker
    oracle_tally tally_;
};

}  // namespace holdfast::test::destinations
