// The kernel's file systems, with every operation repeated on a simulated machine. At any moment it can list the crash
// images that the contract allows, and write each as a real directory.
//
// So a test runs the real stack on real files and mappings, and opens what a power cut would leave. One mutex makes it
// thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "persist/storage.hpp"
#include "simulator/storage/simulated_storage.hpp"

namespace holdfast::simulator {

class recording_storage final : public persist::storage {
public:
    /// Records changes below `directory`, which is empty; other paths go to the kernel unrecorded.
    recording_storage(const std::string& directory, std::uint64_t atom_size);
    /// Another view of the kernel's file systems with the same record.
    recording_storage(std::shared_ptr<persist::storage> real, const recording_storage& other)
        : real_(std::move(real)), record_(other.record_) {}

    /// Called after each recorded operation. It may call for_each_crash_image() and position(), but no operation of
    /// this storage.
    void set_observer(std::function<void()> after_operation) {
        record_->observer = after_operation;
        record_->mirror->set_observer(std::move(after_operation));
    }
    bool for_each_crash_image(const choice_limits& limits, std::uint64_t seed,
                              const std::function<bool(const storage_image&)>& visit) const {
        return record_->mirror->for_each_crash_image(limits, seed, visit);
    }
    [[nodiscard]] storage_image current() const { return record_->mirror->current(); }
    [[nodiscard]] std::string position() const { return record_->mirror->position(); }
    [[nodiscard]] std::uint64_t operations() const noexcept { return record_->mirror->operations(); }
    /// From now on stores to mappings of recorded files are changes, too; each operation on a file looks for those that
    /// came before it.
    void record_mappings() noexcept { record_->has_mappings = true; }
    /// They are persistent memory.
    void record_memory() noexcept {
        record_->has_mappings = true;
        record_->on_memory = true;
        record_->mirror->set_on_memory();
    }
    /// Now, too.
    void look_at_mappings();
    /// As simulated_storage.
    void fail_sync(std::uint64_t others) noexcept { record_->mirror->fail_sync(others); }
    void let_syncs_work() noexcept { record_->mirror->let_syncs_work(); }
    /// A process dies: from now on its files refuse all, and its stores count no more.
    void forsake_files();
    /// What forsaken files left in the directory is undone.
    [[nodiscard]] base::result<void> undo_forsaken() const;
    /// The machine after the power is back: what the image holds, all of it durable. No file is open.
    [[nodiscard]] base::result<void> restart(const storage_image& start);
    /// From now on all files report another file identity, as those of a copy do.
    void become_a_copy() noexcept { ++record_->copies; }
    /// Writes the image's content below the recorded directory into `target`, an existing empty directory.
    [[nodiscard]] base::result<void> materialise(const storage_image& left, const std::string& target) const {
        return left.materialise(record_->directory, target);
    }

    base::result<std::unique_ptr<persist::file>> open(const std::string& path, persist::access_mode mode) override;
    base::result<std::unique_ptr<persist::file>> create(const std::string& path, persist::site where) override;
    base::result<bool> exists(const std::string& path) override;
    base::result<void> make_directory(const std::string& path, persist::site where) override;
    /// `target` is an absolute path.
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
    friend class recording_file;
    /// Shared by all views.
    struct record {
        record(std::string recorded, std::uint64_t atom_size);
        void look(const std::string& path);

        std::string directory;
        std::uint64_t atom_size;
        std::unique_ptr<simulated_storage> mirror;
        std::function<void()> observer;
        std::uint64_t copies = 0;
        std::uint64_t forsaken = 0;  ///< times
        bool has_mappings = false;
        bool on_memory = false;
        std::recursive_mutex mutex;
    };
    [[nodiscard]] bool recorded(const std::string& path) const;

    std::shared_ptr<persist::storage> real_;
    std::shared_ptr<record> record_;
};

}  // namespace holdfast::simulator
