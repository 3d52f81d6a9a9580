// A heap whose whole content follows from one number, the step: so a test that finds a heap in any state can say which
// state that is, or that it is none.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <holdfast/manager.hpp>

namespace holdfast::support {

/// What a heap holds is no step: an answer of Holdfast was wrong.
class wrong_content : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The smallest segments: files that are quickly copied and compared.
[[nodiscard]] open_options small_segments();

/// Takes a heap from step - 1 to `step`: vectors, maps, strings, big blocks, named, unique and anonymous objects are
/// made, changed and freed. Commits nothing. Where it throws, the content is no step.
void advance(manager& heap, std::uint64_t step);

/// The step whose content the heap holds, every byte of it compared. Throws wrong_content.
[[nodiscard]] std::uint64_t step_of(const manager& heap);

/// Makes a heap at `step`, committed at each, and closes it cleanly.
void make_heap(const std::string& path, std::uint64_t step);
/// Makes a heap whose writer died between two commits, at `step`.
void make_crashed_heap(const std::string& path, std::uint64_t step);
/// Gives each page of which the last commit's record has something the content that it has in `before`, a copy of the
/// heap as it was before that commit. What the commit wrote home before its record stays.
void undo_last_way_home(const std::string& heap, const std::string& before);
/// The first file of the heap's log, and where its last record ends.
[[nodiscard]] std::string log_of(const std::string& heap);
[[nodiscard]] std::uint64_t end_of_log(const std::string& heap);
/// Makes a heap whose writer died in the commit of `step`, when the record was durable and nothing that is in it was
/// home.
void make_heap_with_pending_commit(const std::string& path, std::uint64_t step);

}  // namespace holdfast::support
