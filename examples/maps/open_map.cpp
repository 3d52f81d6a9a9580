#include "open_map.hpp"

#include "b_tree.hpp"
#include "hash_map.hpp"
#include "red_black_tree.hpp"

namespace maps {

const std::vector<std::string_view>& map_names() {
    static const std::vector<std::string_view> names{"hash", "btree", "rbtree"};
    return names;
}

std::unique_ptr<checked_map> open_map(holdfast::manager& heap, std::string_view kind) {
    if (kind == "hash") {
        return std::make_unique<hash_map>(heap, "hash");
    }
    if (kind == "btree") {
        return std::make_unique<b_tree>(heap, "btree");
    }
    if (kind == "rbtree") {
        return std::make_unique<red_black_tree>(heap, "rbtree");
    }
    return nullptr;
}

}  // namespace maps
