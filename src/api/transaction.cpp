#include <memory>
#include <utility>

#include <holdfast/transaction.hpp>

#include "api/manager_access.hpp"
#include "api/transaction_core.hpp"
#include "base/hot.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast {

namespace {

[[noreturn]] void refuse(const char* found, const char* expected) {
    throw_failure(base::failure{base::failure_code::invalid_argument, {}, "transaction", found, expected, {}, 0});
}

/// Destructors of static and of thread-local objects may still make transactions.
constinit thread_local bool thread_ends = false;

/// Most threads have one transaction at a time: their last one is kept, with its memory.
struct spare_core {
    spare_core() noexcept = default;
    spare_core(const spare_core&) = delete;
    spare_core& operator=(const spare_core&) = delete;
    ~spare_core() { thread_ends = true; }

    std::unique_ptr<detail::transaction_core> kept;
};
thread_local spare_core spare;

HF_HOT std::unique_ptr<detail::transaction_core> take_core() {
    if (!thread_ends && spare.kept != nullptr) [[likely]] {
        return std::move(spare.kept);
    }
    return std::make_unique<detail::transaction_core>();
}

}  // namespace

transaction::transaction(manager& heap) : transaction(heap, detail::within_transact()) {
    detail::manager_core& core = detail::manager_access::core(heap);
    core.plain().refuse_inside("transaction");
    if (core.is_shared()) {
        detail::throw_read_only(core.engine(), "transaction");
    }
}

transaction::transaction(manager& heap, detail::within_transact /*unused*/) : owned_(take_core()) {
    detail::manager_core& core = detail::manager_access::core(heap);
    owned_->begin(core, core.plain().part());
    core_ = owned_.get();
}

transaction::transaction(transaction& outer) : core_(&outer.core()) { begin_inner(outer, true); }

transaction::transaction(transaction& outer, detail::contents_by_caller /*unused*/) : core_(&outer.core()) {
    begin_inner(outer, false);
}

void transaction::begin_inner(transaction& outer, bool copies) {
    if (outer.inner_ != nullptr) {
        refuse("one with an open transaction within it", "one without");
    }
    core_->begin_inner(copies);
    outer_ = &outer;
    outer.inner_ = this;
}

transaction::~transaction() {
    if (core_ != nullptr) {
        abort();
    }
}

HF_HOT void transaction::end() noexcept {
    core_ = nullptr;
    if (outer_ != nullptr) {
        outer_->inner_ = nullptr;
        outer_ = nullptr;
    }
    if (owned_ != nullptr) {
        owned_->end();
        if (thread_ends) [[unlikely]] {
            owned_.reset();
        } else {
            spare.kept = std::move(owned_);
        }
    }
}

detail::transaction_core& transaction::core() const {
    if (core_ == nullptr) {
        refuse("one that was committed or aborted", "an open one");
    }
    return *core_;
}

void* transaction::open_object(void* object, const detail::shadow_type& type) { return core().open(object, type); }

void transaction::store_word(void* place, std::uint64_t value) { core().store(place, value); }

void transaction::store_pointer(void* place, const void* target) { core().store_pointer(place, target); }

void* transaction::allocate(std::size_t bytes, const allocation_traits& traits) {
    return core().allocate(bytes, traits);
}

void transaction::free(void* block) { core().free(block); }

void transaction::commit() {
    detail::transaction_core& committed = core();
    if (inner_ != nullptr) {
        abort();
        refuse("one with an open transaction within it", "one whose inner transactions have ended");
    }
    if (outer_ != nullptr) {
        committed.keep_inner();
        end();
        is_committed_ = true;
        return;
    }
    try {
        if (detail::transaction_access::has_participants(committed)) [[unlikely]] {
            detail::transaction_access::commit_with_participants(committed, *this);
        } else {
            committed.commit();
        }
    } catch (...) {
        abort();
        throw;
    }
    end();
    is_committed_ = true;
}

ticket transaction::commit_later() {
    detail::transaction_core& committed = core();
    if (outer_ != nullptr || inner_ != nullptr) {
        refuse("one within another one, or around one", "a transaction by itself");
    }
    if (detail::transaction_access::has_participants(committed)) {
        commit();
        return {};
    }
    try {
        const ticket made = committed.commit_later();
        end();
        is_committed_ = true;
        return made;
    } catch (...) {
        abort();
        throw;
    }
}

std::uint64_t transaction::load_word(const void* place) const { return core().load_word(place); }

void* transaction::load_target(const void* place) const { return core().load_target(place); }

void transaction::abort() noexcept {
    if (inner_ != nullptr) {
        inner_->abort();
    }
    if (core_ != nullptr && outer_ != nullptr) {
        core_->drop_inner();
    }
    end();
}

}  // namespace holdfast
