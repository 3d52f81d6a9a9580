// What this process knows of a store's free pages, valid while it has the write lock.
#pragma once

#include <cstdint>

#include "store/free_space.hpp"
#include "store/log.hpp"
#include "store/stored_pages.hpp"

namespace holdfast::store_engine {

struct known_free_pages {
    free_space space;
    log::mark end{.sequence =
                      no_transaction};  ///< of the last record in `space`; no_transaction: `space` means nothing
    std::uint64_t checkpoint = 0;       ///< the sequence of the one that it began with
    std::uint64_t list_page = 0;        ///< of the last checkpoint
    std::uint64_t list_pages = 0;

    void forget() noexcept { end.sequence = no_transaction; }
    [[nodiscard]] bool is_forgotten() const noexcept { return end.sequence == no_transaction; }
    /// Begins anew, with the list of the last checkpoint.
    [[nodiscard]] status load(const stored_pages& of);
    /// What a commit does to free pages.
    [[nodiscard]] status apply(stored_pages& of, const log_record& record);

private:
    void learn_holes(const data_file& file, std::uint64_t end);
};

}  // namespace holdfast::store_engine
