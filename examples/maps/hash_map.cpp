#include "hash_map.hpp"

namespace maps {

namespace {

constexpr std::uint64_t least_bits = 4;

/// Fibonacci hashing (Knuth, volume 3, 6.4): the upper bits of a product. `bits` is in [1, 63].
std::uint64_t bucket_of(std::uint64_t key, std::uint64_t bits) noexcept {
    return key * 0x9e37'79b9'7f4a'7c15U >> (64 - bits);
}

}  // namespace

hash_map::hash_map(holdfast::manager& heap, const char* name)
    : heap_(heap), head_(*heap.find_or_construct<head>(name)()) {}

bool hash_map::insert(std::uint64_t key, std::uint64_t value) {
    if (head_.size == 2 * bucket_count()) {
        grow();
    }
    link& place = find(key);
    const bool is_new = place == nullptr;
    heap_.transact([&](holdfast::transaction& tx) {
        if (!is_new) {
            tx.store(place->value, value);
            return;
        }
        auto* const made = tx.make<entry>();
        made->key = key;
        made->value = value;
        tx.store(place, made);
        tx.store(head_.size, head_.size + 1);
    });
    return is_new;
}

std::optional<std::uint64_t> hash_map::remove(std::uint64_t key) {
    if (head_.size == 0) {
        return std::nullopt;
    }
    link& place = find(key);
    entry* const gone = place.get();
    if (gone == nullptr) {
        return std::nullopt;
    }
    const std::uint64_t value = gone->value;
    heap_.transact([&](holdfast::transaction& tx) {
        tx.store(place, gone->next.get());
        tx.store(head_.size, head_.size - 1);
        tx.destroy(gone);
    });
    return value;
}

std::optional<std::uint64_t> hash_map::look_up(std::uint64_t key) const {
    if (head_.size == 0) {
        return std::nullopt;
    }
    const entry* const found = find(key).get();
    return found == nullptr ? std::nullopt : std::optional(found->value);
}

bool hash_map::for_each(const visitor& visit) const {
    for (std::uint64_t i = 0; i < bucket_count(); ++i) {
        for (const entry* each = head_.table[i].get(); each != nullptr; each = each->next.get()) {
            if (!visit(each->key, each->value)) {
                return false;
            }
        }
    }
    return true;
}

std::string hash_map::problem() const {
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < bucket_count(); ++i) {
        for (const entry* each = head_.table[i].get(); each != nullptr; each = each->next.get()) {
            if (bucket_of(each->key, head_.bits) != i) {
                return "key " + std::to_string(each->key) + " is in bucket " + std::to_string(i);
            }
            if (++found > head_.size) {
                return "more entries than the size of " + std::to_string(head_.size);
            }
        }
    }
    return found == head_.size ? std::string() : "fewer entries than the size of " + std::to_string(head_.size);
}

std::uint64_t hash_map::block_count() const { return head_.table == nullptr ? 0 : head_.size + 1; }

std::uint64_t hash_map::bucket_count() const noexcept {
    return head_.table == nullptr ? 0 : std::uint64_t{1} << head_.bits;
}

hash_map::link& hash_map::find(std::uint64_t key) const {
    link* place = &head_.table[bucket_of(key, head_.bits)];
    while (*place != nullptr && (*place)->key != key) {
        place = &(*place)->next;
    }
    return *place;
}

void hash_map::grow() {
    heap_.transact([this](holdfast::transaction& tx) {
        head& changed = tx.open(head_);
        changed.bits = head_.table == nullptr ? least_bits : head_.bits + 1;
        constexpr bool zeroed = true;  // null pointers
        auto* const fresh = static_cast<link*>(tx.allocate(sizeof(link) << changed.bits, {alignof(link), zeroed}));
        for (std::uint64_t i = 0; i < bucket_count(); ++i) {
            // The chain is read as it is: what the transaction stores is not there before it ends.
            for (entry* each = head_.table[i].get(); each != nullptr; each = each->next.get()) {
                link& first = fresh[bucket_of(each->key, changed.bits)];
                tx.store(each->next, first.get());
                first = each;
            }
        }
        tx.free(head_.table.get());
        changed.table = fresh;
    });
}

}  // namespace maps
