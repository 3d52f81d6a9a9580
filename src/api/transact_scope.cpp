#include <utility>

#include <holdfast/transact_scope.hpp>

#include "api/manager_access.hpp"
#include "api/manager_core.hpp"

namespace holdfast {

transact_scope::transact_scope(manager& heap) : core_(&detail::manager_access::core(heap)) {
    if (!core_->is_shared() && core_->engine().changes() == nullptr) {
        detail::refuse_plain_code(heap);
    }
    core_->plain().begin();
    life_ = core_->life();
}

detail::manager_core& transact_scope::core() const {
    if (core_ == nullptr || !life_.goes_on()) {
        throw_failure({base::failure_code::invalid_argument,
                       {},
                       "transaction",
                       core_ == nullptr ? "one that was committed or aborted" : "one of a closed heap",
                       "an open one",
                       {},
                       0});
    }
    return *core_;
}

void transact_scope::commit() {
    detail::manager_core& of = core();
    core_ = nullptr;
    of.plain().commit();
}

ticket transact_scope::commit_later() {
    const ticket made = core().plain().commit_later();
    core_ = nullptr;
    return made;
}

void transact_scope::abort() noexcept {
    if (detail::manager_core* const of = std::exchange(core_, nullptr); of != nullptr && life_.goes_on()) {
        of->plain().abort();
    }
}

read_scope::read_scope(const manager& heap) : core_(&detail::manager_access::core(heap)) {
    if (core_->plain().is_mine()) {
        core_ = nullptr;
    } else {
        core_->plain().begin_to_read();
    }
}

read_scope::~read_scope() {
    if (core_ != nullptr) {
        core_->plain().end_reading();
    }
}

void detail::refuse_plain_code(const manager& heap) {
    throw_failure({base::failure_code::unsupported, heap.path(), "transact",
                   "plain code in durability atomic or collect", "durability commit",
                   "open the heap in durability commit, whose transactions cover plain stores and containers; or take "
                   "a function of a transaction&, and change what tx.open() returns",
                   0});
}

}  // namespace holdfast
