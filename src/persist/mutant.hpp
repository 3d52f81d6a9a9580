// Mutants: our own code with one step left out, to prove that the crash suite would notice.
//
// Only the preset `crash` (HOLDFAST_MUTANTS=1) has them. A *site* is the name that code gives to a place where it
// persists something, or checks something that it read (`site` in storage.hpp). The suite lists all sites that a
// scenario ran through, selects one after the other, runs the scenario again with that step dropped, and expects a
// violation.
//   - Steps of files and of domains (sync, write, flush, fence ...) are dropped by the simulator; nothing to do in our
//   code.
//   - Everything else asks: `if (!HF_MUTANT("recover.journal.checksum") && sum != expected) ...`. The macro is the
//   constant false in all other presets.
// Any program of the preset runs with a mutant of the second kind where HOLDFAST_MUTANT names its site, and appends the
// sites that it ran through to the file that HOLDFAST_SEEN_SITES names: tools/test_worth.py asks so which tests notice.
// Thread safety: all functions may be called from all threads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "persist/storage.hpp"

#if !defined(HOLDFAST_MUTANTS)
#define HOLDFAST_MUTANTS 0
#endif

namespace holdfast::persist {

/// What happens at a site, and so what its mutant leaves out.
enum class site_kind {
    write,           ///< write_at, write_gather: content does not reach the file
    sync,            ///< sync: answers success and makes nothing durable
    size,            ///< resize, allocate, punch_hole: size and content stay
    name,            ///< create, make_directory, rename, remove: never dropped, listed for completeness
    sync_directory,  ///< sync_directory: answers success and makes nothing durable
    flush,           ///< flush of a range of memory
    fence,           ///< fence: flushes stay incomplete
    code,            ///< HF_MUTANT in our code: a test left out, or two steps in the other order
};

[[nodiscard]] std::string_view to_string(site_kind kind) noexcept;

struct seen_site {
    std::string name;
    site_kind kind = site_kind::code;
    friend bool operator==(const seen_site&, const seen_site&) = default;
    friend auto operator<=>(const seen_site&, const seen_site&) = default;
};

#if HOLDFAST_MUTANTS

/// Whether the mutant of this site is selected. Notes that the site was seen.
[[nodiscard]] bool mutant_active(site where, site_kind kind = site_kind::code);

/// Called at every HF_MUTANT of this thread: with it, they are places where the tests may let another thread run.
using step_function = void (*)(site);
void set_step_function(step_function call) noexcept;

/// All sites seen since the start of the program or the last forget_sites(), sorted, each once.
[[nodiscard]] std::vector<seen_site> seen_sites();
void forget_sites();

/// Selects the mutant of one site for as long as it lives. One at a time.
class mutant_selection {
public:
    explicit mutant_selection(const std::string& name);
    mutant_selection(const mutant_selection&) = delete;
    mutant_selection& operator=(const mutant_selection&) = delete;
    ~mutant_selection();
};

#define HF_MUTANT(name) (::holdfast::persist::mutant_active(name))

#else

[[nodiscard]] constexpr bool mutant_active(site /*where*/, site_kind /*kind*/ = site_kind::code) noexcept {
    return false;
}

#define HF_MUTANT(name) (false)

#endif

}  // namespace holdfast::persist
