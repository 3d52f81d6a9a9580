#include <cstdio>
#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"
#include "base/fork_mutex.hpp"
#include "base/result.hpp"

namespace holdfast {

namespace {

using base::failure_code;

constexpr bool same(errc code, failure_code inner) {
    return static_cast<std::uint32_t>(code) == static_cast<std::uint32_t>(inner);
}
static_assert(same(errc::none, failure_code::none) && same(errc::invalid_argument, failure_code::invalid_argument));
static_assert(same(errc::not_a_heap, failure_code::not_a_heap) &&
              same(errc::version_unsupported, failure_code::version_unsupported));
static_assert(same(errc::corrupt, failure_code::corrupt) && same(errc::missing, failure_code::missing));
static_assert(same(errc::already_exists, failure_code::already_exists) &&
              same(errc::not_found, failure_code::not_found));
static_assert(same(errc::locked, failure_code::locked) && same(errc::read_only, failure_code::read_only));
static_assert(same(errc::permission, failure_code::permission) && same(errc::no_space, failure_code::no_space));
static_assert(same(errc::address_taken, failure_code::address_taken) && same(errc::io, failure_code::io));
static_assert(same(errc::type_mismatch, failure_code::type_mismatch) &&
              same(errc::name_exists, failure_code::name_exists));
static_assert(same(errc::promise_unavailable, failure_code::promise_unavailable) &&
              same(errc::wrong_process, failure_code::wrong_process));
static_assert(same(errc::concurrent_modification, failure_code::concurrent_modification) &&
              same(errc::poisoned, failure_code::poisoned));
static_assert(same(errc::limit, failure_code::limit) && same(errc::out_of_memory, failure_code::out_of_memory));
static_assert(same(errc::bad_address, failure_code::bad_address) && same(errc::unsupported, failure_code::unsupported));

class category final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "holdfast"; }
    [[nodiscard]] std::string message(int code) const override {
        return std::string(base::to_string(static_cast<failure_code>(code)));
    }
};

constinit base::fork_mutex handler_mutex{base::fork_rank::error_handler};

/// Never destroyed: destructors of static objects may still report.
error_handler& current_handler() HF_REQUIRES(handler_mutex) {
    static auto* const handler = new error_handler;  // lint-allow(hand-memory): never destroyed
    return *handler;
}

error make_error(const base::failure& what) {
    return {static_cast<errc>(what.code),
            what.message(),
            {what.path, what.field, what.found, what.expected, what.hint, what.os_error}};
}

}  // namespace

const std::error_category& error_category() noexcept {
    static const category instance;
    return instance;
}

std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), error_category()}; }

error::error(errc code, const std::string& message, detail::error_fields fields)
    : std::system_error(make_error_code(code), message),
      fields_(std::make_shared<const detail::error_fields>(std::move(fields))),
      message_(std::make_shared<const std::string>(message)) {}

errc error::reason() const noexcept { return static_cast<errc>(code().value()); }

error_handler set_error_handler(error_handler handler) {
    const base::scoped_lock guard(handler_mutex);
    return std::exchange(current_handler(), std::move(handler));
}

void throw_failure(const base::failure& what) { throw make_error(what); }

void throw_allocation_failure(base::failure what, const std::string& path) {
    if (what.path.empty()) {
        what.path = path;
    }
    if (what.code == failure_code::no_space || what.code == failure_code::limit ||
        what.code == failure_code::out_of_memory) {
        throw bad_alloc(what.message(), static_cast<errc>(what.code));
    }
    throw make_error(what);
}

void report_failure(const base::failure& what, const std::string& path) noexcept {
    try {
        base::failure whole = what;
        if (whole.path.empty()) {
            whole.path = path;
        }
        error_handler handler;
        {
            const base::scoped_lock guard(handler_mutex);
            handler = current_handler();
        }
        if (handler) {
            handler(make_error(whole));
        } else {
            std::fprintf(stderr, "holdfast: %s\n", whole.message().c_str());
        }
    } catch (...) {
        // The handler threw, or there is no memory for the message.
        std::fputs("holdfast: an error occurred that could not be reported\n", stderr);
    }
}

}  // namespace holdfast
