// Vacation of STAMP (Minh and others, 2008): a travel agency's tables of cars, flights and rooms, and of customers with
// what they have reserved, all in red-black trees. Each thread has an agency of its own: what is measured is the
// allocator, and not how threads agree.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <utility>

#include "applications/application.hpp"
#include "applications/numbered_blocks.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

// PMAlloc: five queries a transaction, over 90 % of the relations.
constexpr unsigned queries = 5;
constexpr unsigned queried_percent = 90;
constexpr unsigned reserving_percent = 98;  ///< STAMP's "low contention"; the others delete customers or change tables
constexpr std::uint32_t seats_at_once = 100;
constexpr std::size_t kinds = 3;             ///< cars, flights, rooms
constexpr std::size_t most_bookings = 8;     ///< of a customer
constexpr std::size_t bytes_of_block = 112;  ///< with its number, some room

struct relation {
    std::uint32_t used = 0;
    std::uint32_t free = 0;
    std::uint32_t total = 0;
    std::uint32_t price = 0;
};
struct booking {
    booking* next = nullptr;
    std::uint32_t kind = 0;
    std::uint32_t id = 0;
    std::uint32_t price = 0;
};
struct customer {
    booking* first = nullptr;
    std::size_t bookings = 0;
};

template <class T>
struct node_allocator {
    using value_type = T;

    node_allocator(numbered_blocks& of) noexcept : from(&of) {}  // NOLINT(google-explicit-constructor): for maps
    template <class U>
    node_allocator(const node_allocator<U>& other) noexcept
        : from(other.from) {}  // NOLINT(google-explicit-constructor)
    [[nodiscard]] T* allocate(std::size_t count) { return static_cast<T*>(from->allocate(count * sizeof(T))); }
    void deallocate(T* block, std::size_t /*count*/) { from->release(block); }
    template <class U>
    [[nodiscard]] bool operator==(const node_allocator<U>& other) const noexcept {
        return from == other.from;
    }

    numbered_blocks* from;
};

/// Red-black trees in all standard libraries.
template <class Record>
using table = std::map<std::uint32_t, Record*, std::less<>, node_allocator<std::pair<const std::uint32_t, Record*>>>;

class agency {
public:
    agency(numbered_blocks& blocks, std::size_t relations, random_source& random)
        : blocks_(blocks),
          random_(random),
          relations_(static_cast<std::uint32_t>(relations)),
          tables_{table<relation>(blocks), table<relation>(blocks), table<relation>(blocks)},
          customers_(blocks) {
        for (std::uint32_t id = 0; id < relations_; ++id) {
            for (table<relation>& one : tables_) {
                add_seats(one, id, static_cast<std::uint32_t>(random_.between(1, 5)) * seats_at_once);
            }
            customers_.emplace(id, make<customer>());
        }
    }
    agency(const agency&) = delete;
    agency& operator=(const agency&) = delete;
    ~agency() {
        while (!customers_.empty()) {
            remove_customer(customers_.begin()->first);
        }
        for (table<relation>& one : tables_) {
            for (const auto& [id, record] : one) {
                blocks_.release(record);
            }
        }
    }

    void transact() {
        const std::uint64_t action = random_.below(100);
        if (action < reserving_percent) {
            reserve();
        } else if (action % 2 == 0) {
            remove_customer(draw_id());
        } else {
            change_tables();
        }
    }

    /// Counts seats by what customers have, and returns a checksum of it.
    [[nodiscard]] std::uint64_t prove() const {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> reserved;
        std::uint64_t checksum = bills_;
        for (const auto& [id, one] : customers_) {
            std::size_t bookings = 0;
            for (const booking* each = one->first; each != nullptr; each = each->next) {
                ++reserved[{each->kind, each->id}];
                checksum = mix(checksum + each->price);
                ++bookings;
            }
            require_answer(bookings == one->bookings, "vacation: a customer's bookings are not so many");
        }
        for (std::uint32_t kind = 0; kind < kinds; ++kind) {
            for (const auto& [id, record] : tables_.at(kind)) {
                require_answer(record->used + record->free == record->total, "vacation: seats are lost");
                const auto found = reserved.find({kind, id});
                require_answer(record->used == (found == reserved.end() ? 0 : found->second),
                               "vacation: a seat is used that no customer has reserved");
                reserved.erase({kind, id});
            }
        }
        require_answer(reserved.empty(), "vacation: a customer has a seat of nothing");
        return checksum;
    }

private:
    template <class Record>
    [[nodiscard]] Record* make() {
        return new (blocks_.allocate(sizeof(Record))) Record;
    }
    [[nodiscard]] std::uint32_t draw_id() {
        return static_cast<std::uint32_t>(
            random_.below(std::max<std::uint64_t>(std::uint64_t{relations_} * queried_percent / 100, 1)));
    }

