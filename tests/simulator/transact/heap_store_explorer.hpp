// Random transactions over a heap and two stores in it (durability `commit`), with the power cut at every operation on
// a file of any of them, and calls that fail: the disk is full, or a sync is lost.
//
// Oracle: an image opens to what some transaction left in all three, which is not older than the last that is durable;
// heap and stores are sound, and one image in four goes on with another transaction. So a record of a store without
// that of the heap, or the other way round, is found. A transaction that fails has left nothing in any of the three,
// neither in the process that goes on nor, from then on, in an image; unless they take no more, where only the next
// opening tells.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include <holdfast/store_in_heap.hpp>

#include "heap/heap.hpp"
#include "segment/test_support.hpp"
#include "simulator/crash_explorer.hpp"
#include "simulator/storage/fault_injecting_storage.hpp"
#include "simulator/storage/recording_storage.hpp"

namespace holdfast::simulator {

struct heap_store_counts {
    std::uint64_t images = 0;  ///< different ones; each is opened
    std::uint64_t older = 0;   ///< without the last transaction
    std::uint64_t aborts = 0;
    std::uint64_t durable = 0;   ///< transactions
    std::uint64_t refused = 0;   ///< transactions, by a call that failed; the program goes on
    std::uint64_t poisoned = 0;  ///< programs that ended with a call that failed
};

class heap_store_explorer {
public:
    /// `atom_size`: as simulated_storage. `every`: of so many operations one is cut.
    heap_store_explorer(std::uint64_t seed, std::uint64_t atom_size, const choice_limits& cuts,
                        std::uint64_t every = 1);
    heap_store_explorer(const heap_store_explorer&) = delete;
    heap_store_explorer& operator=(const heap_store_explorer&) = delete;
    ~heap_store_explorer();

    /// Ends where something is wrong, or heap or stores take no more after a failed call.
    void run(unsigned steps);
    [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }
    [[nodiscard]] const heap_store_counts& counts() const noexcept { return counts_; }

private:
    using numbers = std::map<int, std::uint64_t>;
    /// After a transaction.
    struct version {
        numbers of_heap;
        std::map<std::string, std::string> first;
        std::map<std::string, std::string> second;
        [[nodiscard]] bool operator==(const version&) const = default;
    };
    class world;

    void open(bool creates);
    void reopen();
    void step();
    void take_back();
    void part(transaction& in, version& next);
    void change(transaction& in, version& next);
    void alone();
    /// From now on a crash may leave it.
    void whole(transaction& tx);
    void transact_later();
    void transact();
    void let_a_call_fail();
    [[nodiscard]] bool takes_more();
    void expect_live(const char* when);
    void returned();
    void cut();
    void visit(const storage_image& left);
    [[nodiscard]] std::string look(const storage_image& left);
    [[nodiscard]] std::string judge(const std::string& path);
    void note(const std::string& wrong);
    [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

    segment::test_directory scratch_;
    recording_storage storage_;
    fault_injecting_storage faulty_{storage_};  ///< what heap and stores see
    heap::engine_options options_;
    choice_limits cuts_;
    std::uint64_t every_;
    std::mt19937_64 random_;
    std::unique_ptr<world> world_;
    std::deque<version> versions_;  ///< from the last that is durable
    std::uint64_t first_ = 0;       ///< number of the first of them
    hash_set seen_;
    hash_set images_;
    heap_store_counts counts_;
    std::string wrong_;
    std::uint64_t moments_ = 0;
    bool has_failed_ = false;  ///< heap or stores take no more
};

}  // namespace holdfast::simulator
