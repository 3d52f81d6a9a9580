#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "api/manager_access.hpp"
#include "c_api/c_api.hpp"

namespace holdfast::c_api {

namespace {

constexpr std::uint64_t largest_alignment = 16;

detail::manager_core& core_of(const hf_heap* heap) { return detail::manager_access::core(manager_of(heap)); }

detail::instance_name name_of(const char* name) {
    if (name == hf_unique_instance) {
        return unique_instance;
    }
    if (name == hf_anonymous_instance) {
        return anonymous_instance;
    }
    return &required(name, "name");
}

/// Throws error(invalid_argument) for hf_anonymous_instance.
detail::instance_name findable_name_of(const char* name) {
    if (name == hf_anonymous_instance) {
        throw_invalid("name", "hf_anonymous_instance", "a name, or hf_unique_instance");
    }
    return name_of(name);
}

detail::object_type type_of(const char* type, std::size_t element_size) {
    required(type, "type");
    if (*type == '\0') {
        throw_invalid("type", "\"\"", "the name of a type");
    }
    if (element_size == 0) {
        throw_invalid("element_size", "0", "at least 1");
    }
    const std::uint64_t natural = std::uint64_t{1} << std::countr_zero(element_size);
    return {type, element_size, std::min(natural, largest_alignment)};
}

[[noreturn]] void throw_not_found(const hf_heap* heap, const char* name, const detail::object_type& type) {
    const std::string what = name == hf_unique_instance ? std::string(type.name) : std::string(name);
    const std::string& path = heap->manager.path();
    throw error(errc::not_found, "not_found: " + path + ": object \"" + what + "\": no such object",
                {path, "object \"" + what + "\"", {}, {}, {}, 0});
}

void* create(detail::manager_core& core, const detail::instance_name& name, detail::object_type type,
             std::size_t count) {
    detail::construction pending(core, name, type, count);
    std::memset(pending.memory(), 0, type.size * count);  // the construction has checked the product
    pending.publish();
    return pending.memory();
}

void destroy(detail::manager_core& core, void* address) {
    detail::unpublish(core, address);
    detail::release_memory(core, address);
}

int visit(const object_info& object, hf_object_visitor visitor, void* context) {
    const hf_object_info info{object.name().c_str(),
                              static_cast<hf_kind>(object.kind()),
                              const_cast<void*>(object.value()),
                              object.offset(),
                              object.length(),
                              object.type_name().c_str(),
                              object.type_size(),
                              object.description().c_str()};
    return visitor(&info, context);
}

template <class T>
void give(T* out, T value) noexcept {
    if (out != nullptr) {
        *out = value;
    }
}

}  // namespace

}  // namespace holdfast::c_api

using namespace holdfast::c_api;

// Arrays, which have addresses of their own: the linker may merge literals.
extern const char hf_unique_instance[] = "(unique)";
extern const char hf_anonymous_instance[] = "(anonymous)";

hf_code hf_object_create(hf_heap* heap, const char* name, const char* type, size_t element_size, size_t count,
                         void** address) {
    return guarded([&] { give(address, create(core_of(heap), name_of(name), type_of(type, element_size), count)); });
}

hf_code hf_object_find(const hf_heap* heap, const char* name, const char* type, size_t element_size, void** address,
                       size_t* count) {
    return guarded([&] {
        const auto wanted = type_of(type, element_size);
        const auto found = holdfast::detail::find_object(core_of(heap), findable_name_of(name), wanted);
        if (found.address == nullptr) {
            throw_not_found(heap, name, wanted);
        }
        give(address, found.address);
        give(count, found.count);
    });
}

hf_code hf_object_find_or_create(hf_heap* heap, const char* name, const char* type, size_t element_size, size_t count,
                                 void** address, int* created) {
    return guarded([&] {
        auto& core = core_of(heap);
        const auto wanted = type_of(type, element_size);
        const auto wanted_name = findable_name_of(name);
        const holdfast::detail::object_lock lock(core);
        const auto found = holdfast::detail::find_object(core, wanted_name, wanted);
        void* const object = found.address != nullptr ? found.address : create(core, wanted_name, wanted, count);
        give(address, object);
        give(created, found.address != nullptr ? 0 : 1);
    });
}

hf_code hf_object_destroy(hf_heap* heap, const char* name, const char* type, size_t element_size) {
    return guarded([&] {
        auto& core = core_of(heap);
        const auto wanted = type_of(type, element_size);
        const holdfast::detail::object_lock lock(core);
        const auto found = holdfast::detail::find_object(core, findable_name_of(name), wanted);
        if (found.address == nullptr) {
            throw_not_found(heap, name, wanted);
        }
        destroy(core, found.address);
    });
}

hf_code hf_object_destroy_at(hf_heap* heap, void* address) {
    return guarded([&] {
        auto& core = core_of(heap);
        const holdfast::detail::object_lock lock(core);
        static_cast<void>(heap->manager.object_at(address));  // throws where there is none
        destroy(core, address);
    });
}

hf_code hf_object_iterate(const hf_heap* heap, hf_kind kind, hf_object_visitor visitor, void* context) {
    return guarded([&] {
        required(visitor, "visitor");
        const holdfast::manager& manager = manager_of(heap);
        holdfast::object_iterator object;
        switch (kind) {
            case HF_NAMED: object = manager.named_begin(); break;
            case HF_UNIQUE: object = manager.unique_begin(); break;
            case HF_ANONYMOUS: object = manager.anonymous_begin(); break;
            default: throw_invalid("kind", std::to_string(kind), "HF_NAMED, HF_UNIQUE or HF_ANONYMOUS");
        }
        for (; object != holdfast::object_iterator{}; ++object) {
            if (visit(*object, visitor, context) != 0) {
                return;
            }
        }
    });
}

hf_code hf_object_at(const hf_heap* heap, const void* address, hf_object_visitor visitor, void* context) {
    return guarded([&] {
        required(visitor, "visitor");
        static_cast<void>(visit(manager_of(heap).object_at(address), visitor, context));
    });
}

hf_code hf_object_describe(hf_heap* heap, const void* address, const char* description) {
    return guarded([&] {
        manager_of(heap).set_instance_description(static_cast<const std::byte*>(address),
                                                  &required(description, "description"));
    });
}
