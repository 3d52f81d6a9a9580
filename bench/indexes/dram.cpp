#include <map>

#include "indexes/backend.hpp"
#include "indexes/dram_map.hpp"

namespace indexes {

namespace {

template <class Map>
class map_backend final : public backend {
public:
    bool insert(std::uint64_t key, std::uint64_t value) override { return map_.emplace(key, value).second; }
    bool update(std::uint64_t key, std::uint64_t value) override {
        const auto found = map_.find(key);
        if (found == map_.end()) {
            return false;
        }
        found->second = value;
        return true;
    }
    bool remove(std::uint64_t key) override { return map_.erase(key) != 0; }
    std::uint64_t find(std::uint64_t key) const override {
        const auto found = map_.find(key);
        return found == map_.end() ? 0 : found->second;
    }
    std::uint64_t scan(std::uint64_t key, std::size_t count) const override {
        std::uint64_t sum = 0;
        for (auto i = map_.lower_bound(key); i != map_.end() && count > 0; ++i, --count) {
            sum += i->second;
        }
        return sum;
    }

private:
    Map map_;
};

}  // namespace

std::unique_ptr<backend> make_std_map(const bench::allocation_run& /*run*/, std::uint64_t /*entries*/) {
    return std::make_unique<map_backend<std::map<std::uint64_t, std::uint64_t>>>();
}

std::unique_ptr<backend> make_absl_btree(const bench::allocation_run& /*run*/, std::uint64_t /*entries*/) {
#if HOLDFAST_BENCH_HAS_ABSL
    return std::make_unique<map_backend<dram_map<std::uint64_t, std::uint64_t>>>();
#else
    throw bench::backend_unavailable("this build has no Abseil: install libabsl-dev and configure again");
#endif
}

}  // namespace indexes
