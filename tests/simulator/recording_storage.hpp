// The kernel's file systems, with every operation also done on a simulated machine: at any moment all the crash images
// that the contract allows can be listed, and each written out as a real directory for the whole program to open.
//
// So a test runs the real stack, mappings and all, on real files, and asks at chosen moments what a power cut would
// leave. One mutex makes the storage as thread-safe as the interface asks.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "persist/storage.hpp"
#include "simulator/simulated_storage.hpp"

namespace holdfast::simulator {

class recording_storage final : public persist::storage {
public:
    /// Records what happens to paths below `directory`, which is empty now; others go to the kernel unrecorded.
    recording_storage(std::string directory, std::uint64_t atom_size);

    /// Called after each recorded operation; may call for_each_crash_image(), position() and no operation of this
    /// storage.
    void set_observer(std::function<void()> after_operation) { mirror_.set_observer(std::move(after_operation)); }
    bool for_each_crash_image(const choice_limits& limits, std::uint64_t seed,
                              const std::function<bool(const storage_image&)>& visit) const {
        return mirror_.for_each_crash_image(limits, seed, visit);
    }
    [[nodiscard]] storage_image current() const { return mirror_.current(); }
    [[nodiscard]] std::string position() const { return mirror_.position(); }
    [[nodiscard]] std::uint64_t operations() const noexcept { return mirror_.operations(); }
    /// From now on all files are said to be of another birth, as those of a copy are.
    void become_a_copy() noexcept { ++copies_; }
    /// Writes what an image holds below the recorded directory into `target`, an existing, empty real directory.
    [[nodiscard]] base::result<void> materialise(const storage_image& left, const std::string& target) const {
        return left.materialise(directory_, target);
    }

    base::result<std::unique_ptr<persist::file>> open(const std::string& path, persist::access_mode mode) override;
    base::result<std::unique_ptr<persist::file>> create(const std::string& path, persist::site where) override;
    base::result<bool> exists(const std::string& path) override;
    base::result<void> make_directory(const std::string& path, persist::site where) override;
    /// The target is a path in full.
    base::result<void> make_link(const std::string& path, const std::string& target, persist::site where) override;
    base::result<std::string> link_target(const std::string& path) override;
    base::result<std::string> identity(const std::string& path) override;
    base::result<std::uint64_t> birth(const std::string& path) override;
    base::result<std::vector<std::string>> list(const std::string& directory) override;
    base::result<void> rename(const std::string& from, const std::string& to, persist::site where) override;
    base::result<void> remove(const std::string& path, persist::site where) override;
    base::result<void> sync_directory(const std::string& path, persist::site where) override;
    base::result<void> copy_content(persist::file& source, persist::file& target, persist::shared_blocks blocks,
                                    persist::site where) override;

private:
    friend class recording_file;
    [[nodiscard]] bool recorded(const std::string& path) const;

    std::string directory_;
    persist::storage& real_;
    simulated_storage mirror_;
    std::uint64_t copies_ = 0;
    mutable std::recursive_mutex mutex_;
};

}  // namespace holdfast::simulator
