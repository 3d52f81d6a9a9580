// A commit of a store in a heap has two phases, between which the heap decides: the heap coordinates, the store takes
// part.
#pragma once

#include <cstdint>

#include "store/transaction.hpp"

namespace holdfast::store_engine {

class two_phase_commit {
public:
    /// `number`: of the commit; 0: nothing was changed, and the transaction has ended. An error aborts it.
    [[nodiscard]] static status prepare(transaction& of, std::uint64_t& number);
    /// ok: the heap has the commit; panic: that is unknown; all else: it has not. Returns that, or what failed here.
    [[nodiscard]] static status finish(transaction& of, status of_heap) noexcept;
    /// The heap's durable state has the commit: it counts before finish(), which lets other writers go on.
    static void accept(transaction& of) noexcept;
    /// finish() but for the end of the transaction.
    [[nodiscard]] static status decide(transaction& of, status of_heap) noexcept;
    /// Brings the databases' records into the main one.
    [[nodiscard]] static status save_named(transaction& of);
    /// save_named(), and the main one's record into the version. `changed`: there is something to commit.
    [[nodiscard]] static status save_records(transaction& of, bool& changed);
};

}  // namespace holdfast::store_engine
