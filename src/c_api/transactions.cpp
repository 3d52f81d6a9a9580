#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <holdfast/transaction.h>
#include <holdfast/transaction.hpp>

#include "api/transaction_core.hpp"
#include "c_api/c_api.hpp"

namespace holdfast::c_api {

namespace {

/// Most threads have one transaction at a time: the memory of their last one is kept. Destructors of thread-local
/// objects may still make some. Without a destructor of its own, a read is one load.
struct spare_memory {
    void* kept = nullptr;
    bool is_watched = false;
    bool thread_ends = false;
};
constinit thread_local spare_memory spare;

struct end_of_thread {
    end_of_thread() noexcept = default;
    end_of_thread(const end_of_thread&) = delete;
    end_of_thread& operator=(const end_of_thread&) = delete;
    ~end_of_thread() {
        spare.thread_ends = true;
        ::operator delete(std::exchange(spare.kept, nullptr));
    }
};

/// False while the thread ends.
[[gnu::noinline, gnu::cold]] bool watch_end_of_thread() noexcept {
    if (!spare.thread_ends) {
        static thread_local const end_of_thread watch;
        static_cast<void>(watch);
        spare.is_watched = true;
    }
    return spare.is_watched;
}

void* take_memory(std::size_t bytes) {
    void* const kept = std::exchange(spare.kept, nullptr);
    return kept != nullptr ? kept : ::operator new(bytes);
}

void give_memory_back(void* memory) noexcept {
    if (spare.kept == nullptr && !spare.thread_ends && (spare.is_watched || watch_end_of_thread())) [[likely]] {
        spare.kept = memory;
    } else {
        ::operator delete(memory);
    }
}

}  // namespace

}  // namespace holdfast::c_api

struct hf_transaction {
    explicit hf_transaction(hf_heap& of) : counted(of.transactions), outermost(of.manager) {}
    hf_transaction(const hf_transaction&) = delete;
    hf_transaction& operator=(const hf_transaction&) = delete;
    ~hf_transaction() = default;
    static void* operator new(std::size_t bytes) { return holdfast::c_api::take_memory(bytes); }
    static void operator delete(void* memory) noexcept { holdfast::c_api::give_memory_back(memory); }

    [[nodiscard]] holdfast::detail::transaction_core& core() const {
        return holdfast::detail::transaction_access::core(outermost);
    }

    holdfast::c_api::heap_users::user counted;
    holdfast::transaction outermost;
    std::vector<std::unique_ptr<holdfast::transaction>> parts;
};

using holdfast::c_api::guarded;
using holdfast::c_api::required;

hf_code hf_begin(hf_heap* heap, hf_transaction** transaction) {
    return guarded([&] {
        hf_transaction*& out = required(transaction, "transaction");
        out = std::make_unique<hf_transaction>(required(heap, "heap")).release();
    });
}

hf_code hf_begin_inner(hf_transaction* transaction) {
    return guarded([&] {
        hf_transaction& of = required(transaction, "transaction");
        holdfast::transaction& innermost = of.parts.empty() ? of.outermost : *of.parts.back();
        of.parts.push_back(std::make_unique<holdfast::transaction>(innermost));
    });
}

void* hf_open_range(hf_transaction* transaction, void* begin, size_t bytes) {
    void* copy = nullptr;
    static_cast<void>(guarded([&] {
        hf_transaction& of = required(transaction, "transaction");
        copy = of.core().open_range(&required(static_cast<std::byte*>(begin), "begin"), bytes);
    }));
    return copy;
}

void* hf_ptr_get_in(const hf_transaction* transaction, const hf_ptr* pointer) {
    void* target = nullptr;
    static_cast<void>(guarded(
        [&] { target = required(transaction, "transaction").core().load_pointer(&required(pointer, "pointer")); }));
    return target;
}

hf_code hf_ptr_set_in(hf_transaction* transaction, hf_ptr* pointer, const void* target) {
    return guarded(
        [&] { required(transaction, "transaction").core().store_pointer(&required(pointer, "pointer"), target); });
}

hf_code hf_store_in(hf_transaction* transaction, uint64_t* place, uint64_t value) {
    return guarded([&] { required(transaction, "transaction").core().store(&required(place, "place"), value); });
}

void* hf_allocate_in(hf_transaction* transaction, size_t bytes, const hf_traits* traits) {
    void* block = nullptr;
    static_cast<void>(guarded([&] {
        block = required(transaction, "transaction").core().allocate(bytes, holdfast::c_api::traits_of(traits));
    }));
    return block;
}

hf_code hf_free_in(hf_transaction* transaction, void* block) {
    return guarded([&] { required(transaction, "transaction").core().free(block); });
}

hf_code hf_commit_transaction(hf_transaction* transaction) {
    return guarded([&] {
        hf_transaction& of = required(transaction, "transaction");
        if (!of.parts.empty()) {
            of.parts.back()->commit();
            of.parts.pop_back();
            return;
        }
        const std::unique_ptr<hf_transaction> owner(&of);
        of.outermost.commit();
    });
}

hf_code hf_commit_later(hf_transaction* transaction, hf_ticket* ticket) {
    return guarded([&] {
        hf_transaction& of = required(transaction, "transaction");
        hf_ticket& out = required(ticket, "ticket");
        if (!of.parts.empty()) {
            holdfast::throw_failure({holdfast::base::failure_code::invalid_argument,
                                     {},
                                     "transaction",
                                     "one with an open part",
                                     "one whose parts have ended",
                                     {},
                                     0});
        }
        const std::unique_ptr<hf_transaction> owner(&of);
        const holdfast::ticket made = of.outermost.commit_later();
        out = {holdfast::detail::ticket_access::number_of(made), holdfast::detail::ticket_access::batch_of(made)};
    });
}

hf_code hf_sync(hf_heap* heap, hf_ticket ticket) {
    return guarded([&] {
        holdfast::c_api::manager_of(heap).sync(holdfast::detail::ticket_access::make(ticket.number, ticket.batch));
    });
}

hf_code hf_sync_all(hf_heap* heap) {
    return guarded([&] { holdfast::c_api::manager_of(heap).sync(); });
}

void hf_abort(hf_transaction* transaction) {
    if (transaction == nullptr) {
        return;
    }
    if (!transaction->parts.empty()) {
        transaction->parts.pop_back();
        return;
    }
    const std::unique_ptr<hf_transaction> owner(transaction);
}
