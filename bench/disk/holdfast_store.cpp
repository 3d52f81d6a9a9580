#include <algorithm>
#include <mutex>

#include <holdfast/ordered_index.hpp>
#include <holdfast/transaction.hpp>

#include "disk/store.hpp"

namespace disk {

namespace {

using namespace holdfast;

struct entry {
    std::uint64_t key = 0;
    record value{};
    ptr<entry> next;
};

constexpr std::size_t bucket_count = std::size_t{1} << 16U;

struct table {
    ptr<entry> buckets[bucket_count];
};

open_options options() {
    open_options wanted;
    wanted.durability = durability::atomic;
    wanted.domain = open_options::domain_choice::disk;
    return wanted;
}

class holdfast_store final : public store {
public:
    explicit holdfast_store(const std::filesystem::path& directory)
        : heap_(create_only, (directory / "records.hf").string(), options()),
          table_(*heap_.construct<table>("table")()) {}

    std::string name() const override { return "holdfast"; }
    bool scales() const override { return true; }

    void put(unsigned /*thread*/, std::uint64_t key, const record& value) override {
        const std::size_t index = key * 0x9e37'79b9'7f4a'7c15U >> 48U;
        ptr<entry>& bucket = table_.buckets[index];
        section tx(heap_, locks_[index % locks_.size()]);
        auto* found = bucket.get();
        while (found != nullptr && found->key != key) {
            found = found->next.get();
        }
        if (found != nullptr) {
            tx->open(*found).value = value;
        } else {
            auto* const made = tx->make<entry>();
            made->key = key;
            made->value = value;
            made->next = bucket;
            tx->store(bucket, made);
        }
        tx->commit();
    }

private:
    manager heap_;
    table& table_;
    std::array<std::mutex, 256> locks_;
};

class index_store final : public store {
public:
    explicit index_store(const std::filesystem::path& directory)
        : heap_(create_only, (directory / "index.hf").string(), options()), index_(heap_, "index") {}

    std::string name() const override { return "ordered_index"; }
    bool scales() const override { return true; }

    void put(unsigned /*thread*/, std::uint64_t key, const record& value) override { index_.upsert(key, value); }

private:
    manager heap_;
    ordered_index<std::uint64_t, record> index_;
};

}  // namespace

std::unique_ptr<store> make_ordered_index(const std::filesystem::path& directory) {
    return std::make_unique<index_store>(directory);
}

std::unique_ptr<store> make_holdfast(const std::filesystem::path& directory) {
    return std::make_unique<holdfast_store>(directory);
}

}  // namespace disk
