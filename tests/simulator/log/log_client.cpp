#include "simulator/log/log_client.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/checksum.hpp"

namespace holdfast::simulator {

namespace {

constexpr const char* directory = "heap";
constexpr const char* begin_path = "heap/begin";
constexpr std::uint64_t copy_at[] = {0, 512};
constexpr std::uint64_t key = 0x6b6579;

struct begin_copy {
    std::uint64_t generation = 0;
    std::uint64_t commits = 0;
    log::mark begin;
    std::uint64_t checksum = 0;

    [[nodiscard]] std::uint64_t sum() const {
        return base::checksum64(std::as_bytes(std::span{this, 1}).first(sizeof *this - sizeof checksum), 1);
    }
};

/// Some span sectors, pages, and the rest of a file. A retry writes the same bytes.
std::vector<std::byte> payload_of(std::uint64_t commit) {
    constexpr std::array<std::size_t, 6> sizes{8, 700, 16, 1500, 40, 2600};
    std::vector<std::byte> bytes(sizes.at(commit % sizes.size()));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(i < 8 ? commit >> 8 * i : commit * 31 + i);
    }
    return bytes;
}

/// No two openings may have one.
std::uint64_t new_epoch() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

base::failure wrong(std::string found, std::string expected) {
    base::failure what;
    what.code = base::failure_code::corrupt;
    what.found = std::move(found);
    what.expected = std::move(expected);
    return what;
}

void must(const base::result<void>& done) { HF_ASSERT(done.ok()); }

}  // namespace

void make_log_home(persist::storage& storage) {
    must(storage.make_directory(directory, "client.directory"));
    const auto file = storage.create(begin_path, "client.create");
    HF_ASSERT(file.ok());
    must(file.value()->resize(1024, "client.resize"));
    must(file.value()->sync("client.sync"));
    must(storage.sync_directory(directory, "client.sync"));
    must(storage.sync_directory("", "client.sync"));
}

base::result<void> log_client::read_begin() {
    HF_TRY_ASSIGN(const auto file, storage_.open(begin_path, persist::access_mode::read_write));
    std::array<std::byte, 1024> all{};  // again, as a failed sync may have lost it
    HF_TRY(file->read_at(0, all));
    HF_TRY(file->write_at(0, all, "client.write"));
    HF_TRY(file->sync("client.sync"));
    generation_ = 0;
    commits_ = 0;
    begin_ = {};
    for (const std::uint64_t at : copy_at) {
        begin_copy copy;
        HF_TRY(file->read_at(at, std::as_writable_bytes(std::span{&copy, 1})));
        if (copy.checksum == copy.sum() && copy.generation > generation_) {
            generation_ = copy.generation;
            commits_ = copy.commits;
            begin_ = copy.begin;
        }
    }
    return {};
}

base::result<void> log_client::visit(const log::record& each) {
    const auto expected = payload_of(commits_ + 1);
    if (each.kind != 7 || !std::ranges::equal(each.payload, expected)) {
        return wrong(fmt::format("another payload, of {} bytes", each.payload.size()),
                     fmt::format("that of commit {}", commits_ + 1));
    }
    ++commits_;
    ends_.push_back(each.end);
    return {};
}

/// Media lose nothing that was durable, so no record of theirs is a damaged one.
base::result<void> log_client::check_tail(const log::log_options& options) {
    const log::log_files files(storage_, options.place);
    log::log_reader reader(files, options.key, begin_);
    for (log::record each;;) {
        HF_TRY_ASSIGN(const bool is_there, reader.next(each));
        if (!is_there) {
            break;
        }
    }
    HF_TRY_ASSIGN(const bool is_torn, reader.is_torn());
    HF_TRY_ASSIGN(const bool is_followed, reader.is_followed());
    return is_torn && is_followed ? base::result<void>(wrong("a record that was damaged", "one that was torn"))
                                  : base::result<void>();
}

std::string log_client::open() {
    ends_.clear();
    if (auto read = read_begin(); !read) {
        return read.error().message();
    }
    log::log_options options{{directory, "log.", log::least_file_size}, key, new_epoch()};
    if (auto tail = check_tail(options); !tail) {
        return tail.error().message();
    }
    auto opened = log::log::open(storage_, options, begin_, [this](const log::record& each) { return visit(each); });
    if (!opened) {
        return opened.error().message();
    }
    log_ = std::move(opened).value();
    return {};
}

