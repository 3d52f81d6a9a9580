// A storage whose n-th call fails with a chosen errno, once or from then on.
//
// Run a scenario without faults to count its calls, then once for each call. All files count together. A failing write
// writes half of its bytes first, as on a full disk. A failing sync does not reach the storage below. Thread-safe if
// the storage below is.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "persist/storage.hpp"

namespace holdfast::simulator {

struct fault_plan {
    enum class repeat { once, from_then_on };
    std::uint64_t call = 0;  ///< which call fails, from 1; 0: none
    int os_error = EIO;
    repeat how = repeat::once;
};

/// Counters shared by the views of one storage and their files.
struct fault_state {
    fault_plan plan;
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> faults{0};

    base::result<void> next(const char* operation, const std::string& path);
};

class fault_injecting_storage final : public persist::storage {
public:
    explicit fault_injecting_storage(persist::storage& inner)
        : inner_(std::shared_ptr<persist::storage>(), &inner), state_(std::make_shared<fault_state>()) {}
    /// A view of another storage below, with the same counters.
    fault_injecting_storage(std::shared_ptr<persist::storage> inner, const fault_injecting_storage& other)
        : inner_(std::move(inner)), state_(other.state_) {}

    /// Restarts the count, while no other thread is in a call.
    void plan(const fault_plan& faults);
    [[nodiscard]] std::uint64_t calls() const noexcept { return state_->calls.load(); }
    [[nodiscard]] std::uint64_t faults() const noexcept { return state_->faults.load(); }

    base::result<std::unique_ptr<persist::file>> open(const std::string& path, persist::access_mode mode) override;
    base::result<std::unique_ptr<persist::file>> create(const std::string& path, persist::site where) override;
    base::result<bool> exists(const std::string& path) override;
    base::result<void> make_directory(const std::string& path, persist::site where) override;
    base::result<void> make_link(const std::string& path, const std::string& target, persist::site where) override;
    base::result<std::string> link_target(const std::string& path) override;
    base::result<std::string> identity(const std::string& path) override;
    base::result<std::uint64_t> file_identity(const std::string& path) override;
    base::result<std::vector<std::string>> list(const std::string& directory) override;
    base::result<void> rename(const std::string& from, const std::string& to, persist::site where) override;
    base::result<void> remove(const std::string& path, persist::site where) override;
    base::result<void> sync_directory(const std::string& path, persist::site where) override;
    base::result<void> copy_content(persist::file& source, persist::file& target, persist::shared_blocks blocks,
                                    persist::site where) override;
    base::result<std::shared_ptr<persist::storage>> hold(const std::string& directory) override;
    std::shared_ptr<persist::storage> with(const persist::permissions& of_new) override;
    base::result<persist::permissions> permissions_of(const std::string& directory, const std::string& path) override;
    base::result<std::unique_ptr<persist::file>> open_directory(const std::string& directory) override;
    base::result<std::string> location(const std::string& directory) override;

private:
    base::result<void> next(const char* operation, const std::string& path) { return state_->next(operation, path); }

    std::shared_ptr<persist::storage> inner_;
    std::shared_ptr<fault_state> state_;
};

}  // namespace holdfast::simulator
