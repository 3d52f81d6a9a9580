#include "dax/subjects.hpp"

#include <new>
#include <stdexcept>
#include <utility>

#include <holdfast/containers.hpp>
#include <holdfast/hash_index.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/ordered_index.hpp>
#include <holdfast/store.hpp>
#include <holdfast/store_in_heap.hpp>
#include <holdfast/transaction.hpp>

#include "persist/domain.hpp"
#include "persist/storage.hpp"

namespace holdfast::dax {
namespace {

struct entry {
    std::uint64_t value = 0;
    std::uint64_t copies[6] = {};
    explicit entry(std::uint64_t of) : value(of) {
        for (std::uint64_t& copy : copies) {
            copy = of;
        }
    }
};
using slots = ptr<entry>[keys];

open_options options(durability how) {
    open_options wanted;
    wanted.durability = how;
    wanted.segment_size = std::uint64_t{16} << 20U;
    return wanted;
}

table content_of(const slots& from) {
    table found;
    for (std::uint64_t key = 0; key < keys; ++key) {
        if (from[key] == nullptr) {
            continue;
        }
        const entry& one = *from[key];
        for (const std::uint64_t copy : one.copies) {
            if (copy != one.value) {
                throw std::runtime_error("an entry is torn");
            }
        }
        found.emplace(key, one.value);
    }
    return found;
}

class in_heap : public subject {
public:
    in_heap(const std::string& path, durability how) : heap_(open_or_create, path, options(how)) {}
    [[nodiscard]] std::string domain() const override { return std::string(heap_.domain()); }
    [[nodiscard]] std::size_t problems() override { return heap_.check(true).size(); }

protected:
    manager heap_;
};

class with_slots : public in_heap {
public:
    with_slots(const std::string& path, durability how) : in_heap(path, how), slots_(*make()) {}
    [[nodiscard]] table content() override { return content_of(slots_.all); }

protected:
    struct table_of_slots {
        slots all = {};
        std::uint64_t number = 0;
    };
    table_of_slots* make() {
        table_of_slots* const made = heap_.find_or_construct<table_of_slots>("slots")();
        if (heap_.durability() == durability::commit) {
            heap_.commit();
        }
        return made;
    }
    table_of_slots& slots_;
};

/// Durability `collect`: what an entry leaves is found by the trace.
class collected final : public with_slots {
public:
    explicit collected(const std::string& path) : with_slots(path, durability::collect) {}
    void carry_out(const change& one, std::uint64_t number) override {
        entry* const before = slots_.all[one.key].get();
        entry* made = nullptr;
        if (one.value != 0) {
            made = new (heap_.allocate(sizeof(entry))) entry(one.value);  // lint-allow(hand-memory): in the heap
            heap_.persist(made, sizeof(entry));
        }
        slots_.all[one.key] = made;
        heap_.persist(&slots_.all[one.key], sizeof(slots_.all[one.key]));
        if (before != nullptr && number % 3 == 0) {
            heap_.deallocate(before);
        }
    }
};

/// Durability `atomic`: two words and two blocks in a transaction.
class transacted final : public with_slots {
public:
    explicit transacted(const std::string& path) : with_slots(path, durability::atomic) {}
    void carry_out(const change& one, std::uint64_t number) override {
        heap_.transact([&](transaction& tx) {
            entry* const before = slots_.all[one.key].get();
            tx.store(slots_.all[one.key], one.value == 0 ? nullptr : tx.make<entry>(one.value));
            if (before != nullptr) {
                tx.destroy(before);
            }
            tx.store(slots_.number, number);
        });
    }
    [[nodiscard]] table content() override {
        const table found = with_slots::content();
        std::size_t blocks = 0;
        heap_.for_each_block([&](const block_info&) { ++blocks; });
        if (blocks != found.size() + 1) {  // and the object that has the slots
            throw std::runtime_error("a transaction has leaked a block");
        }
        return found;
    }
};

/// Durability `commit`: by commit() and by transact(), in turn.
class committed final : public with_slots {
public:
    explicit committed(const std::string& path) : with_slots(path, durability::commit) {}
    void carry_out(const change& one, std::uint64_t number) override {
        const auto store = [&] {
            if (slots_.all[one.key] != nullptr) {
                heap_.deallocate(slots_.all[one.key].get());
            }
            slots_.all[one.key] = one.value == 0 ? nullptr
                                                 : new (heap_.allocate(sizeof(entry)))
                                                       entry(one.value);  // lint-allow(hand-memory)
            slots_.number = number;
        };
        if (number % 2 == 0) {
            heap_.transact(store);
        } else {
            store();
            heap_.commit();
        }
    }
};

template <class Index>
class indexed final : public in_heap {
public:
    explicit indexed(const std::string& path) : in_heap(path, durability::atomic), index_(heap_, "index") {}
    void carry_out(const change& one, std::uint64_t /*number*/) override {
        if (one.value == 0) {
            index_.remove(one.key);
        } else {
            index_.upsert(one.key, one.value);
        }
    }
    [[nodiscard]] table content() override {
        table found;
        for (std::uint64_t key = 0; key < keys; ++key) {
            if (const auto value = index_.find(key)) {
                found.emplace(key, *value);
            }
        }
        if (index_.size() != found.size()) {
            throw std::runtime_error("the index has entries that no key leads to");
        }
        if (!index_.check().empty()) {
            throw std::runtime_error("the index is not sound");
        }
        return found;
    }

private:
    Index index_;
};

std::string text_of(std::uint64_t number) { return std::to_string(number) + std::string(number % 90, '.'); }

template <class Changes>
void change_store(Changes& changes, const change& one) {
    if (one.value == 0) {
        changes.erase(std::to_string(one.key));
    } else {
        changes.put(std::to_string(one.key), text_of(one.value));
    }
}

table content_of(store& from) {
    table found;
    const auto view = from.read();
    for (const auto& [key, value] : view.all()) {
        const std::uint64_t number = std::stoull(std::string(value));
        if (value != text_of(number)) {
            throw std::runtime_error("an entry is torn");
        }
        found.emplace(std::stoull(std::string(key)), number);
    }
    return found;
}

/// A store in a file of its own.
class stored final : public subject {
public:
    explicit stored(const std::string& path) : path_(path), store_(path) {}
    void carry_out(const change& one, std::uint64_t /*number*/) override {
        auto changes = store_.write();
        change_store(changes, one);
        changes.commit();
    }
    [[nodiscard]] table content() override { return content_of(store_); }
    [[nodiscard]] std::string domain() const override {
        const auto file = persist::posix_storage().open(path_, persist::access_mode::read_write);
        if (!file) {
            return "unknown";
        }
        const auto kind = persist::detect_domain((*file)->native_handle(), path_);
        return kind ? std::string(persist::to_string(kind.value())) : "unknown";
    }
    [[nodiscard]] std::size_t problems() override { return hf_lmdb_check(store_.native(), nullptr) == 0 ? 0 : 1; }

private:
    std::string path_;
    store store_;
};

/// A store in a heap, in a transaction with a word of the heap.
class stored_in_heap final : public in_heap {
public:
    explicit stored_in_heap(const std::string& path)
        : in_heap(path, durability::atomic),
          store_(heap_, "store"),
          number_(*heap_.find_or_construct<std::uint64_t>("number")(std::uint64_t{0})) {}
    void carry_out(const change& one, std::uint64_t number) override {
        heap_.transact([&](transaction& tx) {
            change_store(store_.write(tx), one);
            store_.write(tx).put("number", std::to_string(number));
            tx.store(number_, number);
        });
    }
    [[nodiscard]] table content() override {
        table found;
        std::uint64_t number = 0;
        const auto view = store_.read();
        for (const auto& [key, value] : view.all()) {
            if (key == "number") {
                number = std::stoull(std::string(value));
            } else {
                found.emplace(std::stoull(std::string(key)), std::stoull(std::string(value)));
            }
        }
        if (number != number_) {
            throw std::runtime_error("the heap and its store are of different transactions");
        }
        return found;
    }

private:
    heap_store store_;
    std::uint64_t& number_;
};

template <class Subject>
std::unique_ptr<subject> make(const std::string& path) {
    return std::make_unique<Subject>(path);
}

std::uint64_t mix(std::uint64_t word) {
    word += 0x9E3779B97F4A7C15U;
    word = (word ^ word >> 30U) * 0xBF58476D1CE4E5B9U;
    word = (word ^ word >> 27U) * 0x94D049BB133111EBU;
    return word ^ word >> 31U;
}

}  // namespace

change change_of(std::uint64_t seed, std::uint64_t number) {
    const std::uint64_t dice = mix(mix(seed) + number);
    return {.key = dice % keys, .value = dice / keys % 3 == 0 ? 0 : number};
}

void add_change(const change& one, table& to) {
    if (one.value == 0) {
        to.erase(one.key);
    } else {
        to[one.key] = one.value;
    }
}

const std::array<subject_kind, subject_count>& subjects() {
    static const std::array<subject_kind, subject_count> all = {{
        {"collect", make<collected>},
        {"transact", make<transacted>},
        {"commit", make<committed>},
        {"ordered", make<indexed<ordered_index<std::uint64_t, std::uint64_t>>>},
        {"hash", make<indexed<hash_index<std::uint64_t, std::uint64_t>>>},
        {"store", make<stored>},
        {"heap_store", make<stored_in_heap>},
    }};
    return all;
}

}  // namespace holdfast::dax
