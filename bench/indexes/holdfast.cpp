#include <chrono>

#include <holdfast/hash_index.hpp>
#include <holdfast/ordered_index.hpp>

#include "indexes/backend.hpp"

namespace indexes {

namespace {

using namespace holdfast;
using ordered = ordered_index<std::uint64_t, std::uint64_t>;
using hashed = hash_index<std::uint64_t, std::uint64_t>;

open_options options() {
    open_options wanted;
    wanted.durability = durability::atomic;
    wanted.domain = open_options::domain_choice::emulated;
    wanted.accept_process_crash_only = true;
    return wanted;
}

template <class Index>
class holdfast_backend final : public backend {
public:
    holdfast_backend(std::string name, const std::filesystem::path& directory)
        : name_(std::move(name)),
          heap_(create_only, (directory / "index.hf").string(), options()),
          index_(heap_, "index") {}
    std::string name() const override { return name_; }
    void insert(std::uint64_t key, std::uint64_t value) override { index_.insert(key, value); }
    void update(std::uint64_t key, std::uint64_t value) override { index_.update(key, value); }
    void remove(std::uint64_t key) override { index_.remove(key); }
    std::uint64_t find(std::uint64_t key) const override { return index_.find(key).value_or(0); }
    std::uint64_t scan(std::uint64_t key, std::size_t count) const override {
        std::uint64_t sum = 0;
        if constexpr (is_scanned) {
            index_.scan(key, [&](std::uint64_t /*key*/, std::uint64_t value) {
                sum += value;
                return --count > 0;
            });
        }
        return sum;
    }
    bool is_ordered() const override { return is_scanned; }
    bool may_have_threads() const override { return true; }
    double bytes_an_entry(std::uint64_t entries) const override {
        return static_cast<double>(heap_.statistics().allocated_bytes) / static_cast<double>(entries);
    }

private:
    static constexpr bool is_scanned = std::is_same_v<Index, ordered>;
    std::string name_;
    manager heap_;
    Index index_;
};

}  // namespace

std::unique_ptr<backend> make_holdfast(const std::filesystem::path& directory) {
    return std::make_unique<holdfast_backend<ordered>>("holdfast", directory);
}
std::unique_ptr<backend> make_holdfast_hash(const std::filesystem::path& directory) {
    return std::make_unique<holdfast_backend<hashed>>("holdfast-hash", directory);
}

double time_of_a_record(const std::filesystem::path& directory, std::uint64_t pairs) {
    const std::string path = (directory / "records.hf").string();
    double nanoseconds = 0;
    {
        manager heap(create_only, path, options());
        auto& destination = *heap.construct<ptr<void>>("destination")();
        const processor_watch watch;
        for (std::uint64_t i = 0; i < pairs; ++i) {
            heap.allocate_to(destination, 64);
            heap.free_from(destination);
        }
        nanoseconds = watch.nanoseconds() / static_cast<double>(2 * pairs);
    }
    manager::remove(path);
    return nanoseconds;
}

double time_of_an_open(const std::filesystem::path& directory, std::uint64_t entries) {
    const std::string path = (directory / "open.hf").string();
    {
        manager heap(create_only, path, options());
        ordered made(heap, "index");
        std::uint64_t next = 0;
        struct counted {
            std::uint64_t* next;
            std::pair<std::uint64_t, std::uint64_t> operator*() const { return {*next * 8, *next}; }
            counted& operator++() {
                ++*next;
                return *this;
            }
            bool operator==(std::uint64_t end) const { return *next == end; }
        };
        made.bulk_load(counted{&next}, entries);
    }
    double milliseconds = 0;
    {
        manager heap(open_only, path, options());
        const auto start = std::chrono::steady_clock::now();
        const ordered opened(heap, "index");
        const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
        milliseconds = taken.count();
    }
    manager::remove(path);
    return milliseconds;
}

}  // namespace indexes
