// Mutants: code with one step left out, which the crash tests must notice (preset `crash`). Tests repeat a scenario
// with one site's step dropped at a time, and expect a violation. The simulator drops steps of files and domains. For
// other code the patches in tests/mutants/ ask: `if (!HF_MUTANT("recover.checksum") && checksum != expected) ...`
// (tools/mutants.py). HOLDFAST_MUTANT in the environment selects such a mutant. A program appends its sites to the file
// HOLDFAST_SEEN_SITES, for tools/test_worth.py.
// Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "persist/storage.hpp"

#if !defined(HOLDFAST_MUTANTS)
#define HOLDFAST_MUTANTS 0
#endif

namespace holdfast::persist {

enum class site_kind {
    write,           ///< write_at, write_gather: the content does not reach the file
    sync,            ///< success, and nothing is durable
    size,            ///< resize, allocate, punch_hole: size and content stay
    name,            ///< links, create, make_directory, rename, remove: never dropped
    sync_directory,  ///< success, and nothing is durable
    flush,
    fence,  ///< flushes stay incomplete
    code,   ///< a check left out, or two steps in the other order
};

[[nodiscard]] std::string_view to_string(site_kind kind) noexcept;

enum class media_step {
    store,  ///< of a word, where the order of stores is all that a durability has
    nontemporal,
    flush,
    fence,
};

struct seen_site {
    std::string name;
    site_kind kind = site_kind::code;
    friend bool operator==(const seen_site&, const seen_site&) = default;
    friend auto operator<=>(const seen_site&, const seen_site&) = default;
};

#if HOLDFAST_MUTANTS

/// Whether the mutant is selected. Records the site.
[[nodiscard]] bool mutant_active(site where, site_kind kind = site_kind::code);

/// Called at every HF_MUTANT of this thread: tests run another thread there.
using step_function = void (*)(site);
void set_step_function(step_function call) noexcept;

/// Told before this thread stores or writes back: a test can build what a power loss leaves.
using media_function = void (*)(media_step, const void* begin, std::size_t bytes);
void set_media_function(media_function call) noexcept;
void tell_media(media_step step, const void* begin, std::size_t bytes) noexcept;

/// Since the start of the program or forget_sites(); sorted, each once.
[[nodiscard]] std::vector<seen_site> seen_sites();
void forget_sites();

/// At most one at a time.
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
constexpr void tell_media(media_step /*step*/, const void* /*begin*/, std::size_t /*bytes*/) noexcept {}

#define HF_MUTANT(name) (false)

#endif

}  // namespace holdfast::persist
