// Symbolic links of the simulated machine. Names are stored without links: each call first follows those of its path.
#include <cerrno>

#include "base/assert.hpp"
#include "simulator/storage/simulated_storage.hpp"

namespace holdfast::simulator {

using base::os_failure;
using base::result;
using persist::mutant_active;
using persist::site;
using persist::site_kind;

std::string simulated_storage::resolved_name(const std::string& path) const {
    constexpr int most_links = 40;  // the kernel's limit
    std::string name = normal_path(path);
    std::size_t slash = name.find('/');
    for (int links = 0; slash != std::string::npos && links < most_links;) {
        const auto* const id = find(name.substr(0, slash));
        if (id == nullptr || nodes_[*id].link.empty()) {
            slash = name.find('/', slash + 1);
            continue;
        }
        name = normal_path(nodes_[*id].link) + name.substr(slash);
        slash = name.find('/');
        ++links;
    }
    return name;
}

std::string simulated_storage::resolved(const std::string& path) const {
    const std::string name = resolved_name(path);
    const auto* const id = find(name);
    return id == nullptr || nodes_[*id].link.empty() ? name : resolved_name(nodes_[*id].link);
}

result<void> simulated_storage::check_parent(const std::string& path, const char* operation) const {
    const auto parent = parent_of(resolved_name(path));
    const auto* id = find(parent);
    if (!parent.empty() && (id == nullptr || !nodes_[*id].directory)) {
        return os_failure(id == nullptr ? ENOENT : ENOTDIR, operation, path);
    }
    return {};
}

result<void> simulated_storage::make_link(const std::string& path, const std::string& target, site where) {
    static_cast<void>(mutant_active(where, site_kind::name));
    HF_ASSERT(target.starts_with('/'));
    HF_TRY(check_parent(path, "symlink"));
    const std::string name = resolved_name(path);
    if (find(name) != nullptr) {
        return os_failure(EEXIST, "symlink", path);
    }
    const node_id id = add_node(false);
    nodes_[id].link = target;
    add_name_change({name_change::kind::add, name, {}, id});
    done(where);
    return {};
}

result<std::string> simulated_storage::link_target(const std::string& path) {
    const auto* const id = find(resolved_name(path));
    if (id != nullptr) {
        return nodes_[*id].link;
    }
    auto what = os_failure(ENOENT, "readlink", path);
    what.code = base::failure_code::missing;
    return what;
}

result<std::string> simulated_storage::identity(const std::string& path) {
    if (const auto* const id = find(resolved(path)); id != nullptr) {
        return std::to_string(*id);
    }
    auto what = os_failure(ENOENT, "stat", path);
    what.code = base::failure_code::missing;
    return what;
}

}  // namespace holdfast::simulator
