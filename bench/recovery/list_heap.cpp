#include "recovery/list_heap.hpp"

#include <cstddef>
#include <new>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/child.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

struct node {
    holdfast::ptr<node> next;
};

holdfast::ptr<node>& head_of(holdfast::manager& heap) { return reinterpret_cast<holdfast::ptr<node>&>(heap.root(0)); }

std::uint64_t object_size(random_source& random) { return random.between(64, 128); }

}  // namespace

list_heap::list_heap(std::filesystem::path path, std::uint64_t objects, std::uint64_t seed, std::uint64_t replacements)
    : crashed_heap(std::move(path)), objects_(objects), replacements_(replacements) {
    run_child(ending::dies, [&](const child_process& self) {
        holdfast::manager heap(holdfast::create_only, this->path().string(), options_in("emulated"));
        random_source random(seed);
        holdfast::ptr<node>* link = &head_of(heap);
        for (std::uint64_t i = 0; i < objects_; ++i) {
            // The next pointer must be null durably before it is a destination.
            auto* const fresh = static_cast<node*>(heap.reserve(object_size(random)));
            ::new (fresh) node;
            heap.persist(fresh, sizeof *fresh);
            heap.publish(*link, fresh);
            link = &fresh->next;
        }
        self.die();
    });
}

void list_heap::change(holdfast::manager& heap, std::uint64_t seed) const {
    random_source random(seed);
    auto& other = reinterpret_cast<holdfast::ptr<std::byte>&>(heap.root(1));
    for (std::uint64_t i = 0; i < replacements_; ++i) {
        heap.allocate_to(other, object_size(random));
        heap.free_from(other);
    }
}

void list_heap::require_whole(const holdfast::manager& heap) const {
    std::uint64_t length = 0;
    for (auto* each = static_cast<const node*>(heap.root(0).get()); each != nullptr; each = each->next.get()) {
        ++length;
    }
    const std::uint64_t blocks = heap.statistics().allocated_blocks;
    if (length != objects_ || blocks != objects_) {
        throw std::logic_error(
            fmt::format("{} objects in the list and {} blocks, {} expected", length, blocks, objects_));
    }
}

}  // namespace bench
