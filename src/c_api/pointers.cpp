// Pointers between heaps, and checked pointers, in C.
#include <holdfast/global_ptr.hpp>
#include <holdfast/pointers.h>
#include <holdfast/ptr.hpp>

#include "c_api/c_api.hpp"

// hf_global_ptr has the layout of global_words.
static_assert(sizeof(hf_global_ptr) == sizeof(holdfast::detail::global_words));

void* hf_global_get(const hf_global_ptr* pointer) {
    void* target = nullptr;
    static_cast<void>(holdfast::c_api::guarded([&] {
        const hf_global_ptr& given = holdfast::c_api::required(pointer, "pointer");
        target = given.heap == 0 ? nullptr : holdfast::detail::target_of_global({given.heap, given.offset});
    }));
    return target;
}

hf_code hf_global_set(hf_global_ptr* pointer, const void* target) {
    return holdfast::c_api::guarded([&] {
        hf_global_ptr& changed = holdfast::c_api::required(pointer, "pointer");
        const holdfast::detail::global_words words = holdfast::detail::global_words_of(target);
        changed = {words.heap, words.offset};
    });
}

hf_code hf_ptr_set_checked(hf_ptr* pointer, const void* target) {
    return holdfast::c_api::guarded([&] {
        hf_ptr& changed = holdfast::c_api::required(pointer, "pointer");
        holdfast::detail::refuse_foreign_target(&changed, reinterpret_cast<std::uintptr_t>(target));
        hf_ptr_set(&changed, target);
    });
}
