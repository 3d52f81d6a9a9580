#include <filesystem>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <holdfast/hash_index.hpp>
#include <holdfast/ordered_index.hpp>

#include "allocators/holdfast_heap.hpp"
#include "allocators/runner.hpp"
#include "indexes/backend.hpp"
#include "support/samples.hpp"

namespace indexes {

namespace {

using namespace holdfast;
using ordered = ordered_index<std::uint64_t, std::uint64_t>;
using hashed = hash_index<std::uint64_t, std::uint64_t>;

/// The pairs of the keys from 1 on, as an iterator.
struct ascending {
    std::uint64_t key;
    std::uint64_t (*value_of)(std::uint64_t key);

    std::pair<std::uint64_t, std::uint64_t> operator*() const { return {key, value_of(key)}; }
    ascending& operator++() {
        ++key;
        return *this;
    }
    bool operator==(std::uint64_t end) const { return key == end; }
};

template <class Index>
class holdfast_backend final : public backend {
public:
    holdfast_backend(const bench::allocation_run& run, std::uint64_t entries)
        : path_((std::filesystem::path(run.directory) / "index.hf").string()),
          durability_(run.durability),
          options_(bench::heap_options_of(run)) {
        // Made large enough, as the peers' files are: growth is not measured. Sparsely filled leaves take 37 bytes an
        // entry.
        manager(create_only, path_, static_cast<std::size_t>((std::uint64_t{64} << 20U) + entries * 64)).close(true);
        heap_.emplace(open_only, path_, options_);
        index_.emplace(*heap_, "index");
    }
    std::string durability() const override { return durability_; }
    std::string domain() const override { return heap_->domain(); }

    bool insert(std::uint64_t key, std::uint64_t value) override { return index_->insert(key, value); }
    bool update(std::uint64_t key, std::uint64_t value) override { return index_->update(key, value); }
    bool remove(std::uint64_t key) override { return index_->remove(key); }
    std::uint64_t find(std::uint64_t key) const override { return index_->find(key).value_or(0); }
    std::uint64_t scan(std::uint64_t key, std::size_t count) const override {
        std::uint64_t sum = 0;
        if constexpr (is_scanned) {
            index_->scan(key, [&](std::uint64_t /*key*/, std::uint64_t value) {
                sum += value;
                return --count > 0;
            });
        }
        return sum;
    }

    void load(std::uint64_t count, std::uint64_t (*value_of)(std::uint64_t key)) override {
        index_->bulk_load(ascending{1, value_of}, count + 1);
    }
    open_times open_again() override {
        index_.reset();
        heap_->close(true);
        heap_.emplace(open_only, path_, options_);
        const std::int64_t cpu = bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        const std::int64_t start = bench::clock_ns(CLOCK_MONOTONIC);
        index_.emplace(*heap_, "index");
        const std::int64_t end = bench::clock_ns(CLOCK_MONOTONIC);
        return {static_cast<double>(end - start), static_cast<double>(bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu)};
    }
    std::uint64_t bytes() const override { return heap_->statistics().allocated_bytes; }
    bench::protocol_totals totals() const override { return bench::totals_of(*heap_); }
    double finish() override {
        if (!index_->check().empty() || !heap_->check_sanity()) {
            throw std::logic_error("the index or its heap fails its own check after the benchmark");
        }
        if (durability_ != "commit") {
            return 0;
        }
        const bench::stopwatch committing;
        heap_->commit();
        return committing.milliseconds();
    }

private:
    static constexpr bool is_scanned = std::is_same_v<Index, ordered>;

    std::string path_;
    std::string durability_;
    open_options options_;
    std::optional<manager> heap_;
    std::optional<Index> index_;  // ends before its heap
};

}  // namespace

std::unique_ptr<backend> make_holdfast(const bench::allocation_run& run, std::uint64_t entries) {
    return std::make_unique<holdfast_backend<ordered>>(run, entries);
}
std::unique_ptr<backend> make_holdfast_hash(const bench::allocation_run& run, std::uint64_t entries) {
    return std::make_unique<holdfast_backend<hashed>>(run, entries);
}

}  // namespace indexes