base::result<void> log_client::append(unsigned records) {
    for (unsigned i = 0; i < records; ++i) {
        HF_TRY_ASSIGN(const log::mark end, log_->append(7, payload_of(commits_ + 1)));
        ends_.push_back(end);
        ++commits_;
        if (i % 2 == 1) {  // as parts of something long are
            HF_TRY(log_->write_out(end.sequence));
        }
    }
    return {};
}

/// What the log held up to there is in the other copy, which is durable before the log's space is used again.
base::result<void> log_client::checkpoint() {
    begin_copy copy;
    copy.generation = generation_ + 1;
    const std::size_t kept = std::min<std::size_t>(copy.generation % 2 == 0 ? 6 : 0, ends_.size());
    const std::size_t passed = ends_.size() - kept;
    copy.commits = commits_ - kept;
    copy.begin = passed == 0 ? begin_ : ends_.at(passed - 1);
    copy.checksum = copy.sum();
    HF_TRY_ASSIGN(const auto file, storage_.open(begin_path, persist::access_mode::read_write));
    HF_TRY(file->write_at(copy_at[copy.generation % 2], std::as_bytes(std::span{&copy, 1}), "client.write"));
    HF_TRY(file->sync("client.sync"));
    generation_ = copy.generation;
    begin_ = copy.begin;
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(passed));
    log_->release(begin_);
    return {};
}

const std::vector<log_scenario>& log_scenarios() {
    using enum log_step::kind;
    static const std::vector<log_scenario> all{
        {"one record", {{commit}}},
        {"a failed sync of the first record", {{fail_sync}, {commit}, {reopen}, {commit}}},
        {"records one by one", {{commit}, {commit}, {commit}, {commit}}},
        {"files used again behind a beginning that lags",
         {{commit, 6}, {checkpoint}, {commit, 6}, {checkpoint}, {commit, 6}, {commit, 6}}},
        {"two at once", {{commit, 2}, {commit, 2}}},
        {"five at once", {{commit, 5}, {commit, 1}}},
        {"several files", {{commit, 6}, {commit, 6}, {commit, 4}}},
        {"files used again",
         {{commit, 6}, {checkpoint}, {commit, 6}, {checkpoint}, {commit, 6}, {checkpoint}, {commit, 6}, {commit, 4}}},
        {"a checkpoint behind each commit",
         {{commit, 3}, {checkpoint}, {commit, 3}, {checkpoint}, {commit, 3}, {checkpoint}, {commit, 3}}},
        {"openings", {{commit, 2}, {reopen}, {commit, 2}, {reopen}, {checkpoint}, {commit, 2}, {reopen}, {commit, 3}}},
        {"a failed sync", {{commit}, {fail_sync}, {commit}, {reopen}, {commit}, {checkpoint}, {commit}}},
        {"a failed sync of two", {{commit}, {fail_sync}, {commit, 2}, {reopen}, {commit, 2}}},
        {"a failed sync within a file", {{commit, 3}, {fail_sync}, {commit, 3}, {reopen}, {commit, 6}, {commit}}},
        {"a failed sync of a new file", {{commit, 5}, {fail_sync}, {commit, 6}, {reopen}, {commit, 6}}},
        {"a failed sync of a file used again",
         {{commit, 6}, {commit, 4}, {checkpoint}, {commit, 3}, {fail_sync, 1}, {commit, 6}, {reopen}, {commit, 6}}},
        {"failed syncs of openings",
         {{commit, 2}, {fail_sync}, {reopen}, {reopen}, {commit, 2}, {fail_sync, 1}, {reopen}, {reopen}, {commit}}},
    };
    return all;
}

log_scenario random_log_scenario(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    log_scenario made{fmt::format("random program {}", seed), {}};
    for (unsigned i = 0; i < 8; ++i) {
        const auto drawn = static_cast<unsigned>(random() % 10);
        const auto records = static_cast<unsigned>(random() % 6 + 1);
        const auto what = drawn < 6   ? log_step::kind::commit
                          : drawn < 8 ? log_step::kind::checkpoint
                          : drawn < 9 ? log_step::kind::reopen
                                      : log_step::kind::fail_sync;
        made.program.push_back({what, what == log_step::kind::fail_sync ? records / 3 : records});
    }
    return made;
}

