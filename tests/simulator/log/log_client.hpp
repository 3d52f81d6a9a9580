// A program on a log, as small as can be: its state is the number of its commits, and it keeps the mark where its log
// begins in a file of two copies. What it wrote must come back, whatever fails.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "log/log.hpp"
#include "persist/storage.hpp"
#include "simulator/crash_explorer.hpp"
#include "simulator/storage/simulated_storage.hpp"

namespace holdfast::simulator {

struct log_step {
    enum class kind {
        commit,      ///< `records` at once, then waits for the last
        checkpoint,  ///< the log begins behind the last record, or every other time some records before
        reopen,      ///< the process ends, and another one opens
        fail_sync,   ///< the sync after `records` others fails; the next commit may
    };
    kind what = kind::commit;
    unsigned records = 1;
};

struct log_scenario {
    std::string name;
    std::vector<log_step> program;
};

[[nodiscard]] const std::vector<log_scenario>& log_scenarios();
[[nodiscard]] log_scenario random_log_scenario(std::uint64_t seed);

class log_client {
public:
    explicit log_client(persist::storage& storage) : storage_(storage) {}

    /// Empty, or what is wrong. Afterwards commits() tells the state.
    [[nodiscard]] std::string open();
    [[nodiscard]] std::uint64_t commits() const noexcept { return commits_; }
    /// Appends; they are durable after wait().
    [[nodiscard]] base::result<void> append(unsigned records);
    [[nodiscard]] base::result<void> wait() { return log_->wait(log_->end().sequence); }
    [[nodiscard]] base::result<void> checkpoint();
    void close() { log_.reset(); }

private:
    [[nodiscard]] base::result<void> read_begin();
    [[nodiscard]] base::result<void> visit(const log::record& each);
    [[nodiscard]] base::result<void> check_tail(const log::log_options& options);

    persist::storage& storage_;
    std::unique_ptr<log::log> log_;
    std::uint64_t commits_ = 0;
    std::uint64_t generation_ = 0;  ///< of the newer copy
    log::mark begin_;
    std::vector<log::mark> ends_;  ///< of the records behind it
};

/// The directory, and the file of marks, durable.
void make_log_home(persist::storage& storage);

[[nodiscard]] explore_report explore(const log_scenario& one, std::uint64_t atom_size, const explore_options& effort);

}  // namespace holdfast::simulator
