// Boost.Interprocess's own exceptions, which its smart pointers and programs that catch them expect.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <utility>

#include <boost/interprocess/exceptions.hpp>
#include <holdfast/error.hpp>

namespace holdfast::compat::interprocess {

using boost::interprocess::bad_alloc;
using boost::interprocess::error_code_t;
using boost::interprocess::error_info;
using boost::interprocess::interprocess_exception;
using boost::interprocess::lock_exception;

using boost::interprocess::already_exists_error;
using boost::interprocess::busy_error;
using boost::interprocess::corrupted_error;
using boost::interprocess::invalid_argument;
using boost::interprocess::io_error;
using boost::interprocess::no_error;
using boost::interprocess::not_found_error;
using boost::interprocess::other_error;
using boost::interprocess::out_of_memory_error;
using boost::interprocess::out_of_space_error;
using boost::interprocess::read_only_error;
using boost::interprocess::security_error;
using boost::interprocess::size_error;

namespace detail {

/// what() has the heap's reason (disk, quota, size of the segment).
class heap_bad_alloc : public bad_alloc {
public:
    explicit heap_bad_alloc(const char* message) : message_(std::make_shared<const std::string>(message)) {}
    const char* what() const noexcept override { return message_->c_str(); }

private:
    std::shared_ptr<const std::string> message_;
};

inline error_code_t code_of(errc reason) noexcept {
    switch (reason) {
        case errc::already_exists:
        case errc::name_exists: return already_exists_error;
        case errc::not_found:
        case errc::missing: return not_found_error;
        case errc::locked:
        case errc::address_taken: return busy_error;
        case errc::read_only: return read_only_error;
        case errc::permission: return security_error;
        case errc::no_space: return out_of_space_error;
        case errc::out_of_memory: return out_of_memory_error;
        case errc::io:
        case errc::poisoned: return io_error;
        case errc::corrupt:
        case errc::not_a_heap: return corrupted_error;
        case errc::invalid_argument: return invalid_argument;
        case errc::limit: return size_error;
        default: return other_error;
    }
}

/// Turns Holdfast's exceptions into Boost.Interprocess's, with the same what().
template <class Call>
decltype(auto) translated(Call&& call) {
    try {
        return std::forward<Call>(call)();
    } catch (const holdfast::error& failure) {
        throw interprocess_exception(error_info(code_of(failure.reason())), failure.what());
    } catch (const holdfast::bad_alloc& failure) {
        throw heap_bad_alloc(failure.what());
    } catch (const std::bad_array_new_length& failure) {
        throw heap_bad_alloc(failure.what());
    }
}

}  // namespace detail
}  // namespace holdfast::compat::interprocess