namespace {

using explorer = crash_explorer<simulated_storage>;

/// What the state may be after a failure is what the next opening finds; that opening makes it durable.
class performance {
public:
    performance(simulated_storage& device, explorer::timeline& marks) : device_(device), marks_(marks), own_(device) {}

    std::string run(const std::vector<log_step>& program) {
        if (std::string failed = reopen(); !failed.empty()) {
            return failed;
        }
        for (const log_step& each : program) {
            if (std::string failed = perform(each); !failed.empty()) {
                return failed;
            }
        }
        return {};
    }

private:
    std::string perform(const log_step& each) {
        switch (each.what) {
            case log_step::kind::fail_sync:
                device_.fail_sync(each.records - (each.records == 0 ? 0 : 1));
                may_fail_ = true;
                return {};
            case log_step::kind::reopen: return reopen();
            case log_step::kind::checkpoint: return checkpoint();
            case log_step::kind::commit: return commit(each.records);
        }
        return {};
    }

    std::string commit(unsigned records) {
        if (has_lost_begin_) {
            return {};
        }
        const std::uint64_t before = own_.commits();
        marks_.begins(before + records);
        auto done = own_.append(records);
        done = done ? own_.wait() : std::move(done);
        if (done) {
            if (has_failed_) {
                return "a commit is acknowledged behind a failed one";
            }
            marks_.returned(before + records);
            return {};
        }
        if (!may_fail_ && !has_failed_) {
            return done.error().message();
        }
        has_failed_ = true;
        return {};
    }

    std::string checkpoint() {
        if (has_failed_ || has_lost_begin_) {
            return {};
        }
        const auto done = own_.checkpoint();
        has_lost_begin_ = !done;
        return done || may_fail_ ? "" : done.error().message();
    }

    std::string reopen() {
        own_.close();
        std::string failed = own_.open();
        if (!failed.empty() && may_fail_) {
            failed = own_.open();
        }
        if (!failed.empty()) {
            return failed;
        }
        has_failed_ = has_lost_begin_ = false;
        marks_.returned(own_.commits());
        return {};
    }

    simulated_storage& device_;
    explorer::timeline& marks_;
    log_client own_;
    bool may_fail_ = false;
    bool has_failed_ = false;      ///< of the log
    bool has_lost_begin_ = false;  ///< and no more is done before the next opening
};

/// Opens, goes on, and opens again.
std::string judge(explorer::trial& trial) {
    const expectation allowed = trial.expected();
    log_client own(trial.device());
    if (std::string failed = own.open(); !failed.empty()) {
        return failed;
    }
    const std::uint64_t found = own.commits();
    if (!allowed.allows(found)) {
        return fmt::format("{} commits", found);
    }
    trial.recovered(found);
    static_cast<void>(trial.go_on());
    for (const unsigned records : {1U, 2U}) {
        const std::uint64_t next = own.commits() + records;
        trial.begins(next);
        auto done = own.append(records);
        done = done ? own.wait() : std::move(done);
        if (!done) {
            return done.error().message();
        }
        trial.returned(next);
    }
    if (auto done = own.checkpoint(); !done) {
        return done.error().message();
    }
    trial.begins(found + 4);
    if (auto done = own.append(1); !done || !own.wait()) {
        return "a commit behind a checkpoint fails";
    }
    trial.returned(found + 4);
    trial.run_in_peace();
    log_client again(trial.device());
    if (std::string failed = again.open(); !failed.empty()) {
        return failed;
    }
    return again.commits() == found + 4 ? "" : fmt::format("{} commits, where {} were", again.commits(), found + 4);
}

}  // namespace

explore_report explore(const log_scenario& one, std::uint64_t atom_size, const explore_options& effort) {
    simulated_storage device(atom_size);
    make_log_home(device);
    explorer work(effort);
    return work.run(
        device,
        [&](simulated_storage& on, explorer::timeline& marks) { return performance(on, marks).run(one.program); },
        judge);
}

}  // namespace holdfast::simulator
