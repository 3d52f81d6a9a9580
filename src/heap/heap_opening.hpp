// The steps between the files of a heap and an engine that threads may use.
//
// Invariants:
//   HEAP-15: a failed creation leaves no heap behind; a failed open changes nothing on media, except that a crashed
//            heap may have been recovered.
//   HEAP-16: a heap that crashed in another durability is recovered in that one, and closed, before it is opened.
//   HEAP-17: in durability `atomic` and `collect`, media say that a crash is to be replayed or traced before anything
//            is handed out.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "heap/heap.hpp"

namespace holdfast::heap {

class heap_opening {
public:
    heap_opening(std::string path, const engine_options& options) : path_(std::move(path)), options_(options) {}

    base::result<std::unique_ptr<engine>> create();
    base::result<std::unique_ptr<engine>> open(persist::access_mode mode,
                                               const std::shared_ptr<segment::heap_directories>& directories);
    base::result<std::unique_ptr<engine>> open_or_create(const engine_options& created_with);
    base::result<std::unique_ptr<engine>> create_scratch();
    /// Of a reader whose files show another version.
    base::result<std::unique_ptr<engine>> read_anew(std::unique_ptr<segment::heap_files> files);
    /// Of a process that has the turn, and whose files show another version.
    base::result<std::unique_ptr<engine>> write_anew(std::unique_ptr<segment::heap_files> files);

private:
    [[nodiscard]] base::result<void> check_durability() const;
    [[nodiscard]] base::result<void> check_promise(const segment::heap_files& files) const;
    [[nodiscard]] base::result<void> check_boot(const segment::heap_files& files) const;
    base::result<void> format(engine& made) const;
    base::result<void> start_created(engine& made) const;
    base::result<void> start_opened(engine& opened, persist::access_mode mode) const;
    base::result<void> harden(engine& heap) const;
    base::result<void> keep_extents(engine& heap) const;
    [[nodiscard]] std::uint64_t decay_ns() const noexcept;
    base::result<std::unique_ptr<engine>> open_recovered(
        durability_kind crashed_in, const std::shared_ptr<segment::heap_directories>& directories) const;

    std::string path_;
    const engine_options& options_;
};

}  // namespace holdfast::heap
