#include "slab/pool/slab_bins.hpp"

#include <algorithm>
#include <thread>

namespace holdfast::slab {

namespace {

constexpr std::uint64_t key_of(unsigned class_index, std::uint32_t type) noexcept {
    return std::uint64_t{type} * 64 + class_index;
}
static_assert(class_count <= 64);

}  // namespace

void slab_bins::reset(unsigned nodes) {
    nodes_ = nodes;
    const unsigned wanted = (std::max(std::thread::hardware_concurrency(), 1U) + nodes - 1) / nodes * nodes;
    arenas_ = std::min(wanted, maximum_arenas - maximum_arenas % nodes);
    bins_ = std::make_unique<slab_bin[]>(std::size_t{arenas_} * class_count);
    first_typed_.store(nullptr, std::memory_order_relaxed);
    {
        const base::scoped_lock lock(typed_mutex_);
        typed_bins_.clear();
    }
    for (unsigned i = 0; i < count(); ++i) {
        bins_[i].arena = i / class_count;
        bins_[i].class_index = i % class_count;
    }
}

unsigned slab_bins::arena_of_thread(unsigned node, unsigned machine_nodes, unsigned turn) const noexcept {
    if (nodes_ == 1) {
        return turn % arenas_;
    }
    // Where the heap has more nodes than the machine, each of these serves several.
    unsigned of = node % nodes_;
    unsigned round = turn;
    if (machine_nodes < nodes_) {
        const unsigned several = (nodes_ - of + machine_nodes - 1) / machine_nodes;
        of += machine_nodes * (turn % several);
        round = turn / several;
    }
    return round % (arenas_ / nodes_) * nodes_ + of;
}

typed_bin* slab_bins::find_typed(unsigned class_index, std::uint32_t type) noexcept {
    const base::scoped_lock lock(typed_mutex_);
    const auto found = typed_bins_.find(key_of(class_index, type));
    return found == typed_bins_.end() ? nullptr : found->second.get();
}

typed_bin& slab_bins::typed(unsigned class_index, std::uint32_t type) {
    const base::scoped_lock lock(typed_mutex_);
    std::unique_ptr<typed_bin>& place = typed_bins_[key_of(class_index, type)];
    if (place == nullptr) {
        try {
            place = std::make_unique<typed_bin>();
        } catch (...) {
            typed_bins_.erase(key_of(class_index, type));  // no entry is ever null
            throw;
        }
        place->class_index = class_index;
        place->type = type;
        place->next = first_typed_.load(std::memory_order_relaxed);
        first_typed_.store(place.get(), std::memory_order_release);
    }
    return *place;
}

}  // namespace holdfast::slab
