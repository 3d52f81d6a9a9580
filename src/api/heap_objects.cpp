// runtime.cpp has what the templates of construct and destroy call.
#include <memory>
#include <mutex>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"

namespace holdfast {

using base::failure;
using base::failure_code;

std::string object_info::readable_type_name() const { return detail::readable_type(type_name_).value_or(type_name_); }

object_info heap_objects::object_at(const void* object) const {
    const std::lock_guard guard(core().engine().object_mutex());
    const auto entry = value_or_throw(core().engine().objects().find_at(core().offset_of(object)));
    if (!entry) {
        throw_failure(failure{failure_code::bad_address,
                              handle().path(),
                              "address",
                              fmt::format("{}", object),
                              "an object of the directory",
                              {},
                              0});
    }
    return core().describe(*entry);
}

object_iterator heap_objects::objects(instance_kind kind) const {
    return object_iterator(std::make_shared<const std::vector<object_info>>(core().list(kind)));
}

void heap_objects::describe(const void* object, std::string_view description) {
    detail::refuse_read_only(core().engine(), "set_instance_description");
    const std::lock_guard guard(core().engine().object_mutex());
    const std::uint64_t offset = core().offset_of(object);
    value_or_throw(core().engine().objects().describe_at(offset, description));
}

std::size_t heap_objects::get_num_named_objects() const { return core().count(instance_kind::named); }
std::size_t heap_objects::get_num_unique_objects() const { return core().count(instance_kind::unique); }
std::size_t heap_objects::get_num_anonymous_objects() const { return core().count(instance_kind::anonymous); }

}  // namespace holdfast