    void add_seats(table<relation>& to, std::uint32_t id, std::uint32_t seats) {
        auto found = to.find(id);
        if (found == to.end()) {
            found = to.emplace(id, make<relation>()).first;
        }
        relation& record = *found->second;
        record.free += seats;
        record.total += seats;
        record.price = static_cast<std::uint32_t>(random_.between(5, 9)) * 10;
    }

    /// Of what it asks for, the dearest of each kind.
    void reserve() {
        struct choice {
            std::uint32_t id = 0;
            relation* record = nullptr;
        };
        std::array<choice, kinds> dearest{};
        for (unsigned query = 0; query < queries; ++query) {
            const std::size_t kind = random_.below(kinds);
            const std::uint32_t id = draw_id();
            const auto found = tables_.at(kind).find(id);
            choice& best = dearest.at(kind);
            if (found != tables_.at(kind).end() && found->second->free != 0 &&
                (best.record == nullptr || found->second->price > best.record->price)) {
                best = {id, found->second};
            }
        }
        const std::uint32_t who = draw_id();
        auto found = customers_.find(who);
        if (found == customers_.end()) {
            found = customers_.emplace(who, make<customer>()).first;
        }
        for (std::uint32_t kind = 0; kind < kinds; ++kind) {
            if (dearest.at(kind).record != nullptr) {
                book(*found->second, kind, dearest.at(kind).id, *dearest.at(kind).record);
            }
        }
    }

    /// One that has many gives its oldest back.
    void book(customer& who, std::uint32_t kind, std::uint32_t id, relation& record) {
        if (who.bookings == most_bookings) {
            booking** last = &who.first;
            while ((*last)->next != nullptr) {
                last = &(*last)->next;
            }
            cancel(**last);
            *last = nullptr;
            --who.bookings;
        }
        auto* const made = make<booking>();
        *made = {who.first, kind, id, record.price};
        who.first = made;
        ++who.bookings;
        ++record.used;
        --record.free;
    }
    void cancel(booking& one) {
        relation& record = *tables_.at(one.kind).at(one.id);
        --record.used;
        ++record.free;
        blocks_.release(&one);
    }

    void remove_customer(std::uint32_t who) {
        const auto found = customers_.find(who);
        if (found == customers_.end()) {
            return;
        }
        for (booking* each = found->second->first; each != nullptr;) {
            booking* const next = each->next;
            bills_ += each->price;
            cancel(*each);
            each = next;
        }
        blocks_.release(found->second);
        customers_.erase(found);
    }

    void change_tables() {
        for (unsigned query = 0; query < queries; ++query) {
            table<relation>& changed = tables_.at(random_.below(kinds));
            const std::uint32_t id = draw_id();
            if (random_.below(2) == 0) {
                add_seats(changed, id, seats_at_once);
                continue;
            }
            const auto found = changed.find(id);
            if (found != changed.end() && found->second->free >= seats_at_once) {
                found->second->free -= seats_at_once;
                found->second->total -= seats_at_once;
                if (found->second->total == 0) {
                    blocks_.release(found->second);
                    changed.erase(found);
                }
            }
        }
    }

    numbered_blocks& blocks_;
    random_source& random_;
    std::uint32_t relations_;
    std::array<table<relation>, kinds> tables_;
    table<customer> customers_;
    std::uint64_t bills_ = 0;
};

/// A node and a record for each, and what customers have reserved.
std::size_t blocks_of(const allocation_run& run) { return run.relations * (2 * (kinds + 1) + most_bookings); }

application_demand demand(const allocation_run& run) {
    return {blocks_of(run), blocks_of(run) * bytes_of_block + (1U << 16U)};
}

application_outcome work(application_memory& memory, const allocation_run& run, unsigned thread, std::uint64_t calls) {
    numbered_blocks blocks(memory, blocks_of(run));
    random_source random(mix(run.seed + thread));
    std::uint64_t checksum = thread;
    {
        agency own(blocks, run.relations, random);
        // At least one a relation, or there would be nothing to prove.
        for (std::size_t done = 0; done < run.relations || blocks.calls() + blocks.live() < calls; ++done) {
            own.transact();
        }
        checksum += own.prove();
    }
    require_answer(blocks.live() == 0, "vacation: a block is left");
    return {blocks.calls(), checksum};
}

}  // namespace

const application vacation{"vacation", demand, work};

}  // namespace bench
