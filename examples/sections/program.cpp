#include "sections/program.hpp"

#include <algorithm>
#include <array>

namespace sections {

std::span<const program_kind> all_programs() {
    static const std::array all {
        program_kind{"n-queens", n_queens_bytes, open_n_queens},
            program_kind{"cholesky", cholesky_bytes, open_cholesky},
            program_kind{"barnes-hut", barnes_hut_bytes, open_barnes_hut},
#if HOLDFAST_HAS_CJSON
            program_kind{"documents", documents_bytes, open_documents},
#endif
    };
    return all;
}

const program_kind* find_program(const std::string& name) {
    const auto all = all_programs();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const program_kind& each) { return each.name == name; });
    return found == all.end() ? nullptr : &*found;
}

}  // namespace sections
