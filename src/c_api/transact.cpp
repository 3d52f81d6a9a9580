#include <holdfast/transact_scope.hpp>
#include <holdfast/transaction.h>

#include "api/manager_access.hpp"
#include "api/manager_core.hpp"
#include "c_api/c_api.hpp"

using holdfast::c_api::guarded;
using holdfast::c_api::manager_of;
using holdfast::c_api::required;

namespace {

holdfast::detail::plain_transactions& plain_of(hf_heap* heap) {
    return holdfast::detail::manager_access::core(manager_of(heap)).plain();
}

/// Throws error(invalid_argument) where this thread has none open.
holdfast::detail::plain_transactions& begun_of(hf_heap* heap) {
    holdfast::detail::plain_transactions& all = plain_of(heap);
    if (!all.is_mine()) {
        holdfast::throw_failure({holdfast::base::failure_code::invalid_argument,
                                 manager_of(heap).path(),
                                 "transaction",
                                 "a thread that has begun none",
                                 "the thread that has called hf_transact_begin",
                                 {},
                                 0});
    }
    return all;
}

}  // namespace

hf_code hf_transact_begin(hf_heap* heap) {
    return guarded([&] {
        const holdfast::manager& of = manager_of(heap);
        if (of.durability() != holdfast::durability::commit) {
            holdfast::detail::refuse_plain_code(of);
        }
        plain_of(heap).begin();
    });
}

hf_code hf_transact_end(hf_heap* heap) {
    return guarded([&] { begun_of(heap).commit(); });
}

hf_code hf_transact_end_later(hf_heap* heap, hf_ticket* ticket) {
    return guarded([&] {
        hf_ticket& out = required(ticket, "ticket");
        const holdfast::ticket made = begun_of(heap).commit_later();
        out = {holdfast::detail::ticket_access::number_of(made), holdfast::detail::ticket_access::batch_of(made)};
    });
}

hf_code hf_commit_heap_later(hf_heap* heap, hf_ticket* ticket) {
    return guarded([&] {
        hf_ticket& out = required(ticket, "ticket");
        const holdfast::ticket made = holdfast::c_api::manager_of(heap).commit_later();
        out = {holdfast::detail::ticket_access::number_of(made), holdfast::detail::ticket_access::batch_of(made)};
    });
}

hf_code hf_transact_abort(hf_heap* heap) {
    return guarded([&] { begun_of(heap).abort(); });
}

hf_code hf_read_begin(hf_heap* heap) {
    return guarded([&] {
        if (!plain_of(heap).is_mine()) {
            plain_of(heap).begin_to_read();
        }
    });
}

hf_code hf_read_end(hf_heap* heap) {
    return guarded([&] {
        if (!plain_of(heap).is_mine()) {
            plain_of(heap).end_reading();
        }
    });
}
