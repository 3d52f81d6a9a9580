#include "applications/application.hpp"

#include <algorithm>
#include <array>

namespace bench {

std::span<const application> all_applications() {
    static const std::array<application, 7> all{n_queens, ackermann, kruskal, barnes_hut, cfrac, vacation, cholesky};
    return all;
}

const application* find_application(const std::string& name) {
    const auto all = all_applications();
    const auto found = std::ranges::find_if(all, [&name](const application& one) { return name == one.name; });
    return found == all.end() ? nullptr : &*found;
}

}  // namespace bench
