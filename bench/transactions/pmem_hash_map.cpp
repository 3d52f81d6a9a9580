#include "transactions/pmem_maps.hpp"

#if HOLDFAST_BENCH_HAS_PMEMOBJ

#include <algorithm>

namespace transactions {

namespace {

class hash_map final : public maps::map {
public:
    hash_map(const pmem_pool& pool, pmem_hash_head& head) : pool_(pool), head_(head) {}

    bool insert(std::uint64_t key, std::uint64_t value) override {
        if (head_.size == 2 * bucket_count()) {
            grow();
        }
        PMEMoid& place = find(key);
        const bool is_new = place.off == 0;
        pool_.transact([&] {
            if (!is_new) {
                pool_.store(pool_.at<entry>(place)->value, value);
                return;
            }
            pool_.store(place, pool_.id_of(pool_.make<entry>({key, value, {0, 0}})));
            pool_.store(head_.size, head_.size + 1);
        });
        return is_new;
    }
    std::optional<std::uint64_t> remove(std::uint64_t key) override {
        if (head_.size == 0) {
            return std::nullopt;
        }
        PMEMoid& place = find(key);
        const auto* const gone = pool_.at<entry>(place);
        if (gone == nullptr) {
            return std::nullopt;
        }
        const std::uint64_t value = gone->value;
        pool_.transact([&] {
            pool_.store(place, gone->next);
            pool_.store(head_.size, head_.size - 1);
            pool_.free(gone);
        });
        return value;
    }
    std::optional<std::uint64_t> look_up(std::uint64_t key) const override {
        if (head_.size == 0) {
            return std::nullopt;
        }
        const auto* const found = pool_.at<entry>(find(key));
        return found == nullptr ? std::nullopt : std::optional(found->value);
    }
    bool for_each(const visitor& visit) const override {
        const auto* const table = pool_.at<PMEMoid>(head_.table);
        for (std::uint64_t i = 0; i < bucket_count(); ++i) {
            for (auto* each = pool_.at<entry>(table[i]); each != nullptr; each = pool_.at<entry>(each->next)) {
                if (!visit(each->key, each->value)) {
                    return false;
                }
            }
        }
        return true;
    }

private:
    struct entry {
        std::uint64_t key;
        std::uint64_t value;
        PMEMoid next;
    };
    static constexpr std::uint64_t least_bits = 4;

    [[nodiscard]] static std::uint64_t bucket_of(std::uint64_t key, std::uint64_t bits) noexcept {
        return key * 0x9e37'79b9'7f4a'7c15U >> (64 - bits);
    }
    [[nodiscard]] std::uint64_t bucket_count() const noexcept {
        return head_.table.off == 0 ? 0 : std::uint64_t{1} << head_.bits;
    }
    [[nodiscard]] PMEMoid& find(std::uint64_t key) const {
        PMEMoid* place = pool_.at<PMEMoid>(head_.table) + bucket_of(key, head_.bits);
        while (place->off != 0 && pool_.at<entry>(*place)->key != key) {
            place = &pool_.at<entry>(*place)->next;
        }
        return *place;
    }
    void grow() {
        pool_.transact([this] {
            pool_.open(head_);
            auto* const table = pool_.at<PMEMoid>(head_.table);
            const std::uint64_t count = table == nullptr ? 0 : bucket_count();
            head_.bits = table == nullptr ? least_bits : head_.bits + 1;
            auto* const fresh = pool_.make_zeros<PMEMoid>(sizeof(PMEMoid) << head_.bits);
            for (std::uint64_t i = 0; i < count; ++i) {
                entry* next = nullptr;
                for (auto* each = pool_.at<entry>(table[i]); each != nullptr; each = next) {
                    next = pool_.at<entry>(each->next);
                    PMEMoid& first = fresh[bucket_of(each->key, head_.bits)];
                    pool_.store(each->next, first);
                    first = pool_.id_of(each);
                }
            }
            if (table != nullptr) {
                pool_.free(table);
            }
            head_.table = pool_.id_of(fresh);
        });
    }

    const pmem_pool& pool_;
    pmem_hash_head& head_;
};

class queue final : public maps::queue {
public:
    queue(const pmem_pool& pool, pmem_queue_head& head, unsigned bits)
        : pool_(pool), head_(head), capacity_(std::uint64_t{1} << bits) {
        pool_.transact(
            [&] { pool_.store(head_.ring, pool_.id_of(pool_.make_zeros<PMEMoid>(sizeof(PMEMoid) << bits))); });
    }

    bool enqueue(std::string_view text) override {
        if (count() == capacity_) {
            return false;
        }
        pool_.transact([&] {
            auto* const made = pool_.make_bytes<entry>(sizeof(entry) + text.size());
            made->length = text.size();
            std::copy(text.begin(), text.end(), reinterpret_cast<char*>(made + 1));
            pool_.store(place_of(head_.back), pool_.id_of(made));
            pool_.store(head_.back, head_.back + 1);
        });
        return true;
    }
    std::optional<std::string> dequeue() override {
        if (count() == 0) {
            return std::nullopt;
        }
        PMEMoid& from = place_of(head_.front);
        const auto* const gone = pool_.at<entry>(from);
        std::string text(text_of(*gone));
        pool_.transact([&] {
            pool_.free(gone);
            pool_.store(from, PMEMoid{0, 0});
            pool_.store(head_.front, head_.front + 1);
        });
        return text;
    }
    bool for_each(const visitor& visit) const override {
        for (std::uint64_t i = head_.front; i != head_.back; ++i) {
            if (!visit(text_of(*pool_.at<entry>(place_of(i))))) {
                return false;
            }
        }
        return true;
    }
    std::uint64_t count() const override { return head_.back - head_.front; }

private:
    struct entry {
        std::uint64_t length;
    };

    [[nodiscard]] PMEMoid& place_of(std::uint64_t number) const {
        return pool_.at<PMEMoid>(head_.ring)[number & (capacity_ - 1)];
    }
    [[nodiscard]] static std::string_view text_of(const entry& of) noexcept {
        return {reinterpret_cast<const char*>(&of + 1), of.length};
    }

    const pmem_pool& pool_;
    pmem_queue_head& head_;
    std::uint64_t capacity_;
};

}  // namespace

std::unique_ptr<maps::map> make_hash_map(const pmem_pool& pool, pmem_hash_head& head) {
    return std::make_unique<hash_map>(pool, head);
}

std::unique_ptr<maps::queue> make_queue(const pmem_pool& pool, pmem_queue_head& head, unsigned bits) {
    return std::make_unique<queue>(pool, head, bits);
}

}  // namespace transactions

#endif
