#include <map>

#include "indexes/backend.hpp"
#include "indexes/dram_map.hpp"

namespace indexes {

namespace {

template <class Map>
class map_backend final : public backend {
public:
    explicit map_backend(std::string name) : name_(std::move(name)) {}
    std::string name() const override { return name_; }
    void insert(std::uint64_t key, std::uint64_t value) override { map_.emplace(key, value); }
    void update(std::uint64_t key, std::uint64_t value) override {
        if (const auto found = map_.find(key); found != map_.end()) {
            found->second = value;
        }
    }
    void remove(std::uint64_t key) override { map_.erase(key); }
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
    std::string name_;
    Map map_;
};

}  // namespace

std::unique_ptr<backend> make_std_map() {
    return std::make_unique<map_backend<std::map<std::uint64_t, std::uint64_t>>>("std-map");
}

std::unique_ptr<backend> make_absl_btree() {
#if HOLDFAST_BENCH_HAS_ABSL
    return std::make_unique<map_backend<dram_map<std::uint64_t, std::uint64_t>>>("absl-btree");
#else
    throw bench::backend_unavailable("this build has no Abseil: install libabsl-dev and configure again");
#endif
}

}  // namespace indexes
