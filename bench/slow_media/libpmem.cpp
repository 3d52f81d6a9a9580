// libpmem whose fences wait as ours do (fences.hpp), for libpmemobj: a library that is loaded before it (LD_PRELOAD).
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

namespace {

template <class Function>
Function* find(const char* name) {
    static void* const library = ::dlopen("libpmem.so.1", RTLD_NOW | RTLD_LOCAL);
    auto* const found = library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
    if (found == nullptr) {
        std::fprintf(stderr, "slow_libpmem: no %s: %s\n", name, ::dlerror());
        std::_Exit(1);
    }
    return found;
}

constexpr unsigned without_fence = 1U << 0U | 1U << 5U;  // PMEM_F_MEM_NODRAIN, PMEM_F_MEM_NOFLUSH

using copying = void*(void*, const void*, std::size_t, unsigned);
using filling = void*(void*, int, std::size_t, unsigned);

void* wait_behind(void* result, unsigned flags) {
    if ((flags & without_fence) == 0) {
        holdfast_slow_media::wait();
    }
    return result;
}

}  // namespace

extern "C" {

void pmem_drain() {
    static auto* const call = find<void()>("pmem_drain");
    call();
    holdfast_slow_media::wait();
}
void pmem_persist(const void* begin, std::size_t bytes) {
    static auto* const call = find<void(const void*, std::size_t)>("pmem_persist");
    call(begin, bytes);
    holdfast_slow_media::wait();
}
void* pmem_memcpy(void* to, const void* from, std::size_t bytes, unsigned flags) {
    static auto* const call = find<copying>("pmem_memcpy");
    return wait_behind(call(to, from, bytes, flags), flags);
}
void* pmem_memmove(void* to, const void* from, std::size_t bytes, unsigned flags) {
    static auto* const call = find<copying>("pmem_memmove");
    return wait_behind(call(to, from, bytes, flags), flags);
}
void* pmem_memset(void* to, int byte, std::size_t bytes, unsigned flags) {
    static auto* const call = find<filling>("pmem_memset");
    return wait_behind(call(to, byte, bytes, flags), flags);
}

}  // extern "C"
