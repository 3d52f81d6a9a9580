// A heap of durability `atomic`, opened where it lies: after SIGKILL and after a clean close, with its files in the
// page cache and without; and a copy of it, whose first writer reserves all that the copy lacks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <holdfast/manager.hpp>

#include "support/samples.hpp"

namespace bench {

/// The time of a heap's constructor in a fresh process, in milliseconds. After a restart of the process the files are
/// in the page cache (*warm*), after one of the machine they are not (*cold*).
struct openings {
    samples killed;  ///< warm, after SIGKILL
    samples replay;  ///< of it, by the heap's own account
    samples clean;   ///< warm, after a clean close
    samples killed_cold;
    samples clean_cold;
    samples mapping;  ///< the files, warm, and nothing else
    samples copy;     ///< warm, the first open of a copy that was made after SIGKILL
    /// Records that the last recovery looked at; in the domain page-cache those in flight alone.
    std::uint64_t pending = 0;
};

struct ways_to_open {
    std::string domain = "emulated";  ///< or page-cache
    unsigned rounds = 1;
    std::uint64_t seed = 0;
    bool cold = false;  ///< needs root and a file system that is not memory
    bool copies = false;
};

class crashed_heap {
public:
    explicit crashed_heap(std::filesystem::path path) : path_(std::move(path)) {}
    crashed_heap(const crashed_heap&) = delete;
    crashed_heap& operator=(const crashed_heap&) = delete;
    virtual ~crashed_heap() = default;

    /// Opens it in turn after SIGKILL and clean, each time in a process of its own. Every other one changes the heap
    /// and is killed. Throws std::runtime_error where the heap is not as it was built.
    [[nodiscard]] openings open_in_turn(const ways_to_open& ways) const;

protected:
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
    struct opening;

    /// Leaves records that a recovery has to look at.
    virtual void change(holdfast::manager& heap, std::uint64_t seed) const = 0;
    /// All that was built is there, and nothing else; else std::logic_error.
    virtual void require_whole(const holdfast::manager& heap) const = 0;

    [[nodiscard]] double open_and_die(const std::string& domain, std::uint64_t seed) const;
    [[nodiscard]] opening recover(const std::filesystem::path& path, const std::string& domain) const;
    [[nodiscard]] double open_copy(const std::string& domain) const;

    std::filesystem::path path_;
};

/// Of durability `atomic`, in the domain emulated or page-cache.
[[nodiscard]] holdfast::open_options options_in(const std::string& domain);

}  // namespace bench
